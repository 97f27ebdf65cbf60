"""Re-embedding a namespace for another model or vector store: built beside the live index, then swapped.

    PATCH ──begin──▶ pending ──refresh, shadow generations──▶ every document current? ──swap──▶ epoch + 1
                        └── cancelled, or a document fails ──▶ drop: the sweep takes what was built

One job run holds all documents of the namespace; its number is the shadow's generation. Search and ingestion go on
with the old configuration until the swap. What changed meanwhile is built again: `refresh` compares marks. An
ingestion that worked for an older epoch is refused at its activation (`ConfigChanged`) and embeds again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, LiteralString, NamedTuple

from retrieval import ids, origin
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ingestion import items
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.namespaces import destinations, namespaces
from retrieval.namespaces.namespaces import EMBEDDING_MODEL, VECTOR_STORAGE, Config, NamespaceConfig
from retrieval.ports import Scope
from retrieval.security.secrets import KeyRing
from retrieval.statuses import DocumentStatus, Stage, stage_names

SOURCE = "REEMBED"
"""The source that its job run shows."""
MARK: LiteralString = "(d.active_generation || ':' || md5(d.metadata::text))"
"""Of a document `d`: another mark means that its shadow must be built again."""


KEYS = "keysBefore"
"""Of the sealed configuration: the keys that the namespace had when it was set, by config."""
GATE = "gate"
"""Of the sealed configuration."""
_KEYED = (EMBEDDING_MODEL, VECTOR_STORAGE)
_OF_MODEL = frozenset({"apiKey", "model", "dimensions"})
"""All else of a config says where its key is sent."""


@dataclass(frozen=True, slots=True)
class Window:
    """Documents of one partition, and the lease to work on them there."""

    lease: Lease
    keys: tuple[DocumentKey, ...]
    alone: bool = False
    """One document that a process may have died of."""


async def begin_reembedding(
    db: Database,
    keys: KeyRing,
    now: NamespaceConfig,
    later: NamespaceConfig,
    gate: Mapping[str, Any] | None = None,
) -> tuple[NamespaceConfig, str]:
    """Store `now`, and have all documents embedded for `later`; the namespace as it is, and the job run.

    gate: what the new generation must pass, as `retrieval.evaluations.gate` has it."""
    scope = Scope(now.organization_id, now.id)
    partition = await partitions.ensure_partition(db, scope)
    pending = {
        EMBEDDING_MODEL: later.embedding_model,
        VECTOR_STORAGE: later.vector_storage,
        "sentTo": later.sent_to,
        KEYS: {name: now.configs()[name].get("apiKey") for name in (EMBEDDING_MODEL, VECTOR_STORAGE)},
        GATE: gate,
    }
    values = {
        **namespaces.row_values(keys, now),
        "seen": now.updated_at,
        "pending": keys.seal(json.dumps(pending).encode(), row=row_name(now.id, "pending")),
        "partition": partition,
        "job": ids.job_id(),
        "run": ids.job_run_id(),
        "source": SOURCE,
    }
    async with db.async_transaction() as connection:
        busy = await connection.async_fetch_one(str, _BUSY, values)
        if busy is not None:
            raise ServiceError(
                ErrorCode.INVALID_NAMESPACE_CONFIG,
                f"The namespace is already being embedded again; wait for the job run {busy} or cancel it first.",
                reason="reembed_running",
            )
        row = await connection.async_fetch_one(namespaces.NamespaceRow, _BEGIN + namespaces.COLUMNS, values)
        if row is None:
            raise namespaces.changed_meanwhile()
        await connection.execute(_RUN, {**values, **origin.origin_params()})
    return namespaces.open_namespace(keys, row), values["run"]


_BUSY: LiteralString = """
    select r.id from namespaces n join job_runs r on r.id = n.pending_run and r.finished_at is null
    where n.id = %(id)s for update of n
"""
_BEGIN: LiteralString = """
    update namespaces set name = %(name)s, config = %(config)s, secrets = %(secrets)s, dimensions = %(dimensions)s,
        keyword_language = %(keyword_language)s, pending = %(pending)s, pending_run = %(run)s,
        updated_at = greatest(now(), updated_at + interval '1 microsecond')
    where id = %(id)s and organization_id = %(organization)s and deleted_at is null and updated_at = %(seen)s returning
