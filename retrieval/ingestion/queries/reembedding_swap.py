"""Trial of a namespace's new model and store, and their swap in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, LiteralString

import psycopg

from retrieval.database import partitions
from retrieval.database.database import UNLIMITED_TRANSACTION, Database
from retrieval.database.schema.content import Document
from retrieval.database.sessions import ThreadConnection
from retrieval.documents import passage_matching
from retrieval.ingestion import sealed_configs
from retrieval.ingestion.queries.reembedding import SOURCE_MARK, SWEEP_STORES_STATEMENT
from retrieval.ingestion.sealed_configs import GATE_FIELD, row_name, store_identity
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.keywords import postings
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import EMBEDDING_MODEL, VECTOR_STORAGE, NamespaceConfig
from retrieval.namespaces.queries import NAMESPACE_COLUMNS, NamespaceRow
from retrieval.security.secrets import KeyRing
from retrieval.statuses import Stage, stage_names

_GENERATION_COLUMN = "active_generation"

# Prepared statements of this connection refer to the table instead of the view.
_DEALLOCATE_STATEMENT: LiteralString = "deallocate all"


def read_gate(db: Database, keys: KeyRing, lease: Lease) -> dict[str, Any] | None:
    """Return the gate of the request, if any."""
    namespace_id = lease.scope.namespace
    pending = db.fetch_one(bytes, _PENDING_QUERY, {"id": namespace_id})
    if pending is None:
        return None
    gate: dict[str, Any] | None = json.loads(keys.open(pending, row=row_name(namespace_id, "pending"))).get(GATE_FIELD)
    return gate


_PENDING_QUERY: LiteralString = "select pending from namespaces where id = %(id)s"


@contextmanager
def search_next_generation(db: Database, job_run_id: str) -> Iterator[None]:
    """Make searches of this thread use the job run's generations instead of the visible ones."""
    # `documents` is a temporary view of this connection, dropped with the transaction; nothing is locked.
    columns = ", ".join(
        f"w.generation as {_GENERATION_COLUMN}" if column.name == _GENERATION_COLUMN else f'd."{column.name}"'
        for column in Document.__table__.columns  # type: ignore[attr-defined]
    )
    view = psycopg.sql.SQL(
        f"create temporary view documents as select {columns} from documents d"
        " join run_documents w on w.document_id = d.id and w.job_run_id = {run}"
        f" and w.stage = {stage_names(Stage.UPSERTED)}"
    ).format(run=psycopg.sql.Literal(job_run_id))
    with db.together():
        with db.transaction() as connection:
            connection.execute(_DEALLOCATE_STATEMENT)
            connection.execute(view)
        yield
        raise psycopg.Rollback


def record_verdict(db: Database, lease: Lease, job_run_id: str, verdict: Mapping[str, Any]) -> None:
    """Record the gate's verdict with the job run."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        connection.execute(
            "update job_runs set progress = progress || %(progress)s::jsonb, updated_at = now() where id = %(run)s",
            {"run": job_run_id, "progress": json.dumps({"verdict": dict(verdict)})},
        )


def swap_generations(
    db: Database, keys: KeyRing, lease: Lease, job_run_id: str, target: NamespaceConfig, language: str
) -> bool:
    """Make the next generation of every document visible; False, without changes, if any is missing or outdated."""
    # Readers see the old or the new state; writers wait a few seconds.
    values = {"run": job_run_id, "namespace": lease.scope.namespace}
    with db.transaction() as connection:
        connection.execute(UNLIMITED_TRANSACTION)
        batches.guard_lease(connection, lease)
        row = connection.fetch_one(NamespaceRow, _LOCK_NAMESPACE_QUERY, values)
        if row is None or not connection.fetch_one(bool, _OPEN_RUN_QUERY, values):
            return False
        connection.execute(_LOCK_DOCUMENTS_STATEMENT, values)
        if connection.fetch_one(bool, _HAS_OUTDATED_QUERY, values):
            return False
        for partition in connection.fetch(int, _PARTITIONS_QUERY, values):
            _replace_postings(connection, partition, values, language)
        connection.execute(SWEEP_STORES_STATEMENT, {"partition": lease.partition, "epoch": target.epoch})
        for statement in (
            _SWEEP_GENERATIONS_STATEMENT,
            _SWEEP_EMBEDDINGS_STATEMENT,
            _SHOW_NEXT_STATEMENT,
            _END_RUN_STATEMENT,
        ):
            connection.execute(statement, values)
        passage_matching.hide_matching_chunks(connection, connection.fetch(str, _HIDING_DOCUMENTS_QUERY, values))
        _store_config(connection, keys, namespaces.open_namespace(keys, row), target, job_run_id)
    return True


_LOCK_NAMESPACE_QUERY: LiteralString = f"""
    select {NAMESPACE_COLUMNS}
    from namespaces where id = %(namespace)s and deleted_at is null and pending_run = %(run)s for no key update
