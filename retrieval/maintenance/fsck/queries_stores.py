"""Statements of the check of stores and texts against the tables, and of their repairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple

from retrieval.database.rows import Executor, row_factory
from retrieval.database.sessions import ThreadConnection
from retrieval.keywords import queries_blocks
from retrieval.maintenance.fsck.findings import IS_AT_WORK, IS_BEING_WRITTEN, IS_SWEPT, UNREPAIRABLE_ERROR


class NeededFile(NamedTuple):
    """File of a document, with the bounds of its size in bytes, if known."""

    document_id: str
    partition_id: int
    namespace_id: str
    key: str
    minimum: int | None
    maximum: int | None

    def fits(self, size: int) -> bool:
        return self.minimum is None or self.maximum is None or self.minimum <= size <= self.maximum

    def describe_cut(self, size: int) -> str:
        """Return the message for a file of another size."""
        expected = f"{self.minimum}" if self.minimum == self.maximum else f"those of {self.minimum} characters"
        return f"the file {self.key} holds {size} bytes, not {expected}"


# A parsed text has one to four bytes per character.
_NEEDED_FILES_QUERY: LiteralString = """
    select d.id as document_id, d.partition_id, n.id as namespace_id, k.key, k.minimum, k.maximum
    from documents d join partitions p on p.id = d.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    cross join lateral (
        select d.raw_key, sent.raw_size, sent.raw_size from (select) always left join lateral (
            select m.raw_size from run_documents m
            where m.document_id = d.id and m.raw_key = d.raw_key and m.raw_size is not null limit 1
        ) sent on true
        union all
        select d.parsed_key, (d.properties ->> 'characterCount')::bigint,
               4 * (d.properties ->> 'characterCount')::bigint
        where d.parsed_key is distinct from d.raw_key
    ) k (key, minimum, maximum)
    where d.partition_id = %(partition)s and d.deleted_at is null and k.key is not null
      and d.error is distinct from %(mark)s and not """ + IS_AT_WORK.format(document="d.id")


def list_needed(db: Executor, partition: int) -> list[NeededFile]:
    """List the files of a partition's documents, without unfinished and unrepairable ones."""
    return db.fetch(NeededFile, _NEEDED_FILES_QUERY, {"partition": partition, "mark": UNREPAIRABLE_ERROR})


# A successful run has passed its files to the document or to garbage collection.
_UNREFERRED_KEYS_QUERY: LiteralString = """
    select k.key from unnest(%(keys)s::text[]) k (key)
    where not exists (select from documents d where d.partition_id = any(%(partitions)s) and d.raw_key = k.key)
      and not exists (select from documents d where d.partition_id = any(%(partitions)s) and d.parsed_key = k.key)
      and not exists (
          select from job_runs r join run_documents m on m.job_run_id = r.id
          where r.partition_id = any(%(partitions)s) and (m.raw_key = k.key or m.parsed_key = k.key)
            and (r.finished_at is null or m.status <> 'SUCCESS')
      )
      and not exists (
          select from sweeps s where s.partition_id = any(%(partitions)s) and s.file_key = k.key
      )
"""


def list_unreferred(db: Executor, keys: Sequence[str], partitions: Sequence[int]) -> list[str]:
    """Return the keys without a row in the partitions."""
    return db.fetch(str, _UNREFERRED_KEYS_QUERY, {"keys": list(keys), "partitions": list(partitions)})


def list_waiting(db: Executor, documents: Sequence[str], generations: Sequence[int]) -> list[str]:
    """Return the documents whose generation a job run writes or garbage collection deletes."""
    statement: LiteralString = """
        select distinct d.id from unnest(%(documents)s::text[], %(generations)s::bigint[]) as d (id, generation)
        where exists (select from job_runs b where b.number = d.generation and b.finished_at is null)
           or exists (select from sweeps s where s.document_id = d.id
                      and (s.kind = 'document' or s.kind = 'generation' and s.generation = d.generation))
    """
    return db.fetch(str, statement, {"documents": list(documents), "generations": list(generations)})


def list_existing(db: Executor, namespaces: Sequence[str]) -> list[str]:
    """Return the namespaces that exist or still have a partition."""
    statement: LiteralString = """
        select id from namespaces n where id = any(%(ids)s)
          and (deleted_at is null or exists (select from partitions p where p.namespace_id = n.id))
    """
    return db.fetch(str, statement, {"ids": list(namespaces)})


class PostingPack(NamedTuple):
    """Packed posting lists of a partition."""

    partition_id: int
    namespace_id: str


class Posting(NamedTuple):
    """Term in a chunk."""

    chunk_id: int
    tf: int
    length: int


def list_packs(db: Executor) -> list[PostingPack]:
    return db.fetch(
        PostingPack,
        """
        select k.partition_id, n.id as namespace_id from posting_packs k join partitions p on p.id = k.partition_id
        join namespaces n on n.id = p.namespace_id and n.deleted_at is null order by k.partition_id
        """,
    )


def begin_snapshot(connection: Executor) -> None:
    connection.execute("set transaction isolation level repeatable read")


def find_base(connection: Executor, partition: int) -> int | None:
    """Return the base of the relative chunk ids in blocks; None without packed lists."""
    statement: LiteralString = "select base from posting_packs where partition_id = %(partition)s"
    return connection.fetch_one(int, statement, {"partition": partition})


def list_changed(connection: Executor, partition: int) -> list[int]:
    """List the chunks changed after their posting lists were packed."""
    statement: LiteralString = """
        select distinct c as chunk from posting_changes a cross join lateral unnest(a.chunks) c
        where a.partition_id = %(partition)s
    """
    return connection.fetch(int, statement, {"partition": partition})


