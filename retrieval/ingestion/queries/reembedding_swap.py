"""The trial of a namespace's new model and store, and the swap: one transaction for all of its documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, LiteralString

import psycopg

from retrieval.database.database import UNLIMITED_TRANSACTION, Database
from retrieval.database.schema.content import Document
from retrieval.database.sessions import ThreadConnection
from retrieval.ingestion import reembedding
from retrieval.ingestion.queries.reembedding import LEAVE_STORES, MARK
from retrieval.ingestion.reembedding import GATE, row_name, store_identity
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.keywords import postings
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import EMBEDDING_MODEL, VECTOR_STORAGE, NamespaceConfig
from retrieval.security.secrets import KeyRing
from retrieval.statuses import Stage, stage_names

_GENERATION = "active_generation"

_FORGET: LiteralString = "deallocate all"
"""Statements that this connection has prepared mean the table."""


def asked(db: Database, keys: KeyRing, lease: Lease) -> dict[str, Any] | None:
    """The gate as it was sent, None where there is none."""
    namespace_id = lease.scope.namespace
    pending = db.fetch_one(bytes, _PENDING, {"id": namespace_id})
    if pending is None:
        return None
    gate: dict[str, Any] | None = json.loads(keys.open(pending, row=row_name(namespace_id, "pending"))).get(GATE)
    return gate


_PENDING: LiteralString = "select pending from namespaces where id = %(id)s"


@contextmanager
def shadow(db: Database, job_run_id: str) -> Iterator[None]:
    """Within the block this thread's searches find the shadow that the job run has built, in place of what is visible.

    `documents` is a view of this connection alone, which the end of its transaction takes away; nothing is locked.
    """
    columns = ", ".join(
        f"w.generation as {_GENERATION}" if column.name == _GENERATION else f'd."{column.name}"'
        for column in Document.__table__.columns  # type: ignore[attr-defined]
    )
    view = psycopg.sql.SQL(
        f"create temporary view documents as select {columns} from documents d"
        " join run_documents w on w.document_id = d.id and w.job_run_id = {run}"
        f" and w.stage = {stage_names(Stage.UPSERTED)}"
    ).format(run=psycopg.sql.Literal(job_run_id))
    with db.together():
        with db.transaction() as connection:
            connection.execute(_FORGET)
            connection.execute(view)
        yield
        raise psycopg.Rollback


def note(db: Database, lease: Lease, job_run_id: str, verdict: Mapping[str, Any]) -> None:
    """Record the verdict with the job run: `passed`, `told` and `questions`."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        connection.execute(
            "update job_runs set progress = progress || %(progress)s::jsonb, updated_at = now() where id = %(run)s",
            {"run": job_run_id, "progress": json.dumps({"verdict": dict(verdict)})},
        )


def swap(db: Database, keys: KeyRing, lease: Lease, job_run_id: str, later: NamespaceConfig, language: str) -> bool:
    """Make every shadow the visible generation; False, and nothing is done, if one is not there or not current.

    Readers see either all of the old or all of the new; who writes waits for the few seconds that it takes.
    """
    values = {"run": job_run_id, "namespace": lease.scope.namespace}
    with db.transaction() as connection:
        connection.execute(UNLIMITED_TRANSACTION)
        batches.guard_lease(connection, lease)
        row = connection.fetch_one(namespaces.NamespaceRow, _HOLD + namespaces.COLUMNS + _HELD, values)
        if row is None or not connection.fetch_one(bool, _OPEN, values):
            return False
        connection.execute(_LOCK, values)
        if connection.fetch_one(bool, _LACKING, values):
            return False
        for partition in connection.fetch(int, _PARTITIONS, values):
            _reindex(connection, partition, values, language)
        connection.execute(LEAVE_STORES, {"partition": lease.partition, "epoch": later.epoch})
        for statement in (_LEAVE, _LEAVE_EMBEDDINGS, _SHOW, _END):
            connection.execute(statement, values)
        _configure(connection, keys, namespaces.open_namespace(keys, row), later, job_run_id)
    return True