"""
_OPEN_RUN_QUERY: LiteralString = (
    "select true from job_runs where id = %(run)s and finished_at is null and not cancel_requested for update"
)
_NAMESPACE_DOCUMENTS: LiteralString = """
    documents d join partitions p on p.id = d.partition_id and p.namespace_id = %(namespace)s
"""
_VISIBLE_CONDITION: LiteralString = " d.deleted_at is null and d.active_generation > 0 "
_LOCK_DOCUMENTS_STATEMENT: LiteralString = (
    f"select d.id from {_NAMESPACE_DOCUMENTS} where {_VISIBLE_CONDITION} order by d.id for update of d"
)
_HAS_OUTDATED_QUERY: LiteralString = f"""
    select true from {_NAMESPACE_DOCUMENTS} left join run_documents w on w.job_run_id = %(run)s and w.document_id = d.id
    where {_VISIBLE_CONDITION} and (w.document_id is null or w.stage <> {stage_names(Stage.UPSERTED)}
                          or w.status <> 'PROCESSING'
                          or w.made_from is distinct from {SOURCE_MARK}) limit 1
"""
_PARTITIONS_QUERY: LiteralString = "select id from partitions where namespace_id = %(namespace)s order by id"
_HIDING_DOCUMENTS_QUERY: LiteralString = (
    f"select d.id from {_NAMESPACE_DOCUMENTS} where {_VISIBLE_CONDITION} and d.hidden <> '[]'"
)
_OLD_CHUNKS_QUERY: LiteralString = f"""
    select c.id from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    where d.partition_id = %(partition)s and {_VISIBLE_CONDITION}
"""
_NEW_CHUNKS_QUERY: LiteralString = f"""
    select c.id from documents d join run_documents w on w.job_run_id = %(run)s and w.document_id = d.id
    join chunks c on c.document_id = d.id and c.generation = w.generation
    where d.partition_id = %(partition)s and {_VISIBLE_CONDITION}
"""
# Old generations, and next generations of deleted documents.
_SWEEP_GENERATIONS_STATEMENT: LiteralString = f"""
    insert into sweeps (partition_id, kind, document_id, generation)
    select d.partition_id, 'generation', d.id, d.active_generation from {_NAMESPACE_DOCUMENTS}
    where {_VISIBLE_CONDITION}
    union all
    select w.partition_id, 'generation', w.document_id, w.generation from run_documents w
    where w.job_run_id = %(run)s
      and not exists (select from documents d where d.id = w.document_id and {_VISIBLE_CONDITION})
"""
# Embeddings of next generations built twice.
_SWEEP_EMBEDDINGS_STATEMENT: LiteralString = """
    insert into sweeps (partition_id, kind, due_at)
    select id, 'embeddings', now() + interval '1 minute' from partitions where namespace_id = %(namespace)s
"""
# `latest_generation` stays: an earlier accepted ingestion that ends later is newer.
_SHOW_NEXT_STATEMENT: LiteralString = f"""
    update documents d
    set active_generation = w.generation, properties = w.properties, embedding = w.embedding, fingerprint = null
    from run_documents w where w.job_run_id = %(run)s and w.document_id = d.id and {_VISIBLE_CONDITION}
"""
_END_RUN_STATEMENT: LiteralString = f"""
    with ended as (
        update run_documents w
        set error = null, status = case when exists (
            select from documents d where d.id = w.document_id and {_VISIBLE_CONDITION}
        ) then 'SUCCESS' else 'CANCELLED' end
        where w.job_run_id = %(run)s
    )
    update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now(), to_discover = false
    where id = %(run)s
"""


def _replace_postings(connection: ThreadConnection, partition: int, values: Mapping[str, str], language: str) -> None:
    params = {**values, "partition": partition}
    fewer_chunks, fewer_terms = postings.remove_chunks(connection, connection.fetch(int, _OLD_CHUNKS_QUERY, params))
    new = connection.fetch(int, _NEW_CHUNKS_QUERY, params)
    more_chunks, more_terms = postings.index_chunks(connection, partition, new, language)
    chunks, terms = more_chunks - fewer_chunks, more_terms - fewer_terms
    partitions.add_counts(connection, partition, chunks=chunks, terms=terms)


def _store_config(
    connection: ThreadConnection, keys: KeyRing, current: NamespaceConfig, target: NamespaceConfig, job_run_id: str
) -> None:
    previous = {EMBEDDING_MODEL: current.embedding_model, VECTOR_STORAGE: current.vector_storage}
    sealed = keys.seal(json.dumps(previous).encode(), row=row_name(current.id, "retired"))
    pending = connection.fetch_one(bytes, _PENDING_QUERY, {"id": current.id})
    if pending is not None:
        target = sealed_configs.open_sealed_config(keys, current, pending)  # with a key that was changed since
    changed = replace(
        current, embedding_model=target.embedding_model, vector_storage=target.vector_storage, dimensions=None
    )
    changed = replace(changed, sent_to=target.sent_to)
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
            "retired": sealed if store_identity(current) != store_identity(target) else None,
            "run": job_run_id,
        },
    )