def list_packed_terms(connection: Executor, partition: int) -> list[str]:
    statement: LiteralString = (
        "select distinct term from posting_blocks where partition_id = %(partition)s order by term"
    )
    return connection.fetch(str, statement, {"partition": partition})


def list_blocks(connection: Executor, partition: int, term: str) -> list[bytes]:
    statement: LiteralString = "select body from posting_blocks where partition_id = %(partition)s and term = %(term)s"
    return connection.fetch(bytes, statement, {"partition": partition, "term": term})


def list_postings(connection: Executor, partition: int, term: str) -> list[Posting]:
    statement: LiteralString = (
        "select chunk_id, tf, length from postings where partition_id = %(partition)s and term = %(term)s"
    )
    return connection.fetch(Posting, statement, {"partition": partition, "term": term})


def delete_blocks(connection: Executor, partition: int) -> None:
    """Delete the packed posting lists, under the lock of packing."""
    values = {"partition": partition}
    queries_blocks.wait_for_lock(connection, partition)
    connection.execute("delete from posting_packs where partition_id = %(partition)s", values)
    connection.execute("delete from posting_blocks where partition_id = %(partition)s", values)


class VisibleVersion(NamedTuple):
    """Visible chunks of a document. `excused`: in a job run, or unrepairable."""

    document_id: str
    generation: int
    indexes: list[int]
    excused: bool


class DocumentVersion(NamedTuple):
    """Generation of a document."""

    document: str
    generation: int


@dataclass(frozen=True, slots=True)
class StoredValues:
    """Embedding of a chunk as text, and the fields of its labels."""

    index: int
    values: str
    document_type: str
    source: str
    metadata: Mapping[str, Any]


_VISIBLE_VERSIONS_QUERY: LiteralString = (
    """
    select d.id as document_id, d.active_generation as generation, array_agg(c.index) as indexes, """
    + IS_AT_WORK.format(document="d.id")
    + """ or d.error is not distinct from %(mark)s as excused
    from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    where d.partition_id = %(partition)s and c.partition_id = d.partition_id and d.deleted_at is null
      and (%(documents)s::text[] is null or d.id = any(%(documents)s))
    group by d.id
"""
)
_PROTECTED_VERSIONS_QUERY: LiteralString = (
    """
    select w.document, w.generation from unnest(%(documents)s::text[], %(generations)s::bigint[])
        as w (document, generation)
    where """
    + IS_BEING_WRITTEN.format(generation="w.generation")
    + " or "
    + IS_SWEPT.format(document="w.document", generation="w.generation")
)
_VALUES_QUERY: LiteralString = """
    select c.index, e.values::text as values, d.document_type, d.source, d.metadata
    from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key
     and vector_dims(e.values) = coalesce((d.embedding ->> 'dimensions')::int, vector_dims(e.values))
    where d.id = %(document)s and d.active_generation = %(generation)s and c.index = any(%(indexes)s)
"""


def list_visible(db: Executor, partition: int, documents: Sequence[str] | None) -> list[VisibleVersion]:
    """List the visible versions of a partition, or of these documents."""
    values = {
        "partition": partition,
        "documents": None if documents is None else list(documents),
        "mark": UNREPAIRABLE_ERROR,
    }
    return db.fetch(VisibleVersion, _VISIBLE_VERSIONS_QUERY, values)


def list_protected(db: Executor, documents: Sequence[str], generations: Sequence[int]) -> set[DocumentVersion]:
    """Return the versions that a job run writes or garbage collection clears."""
    return set(
        db.fetch(
            DocumentVersion, _PROTECTED_VERSIONS_QUERY, {"documents": list(documents), "generations": list(generations)}
        )
    )


def list_values(db: Executor, document_id: str, generation: int, indexes: Sequence[int]) -> list[StoredValues]:
    values = {"document": document_id, "generation": generation, "indexes": list(indexes)}
    return db.fetch(StoredValues, _VALUES_QUERY, values)


@dataclass(frozen=True, slots=True)
class ChunkText:
    """Visible chunk with its text and the input of its vector."""

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


_CHUNKS_QUERY: LiteralString = """
    select c.id as chunk_id, c.document_id, c.partition_id, c.index, c.start, c."end", c.content, c.header,
           c.embedding_key, d.parsed_key, d.embedding, m.title, n.id as namespace_id
    from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
    left join run_documents m on m.document_id = d.id and m.generation = c.generation and m.status = 'SUCCESS'
    where d.partition_id = %(partition)s and c.partition_id = d.partition_id and d.deleted_at is null
      and (%(chunks)s::bigint[] is null or c.id = any(%(chunks)s))
      and d.error is distinct from %(mark)s and not """ + IS_AT_WORK.format(document="d.id")


def iterate_texts(connection: ThreadConnection, partition: int, size: int) -> Iterator[ChunkText]:
    """Yield the visible chunks of a partition, `size` in memory at once."""
    with connection.cursor("texts", row_factory=row_factory(ChunkText)) as cursor:
        cursor.itersize = size
        yield from cursor.execute(_CHUNKS_QUERY, {"partition": partition, "chunks": None, "mark": UNREPAIRABLE_ERROR})


def list_texts(db: Executor, partition: int, chunk_ids: Sequence[int]) -> list[ChunkText]:
    """Return the visible chunks among these, by document."""
    values = {"partition": partition, "chunks": list(chunk_ids), "mark": UNREPAIRABLE_ERROR}
    return db.fetch(ChunkText, _CHUNKS_QUERY + " order by c.document_id", values)


def set_text(db: Executor, chunk_id: int, content: str) -> None:
    statement: LiteralString = "update chunks set content = %(content)s where id = %(chunk_id)s"
    db.execute(statement, {"content": content, "chunk_id": chunk_id})
