"""Check of chunk texts against the embedded text, and against the parsed text if these differ."""

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

# In memory at once.
PAGE_CHUNKS = 1000


def find_wrong_texts(instance: Instance, partition: Place) -> Iterator[Finding]:
    """Yield chunks whose text differs from the embedded and the parsed text."""
    files = instance.stores(partition.scope.namespace).files
    with instance.db.transaction() as connection:
        chunks = queries_stores.iterate_texts(connection, partition.partition_id, PAGE_CHUNKS)
        differing = [chunk.chunk_id for chunk in chunks if not _equals_embedded(chunk, chunk.content)]
    # The parsed text is read only for documents with such a chunk.
    for row, text in _read_parsed(instance, files, partition, differing):
        if text is None or text != row.content:
            yield make_finding(
                "WRONG_TEXT", row.identity, f"the text of chunk {row.index} differs from the parsed text"
            )


def restore_texts(instance: Instance, partition: Place, findings: Sequence[Finding]) -> list[str]:
    """Restore chunk texts from the parsed text and index them; return unrestorable documents."""
    files = instance.stores(partition.scope.namespace).files
    lost = []
    for row, text in _read_parsed(instance, files, partition, [item.data["chunk_id"] for item in findings]):
        if text is None or not _equals_embedded(row, text):
            lost.append(row.document_id)
            continue
        queries_stores.set_text(instance.db, row.chunk_id, text)
        tables.reindex_chunks(instance, [make_finding("WRONG_TEXT", row.identity, "")])
    return lost


def _read_parsed(
    instance: Instance, files: FileStore, partition: Place, chunks: Sequence[int]
) -> Iterator[tuple[ChunkText, str | None]]:
    """Yield the visible chunks with the parsed text at their position, if any."""
    rows = queries_stores.list_texts(instance.db, partition.partition_id, chunks) if chunks else []
    for key, group in groupby(rows, attrgetter("parsed_key")):
        try:
            text = parse.read_text(files, key or "")
        except (Skippable, UnicodeDecodeError):
            text = None
        for row in group:
            yield row, None if text is None else text[row.start : row.end]


def _equals_embedded(row: ChunkText, text: str) -> bool:
    """Return whether a text has the chunk's length and the digest of the embedded text."""
    if len(text) != row.end - row.start:
        return False
    embedding = row.embedding
    if row.title is None or "dimensions" not in embedding:
        return True
    whole = embedding.get("url", "") + embedding.get("passagePrefix", "") + embedded_text(row.title, row.header, text)
    return key_of(whole, embedding["provider"], embedding["model"], embedding["dimensions"]) == bytes(row.embedding_key)
