"""Sanitizing of names and properties from content services, so that they can be stored and shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from retrieval.documents import external_ids
from retrieval.ports import RawContent, SourceItem

# Every listing shows the name; vendors allow 400 characters or fewer.
MAX_NAME_CHARACTERS: Final = 500
MAX_TEXT_CHARACTERS: Final = 4000
_MAX_ENDING_CHARACTERS = 20
# Control characters, lone surrogates, which the database refuses, and marks that change the direction of writing.
_INVISIBLE_PATTERN = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def sanitize_item(item: SourceItem) -> SourceItem:
    """Sanitize the texts of an item: the id replaces an empty name, and an id too long to be stored sets the error."""
    too_long = f"Its id at the source takes more than {external_ids.MAX_BYTES:,} bytes. Shorten its path there."
    return replace(
        item,
        error=item.error or (too_long if external_ids.is_too_long(item.external_id) else ""),
        name=sanitize_name(item.name) or item.external_id,
        media_type=sanitize_text(item.media_type),
        version=sanitize_text(item.version),
        properties=sanitize_properties(item.properties),
    )


def sanitize_content(raw: RawContent, default_name: str) -> RawContent:
    """Sanitize name, version and properties; `default_name` replaces an empty name."""
    sanitized = sanitize_properties(raw.properties)
    return replace(
        raw, name=sanitize_name(raw.name) or default_name, version=sanitize_text(raw.version), properties=sanitized
    )


def sanitize_name(name: str) -> str:
    """Sanitize a name to one line; a long name keeps the file name extension."""
    line = " ".join(sanitize_text(name).split())
    if len(line) <= MAX_NAME_CHARACTERS:
        return line
    ending = PurePosixPath(line).suffix[:_MAX_ENDING_CHARACTERS]
    return line[: MAX_NAME_CHARACTERS - len(ending) - 1] + "…" + ending


def sanitize_properties(properties: Mapping[str, str | int]) -> dict[str, str | int]:
    return {key: sanitize_text(value) if isinstance(value, str) else value for key, value in properties.items()}


def sanitize_text(text: str) -> str:
    """Replace line breaks and tabs with spaces, drop other invisible characters, and cut the text."""
    return _INVISIBLE_PATTERN.sub(lambda match: " " if match[0] in "\t\n\r" else "", text[:MAX_TEXT_CHARACTERS])
