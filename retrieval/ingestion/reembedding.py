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
from typing import Any

from retrieval import ids, origin
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ingestion import model_choice
from retrieval.ingestion.queries import reembedding as queries
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.namespaces import destinations, namespaces
from retrieval.namespaces.namespaces import EMBEDDING_MODEL, LEARNED, VECTOR_STORAGE, Config, NamespaceConfig
from retrieval.ports import Scope
from retrieval.security.secrets import KeyRing
from retrieval.statuses import DocumentStatus

SOURCE = "REEMBED"
"""The source that its job run shows."""
KEYS = "keysBefore"
"""Of the sealed configuration: the keys that the namespace had when it was set, by config."""
GATE = "gate"
"""Of the sealed configuration."""
_KEYED = (EMBEDDING_MODEL, VECTOR_STORAGE)
_OF_MODEL = frozenset({"apiKey", "model", "dimensions", "queryPrefix", "passagePrefix", LEARNED})
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
        busy = await queries.lock_pending_run(connection, now.id)
        if busy is not None:
            raise ServiceError(
                ErrorCode.INVALID_NAMESPACE_CONFIG,
                f"The namespace is already being embedded again; wait for the job run {busy} or cancel it first.",
                reason="reembed_running",
            )
        row = await queries.set_pending(connection, values)
        if row is None:
            raise namespaces.changed_meanwhile()
        await queries.insert_run(connection, {**values, **origin.origin_params()})
    return namespaces.open_namespace(keys, row), values["run"]


def read_target(db: Database, keys: KeyRing, lease: Lease) -> tuple[NamespaceConfig, str] | None:
    """Return the configuration to build for, and the job run; None if it was cancelled, replaced or swapped."""
    run = queries.find_pending(db, lease)
    if run is None:
        return None
    namespace = namespaces.load(db, keys, lease.scope.namespace)
    return replace(later_config(keys, namespace, run.pending), epoch=namespace.epoch + 1), run.id


def list_windows(db: Database, lease: Lease, *, size: int) -> list[Window]:
    """Group unfinished documents in windows of one partition each; documents that run alone come last."""
    documents = queries.list_open_documents(db, lease)
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


def drop_runs(db: Database, lease: Lease) -> None:
    """End the batch's open runs; garbage collection deletes what they have built."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        keys = batches.open_documents(connection, lease.batch_id)
        batches.close_documents(connection, dict.fromkeys(keys), status=DocumentStatus.CANCELLED)
        ended = queries.end_runs(connection, lease.batch_id)
        batches.leave_stores(connection, ended)


def other_stores(db: Database, keys: KeyRing, now: NamespaceConfig) -> list[NamespaceConfig]:
    """The namespace with each other vector store that may still hold vectors of it: the next one, the one before."""
    others = queries.find_configs(db, now.id)
    configs = [later_config(keys, now, config, name) for name, config in others.items() if config]
    return [config for config in configs if store_identity(config) != store_identity(now)]


def store_identity(config: NamespaceConfig) -> dict[str, Any]:
    """Return the identity of a vector store: its configuration without the key."""
    return {key: value for key, value in config.vector_storage.items() if key != "apiKey"}


def later_config(keys: KeyRing, now: NamespaceConfig, sealed: bytes, name: str = "pending") -> NamespaceConfig:
    """The namespace with a configuration that is not the present one, and the newest keys of it."""
    stored = json.loads(keys.open(sealed, row=row_name(now.id, name)))
    model, store = (_newest(stored[area], now.configs()[area], stored.get(KEYS, {}), area) for area in _KEYED)
    if name == "pending" and model_choice.is_open(model):  # another store was sent before the model was chosen
        model = now.embedding_model
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
