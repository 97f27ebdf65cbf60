"""URLs as logs and Prefect show them: without query, fragment and user, where signatures and logins stand."""

from __future__ import annotations

import re
from typing import Any

_URL = re.compile(
    r"""\b([a-z][a-z0-9+.-]{1,9}://)(?:[^\s/?#"'<>]*@)?([^\s?#"'<>]*)(?:[?#][^\s"'<>]*)?""", re.IGNORECASE
)


def without_query(text: str) -> str:
    """Every address in a text without user, query and fragment; the rest stays."""
    return _URL.sub(r"\1\2", text) if "://" in text else text


def of_event(_logger: Any, _method: str, event: Any) -> Any:
    """A structlog processor: the same for every field of an event that is a text."""
    return {name: without_query(value) if isinstance(value, str) else value for name, value in event.items()}
