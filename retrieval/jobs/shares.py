"""Fair queue: chooses which waiting job runs become the next batches, and their work queue.

Organizations with waiting work share the workers by the weight of their plan, and their scopes share that part. Every
organization may have at least one dispatched batch. Short work without external requests, such as a text for the local
model, has a queue of its own, for which each worker reserves a slot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, LiteralString

from retrieval.accounts.organizations import SHARES, Plan
from retrieval.database.database import Database
from retrieval.jobs.breakers import PROBES, RESTING
from retrieval.jobs.outbox import MAY_LEAVE
from retrieval.sources import APPS, STORED

SHORT: Final = "short"
"""Work queue of what takes a moment and waits for nobody outside of this installation."""
DEFAULT: Final = "default"
"""Work queue of an organization's first batch."""
BULK: Final = "bulk"
"""Work queue of its further ones: they run where nobody's first batch waits."""
QUEUES: Final = (SHORT, DEFAULT, BULK)
"""In the order of their priority."""

SHORT_RUNS: Final = 8
SHORT_BYTES: Final = 32 * 1024
"""Job runs and bytes of content that a short batch holds at most: some seconds of the local model's time."""
SHORT_AT_ONCE: Final = 16
GROW_SECONDS: Final = 1.0
"""So long something may wait for a batch of its scope and source to take it up, if that is on its way to a worker or
has looked within this time; and something short, while its organization has a short batch on its way and its scope
another one. Where many clients send, a few job runs after each other would each be a flow run, most of a second of CPU
time."""
OWN_AT_ONCE: Final = 16
"""Batches beyond the room that are on their way at most, because their organizations have no other."""


@dataclass(frozen=True, slots=True)
class Group:
    """Waiting job runs of one source and scope.

    `first`: in seconds since 1970, when that one of them began to wait that waits longest; one that gave way to others
    began then.
    """

    partition: int
    source: str
    organization: str
    weight: int
    first: float
    short: bool = False
    waited: float = math.inf
    """Seconds."""


@dataclass(frozen=True, slots=True)
class _GroupRow:
    partition: int
    source: str
    organization: str
    plan: str
    runs: int
    first: float
    waited: float
    local: bool
    bytes: int | None

    def group(self) -> Group:
        short = self.runs <= SHORT_RUNS and self.local and self.bytes is not None and self.bytes <= SHORT_BYTES
        weight = SHARES[Plan(self.plan)]
        return Group(self.partition, self.source, self.organization, weight, self.first, short, self.waited)


@dataclass(frozen=True, slots=True)
class _OpenBatches:
    organization: str
    partition: int
    source: str
    queue: str
    batches: int
    growing: int
    looking: bool | None


@dataclass(slots=True)
class Taken:
    """Batches that are open: short ones by organization, others by organization and by scope.

    `growing`: by scope and source, those that others may join; `looking`: where one of them takes up what waits.
    """

    short: Counter[str] = field(default_factory=Counter)
    organizations: Counter[str] = field(default_factory=Counter)
    partitions: Counter[int] = field(default_factory=Counter)
    growing: Counter[tuple[int, str]] = field(default_factory=Counter)
    looking: set[tuple[int, str]] = field(default_factory=set)

    def add(self, organization: str, partition: int, queue: str, batches: int = 1) -> None:
        if queue == SHORT:
            self.short[organization] += batches
        else:
            self.organizations[organization] += batches
            self.partitions[partition] += batches


