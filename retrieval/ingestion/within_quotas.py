"""Quotas during a run: documents of a listing, archive or fetch beyond a quota fail with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import LiteralString, NamedTuple

from retrieval.accounts import quotas
from retrieval.accounts.quotas import DOCUMENT_QUOTA, STORAGE_QUOTA, TOKENS_QUOTA, QuotaUsage
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.ingestion.items import Item
from retrieval.ingestion.queries import run_documents
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.ports import Page, SourceItem

# The documents and bytes of a request are checked on arrival (`retrieval.accounts.quotas`); documents added by a flow
# are checked here. Organizations without quotas cost one lookup.

# The size of a new document is unknown; at least one unit must be free.
_MINIMAL_USE: Mapping[str, int] = {DOCUMENT_QUOTA: 1, STORAGE_QUOTA: 1, TOKENS_QUOTA: 1}

_COST_QUERY: LiteralString = """
    select d.id, document_size(d.properties, d.accepted_bytes) as bytes, coalesce((
        select sum(tokens) from (
            select distinct on (c.embedding_key) c.tokens from chunks c
            left join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key
            where c.document_id = d.id and c.generation = w.generation and e.key is null
        ) new), 0)::bigint as tokens
    from unnest(%(documents)s::text[], %(generations)s::bigint[]) as w (document, generation)
    join documents d on d.id = w.document
"""


def mark_beyond_quota(connection: ThreadConnection, lease: Lease, page: Page[SourceItem]) -> Page[SourceItem]:
    """Return the page with an error on new items beyond a quota."""
    fresh = [item for item in page.items if not item.error and not item.deleted]
    uses = _lock_usage(connection, lease.scope.organization, lease.scope.tenant) if fresh else ()
    if not quotas.has_limits(uses):
        return page
    known_ids = set(
        connection.fetch(
            str,
            "select external_id from documents where partition_id = %(partition)s and source = %(source)s"
            " and external_id = any(%(ids)s) and deleted_at is null",
            {"partition": lease.partition, "source": lease.source, "ids": [item.external_id for item in fresh]},
        )
    )
    accepted: list[SourceItem] = []
    for item in page.items:
        if item.error or item.deleted or item.external_id in known_ids:
            accepted.append(item)
            continue
        reason = quotas.excess_reason(uses, _MINIMAL_USE)
        if reason is None:
            uses = quotas.add_amounts(uses, {DOCUMENT_QUOTA: 1})
            known_ids.add(item.external_id)
        accepted.append(item if reason is None else replace(item, error=reason, content=None))
    return replace(page, items=accepted)


def member_reasons(connection: ThreadConnection, job_run_id: str, sizes: Sequence[int]) -> list[str | None]:
    """Return the refusal reason of each archive member, or None, by its bytes."""
    owner = connection.fetch_one(
        _Owner,
        "select n.organization_id as organization, p.tenant from job_runs r join partitions p on p.id = r.partition_id"
        " join namespaces n on n.id = p.namespace_id where r.id = %(run)s",
        {"run": job_run_id},
    )
    uses = _lock_usage(connection, owner.organization, owner.tenant) if owner else ()
    reasons: list[str | None] = []
    for size in sizes:
        needed = {DOCUMENT_QUOTA: 1, STORAGE_QUOTA: size}
        reason = quotas.excess_reason(uses, needed) if quotas.has_limits(uses) else None
        if reason is None:
            uses = quotas.add_amounts(uses, needed)
        reasons.append(reason)
    return reasons


def affordable_items(db: Database, lease: Lease, items: Sequence[Item]) -> list[Item]:
    """Reserve quota for items; the others fail with the reason."""
    failures = {}
    accepted: list[Item] = []
    sizes: dict[str, int] = {}
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        uses = _lock_usage(connection, lease.scope.organization, lease.scope.tenant) if items else ()
        if not quotas.has_limits(uses):
            return list(items)
        values = {"documents": [i.key.document_id for i in items], "generations": [i.generation for i in items]}
        costs = {cost.id: cost for cost in connection.fetch(_ItemCost, _COST_QUERY, values)}
        for item in items:
            cost = costs.get(item.key.document_id)
            size = int(item.properties.get("fileSize") or item.raw_size or 0)
            needed = {STORAGE_QUOTA: max(0, size - cost.bytes), TOKENS_QUOTA: cost.tokens} if cost else {}
            if (reason := quotas.excess_reason(uses, needed)) is not None:
                failures[item.key] = reason
                continue
            uses = quotas.add_amounts(uses, needed)
            accepted.append(item)
            sizes[item.key.document_id] = size
        connection.execute(
            "update documents d set accepted_bytes = w.size from unnest(%(ids)s::text[], %(sizes)s::bigint[])"
            " as w (id, size) where d.id = w.id and d.accepted_bytes is distinct from w.size",
            {"ids": list(sizes), "sizes": list(sizes.values())},
        )
    run_documents.fail_items(db, lease, failures)
    return accepted


def _lock_usage(connection: ThreadConnection, organization: str, tenant: str) -> tuple[QuotaUsage, ...]:
    """Return usage, locked until the transaction ends; empty without quotas."""
    if not connection.fetch_one(bool, "select counted from organizations where id = %(id)s", {"id": organization}):
        return ()
    return quotas.lock_usage(connection, organization, tenant)


class _Owner(NamedTuple):
    organization: str
    tenant: str


class _ItemCost(NamedTuple):
    id: str
    bytes: int
    tokens: int
