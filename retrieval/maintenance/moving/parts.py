"""What an import writes with, and the values it keeps: statements, forms of ids, rows as they are here."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import LiteralString, TypeVar

from retrieval.statuses import DocumentStatus

T = TypeVar("T")

DOCUMENT = re.compile(r"doc_[0-9A-Za-z]{1,60}")
CONNECTION = re.compile(r"conn_[0-9A-Za-z]{1,60}")
SOURCE = re.compile(r"[A-Z_]{1,40}")
TENANT = re.compile(r"[A-Za-z0-9_\-]{0,64}")
OF_DOCUMENT = re.compile(r"(?P<document>doc_[0-9A-Za-z]+)/\d+/(?P<rest>.+)")

RENEW: LiteralString = (
    "update sweeps set due_at = now() + make_interval(mins => %(minutes)s)"
    " where partition_id = any(%(partitions)s) and kind = 'partition' returning id"
)
SHOW: LiteralString = "update namespaces set deleted_at = null, updated_at = now() where id = %(id)s"
KNOWN: LiteralString = """
    insert into tenants (organization_id, id)
    select %(organization)s, tenant from partitions where id = any(%(partitions)s) and tenant <> ''
    on conflict do nothing
"""
RUNS: LiteralString = """
    insert into job_runs (id, job_id, partition_id, source, status, created_at, started_at, finished_at)
    select w.run, w.job, w.partition, w.source, 'COMPLETED', j.created_at, now(), now()
    from unnest(%(runs)s::text[], %(jobs)s::text[], %(partitions)s::int[], %(sources)s::text[])
        with ordinality as w (run, job, partition, source, position)
    join jobs j on j.id = w.job order by w.position returning job_id, id, number
"""
EMBEDDED: LiteralString = """
    insert into embeddings (partition_id, key, values)
    select distinct on (c.partition_id, w.key) c.partition_id, w.key, w.value::halfvec
    from unnest(%(keys)s::bytea[], %(values)s::text[]) as w (key, value)
    join chunks c on c.partition_id = any(%(partitions)s) and c.embedding_key = w.key on conflict do nothing
"""
VECTORS: LiteralString = """
    select c.id, c.document_id, c.generation, c.index, e.values::text as values, d.document_type, d.source, d.metadata
    from chunks c join documents d on d.id = c.document_id
    left join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key
    where c.partition_id = %(partition)s and c.id > %(after)s order by c.id limit %(page)s
"""


@dataclass(slots=True)
class Job:
    """A job of the archive as it is here, with its one run."""

    id: str
    partition: int
    source: str
    run: str = ""
    number: int = 0


@dataclass(slots=True)
class Document:
    """A document of the archive as it is here."""

    id: str
    partition: int
    generation: int
    run: str
    visible: bool
    status: str


def status(said: str, *, visible: bool) -> str:
    """As it is at rest: nothing of an import is under way."""
    ended = {DocumentStatus.SUCCESS.value, DocumentStatus.FAILED.value, DocumentStatus.CANCELLED.value}
    if visible:
        return said if said in ended else DocumentStatus.SUCCESS.value
    return said if said in ended - {DocumentStatus.SUCCESS.value} else DocumentStatus.FAILED.value


def text(values: bytes) -> str:
    halves = struct.unpack(f">{(len(values) - 4) // 2}e", values[4:])
    return "[" + ",".join(map(repr, halves)) + "]"


def pages(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    page: list[T] = []
    for row in rows:
        page.append(row)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page
