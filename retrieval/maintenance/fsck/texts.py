"""Texts of chunks against what their vectors were made of, and against the parsed text where these differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, LiteralString

from retrieval.database.rows import row_factory
from retrieval.errors import Skippable
from retrieval.ingestion import parse
from retrieval.ingestion.chunk import key_of
from retrieval.ingestion.chunking.titles import embedded_text
from retrieval.maintenance.fsck import tables
from retrieval.maintenance.fsck.findings import AT_WORK, MARK, Finding, Instance, Place, make_finding
from retrieval.ports import FileStore

PAGE = 1000
"""Chunks in memory at once."""


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A visible chunk with its text, and what its vector was made of."""

    chunk_id: int
    document_id: str
    partition_id: int
    namespace_id: str
    index: int
    start: int
    end: int
    content: str
    header: str
    embedding_key: bytes
    parsed_key: str | None
    embedding: Mapping[str, Any]
    title: str | None

    @property
    def identity(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("chunk_id", "document_id", "partition_id", "namespace_id")}


_CHUNKS: LiteralString = """
    select c.id as chunk_id, c.document_id, c.partition_id, c.index, c.start, c."end", c.content, c.header,
           c.embedding_key, d.parsed_key, d.embedding, m.title, n.id as namespace_id
    from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
    left join run_documents m on m.document_id = d.id and m.generation = c.generation and m.status = 'SUCCESS'
    where d.partition_id = %(partition)s and c.partition_id = d.partition_id and d.deleted_at is null
      and (%(chunks)s::bigint[] is null or c.id = any(%(chunks)s))
      and d.error is distinct from %(mark)s and not """ + AT_WORK.format(document="d.id")
_PUT_BACK: LiteralString = "update chunks set content = %(content)s where id = %(chunk_id)s"


def find_wrong_texts(instance: Instance, place: Place) -> Iterator[Finding]:
    """Find chunks whose text is neither the embedded one nor the parsed text at their position.

    Only documents with such a chunk have their parsed text read.
    """
    files = instance.stores(place.scope.namespace).files
    with (
        instance.db.transaction() as connection,
        connection.cursor("texts", row_factory=row_factory(ChunkText)) as cursor,
    ):
        cursor.itersize = PAGE
        cursor.execute(_CHUNKS, _asked(place, None))
        strange = [chunk.chunk_id for chunk in cursor if not _as_embedded(chunk, chunk.content)]
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
        instance.db.execute(_PUT_BACK, {"content": text, "chunk_id": row.chunk_id})
        tables.reindex_chunks(instance, [make_finding("WRONG_TEXT", row.identity, "")])
    return lost


def _with_text(
    instance: Instance, files: FileStore, place: Place, chunks: Sequence[int]
) -> Iterator[tuple[ChunkText, str | None]]:
    """Those of the chunks that are still visible, with what the parsed text holds at their place; None: no text."""
    rows = instance.db.fetch(ChunkText, _CHUNKS + " order by c.document_id", _asked(place, chunks)) if chunks else []
    for key, group in groupby(rows, attrgetter("parsed_key")):
        try:
            text = parse.read_text(files, key or "")
        except (Skippable, UnicodeDecodeError):
            text = None
        for row in group:
            yield row, None if text is None else text[row.start : row.end]


def _asked(place: Place, chunks: Sequence[int] | None) -> dict[str, object]:
    return {"partition": place.partition_id, "chunks": chunks and list(chunks), "mark": MARK}


def _as_embedded(row: ChunkText, text: str) -> bool:
    """Tell whether a text has the chunk's length and, where the embedded title is recorded, its digest."""
    if len(text) != row.end - row.start:
        return False
    used = row.embedding
    if row.title is None or "dimensions" not in used:
        return True
    whole = used.get("passagePrefix", "") + embedded_text(row.title, row.header, text)
    return key_of(whole, used["provider"], used["model"], used["dimensions"]) == bytes(row.embedding_key)
