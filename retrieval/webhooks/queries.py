"""SQL of the webhook publisher and sender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, LiteralString

from sqlalchemy import Boolean, Text, and_, bindparam, case, exists, func, literal, null, or_, select, update

from retrieval.database.compiling import after_seconds, columns_of, compile_statement, equals, in_list, parameters
from retrieval.database.rows import Executor, Params
from retrieval.database.schema import webhooks, work
from retrieval.jobs.queries import progress as run_progress
from retrieval.webhooks.retry_policy import DELIVERY_LIFETIME, ENDPOINT_PATIENCE

# Advisory lock of the publisher.
_PUBLISHER_LOCK = 0x776562686F6F6B


@dataclass(frozen=True, slots=True)
class OutboxEvent:
    """Status change with its scope; `organization_id` None: deleted namespace."""

    id: int
    type: str
    lane: str | None
    data: Mapping[str, Any]
    xact: int
    at: datetime
    namespace_id: str | None
    tenant: str | None
    organization_id: str | None


@dataclass(frozen=True, slots=True)
class ActiveWebhook:
    """Active endpoint with its subscribed events."""

    id: str
    organization_id: str
    namespace_id: str | None
    tenant: str | None
    events: list[str]
    sequence: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """Delivery due now. `failing`: the endpoint's last delivery failed."""

    id: str
    webhook_id: str
    failing: bool


@dataclass(frozen=True, slots=True)
class TakenDelivery(DueDelivery):
    """Delivery leased by this sender. `previous`: former secret during the overlap."""

    event_id: str
    type: str
    body: str
    tries: int
    url: str
    secret: bytes = field(repr=False)
    previous: bytes | None = field(repr=False)


_hook: Any = webhooks.Webhook
_delivery: Any = webhooks.WebhookDelivery
_batch: Any = work.Batch
_LOCK_HOOKS = compile_statement(
    select(*columns_of(_hook, ActiveWebhook))
    .where(_hook.status == "ACTIVE", in_list(_hook.organization_id, "organizations"))
    .order_by(_hook.id)
    .with_for_update(key_share=True)
)
_attempt: dict[str, Any] = {
    "ordered": False,
    "attempts": _delivery.attempts + 1,
    "tries": _delivery.tries + 1,
    **parameters("response_status"),
}
_pending = update(_delivery).where(equals(_delivery.id), _delivery.status == "PENDING")
_RECORD_DELIVERED = compile_statement(
    _pending.values(status="DELIVERED", reason=null(), next_attempt_at=null(), **_attempt).returning(_delivery.status)
)
_has_time = func.now() < _delivery.give_up_at
_RECORD_REFUSED = compile_statement(
    _pending.values(
        status=case((_has_time, "PENDING"), else_="FAILED"),
        reason=bindparam("reason"),
        next_attempt_at=case((_has_time, func.least(after_seconds("pause"), _delivery.give_up_at))),
        **_attempt,
    ).returning(_delivery.status)
)
_is_webhook = equals(_hook.id, "webhook")
_RECORD_SUCCESS = compile_statement(
    update(_hook)
    .where(
        _is_webhook,
        or_(
            _hook.failing,
            _hook.consecutive_failures > 0,
            _hook.last_success_at.is_(None),
            _hook.alive_at < func.now() - timedelta(seconds=10),
        ),
    )
    .values(
        failing=False,
        alive_at=func.now(),
        last_success_at=func.now(),
        consecutive_failures=0,
        failures_since=null(),
        failure_reason=null(),
    )
)
_reason = bindparam("reason", type_=Text)
_is_gone = bindparam("gone", type_=Boolean)
_is_lost = and_(bindparam("failed", type_=Boolean), _hook.alive_at < func.now() - ENDPOINT_PATIENCE)
_MARK_FAILING = compile_statement(
    update(_hook)
    .where(_is_webhook)
    .values(
        failing=or_(_hook.failing, _hook.status == "ACTIVE"),
        consecutive_failures=_hook.consecutive_failures + 1,
        failures_since=func.coalesce(_hook.failures_since, func.now()),
        failure_reason=_reason,
        status=case((or_(_is_gone, _is_lost), "DISABLED"), else_=_hook.status),
        status_reason=case(
            (_hook.status != "ACTIVE", _hook.status_reason),
            (_is_gone, "The endpoint answered 410 Gone."),
            (_is_lost, literal("Nothing was taken for 24 hours. ") + _reason),
            else_=_hook.status_reason,
        ),
    )
)
_HAS_WEBHOOKS = compile_statement(select(exists(select(_hook.id))))
_IS_LISTENING = compile_statement(
    select(
        and_(
            exists(select(_hook.id).where(_hook.status == "ACTIVE")),
            exists(select(_batch.id).where(_batch.finished_at.is_(None))),
        )
    )
)


def lock_outbox(connection: Executor) -> bool:
    """Become the publisher until the transaction ends; return False if another one is active."""
    return bool(connection.fetch_one(bool, "select pg_try_advisory_xact_lock(%(lock)s)", {"lock": _PUBLISHER_LOCK}))


