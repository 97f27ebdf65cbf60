"""Usage of an organization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import LiteralString

from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.ports import Scope


@dataclass(frozen=True, slots=True)
class Usage:
    """Current usage. `storage_bytes`: size of the original files; `namespace_limit` None: the setting."""

    documents: int
    chunks: int
    storage_bytes: int
    namespaces: int
    namespace_limit: int | None


_COUNT_USAGE: LiteralString = """
    with spaces as (
        select id from namespaces where organization_id = %(organization)s and deleted_at is null
    ),
    parts as (select p.id, p.chunks from partitions p join spaces on spaces.id = p.namespace_id),
    held as (
        select count(*) as documents,
               coalesce(sum(document_size(d.properties, d.accepted_bytes)), 0)::bigint as storage_bytes
        from documents d join parts on parts.id = d.partition_id where d.deleted_at is null
    )
    select held.*, coalesce((select sum(chunks) from parts), 0)::bigint as chunks,
           (select count(*) from spaces) as namespaces,
           (select namespace_limit from organizations where id = %(organization)s) as namespace_limit
    from held
"""


# Expensive: for reports and alarms, not for each request.
async def count_usage(db: Database, organization: str) -> Usage:
    return (await db.async_fetch(Usage, _COUNT_USAGE, {"organization": organization}))[0]


@dataclass(frozen=True, slots=True)
class ModelTokens:
    """Embedded tokens of a group and model."""

    key: str
    provider: str
    model: str
    tokens: int


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """Usage of a day, namespace or tenant, by `key`."""

    key: str
    documents: int = 0
    stored_bytes: int = 0
    models: list[ModelTokens] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(model.tokens for model in self.models)


@dataclass(frozen=True, slots=True)
class DailyTokens:
    """Embedded tokens of a namespace on a day (ISO 8601), by model."""

    day: str
    namespace: str
    provider: str
    model: str
    tokens: int


class UsageDimension(StrEnum):
    """Dimension of a usage report."""

    DAY = "day"
    NAMESPACE = "namespace"
    TENANT = "tenant"


_RECORD_TOKENS: LiteralString = """
    insert into token_usage as u (organization_id, day, namespace_id, tenant, provider, model, tokens)
    values (%(organization)s, (now() at time zone 'utc')::date, %(namespace)s, %(tenant)s, %(provider)s, %(model)s,
            %(tokens)s)
    on conflict (organization_id, day, namespace_id, tenant, provider, model)
    do update set tokens = u.tokens + excluded.tokens
"""
# Group key of a document, and of a row of `token_usage`.
_GROUP_KEYS: Mapping[UsageDimension, tuple[LiteralString, LiteralString]] = {
    UsageDimension.DAY: ("(d.created_at at time zone 'utc')::date::text", "day::text"),
    UsageDimension.NAMESPACE: ("n.id", "namespace_id"),
    UsageDimension.TENANT: ("p.tenant", "tenant"),
}

_FROM_DOCUMENTS: LiteralString = """
    as key, count(*) as documents, sum(document_size(d.properties, d.accepted_bytes))::bigint as stored_bytes
    from namespaces n join partitions p on p.namespace_id = n.id join documents d on d.partition_id = p.id
    where n.organization_id = %(organization)s and n.deleted_at is null and d.deleted_at is null
"""
_CREATED_IN_PERIOD: LiteralString = (
    " and d.created_at >= %(start)s::date::timestamp at time zone 'utc'"
    " and d.created_at < (%(end)s::date + 1)::timestamp at time zone 'utc'"
)
_FROM_TOKENS: LiteralString = """
    as key, provider, model, sum(tokens)::bigint as tokens from token_usage
    where organization_id = %(organization)s and day between %(start)s and %(end)s group by 1, 2, 3 order by 1, 2, 3
"""


_DAILY_TOKENS: LiteralString = """
    select day::text as day, namespace_id as namespace, provider, model, sum(tokens)::bigint as tokens
    from token_usage where organization_id = %(organization)s and day between %(start)s and %(end)s
    group by 1, 2, 3, 4 order by 1, 2, 3, 4
"""


def record_tokens(db: Executor, scope: Scope, provider: str, model: str, tokens: int) -> None:
    """Count embedded tokens of a scope for today (UTC)."""
    values = {**partitions.scope_params(scope), "provider": provider, "model": model, "tokens": tokens}
    db.execute(_RECORD_TOKENS, values)


async def report_usage(db: Database, organization: str, by: UsageDimension, start: date, end: date) -> list[UsageGroup]:
    """Return usage by group, sorted by key; both days are included."""
    # Tokens are those of the period; documents are the current ones, by day those created in the period.
    document, usage_row = _GROUP_KEYS[by]
    values = {"organization": organization, "start": start, "end": end}
    created = _CREATED_IN_PERIOD if by is UsageDimension.DAY else ""
    groups: dict[str, UsageGroup] = {}
    for group in await db.async_fetch(
        UsageGroup, "select " + document + _FROM_DOCUMENTS + created + " group by 1", values
    ):
        groups[group.key] = group
    for tokens in await db.async_fetch(ModelTokens, "select " + usage_row + _FROM_TOKENS, values):
        groups.setdefault(tokens.key, UsageGroup(tokens.key)).models.append(tokens)
    return [groups[key] for key in sorted(groups)]


async def list_daily_tokens(db: Database, organization: str, start: date, end: date) -> list[DailyTokens]:
    """Return embedded tokens by day, namespace and model; both days are included."""
    return await db.async_fetch(DailyTokens, _DAILY_TOKENS, {"organization": organization, "start": start, "end": end})