_HOLD: LiteralString = "select "
_HELD: LiteralString = """
    from namespaces where id = %(namespace)s and deleted_at is null and pending_run = %(run)s for no key update
"""
_OPEN: LiteralString = (
    "select true from job_runs where id = %(run)s and finished_at is null and not cancel_requested for update"
)
_OURS: LiteralString = """
    documents d join partitions p on p.id = d.partition_id and p.namespace_id = %(namespace)s
"""
_VISIBLE: LiteralString = " d.deleted_at is null and d.active_generation > 0 "
_LOCK: LiteralString = f"select d.id from {_OURS} where {_VISIBLE} order by d.id for update of d"
_LACKING: LiteralString = f"""
    select true from {_OURS} left join run_documents w on w.job_run_id = %(run)s and w.document_id = d.id
    where {_VISIBLE} and (w.document_id is null or w.stage <> {stage_names(Stage.UPSERTED)} or w.status <> 'PROCESSING'
                          or w.made_from is distinct from {MARK}) limit 1
"""
_PARTITIONS: LiteralString = "select id from partitions where namespace_id = %(namespace)s order by id"
_OLD: LiteralString = f"""
    select c.id from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    where d.partition_id = %(partition)s and {_VISIBLE}
"""
_NEW: LiteralString = f"""
    select c.id from documents d join run_documents w on w.job_run_id = %(run)s and w.document_id = d.id
    join chunks c on c.document_id = d.id and c.generation = w.generation
    where d.partition_id = %(partition)s and {_VISIBLE}
"""
_LEAVE: LiteralString = f"""
    insert into sweeps (partition_id, kind, document_id, generation)
    select d.partition_id, 'generation', d.id, d.active_generation from {_OURS} where {_VISIBLE}
    union all
    select w.partition_id, 'generation', w.document_id, w.generation from run_documents w
    where w.job_run_id = %(run)s
      and not exists (select from documents d where d.id = w.document_id and {_VISIBLE})
"""
"""Old generations, and shadows of documents that were deleted meanwhile."""
_LEAVE_EMBEDDINGS: LiteralString = """
    insert into sweeps (partition_id, kind, due_at)
    select id, 'embeddings', now() + interval '1 minute' from partitions where namespace_id = %(namespace)s
"""
"""Those of shadows that were built twice."""
_SHOW: LiteralString = f"""
    update documents d
    set active_generation = w.generation, properties = w.properties, embedding = w.embedding, fingerprint = null
    from run_documents w where w.job_run_id = %(run)s and w.document_id = d.id and {_VISIBLE}
"""
"""`latest_generation` stays: an ingestion that was accepted before and ends later is newer than this."""
_END: LiteralString = f"""
    with ended as (
        update run_documents w
        set error = null, status = case when exists (
            select from documents d where d.id = w.document_id and {_VISIBLE}
        ) then 'SUCCESS' else 'CANCELLED' end
        where w.job_run_id = %(run)s
    )
    update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now(), to_discover = false
    where id = %(run)s
"""


def _reindex(connection: ThreadConnection, partition: int, values: Mapping[str, str], language: str) -> None:
    params = {**values, "partition": partition}
    fewer_chunks, fewer_terms = postings.remove_chunks(connection, connection.fetch(int, _OLD, params))
    new = connection.fetch(int, _NEW, params)
    more_chunks, more_terms = postings.index_chunks(connection, partition, new, language)
    connection.execute(
        "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(partition)s",
        {"chunks": more_chunks - fewer_chunks, "terms": more_terms - fewer_terms, "partition": partition},
    )


def _configure(
    connection: ThreadConnection, keys: KeyRing, now: NamespaceConfig, later: NamespaceConfig, job_run_id: str
) -> None:
    previous = {EMBEDDING_MODEL: now.embedding_model, VECTOR_STORAGE: now.vector_storage}
    sealed = keys.seal(json.dumps(previous).encode(), row=row_name(now.id, "retired"))
    pending = connection.fetch_one(bytes, _PENDING, {"id": now.id})
    if pending is not None:
        later = reembedding.later_config(keys, now, pending)  # with a key that was changed since
    changed = replace(now, embedding_model=later.embedding_model, vector_storage=later.vector_storage, dimensions=None)
    changed = replace(changed, sent_to=later.sent_to)
    connection.execute(
        """
        update namespaces
        set config = %(config)s, secrets = %(secrets)s, dimensions = null, epoch = epoch + 1, pending = null,
            pending_run = null, retired = coalesce(%(retired)s, retired),
            updated_at = greatest(now(), updated_at + interval '1 microsecond')
        where id = %(id)s and pending_run = %(run)s
        """,
        {
            **namespaces.row_values(keys, changed),
            "retired": sealed if store_identity(now) != store_identity(later) else None,
            "run": job_run_id,
        },
    )