"""
_RUN: LiteralString = """
    with job as (
        insert into jobs (id, organization_id, partition_id, source, config)
        values (%(job)s, %(organization)s, %(partition)s, %(source)s, '{}') returning id
    )
    insert into job_runs (id, job_id, partition_id, source, to_discover, request_id, traceparent)
    select %(run)s, id, %(partition)s, %(source)s, true, %(request_id)s, %(traceparent)s from job
"""
"""`to_discover` stays: the run is not complete before the swap, however its documents stand."""


def read_target(db: Database, keys: KeyRing, lease: Lease) -> tuple[NamespaceConfig, str] | None:
    """Return the configuration to build for, and the job run; None if it was cancelled, replaced or swapped."""
    run = db.fetch_one(_PendingRun, _TARGET, {"batch": lease.batch_id, "namespace": lease.scope.namespace})
    if run is None:
        return None
    namespace = namespaces.load(db, keys, lease.scope.namespace)
    return replace(later_config(keys, namespace, run.pending), epoch=namespace.epoch + 1), run.id


class _PendingRun(NamedTuple):
    id: str
    pending: bytes


_TARGET: LiteralString = """
    select r.id, n.pending from namespaces n
    join job_runs r on r.id = n.pending_run and r.finished_at is null and not r.cancel_requested
    where n.id = %(namespace)s and n.deleted_at is null and r.batch_id = %(batch)s
"""


def list_outdated(db: Database, lease: Lease, job_run_id: str) -> None:
    """List every visible document whose shadow is not there yet or is not of its present version."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        connection.execute(_REFRESH, {"run": job_run_id, "namespace": lease.scope.namespace})


_REFRESH: LiteralString = f"""
    with listed as (
        insert into run_documents (job_run_id, document_id, position, generation, stage, name, media_type, raw_key,
                                   raw_hash, raw_size, parsed_key, title, pages, properties, made_from, partition_id)
        select r.id, d.id, row_number() over (order by d.partition_id, d.created_at, d.id) - 1, r.number,
               {stage_names(Stage.PARSED)}, d.name, coalesce(m.media_type, ''), d.raw_key, m.raw_hash, m.raw_size,
               d.parsed_key,
               coalesce(m.title, ''), coalesce(m.pages, '{{}}'), d.properties, {MARK}, d.partition_id
        from job_runs r, documents d join partitions p on p.id = d.partition_id
        left join lateral (
            select * from run_documents m where m.document_id = d.id and m.generation = d.active_generation limit 1
        ) m on true
        where r.id = %(run)s and p.namespace_id = %(namespace)s and d.deleted_at is null and d.active_generation > 0
        on conflict (job_run_id, document_id) do update
        set stage = {stage_names(Stage.PARSED)}, status = 'QUEUED', error = null,
            name = excluded.name, media_type = excluded.media_type,
            raw_key = excluded.raw_key, raw_hash = excluded.raw_hash, raw_size = excluded.raw_size,
            parsed_key = excluded.parsed_key, title = excluded.title, pages = excluded.pages,
            properties = excluded.properties, made_from = excluded.made_from
        where run_documents.made_from is distinct from excluded.made_from
        returning document_id, generation
    )
    delete from sweeps s using listed l
    where s.kind = 'generation' and s.document_id = l.document_id and s.generation = l.generation
"""


def list_windows(db: Database, lease: Lease, *, size: int) -> list[Window]:
    """Group unfinished documents in windows of one partition each; documents that run alone come last."""
    documents = db.fetch(
        _OpenDocument,
        """
        select d.job_run_id, d.document_id, d.partition_id, p.tenant, d.blame >= %(alone)s as alone from run_documents d
        join job_runs r on r.id = d.job_run_id join partitions p on p.id = d.partition_id
        where r.batch_id = %(batch)s and d.status in ('QUEUED', 'PROCESSING') and d.stage <> %(upserted)s
        order by alone, d.partition_id, d.position
        """,
        {"batch": lease.batch_id, "alone": items.ALONE, "upserted": Stage.UPSERTED},
    )
    cut: list[Window] = []
    for document in documents:
        key = DocumentKey(document.job_run_id, document.document_id)
        last = cut[-1] if cut else None
        full = last is None or last.lease.partition != document.partition_id or len(last.keys) == size
        if last is None or full or document.alone:
            scope = replace(lease.scope, tenant=document.tenant)
            window_lease = replace(lease, partition=document.partition_id, scope=scope)
            cut.append(Window(window_lease, (key,), alone=document.alone))
        else:
            cut[-1] = replace(last, keys=(*last.keys, key))
    return cut


