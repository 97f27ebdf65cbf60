"""Re-embedding of a namespace for another model or vector store.

PATCH ──begin──▶ pending ──build the next generation of every document──▶ swap──▶ epoch + 1
                    └── cancelled, or a document fails ──▶ drop: garbage collection deletes the new vectors
"""

# One job run has all documents of the namespace, and its number is their next generation. Search and ingestion use the
# current configuration until the swap. A document that is changed before the swap is built again, see `SOURCE_MARK` in
# `queries/reembedding.py`. An ingestion that began in the epoch before fails with `ConfigChanged` and embeds again.

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from retrieval import ids, origin
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ingestion.queries import reembedding as queries
from retrieval.ingestion.sealed_configs import (
    GATE_FIELD,
    PREVIOUS_KEYS_FIELD,
    open_sealed_config,
    row_name,
    store_identity,
)
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import EMBEDDING_MODEL, VECTOR_STORAGE, NamespaceConfig
from retrieval.ports import Scope
from retrieval.security.secrets import KeyRing
from retrieval.statuses import DocumentStatus

# Source of the job run.
REEMBED_SOURCE = "REEMBED"


@dataclass(frozen=True, slots=True)
class ReembeddingWindow:
    """Documents of one partition, and the lease with this partition."""

    lease: Lease
    keys: tuple[DocumentKey, ...]
    # A single document that may have crashed a process.
    is_suspect: bool = False


class QueuedReembedding(NamedTuple):
    """Stored namespace, and the job run of its re-embedding."""

    namespace: NamespaceConfig
    job_run_id: str


class ReembeddingTarget(NamedTuple):
    """Configuration to embed for, and the job run of the re-embedding."""

    config: NamespaceConfig
    job_run_id: str


async def begin_reembedding(
    db: Database,
    keys: KeyRing,
    current: NamespaceConfig,
    target: NamespaceConfig,
    gate: Mapping[str, Any] | None = None,
) -> QueuedReembedding:
    """Store `current`, which serves until the swap, and queue the embedding for `target`.

    `gate`: condition of the swap, from the request. INVALID_NAMESPACE_CONFIG during another re-embedding.
    """
    scope = Scope(current.organization_id, current.id)
    partition = await partitions.ensure_partition(db, scope)
    pending = {
        EMBEDDING_MODEL: target.embedding_model,
        VECTOR_STORAGE: target.vector_storage,
        "sentTo": target.sent_to,
        PREVIOUS_KEYS_FIELD: {
            name: current.configs()[name].get("apiKey") for name in (EMBEDDING_MODEL, VECTOR_STORAGE)
        },
        GATE_FIELD: gate,
    }
    values = {
        **namespaces.row_values(keys, current),
        "seen": current.updated_at,
        "pending": keys.seal(json.dumps(pending).encode(), row=row_name(current.id, "pending")),
        "partition": partition,
        "job": ids.job_id(),
        "run": ids.job_run_id(),
        "source": REEMBED_SOURCE,
    }
    async with db.async_transaction() as connection:
        active_run = await queries.lock_pending_run(connection, current.id)
        if active_run is not None:
            raise ServiceError(
                ErrorCode.INVALID_NAMESPACE_CONFIG,
                f"The namespace is already being embedded again; wait for the job run {active_run} or cancel it first.",
                reason="reembed_running",
            )
        row = await queries.set_pending(connection, values)
        if row is None:
            raise namespaces.concurrent_change()
        await queries.insert_run(connection, {**values, **origin.origin_params()})
    return QueuedReembedding(namespaces.open_namespace(keys, row), values["run"])


def read_target(db: Database, keys: KeyRing, lease: Lease) -> ReembeddingTarget | None:
    """Return the target of the batch; None if cancelled, replaced or swapped."""
    run = queries.find_pending(db, lease)
    if run is None:
        return None
    namespace = namespaces.load_namespace(db, keys, lease.scope.namespace)
    target = replace(open_sealed_config(keys, namespace, run.pending), epoch=namespace.epoch + 1)
    return ReembeddingTarget(target, run.id)


def list_windows(db: Database, lease: Lease, *, size: int) -> list[ReembeddingWindow]:
    """Group unfinished documents of each partition in windows of at most `size`, then suspects in windows of one."""
    windows: list[ReembeddingWindow] = []
    for document in queries.list_open_documents(db, lease):
        key = DocumentKey(document.job_run_id, document.document_id)
        last = windows[-1] if windows else None
        if (
            last is not None
            and last.lease.partition == document.partition_id
            and len(last.keys) < size
            and not document.is_suspect
        ):
            windows[-1] = replace(last, keys=(*last.keys, key))
        else:
            scope = replace(lease.scope, tenant=document.tenant)
            window_lease = replace(lease, partition=document.partition_id, scope=scope)
            windows.append(ReembeddingWindow(window_lease, (key,), is_suspect=document.is_suspect))
    return windows


def drop_runs(db: Database, lease: Lease) -> None:
    """End the batch's open runs; garbage collection deletes their generations."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        keys = batches.open_documents(connection, lease.batch_id)
        batches.close_documents(connection, dict.fromkeys(keys), status=DocumentStatus.CANCELLED)
        ended = queries.end_runs(connection, lease.batch_id)
        batches.sweep_target_stores(connection, ended)


def other_stores(db: Database, keys: KeyRing, current: NamespaceConfig) -> list[NamespaceConfig]:
    """Return the previous and next configuration of the namespace with another vector store."""
    sealed_configs = queries.find_configs(db, current.id)
    configs = [open_sealed_config(keys, current, config, name) for name, config in sealed_configs.items() if config]
    return [config for config in configs if store_identity(config) != store_identity(current)]