def choose(groups: Iterable[Group], taken: Taken, *, room: int, places: int | None = None) -> list[tuple[Group, str]]:
    """Which groups become a batch now, each with its queue; at most one batch of each group.

    `room`: how many batches beside the short ones may be added; organizations without any have OWN_AT_ONCE more.
    `places`: so many batches of a group take up all that is sent to it; None: any number may be added.
    """
    chosen: list[tuple[Group, str]] = []
    waiting = []

    def take(group: Group, queue: str) -> None:
        chosen.append((group, queue))
        taken.add(group.organization, group.partition, queue)

    for group in sorted(groups, key=lambda group: group.first):
        key, is_new = (group.partition, group.source), group.waited < GROW_SECONDS
        if is_new and key in taken.looking:
            continue
        if group.short and not taken.short[group.organization] and taken.short.total() < SHORT_AT_ONCE:
            take(group, SHORT)
        elif not (
            (places is not None and taken.growing[key] >= places)
            or (group.short and is_new and taken.short[group.organization] and taken.partitions[group.partition])
        ):
            waiting.append(group)

    def turn(group: Group) -> tuple[float, int, bool, float]:
        share = taken.organizations[group.organization] / group.weight
        return share, taken.partitions[group.partition], group.source not in STORED, group.first

    while waiting:
        group = min(waiting, key=turn)
        first = not taken.organizations[group.organization]
        if room <= (-OWN_AT_ONCE if first else 0):
            break
        waiting.remove(group)
        take(group, DEFAULT if first else BULK)
        room -= 1
    return chosen


def waiting(db: Database) -> list[Group]:
    """Return all groups with a job run that may be dispatched."""
    return [row.group() for row in db.fetch(_GroupRow, _WAITING, _VALUES)]


def taken(db: Database, *, size: int) -> Taken:
    """Return the open batches. `size`: limit of job runs in a batch."""
    chosen = Taken()
    for row in db.fetch(_OpenBatches, _TAKEN, {"stored": sorted(STORED), "size": size, "grow": GROW_SECONDS}):
        chosen.add(row.organization, row.partition, row.queue, row.batches)
        key = row.partition, row.source
        if row.growing:
            chosen.growing[key] += row.growing
        if row.looking:
            chosen.looking.add(key)
    return chosen


def others_wait(db: Database, batch_id: str, *, seconds: float) -> bool:
    """Tell if a batch that was dispatched at least `seconds` ago and not claimed should replace this one.

    True for a batch of another organization; for one of another scope if this organization has several at work; and for
    stored content while this batch fetches from elsewhere.
    """
    values = {"batch": batch_id, "seconds": seconds, "stored": sorted(STORED)}
    return bool(db.fetch_one(bool, _OTHERS_WAIT, values))


def close(db: Database, closed: Collection[str]) -> None:
    """Mark batches of these work queues as closed, so that no batch yields to them; reopen those of all others."""
    db.execute(
        "update batches set closed = queue = any(%(queues)s) where finished_at is null and lease_until is null"
        " and closed <> (queue = any(%(queues)s))",
        {"queues": sorted(closed)},
    )


def is_any_unclaimed(db: Database) -> bool:
    """Tell if a dispatched batch has no worker."""
    return bool(
        db.fetch_one(
            bool,
            "select exists (select from batches"
            " where finished_at is null and lease_until is null and dispatched_at is not null)",
        )
    )


def is_any_unfinished(db: Database) -> bool:
    """Tell if a job run waits for a batch, or a batch is not finished."""
    return bool(
        db.fetch_one(
            bool,
            "select exists (select from batches where finished_at is null)"
            " or exists (select from job_runs where batch_id is null and finished_at is null)",
        )
    )


def is_any_open(db: Database) -> bool:
    """Tell if any batch is not finished."""
    return bool(db.fetch_one(bool, "select exists (select from batches where finished_at is null)"))


def at_work(db: Database) -> Counter[str]:
    """Batches that workers hold, by work queue."""
    return Counter(
        db.fetch(str, "select queue from batches where finished_at is null and lease_until > now() order by queue")
    )


