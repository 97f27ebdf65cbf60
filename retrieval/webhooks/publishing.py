"""From the outbox to deliveries: what changed becomes an event for each endpoint that hears of it.

One publisher works at a time, in the order of the outbox, and counts events for each endpoint: what was committed
before is numbered before, whichever transaction drew its number first.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import Connection

from retrieval import ids
from retrieval.database.database import Database, Row
from retrieval.jobs import outcome
from retrieval.jobs import progress as run_progress
from retrieval.webhooks import events, feeds

PAGE = 500
_LOCK = 0x776562686F6F6B
"""Of the publisher, among advisory locks of the database."""

_BEGINNINGS = frozenset({"INGEST_JOB_RUN_QUEUED", "INGEST_JOB_RUN_PRE_PROCESSING", "INGEST_JOB_RUN_PROCESSING"})

_TAKE: LiteralString = """
    with taken as (
        delete from webhook_outbox where id = any(array(select id from webhook_outbox order by id limit %(page)s))
        returning *
    )
    select t.*, p.namespace_id, p.tenant, n.organization_id from taken t
    left join partitions p on p.id = t.partition_id
    left join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    order by t.id
"""
_ENDS: LiteralString = (
    "select r.id, "
    + outcome.OUTCOME
    + " as outcome from job_runs r"
    + run_progress.COUNTED
    + "where r.id = any(%(ids)s)"
)
_HOOKS: LiteralString = """
    select id, organization_id, namespace_id, tenant, events, sequence, created_at,
           created_at > now() + interval '1 minute' as is_older
    from webhooks
    where status = 'ACTIVE' and organization_id = any(%(organizations)s) order by id for no key update
"""
"""`is_older`: than PostgreSQL's clock, which went back since; `maintenance.clock` sets it right."""
_INSERT: LiteralString = """
    insert into webhook_deliveries (id, webhook_id, event_id, sequence, type, namespace_id, lane, body, next_attempt_at,
                                    give_up_at)
    select id, webhook_id, event_id, sequence, type, namespace_id, lane, body, now(), now() + interval '1 day'
    from unnest(%(id)s::text[], %(webhook_id)s::text[], %(event_id)s::text[], %(sequence)s::bigint[], %(type)s::text[],
                %(namespace_id)s::text[], %(lane)s::text[], %(body)s::text[])
         as w (id, webhook_id, event_id, sequence, type, namespace_id, lane, body)
"""
_COUNT: LiteralString = """
    update webhooks h set sequence = w.sequence
    from unnest(%(ids)s::text[], %(sequences)s::bigint[]) as w (id, sequence) where h.id = w.id
"""


def publish(db: Database) -> int:
    """Publish a page of the outbox; how many of its rows were taken, 0 while another publisher is at work."""
    with db.transaction() as connection:
        held = connection.execute("select pg_try_advisory_xact_lock(%(lock)s) as held", {"lock": _LOCK}).fetchone()
        if held is None or not held["held"]:
            return 0
        rows = connection.execute(_TAKE, {"page": PAGE}).fetchall()
        known = _in_order([row for row in rows if row["organization_id"] is not None])
        if known:
            _deliver(connection, known)
    return len(rows)


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """As they were written, but that a job run begins before what its transaction says of its documents."""
    firsts: dict[Any, int] = {}
    for row in rows:
        firsts.setdefault((row["xact"], row["lane"]), row["id"])

    def place(row: Row) -> tuple[int, bool, int]:
        begins = row["type"] in _BEGINNINGS
        return (firsts[row["xact"], row["lane"]] if begins else row["id"]), not begins, row["id"]

    return sorted(rows, key=place)


def _deliver(connection: Connection[Row], rows: Sequence[Row]) -> None:
    organizations = list({row["organization_id"] for row in rows})
    hooks = connection.execute(_HOOKS, {"organizations": organizations}).fetchall()
    outcomes = _outcomes(connection, rows)
    sequences = {hook["id"]: hook["sequence"] for hook in hooks}
    made: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        event_id, data = ids.webhook_event_id(), _data(row, outcomes)
        for hook in hooks:
            if not _hears(hook, row):
                continue
            sequences[hook["id"]] += 1
            delivery = {
                "id": ids.webhook_delivery_id(),
                "webhook_id": hook["id"],
                "event_id": event_id,
                "sequence": sequences[hook["id"]],
                "type": row["type"],
                "namespace_id": row["namespace_id"],
                "lane": row["lane"],
                "body": events.body(row["type"], row["at"], {**data, "sequence": sequences[hook["id"]]}),
            }
            for name, value in delivery.items():
                made[name].append(value)
    if made:
        connection.execute(_INSERT, made)
        connection.execute(_COUNT, {"ids": list(sequences), "sequences": list(sequences.values())})
    feeds.keep(connection, [(row["type"], json.dumps(_data(row, outcomes)), row["at"]) for row in rows])


def _outcomes(connection: Connection[Row], rows: Sequence[Row]) -> dict[str, str | None]:
    ended = [row["lane"] for row in rows if row["type"] == "INGEST_JOB_RUN_COMPLETED"]
    found = connection.execute(_ENDS, {"ids": ended}).fetchall() if ended else []
    return {row["id"]: row["outcome"] for row in found}


def _hears(hook: Row, row: Row) -> bool:
    return bool(
        hook["organization_id"] == row["organization_id"]
        and hook["namespace_id"] in {None, row["namespace_id"]}
        and hook["tenant"] in {None, row["tenant"]}
        and (hook["created_at"] <= row["at"] or hook["is_older"])
        and (events.EVERY in hook["events"] or row["type"] in hook["events"])
    )


def _data(row: Row, outcomes: dict[str, str | None]) -> dict[str, Any]:
    scope = events.scope(row["organization_id"], row["namespace_id"], row["tenant"])
    ended = {"outcome": outcomes.get(row["lane"])} if row["type"] == "INGEST_JOB_RUN_COMPLETED" else {}
    return {**scope, **row["data"], **ended}
