"""Filters of templates: markup of vendors as Markdown or HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from connectors.sources.described.filters import adf, chat, links, storage, teams

FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "adf": adf.read_document,
    "words": adf.read_words,
    "storage_html": storage.read_storage,
    "slack_markup": chat.read_markup,
    "slack_blocks": chat.read_blocks,
    "slack_attachments": chat.read_attachments,
    "links": links.find_links,
    "ids": links.split_ids,
    "teams_html": teams.read_body,
    "teams_text": teams.read_text,
}