_VALUES: dict[str, Sequence[str] | int] = {
    "connected": list(APPS),
    "stored": sorted(STORED),
    "runs": SHORT_RUNS,
    "probes": PROBES,
}
GROUPS: LiteralString = """
    with recursive groups as (
        (select partition_id, source from job_runs where batch_id is null and finished_at is null
         order by partition_id, source limit 1)
        union all
        select next.partition_id, next.source from groups g cross join lateral (
            select partition_id, source from job_runs
            where batch_id is null and finished_at is null and (partition_id, source) > (g.partition_id, g.source)
            order by partition_id, source limit 1
        ) next
    )
"""
"""Which scopes and sources have waiting job runs: from one to the next by the index."""

_WAITING: LiteralString = (
    GROUPS
    + """
    select g.partition_id as partition, g.source, o.id as organization, o.plan, w.runs, w.first, w.waited,
           coalesce(n.config -> 'embeddingModelConfig' ->> 'provider' = 'LOCAL'
                    and n.config -> 'vectorStorageConfig' ->> 'provider' = 'PGVECTOR'
                    and n.config -> 'fileStorageConfig' ->> 'type' = 'LOCAL', false) as local,
           case when w.runs <= %(runs)s and g.source = any(%(stored)s) then (
               select case when bool_and(d.media_type like 'text/%%')
                           then coalesce(sum(coalesce(d.raw_size, octet_length(i.content), 0)), 0)::bigint end
               from run_documents d left join inbox i on i.job_run_id = d.job_run_id and i.document_id = d.document_id
               where d.job_run_id = any(w.members)
           ) end as bytes
    from groups g
    join partitions p on p.id = g.partition_id join namespaces n on n.id = p.namespace_id
    join organizations o on o.id = n.organization_id
    cross join lateral (
        select count(*) as runs, extract(epoch from min(updated_at))::float8 as first,
               extract(epoch from clock_timestamp() - min(updated_at))::float8 as waited, array_agg(id) as members
        from (
            select r.id, r.updated_at from job_runs r where r.partition_id = g.partition_id and r.source = g.source and
    """
    + MAY_LEAVE
    + """
            order by r.number limit %(runs)s + 1
        ) leaving
    ) w
    where w.runs > 0 and (g.source = 'REEMBED' or g.partition_id <> all("""
    + RESTING
    + """))
"""
)
"""From group to group by the index, so that it costs as much as there are groups, not as there are job runs."""
_TAKEN: LiteralString = """
    select n.organization_id as organization, b.partition_id as partition, b.source, b.queue, count(*) as batches,
           count(*) filter (where g.growing) as growing,
           bool_or(g.growing and (b.lease_until is null or b.looked_at > now() - make_interval(secs => %(grow)s)))
               as looking
    from batches b join partitions p on p.id = b.partition_id join namespaces n on n.id = p.namespace_id
    cross join lateral (
        select b.source = any(%(stored)s) and b.queue <> 'short' and b.attempt = 1 and b.size < %(size)s
               and not b.released and coalesce(b.lease_until > now(), true) as growing
    ) g
    where b.finished_at is null group by n.organization_id, b.partition_id, b.source, b.queue
"""
_OTHERS_WAIT: LiteralString = """
    with mine as (
        select b.id, b.partition_id, b.source, n.organization_id from batches b
        join partitions p on p.id = b.partition_id join namespaces n on n.id = p.namespace_id where b.id = %(batch)s
    )
    select true from mine, batches w
    join partitions p on p.id = w.partition_id join namespaces n on n.id = p.namespace_id
    where w.finished_at is null and w.lease_until is null and w.queue <> 'short' and not w.closed
      and abs(extract(epoch from now() - w.dispatched_at)) > %(seconds)s
      and (n.organization_id <> mine.organization_id
           or (w.source = any(%(stored)s) and mine.source <> all(%(stored)s))
           or (w.partition_id <> mine.partition_id and exists (
               select from batches sibling where sibling.partition_id = mine.partition_id and sibling.id <> mine.id
                 and sibling.finished_at is null and sibling.lease_until > now())))
    limit 1
"""