class _OpenDocument(NamedTuple):
    job_run_id: str
    document_id: str
    partition_id: int
    tenant: str
    alone: bool


def has_failed(db: Database, job_run_id: str) -> bool:
    """Tell if building failed for a document that has not changed since it was listed."""
    statement: LiteralString = (
        "select exists (select from run_documents w join documents d on d.id = w.document_id and d.deleted_at is null"
        f" where w.job_run_id = %(run)s and w.status = 'FAILED' and w.made_from = {MARK})"
    )
    return bool(db.fetch_one(bool, statement, {"run": job_run_id}))


LEAVE_STORES: LiteralString = """
    insert into sweeps (partition_id, kind, generation, due_at)
    values (%(partition)s, 'stores', %(epoch)s, now() + interval '10 minutes')
"""
"""Has the sweep forget other vector stores than the namespace's present one, when they are empty."""


def drop_runs(db: Database, lease: Lease) -> None:
    """End the batch's open runs; garbage collection deletes what they have built."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        keys = batches.open_documents(connection, lease.batch_id)
        batches.close_documents(connection, dict.fromkeys(keys), status=DocumentStatus.CANCELLED)
        ended = connection.fetch(
            str,
            "update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now()"
            " where batch_id = %(batch)s and finished_at is null returning id",
            {"batch": lease.batch_id},
        )
        batches.leave_stores(connection, ended)


def other_stores(db: Database, keys: KeyRing, now: NamespaceConfig) -> list[NamespaceConfig]:
    """The namespace with each other vector store that may still hold vectors of it: the next one, the one before."""
    sealed = db.fetch_one(_Sealed, "select pending, retired from namespaces where id = %(id)s", {"id": now.id})
    others = sealed._asdict() if sealed else {}
    configs = [later_config(keys, now, config, name) for name, config in others.items() if config]
    return [config for config in configs if store_identity(config) != store_identity(now)]


class _Sealed(NamedTuple):
    pending: bytes | None
    retired: bytes | None


def store_identity(config: NamespaceConfig) -> dict[str, Any]:
    """Return the identity of a vector store: its configuration without the key."""
    return {key: value for key, value in config.vector_storage.items() if key != "apiKey"}


def later_config(keys: KeyRing, now: NamespaceConfig, sealed: bytes, name: str = "pending") -> NamespaceConfig:
    """The namespace with a configuration that is not the present one, and the newest keys of it."""
    stored = json.loads(keys.open(sealed, row=row_name(now.id, name)))
    model, store = (_newest(stored[area], now.configs()[area], stored.get(KEYS, {}), area) for area in _KEYED)
    noted = destinations.keep_destination(EMBEDDING_MODEL, stored.get("sentTo", now.sent_to), now.sent_to)
    sent_to = noted if model is stored[EMBEDDING_MODEL] else now.sent_to
    return replace(now, embedding_model=model, vector_storage=store, sent_to=sent_to, dimensions=None)


def _newest(config: Config, present: Config, before: Mapping[str, str | None], name: str) -> Config:
    """With the key that a client has set since, where it is sent to the same place."""
    is_changed = name in before and present.get("apiKey") not in {None, before[name]}
    same = {key: value for key, value in config.items() if key not in _OF_MODEL}
    if is_changed and same == {key: value for key, value in present.items() if key not in _OF_MODEL}:
        return {**config, "apiKey": present["apiKey"]}
    return config


def row_name(namespace_id: str, column: str) -> str:
    """Under which name a configuration that is not the present one is sealed."""
    return f"namespaces/{namespace_id}/{column}"
