"""Publish events to webhook endpoints, and send due deliveries concurrently; senders share the work by row locks.

Who takes a delivery puts off its next attempt, so that it is tried again soon if the sender dies. Of one lane (a job
run, a connection) only the oldest that was never tried is taken: order holds while deliveries succeed. Deletions wait
for first attempts of all before them.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, LiteralString

import httpcore
import httpx
import structlog
from psycopg import Connection

from retrieval import ids
from retrieval.database.database import AWAY, Database, Row
from retrieval.jobs import run_outcome
from retrieval.jobs.queries import progress as run_progress
from retrieval.network.fetch_guard import Blocked, Guard
from retrieval.network.transport import Transport, within
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.webhooks import endpoints, events, signatures

PAGE = 500
_LOCK = 0x776562686F6F6B
"""Of the publisher, among advisory locks of the database."""

_BEGINNINGS = frozenset({"INGEST_JOB_RUN_QUEUED", "INGEST_JOB_RUN_PRE_PROCESSING", "INGEST_JOB_RUN_PROCESSING"})

_TAKE_EVENTS: LiteralString = """
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
    + run_outcome.OUTCOME
    + " as outcome from job_runs r"
    + run_progress.COUNTED
    + "where r.id = any(%(ids)s)"
)
_HOOKS: LiteralString = """
    select id, organization_id, namespace_id, tenant, events, sequence, created_at from webhooks
    where status = 'ACTIVE' and organization_id = any(%(organizations)s) order by id for no key update
"""
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
        lock_row = connection.execute("select pg_try_advisory_xact_lock(%(lock)s) as held", {"lock": _LOCK}).fetchone()
        if lock_row is None or not lock_row["held"]:
            return 0
        rows = connection.execute(_TAKE_EVENTS, {"page": PAGE}).fetchall()
        ordered_rows = _in_order([row for row in rows if row["organization_id"] is not None])
        if ordered_rows:
            _deliver(connection, ordered_rows)
    return len(rows)


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """Order events as they were written, with the start of a job run before its documents' events."""
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
    columns: dict[str, list[Any]] = defaultdict(list)
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
                columns[name].append(value)
    if columns:
        connection.execute(_INSERT, columns)
        connection.execute(_COUNT, {"ids": list(sequences), "sequences": list(sequences.values())})
    events.keep(connection, [(row["type"], json.dumps(_data(row, outcomes)), row["at"]) for row in rows])


def _outcomes(connection: Connection[Row], rows: Sequence[Row]) -> dict[str, str | None]:
    ended = [row["lane"] for row in rows if row["type"] == "INGEST_JOB_RUN_COMPLETED"]
    outcomes = connection.execute(_ENDS, {"ids": ended}).fetchall() if ended else []
    return {row["id"]: row["outcome"] for row in outcomes}


def _hears(hook: Row, row: Row) -> bool:
    return bool(
        hook["organization_id"] == row["organization_id"]
        and hook["namespace_id"] in {None, row["namespace_id"]}
        and hook["tenant"] in {None, row["tenant"]}
        and hook["created_at"] <= row["at"]
        and (events.EVERY in hook["events"] or row["type"] in hook["events"])
    )


def _data(row: Row, outcomes: dict[str, str | None]) -> dict[str, Any]:
    scope = events.scope(row["organization_id"], row["namespace_id"], row["tenant"])
    ended = {"outcome": outcomes.get(row["lane"])} if row["type"] == "INGEST_JOB_RUN_COMPLETED" else {}
    return {**scope, **row["data"], **ended}


log = structlog.get_logger()

SECONDS = 10.0
"""For one request, its answer's status included."""
THREADS = 16
EACH = 4
"""Requests to one endpoint at a time; one while it fails."""
DOUBTFUL = THREADS // 2
"""Threads at most for endpoints that fail."""
LEASE = 20.0
"""Seconds after which another sender tries what this one has taken and not told about."""
SCHEDULE = (5, 30, 120, 600, 3600)
LATER = 6 * 3600
"""Seconds between attempts: those of the schedule, then always so many, until a day is over."""

