"""Check service URLs: endpoints, sign-in pages, redirects."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from retrieval.network.urls import MAX_CHARACTERS

# Printable ASCII without quotes, angle brackets, backslashes and backticks.
_PLAIN_PATTERN = re.compile(r"[!#-&(-;=?-\[\]^_a-z{|}~]+")

_HOST_PATTERN = re.compile(
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*)(?::\d{1,5})?"
)


def require_url(text: str, schemes: Collection[str] = ("https",)) -> SplitResult:
    """Parse a complete, unambiguous URL. Raises ValueError with the problem."""
    # Messages follow the field's name and never repeat the URL.
    if len(text) > MAX_CHARACTERS or not _PLAIN_PATTERN.fullmatch(text) or "#" in text:
        raise ValueError(
            f"must be a whole URL of at most {MAX_CHARACTERS} printable ASCII characters, without quotes and fragment"
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError("is not a valid URL: its host or port cannot be read") from error
    if "@" in parts.netloc:
        raise ValueError("must not hold a user name or password")
    if parts.scheme not in schemes:
        raise ValueError("must begin with " + " or ".join(f"{scheme}://" for scheme in schemes))
    if port == 0 or not _HOST_PATTERN.fullmatch(parts.netloc.lower()):
        raise ValueError("must name a host, an international one in its ASCII form")
    return parts


def require_service(text: str) -> None:
    """Check a service URL over http or https; https without a scheme."""
    parts = require_url(text if "://" in text else f"https://{text}", ("https", "http"))
    if "?" in text or parts.query:
        raise ValueError("must not hold a query")
