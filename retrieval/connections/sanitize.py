"""Sanitizing of names and properties from content services, so that they can be stored and shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from retrieval.documents import external_ids
from retrieval.ports import RawContent, SourceItem

LONGEST_NAME: Final = 500
LONGEST: Final = 4000
"""Characters of a name, and of anything else. Every listing shows the name; vendors allow 400 or fewer."""
_ENDING = 20
_UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, half characters, which the database refuses, and marks that turn the direction of writing."""


def sanitize_item(item: SourceItem) -> SourceItem:
    """Nameless, it goes by its id. A deleted one needs no name. One whose id is too long to be stored has an error."""
    too_long = f"Its id at the source takes more than {external_ids.MAX_BYTES:,} bytes. Shorten its path there."
    return replace(
        item,
        error=item.error or (too_long if external_ids.is_too_long(item.external_id) else ""),
        name=sanitize_name(item.name) or item.external_id,
        media_type=sanitize_text(item.media_type),
        version=sanitize_text(item.version),
        properties=sanitize_properties(item.properties),
    )


def sanitize_content(raw: RawContent, otherwise: str) -> RawContent:
    """`otherwise`: the name if it has none."""
    sanitized = sanitize_properties(raw.properties)
    return replace(
        raw, name=sanitize_name(raw.name) or otherwise, version=sanitize_text(raw.version), properties=sanitized
    )


def sanitize_name(name: str) -> str:
    """Sanitize a name to one line; a long one keeps its beginning and its ending, which holds the file type."""
    line = " ".join(sanitize_text(name).split())
    if len(line) <= LONGEST_NAME:
        return line
    ending = PurePosixPath(line).suffix[:_ENDING]
    return line[: LONGEST_NAME - len(ending) - 1] + "…" + ending


def sanitize_properties(properties: Mapping[str, str | int]) -> dict[str, str | int]:
    return {key: sanitize_text(value) if isinstance(value, str) else value for key, value in properties.items()}


def sanitize_text(text: str) -> str:
    return _UNSEEN.sub(lambda found: " " if found[0] in "\t\n\r" else "", text[:LONGEST])
