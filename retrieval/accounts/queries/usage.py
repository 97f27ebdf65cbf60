"""Usage of an organization within its limits."""

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
    """`storage_bytes`: the sizes of the documents as they were sent. `namespace_limit` None: the setting's."""

    documents: int
    chunks: int
    storage_bytes: int
    namespaces: int
    namespace_limit: int | None


_READ: LiteralString = """
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


async def count_usage(db: Database, organization: str) -> Usage:
    """Counted afresh: for people and alarms, not for every request."""
    return (await db.async_fetch(Usage, _READ, {"organization": organization}))[0]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of documents of a group that were embedded with one model."""

    key: str
    provider: str
    model: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Group:
    """Usage of a day, a namespace or a tenant, by its `key`."""

    key: str
    documents: int = 0
    stored_bytes: int = 0
    models: list[Tokens] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(model.tokens for model in self.models)


class By(StrEnum):
    """Dimension that usage is grouped by."""

    DAY = "day"
    NAMESPACE = "namespace"
    TENANT = "tenant"


_EMBEDDED: LiteralString = """
    insert into token_usage as u (organization_id, day, namespace_id, tenant, provider, model, tokens)
    values (%(organization)s, (now() at time zone 'utc')::date, %(namespace)s, %(tenant)s, %(provider)s, %(model)s,
            %(tokens)s)
    on conflict (organization_id, day, namespace_id, tenant, provider, model)
    do update set tokens = u.tokens + excluded.tokens
"""
_KEYS: Mapping[By, tuple[LiteralString, LiteralString]] = {
    By.DAY: ("(d.created_at at time zone 'utc')::date::text", "day::text"),
    By.NAMESPACE: ("n.id", "namespace_id"),
    By.TENANT: ("p.tenant", "tenant"),
}
"""What a document, and what a row of `token_usage`, belongs to."""

_HELD: LiteralString = """
    as key, count(*) as documents, sum(document_size(d.properties, d.accepted_bytes))::bigint as stored_bytes
    from namespaces n join partitions p on p.namespace_id = n.id join documents d on d.partition_id = p.id
    where n.organization_id = %(organization)s and n.deleted_at is null and d.deleted_at is null
"""
_CREATED: LiteralString = (
    " and d.created_at >= %(start)s::date::timestamp at time zone 'utc'"
    " and d.created_at < (%(end)s::date + 1)::timestamp at time zone 'utc'"
)
_SPENT: LiteralString = """
    as key, provider, model, sum(tokens)::bigint as tokens from token_usage
    where organization_id = %(organization)s and day between %(start)s and %(end)s group by 1, 2, 3 order by 1, 2, 3
"""


def record_tokens(db: Executor, scope: Scope, provider: str, model: str, tokens: int) -> None:
    """Count tokens that a scope had embedded today (UTC)."""
    values = {**partitions.scope_params(scope), "provider": provider, "model": model, "tokens": tokens}
    db.execute(_EMBEDDED, values)


async def report_usage(db: Database, organization: str, by: By, start: date, end: date) -> list[Group]:
    """Usage by group, in the order of their keys; both days belong to it.

    Tokens are those of these days. Documents are those that are there now: by day the ones that came then, else all.
    """
    document, row_of = _KEYS[by]
    values = {"organization": organization, "start": start, "end": end}
    created = _CREATED if by is By.DAY else ""
    groups: dict[str, Group] = {}
    for group in await db.async_fetch(Group, "select " + document + _HELD + created + " group by 1", values):
        groups[group.key] = group
    for tokens in await db.async_fetch(Tokens, "select " + row_of + _SPENT, values):
        groups.setdefault(tokens.key, Group(tokens.key)).models.append(tokens)
    return [groups[key] for key in sorted(groups)]
