"""Quotas during a run: documents of a listing, an archive or a fetch beyond a quota fail with the reason.

The documents and bytes of a request are checked when it arrives (`retrieval.accounts.quotas`); those that a flow adds
later are checked here. Organizations without quotas cost one lookup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import LiteralString, NamedTuple

from retrieval.accounts import quotas
from retrieval.accounts.quotas import DOCUMENTS, STORED_BYTES, TOKENS, Use
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.ingestion.items import Item
from retrieval.ingestion.queries import run_documents
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.ports import Page, SourceItem

_ONE_MORE: Mapping[str, int] = {DOCUMENTS: 1, STORED_BYTES: 1, TOKENS: 1}
"""A new document, whose size is not known yet: it needs room for something."""

_COST: LiteralString = """
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
    """The page, in which new items beyond a quota bear the reason as their error. In the caller's transaction."""
    fresh = [item for item in page.items if not item.error and not item.deleted]
    uses = _uses(connection, lease.scope.organization, lease.scope.tenant) if fresh else ()
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
        why = quotas.excess_reason(uses, _ONE_MORE)
        if why is None:
            uses = quotas.add_use(uses, {DOCUMENTS: 1})
            known_ids.add(item.external_id)
        accepted.append(item if why is None else replace(item, error=why, content=None))
    return replace(page, items=accepted)


def member_reasons(connection: ThreadConnection, job_run_id: str, sizes: Sequence[int]) -> list[str | None]:
    """For members of an archive, by their bytes: why each cannot become a document, or None."""
    owner = connection.fetch_one(
        _Owner,
        "select n.organization_id as organization, p.tenant from job_runs r join partitions p on p.id = r.partition_id"
        " join namespaces n on n.id = p.namespace_id where r.id = %(run)s",
        {"run": job_run_id},
    )
    uses = _uses(connection, owner.organization, owner.tenant) if owner else ()
    reasons: list[str | None] = []
    for size in sizes:
        needed = {DOCUMENTS: 1, STORED_BYTES: size}
        why = quotas.excess_reason(uses, needed) if quotas.has_limits(uses) else None
        if why is None:
            uses = quotas.add_use(uses, needed)
        reasons.append(why)
    return reasons


def affordable_items(db: Database, lease: Lease, work: Sequence[Item]) -> list[Item]:
    """Those that may be stored and embedded; the others fail with the reason. Their bytes are held for them."""
    failures = {}
    accepted: list[Item] = []
    sizes: dict[str, int] = {}
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        uses = _uses(connection, lease.scope.organization, lease.scope.tenant) if work else ()
        if not quotas.has_limits(uses):
            return list(work)
        values = {"documents": [i.key.document_id for i in work], "generations": [i.generation for i in work]}
        costs = {cost.id: cost for cost in connection.fetch(_Cost, _COST, values)}
        for item in work:
            cost = costs.get(item.key.document_id)
            size = int(item.properties.get("fileSize") or item.raw_size or 0)
            needed = {STORED_BYTES: max(0, size - cost.bytes), TOKENS: cost.tokens} if cost else {}
            if (why := quotas.excess_reason(uses, needed)) is not None:
                failures[item.key] = why
                continue
            uses = quotas.add_use(uses, needed)
            accepted.append(item)
            sizes[item.key.document_id] = size
        connection.execute(
            "update documents d set accepted_bytes = w.size from unnest(%(ids)s::text[], %(sizes)s::bigint[])"
            " as w (id, size) where d.id = w.id and d.accepted_bytes is distinct from w.size",
            {"ids": list(sizes), "sizes": list(sizes.values())},
        )
    run_documents.fail_items(db, lease, failures)
    return accepted


def _uses(connection: ThreadConnection, organization: str, tenant: str) -> tuple[Use, ...]:
    """Return usage, locked until the transaction ends; empty without quotas."""
    if not connection.fetch_one(bool, "select counted from organizations where id = %(id)s", {"id": organization}):
        return ()
    return quotas.lock_usage(connection, organization, tenant)


class _Owner(NamedTuple):
    organization: str
    tenant: str


class _Cost(NamedTuple):
    id: str
    bytes: int
    tokens: int
