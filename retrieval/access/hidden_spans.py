"""Passages that staff hid from search, as spans of a document's text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString


def hides_chunk(hidden: LiteralString, content: LiteralString) -> LiteralString:
    """Return the condition that the column `hidden` of a document hides a chunk with `content`."""
    return (
        f"{hidden} @> jsonb_build_array(jsonb_build_object("
        f"'contentHash', encode(sha256(convert_to({content}, 'UTF8')), 'hex')))"
    )


# Spans, from its start, of chunk `c` of a document `d` that hidden chunks repeat, since chunks overlap; null without.
REPEATED_SPANS: LiteralString = f"""
    case when d.hidden <> '[]' then (
        select jsonb_agg(jsonb_build_array(greatest(h.start, c.start) - c.start, least(h."end", c."end") - c.start))
        from chunks h where h.document_id = c.document_id and h.generation = c.generation
        and h.start < c."end" and h."end" > c.start and {hides_chunk("d.hidden", "h.content")}
    ) end
"""


def mask_text(text: str, spans: Sequence[Sequence[int]] | None) -> str:
    """Return the text with `[hidden]` in place of each span, at unchanged positions; None masks all of it."""
    for start, end in [(0, len(text))] if spans is None else spans:
        stop = min(end, len(text))
        text = text[:start] + "[hidden]".ljust(stop - start)[: stop - start] + text[stop:]
    return text