_DUE: LiteralString = """
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
    where h.id <> all(%(full)s) order by h.failing, d.next_attempt_at limit %(most)s
"""
"""By endpoints for which anything waits, one probe of the index for each, however many endpoints there are. What a
delivery waits for is asked in parts, so that each is a probe of the index, too, however many deliveries there are."""
_TAKE: LiteralString = """
    update webhook_deliveries d set next_attempt_at = now() + make_interval(secs => %(lease)s)
    from webhooks h
    where h.id = d.webhook_id and d.id = any(array(
        select id from webhook_deliveries where id = any(%(ids)s) and status = 'PENDING' and next_attempt_at <= now()
        for update skip locked
    ))
    returning d.id, d.webhook_id, d.event_id, d.type, d.body, d.tries, h.url, h.failing, h.secret,
              case when h.previous_until > now() then h.previous end as previous
"""
_TAKEN: LiteralString = """
    update webhook_deliveries set status = 'DELIVERED', ordered = false, attempts = attempts + 1, tries = tries + 1,
        response_status = %(status)s, reason = null, next_attempt_at = null
    where id = %(id)s and status = 'PENDING' returning status
"""
_ALIVE: LiteralString = """
    update webhooks set failing = false, alive_at = now()
    where id = %(webhook)s and (failing or alive_at < now() - interval '10 seconds')
"""
_REFUSED: LiteralString = """
    update webhook_deliveries set ordered = false, attempts = attempts + 1, tries = tries + 1,
        response_status = %(status)s, reason = %(reason)s,
        status = case when now() >= give_up_at then 'FAILED' else 'PENDING' end,
        next_attempt_at = case when now() < give_up_at
            then least(now() + make_interval(secs => %(pause)s), give_up_at) end
    where id = %(id)s and status = 'PENDING' returning status
"""
_FAILING: LiteralString = """
    update webhooks set failing = true,
        status = case when %(gone)s or (%(failed)s and alive_at < now() - interval '24 hours')
            then 'DISABLED' else status end,
        status_reason = case
            when %(gone)s then 'The endpoint answered 410 Gone.'
            when %(failed)s and alive_at < now() - interval '24 hours'
                then 'Nothing was taken for 24 hours. ' || %(reason)s::text
            else status_reason end
    where id = %(webhook)s and status = 'ACTIVE' and (not failing or %(gone)s or %(failed)s)
"""
_LISTENING: LiteralString = (
    "select exists (select from webhooks where status = 'ACTIVE')"
    " and exists (select from batches where finished_at is null) as yes"
)