def take_events(connection: Executor, limit: int) -> list[OutboxEvent]:
    return connection.fetch(
        OutboxEvent,
        """
        with taken as (
            delete from webhook_outbox where id = any(array(select id from webhook_outbox order by id limit %(page)s))
            returning *
        )
        select t.id, t.type, t.lane, t.data, t.xact, t.at, p.namespace_id, p.tenant, n.organization_id from taken t
        left join partitions p on p.id = t.partition_id
        left join namespaces n on n.id = p.namespace_id and n.deleted_at is null
        order by t.id
        """,
        {"page": limit},
    )


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Outcome of a job run."""

    id: str
    outcome: str | None


def list_outcomes(connection: Executor, run_ids: Sequence[str]) -> list[RunOutcome]:
    statement: LiteralString = (
        f"select r.id, {run_progress.OUTCOME_EXPRESSION} as outcome from job_runs r"
        f"{run_progress.COUNTED_DOCUMENTS}where r.id = any(%(ids)s)"
    )
    return connection.fetch(RunOutcome, statement, {"ids": list(run_ids)})


def lock_hooks(connection: Executor, organizations: Sequence[str]) -> list[ActiveWebhook]:
    return connection.fetch(ActiveWebhook, _LOCK_HOOKS, {"organizations": list(organizations)})


def insert_deliveries(connection: Executor, columns: Mapping[str, Sequence[Any]], sequences: Mapping[str, int]) -> None:
    """Insert deliveries by column, and store the last sequence of each endpoint."""
    connection.execute(
        """
        insert into webhook_deliveries (id, webhook_id, event_id, sequence, type, namespace_id, lane, body,
                                        next_attempt_at, give_up_at)
        select id, webhook_id, event_id, sequence, type, namespace_id, lane, body, now(), now() + %(lifetime)s
        from unnest(%(id)s::text[], %(webhook_id)s::text[], %(event_id)s::text[], %(sequence)s::bigint[],
                    %(type)s::text[], %(namespace_id)s::text[], %(lane)s::text[], %(body)s::text[])
             as w (id, webhook_id, event_id, sequence, type, namespace_id, lane, body)
        """,
        {**columns, "lifetime": DELIVERY_LIFETIME},
    )
    connection.execute(
        "update webhooks h set sequence = w.sequence"
        " from unnest(%(ids)s::text[], %(sequences)s::bigint[]) as w (id, sequence) where h.id = w.id",
        {"ids": list(sequences), "sequences": list(sequences.values())},
    )


# One index probe per endpoint with waiting deliveries. The conditions on earlier deliveries are
# split so that each is an index probe.
_LIST_DUE: LiteralString = """
    with recursive hooks as (
        (select webhook_id from webhook_deliveries where status = 'PENDING' order by webhook_id limit 1)
        union all
        select (select d.webhook_id from webhook_deliveries d
                where d.status = 'PENDING' and d.webhook_id > hooks.webhook_id order by d.webhook_id limit 1)
        from hooks where hooks.webhook_id is not null
    )
    select d.id, d.webhook_id, h.failing from hooks join webhooks h on h.id = hooks.webhook_id cross join lateral (
        select d.id, d.webhook_id, d.next_attempt_at from webhook_deliveries d
        where d.webhook_id = h.id and d.status = 'PENDING' and d.next_attempt_at <= now()
          and (h.status = 'ACTIVE' or d.type = 'WEBHOOK_TEST')
          and not (d.ordered and (
              exists (select from webhook_deliveries e
                      where e.webhook_id = d.webhook_id and e.status = 'PENDING' and e.ordered
                        and e.lane = d.lane and e.sequence < d.sequence)
              or exists (select from webhook_deliveries e
                         where e.webhook_id = d.webhook_id and e.status = 'PENDING' and e.ordered
                           and e.lane is null and e.sequence < d.sequence)
              or d.lane is null and exists (
                  select from webhook_deliveries e
                  where e.webhook_id = d.webhook_id and e.status = 'PENDING' and e.ordered
                    and e.sequence < d.sequence)))
        order by d.next_attempt_at, d.sequence limit case when h.failing then 1 else %(each)s end
    ) d
    where h.id <> all(%(full)s) order by h.failing, d.next_attempt_at limit %(limit)s
"""


def list_due(db: Executor, *, full: Sequence[str], each: int, limit: int) -> list[DueDelivery]:
    """Return due deliveries, at most `each` per endpoint and none of `full` endpoints."""
    return db.fetch(DueDelivery, _LIST_DUE, {"full": list(full), "each": each, "limit": limit})


def take_deliveries(db: Executor, delivery_ids: Sequence[str], lease: float) -> list[TakenDelivery]:
    """Lease deliveries for `lease` seconds."""
    return db.fetch(
        TakenDelivery,
        """
        update webhook_deliveries d set next_attempt_at = now() + make_interval(secs => %(lease)s)
        from webhooks h
        where h.id = d.webhook_id and d.id = any(array(
            select id from webhook_deliveries
            where id = any(%(ids)s) and status = 'PENDING' and next_attempt_at <= now() for update skip locked
        ))
        returning d.id, d.webhook_id, d.event_id, d.type, d.body, d.tries, h.url, h.failing, h.secret,
                  case when h.previous_until > now() then h.previous end as previous
        """,
        {"ids": list(delivery_ids), "lease": lease},
    )


def record_delivered(db: Executor, values: Params) -> None:
    """Record a successful delivery, then its endpoint."""
    # Two transactions: a DELETE of the webhook locks the rows in the opposite order.
    if db.fetch(str, _RECORD_DELIVERED, values):
        db.execute(_RECORD_SUCCESS, values)


def record_refused(db: Executor, values: Params) -> str | None:
    """Record a failed attempt and return the new status; FAILED after the deadline, None if already decided."""
    return db.fetch_one(str, _RECORD_REFUSED, values)


def mark_failing(db: Executor, values: Params) -> None:
    """Record a failed attempt of the endpoint; disable it if `gone` or after ENDPOINT_PATIENCE without success."""
    db.execute(_MARK_FAILING, values)


def is_listening(db: Executor) -> bool:
    """Return True for active endpoints while a worker may change documents without a notification."""
    return bool(db.fetch_one(bool, _IS_LISTENING, {}))


def has_webhooks(db: Executor) -> bool:
    return bool(db.fetch_one(bool, _HAS_WEBHOOKS, {}))
