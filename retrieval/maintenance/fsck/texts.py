"""Texts of chunks against what their vectors were made of, and against the parsed text where these differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from retrieval.errors import Skippable
from retrieval.ingestion import parse
from retrieval.ingestion.chunk import key_of
from retrieval.ingestion.chunking.titles import embedded_text
from retrieval.maintenance.fsck import queries_stores, tables
from retrieval.maintenance.fsck.findings import Finding, Instance, Place, make_finding
from retrieval.maintenance.fsck.queries_stores import ChunkText
from retrieval.ports import FileStore

PAGE = 1000
"""Chunks in memory at once."""


def find_wrong_texts(instance: Instance, place: Place) -> Iterator[Finding]:
    """Find chunks whose text is neither the embedded one nor the parsed text at their position.

    Only documents with such a chunk have their parsed text read.
    """
    files = instance.stores(place.scope.namespace).files
    with instance.db.transaction() as connection:
        chunks = queries_stores.iterate_texts(connection, place.partition_id, PAGE)
        strange = [chunk.chunk_id for chunk in chunks if not _as_embedded(chunk, chunk.content)]
    for row, text in _with_text(instance, files, place, strange):
        if text is None or text != row.content:
            yield make_finding("WRONG_TEXT", row.identity, f"the text of chunk {row.index} is not the one that was cut")


def put_back(instance: Instance, place: Place, found: Sequence[Finding]) -> list[str]:
    """Take them from the parsed text again, and index them; the documents of those that do not stand there either."""
    files = instance.stores(place.scope.namespace).files
    lost = []
    for row, text in _with_text(instance, files, place, [item.data["chunk_id"] for item in found]):
        if text is None or not _as_embedded(row, text):
            lost.append(row.document_id)
            continue
        queries_stores.set_text(instance.db, row.chunk_id, text)
        tables.reindex_chunks(instance, [make_finding("WRONG_TEXT", row.identity, "")])
    return lost


def _with_text(
    instance: Instance, files: FileStore, place: Place, chunks: Sequence[int]
) -> Iterator[tuple[ChunkText, str | None]]:
    """Those of the chunks that are still visible, with what the parsed text holds at their place; None: no text."""
    rows = queries_stores.list_texts(instance.db, place.partition_id, chunks) if chunks else []
    for key, group in groupby(rows, attrgetter("parsed_key")):
        try:
            text = parse.read_text(files, key or "")
        except (Skippable, UnicodeDecodeError):
            text = None
        for row in group:
            yield row, None if text is None else text[row.start : row.end]


def _as_embedded(row: ChunkText, text: str) -> bool:
    """Tell whether a text has the chunk's length and, where the embedded title is recorded, its digest."""
    if len(text) != row.end - row.start:
        return False
    used = row.embedding
    if row.title is None or "dimensions" not in used:
        return True
    whole = used.get("url", "") + used.get("passagePrefix", "") + embedded_text(row.title, row.header, text)
    return key_of(whole, used["provider"], used["model"], used["dimensions"]) == bytes(row.embedding_key)