class Sender:
    """Threads that send. `wake` is called, from a thread of its own, whenever one is free again."""

    def __init__(
        self, db: Database, keys: Callable[[], KeyRing], guard: Guard, wake: Callable[[], None] = lambda: None
    ) -> None:
        self._db, self._keys, self._guard, self._wake = db, keys, guard, wake
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="webhook")
        limits = httpx.Limits(max_connections=2 * THREADS, max_keepalive_connections=THREADS, keepalive_expiry=5)
        self._transport = Transport(guard, limits=limits)
        self._lock = Lock()
        self._busy: Counter[str] = Counter()
        self._failing = 0

    def begin(self) -> bool:
        """Publish what is in the outbox and begin on what is due; whether there may be more to do at once."""
        published = publish(self._db)
        return bool(self._assign()) or published >= PAGE

    def listening(self) -> bool:
        """Tell whether any endpoint is on while a worker may change something without a notification."""
        row = self._db.row(_LISTENING)
        return bool(row and row["yes"])

    def is_needed(self) -> bool:
        """Tell whether there is any endpoint."""
        return bool(self._db.rows("select 1 from webhooks limit 1"))

    def idle(self) -> bool:
        with self._lock:
            return not self._busy

    def close(self) -> None:
        """Begin nothing more. What is being sent ends by itself, or is sent again."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._transport.close()

    def _assign(self) -> int:
        with self._lock:
            free, doubtful = THREADS - self._busy.total(), DOUBTFUL - self._failing
            full = [hook for hook, count in self._busy.items() if count >= EACH]
        if free <= 0:
            return 0
        due = self._db.rows(_DUE, {"full": full, "each": EACH, "most": 4 * THREADS})
        chosen = self._choose(due, free, doubtful)
        deliveries = self._db.rows(_TAKE, {"ids": chosen, "lease": LEASE}) if chosen else []
        for row in deliveries:
            with self._lock:
                self._busy[row["webhook_id"]] += 1
                self._failing += row["failing"]
            self._threads.submit(self._send, row)
        return len(deliveries)

    def _choose(self, due: Sequence[Row], free: int, doubtful: int) -> list[str]:
        chosen: list[str] = []
        with self._lock:
            counts = Counter(self._busy)
        for row in due:
            if len(chosen) >= free or counts[row["webhook_id"]] >= (1 if row["failing"] else EACH):
                continue
            if row["failing"]:
                if doubtful <= 0:
                    continue
                doubtful -= 1
            counts[row["webhook_id"]] += 1
            chosen.append(row["id"])
        return chosen

    def _send(self, row: Row) -> None:
        try:
            self._record(row, *self._post(row))
        except AWAY as error:
            log.warning("webhook.not_recorded", delivery=row["id"], reason=type(error).__name__)
        except Exception:
            log.exception("webhook.failed", delivery=row["id"])
        finally:
            with self._lock:
                self._busy[row["webhook_id"]] -= 1
                self._busy += Counter()
                self._failing -= row["failing"]
            self._wake()

    def _post(self, row: Row) -> tuple[int | None, str]:
        """The status of the answer, None without one, and why it was not taken."""
        content = row["body"].encode()
        try:
            keys = endpoints.secrets_of(self._keys(), row)
            headers = signatures.headers(keys, row["event_id"], int(time.time()), content)
            headers |= {"Content-Type": "application/json", "User-Agent": "retrieval-webhooks/1"}
            with within(SECONDS):
                if not row["url"].lower().startswith("https://"):
                    endpoints.check(self._guard, row["url"])
                timeouts = dict.fromkeys(("connect", "read", "write", "pool"), SECONDS)
                request = httpx.Request(
                    "POST", row["url"], content=content, headers=headers, extensions={"timeout": timeouts}
                )
                with contextlib.closing(self._transport.handle_request(request)) as answer:
                    return answer.status_code, f"The endpoint answered {answer.status_code}."
        except Blocked as error:
            return None, str(error)
        except (httpx.TimeoutException, httpcore.TimeoutException):
            return None, f"The endpoint did not answer within {SECONDS:.0f} s."
        except SecretError:
            return None, "The secret of the webhook cannot be opened: rotate it."
        except Exception as error:  # noqa: BLE001 - whatever it is, it was not taken
            return None, f"The endpoint cannot be reached ({type(error).__name__})."

    def _record(self, row: Row, status: int | None, reason: str) -> None:
        """First the delivery, then its endpoint, a transaction each: a DELETE locks them the other way round."""
        about = {"id": row["id"], "webhook": row["webhook_id"], "status": status, "reason": reason}
        if status is not None and 200 <= status < 300:
            if self._db.rows(_TAKEN, about):
                self._db.rows(_ALIVE, about)
            return
        pause = SCHEDULE[row["tries"]] if row["tries"] < len(SCHEDULE) else LATER
        refused = self._db.rows(_REFUSED, {**about, "pause": pause})
        if refused:
            failed = refused[0]["status"] == "FAILED"
            self._db.rows(_FAILING, {**about, "gone": status == 410, "failed": failed})
            log.info("webhook.not_taken", webhook_id=row["webhook_id"], delivery=row["id"], status=status)
