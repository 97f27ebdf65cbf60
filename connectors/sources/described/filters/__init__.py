"""Filters of templates: markup of vendors as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from connectors.sources.described.filters import chat

FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "slack_markup": chat.read_markup,
    "slack_blocks": chat.read_blocks,
    "slack_attachments": chat.read_attachments,
}
