"""Publish events to webhook endpoints and send due deliveries concurrently.

Senders share deliveries by row locks and leases. Within a lane (a job run, a connection) only the oldest untried
delivery is sent; deletions wait for the first attempts of all earlier deliveries.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import httpcore
import httpx
import structlog

from retrieval import ids
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.database.rows import Executor
from retrieval.network.fetch_guard import BlockedAddress, Guard
from retrieval.network.transport import Transport, limit_time
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.webhooks import endpoints, events, queries, queries_feed, retry_policy, signing
from retrieval.webhooks.queries import ActiveWebhook, DueDelivery, OutboxEvent, TakenDelivery

OUTBOX_PAGE_SIZE = 500
_RUN_START_EVENTS = frozenset({"INGEST_JOB_RUN_QUEUED", "INGEST_JOB_RUN_PRE_PROCESSING", "INGEST_JOB_RUN_PROCESSING"})


def publish_outbox(db: Database) -> int:
    """Publish a page of the outbox; return the number of events, 0 if another publisher is active."""
    with db.transaction() as connection:
        if not queries.lock_outbox(connection):
            return 0
        rows = queries.take_events(connection, OUTBOX_PAGE_SIZE)
        ordered_rows = _sort_events([row for row in rows if row.organization_id is not None])
        if ordered_rows:
            _insert_deliveries(connection, ordered_rows)
    return len(rows)


def _sort_events(rows: Sequence[OutboxEvent]) -> list[OutboxEvent]:
    """Sort events as written, with the start of a job run before its documents."""
    firsts: dict[tuple[int, str | None], int] = {}
    for row in rows:
        firsts.setdefault((row.xact, row.lane), row.id)

    def sort_key(row: OutboxEvent) -> tuple[int, bool, int]:
        is_start = row.type in _RUN_START_EVENTS
        return (firsts[row.xact, row.lane] if is_start else row.id), not is_start, row.id

    return sorted(rows, key=sort_key)


def _insert_deliveries(connection: Executor, rows: Sequence[OutboxEvent]) -> None:
    hooks = queries.lock_hooks(connection, list({str(row.organization_id) for row in rows}))
    ended = [str(row.lane) for row in rows if row.type == "INGEST_JOB_RUN_COMPLETED"]
    outcomes = {run.id: run.outcome for run in queries.list_outcomes(connection, ended)} if ended else {}
    sequences = {hook.id: hook.sequence for hook in hooks}
    columns: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        event_id, data = ids.webhook_event_id(), _event_data(row, outcomes)
        for hook in hooks:
            if not _is_subscribed(hook, row):
                continue
            sequences[hook.id] += 1
            delivery = {
                "id": ids.webhook_delivery_id(),
                "webhook_id": hook.id,
                "event_id": event_id,
                "sequence": sequences[hook.id],
                "type": row.type,
                "namespace_id": row.namespace_id,
                "lane": row.lane,
                "body": events.event_body(row.type, row.at, {**data, "sequence": sequences[hook.id]}),
            }
            for name, value in delivery.items():
                columns[name].append(value)
    if columns:
        queries.insert_deliveries(connection, columns, sequences)
    queries_feed.keep_events(connection, [(row.type, json.dumps(_event_data(row, outcomes)), row.at) for row in rows])


def _is_subscribed(hook: ActiveWebhook, row: OutboxEvent) -> bool:
    return (
        hook.organization_id == row.organization_id
        and hook.namespace_id in {None, row.namespace_id}
        and hook.tenant in {None, row.tenant}
        and hook.created_at <= row.at
        and (events.EVERY_EVENT in hook.events or row.type in hook.events)
    )


def _event_data(row: OutboxEvent, outcomes: Mapping[str, str | None]) -> dict[str, Any]:
    scope = events.event_scope(str(row.organization_id), row.namespace_id, row.tenant)
    ended = {"outcome": outcomes.get(str(row.lane))} if row.type == "INGEST_JOB_RUN_COMPLETED" else {}
    return {**scope, **row.data, **ended}


log = structlog.get_logger()

# Per request, including the status of the response.
REQUEST_TIMEOUT_SECONDS = 10.0
SENDER_THREADS = 16
# Concurrent requests per endpoint; one while it fails.
REQUESTS_PER_ENDPOINT = 4
# Threads for failing endpoints.
FAILING_ENDPOINT_THREADS = SENDER_THREADS // 2
# After this time without a result, another sender retries the delivery.
LEASE_SECONDS = 20.0


class Sender:
    """Thread pool of deliveries. `wake` is called from a thread after each delivery."""

    def __init__(
        self, db: Database, keys: Callable[[], KeyRing], guard: Guard, wake: Callable[[], None] = lambda: None
    ) -> None:
        self._db, self._keys, self._guard, self._wake = db, keys, guard, wake
        self._threads = ThreadPoolExecutor(SENDER_THREADS, thread_name_prefix="webhook")
        limits = httpx.Limits(
            max_connections=2 * SENDER_THREADS, max_keepalive_connections=SENDER_THREADS, keepalive_expiry=5
        )
        self._transport = Transport(guard, limits=limits)
        self._lock = Lock()
        self._busy: Counter[str] = Counter()
        self._failing = 0

    def begin(self) -> bool:
        """Publish the outbox and start due deliveries; return True if more work may wait."""
        published = publish_outbox(self._db)
        return bool(self._assign()) or published >= OUTBOX_PAGE_SIZE

    def listening(self) -> bool:
        """Return True if events may occur without a notification: an endpoint is active, and a worker is busy."""
        return queries.is_listening(self._db)

    def is_needed(self) -> bool:
        """Return True if an endpoint exists."""
        return queries.has_webhooks(self._db)

    def idle(self) -> bool:
        with self._lock:
            return not self._busy

    def close(self) -> None:
        """Stop new deliveries; interrupted ones are sent again."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._transport.close()

    def _assign(self) -> int:
        with self._lock:
            free, doubtful = SENDER_THREADS - self._busy.total(), FAILING_ENDPOINT_THREADS - self._failing
            full = [hook for hook, count in self._busy.items() if count >= REQUESTS_PER_ENDPOINT]
        if free <= 0:
            return 0
        due = queries.list_due(self._db, full=full, each=REQUESTS_PER_ENDPOINT, limit=4 * SENDER_THREADS)
        chosen = self._choose(due, free, doubtful)
        deliveries = queries.take_deliveries(self._db, chosen, LEASE_SECONDS) if chosen else []
        for row in deliveries:
            with self._lock:
                self._busy[row.webhook_id] += 1
                self._failing += row.failing
            self._threads.submit(self._send, row)
        return len(deliveries)

    def _choose(self, due: Sequence[DueDelivery], free: int, doubtful: int) -> list[str]:
        chosen: list[str] = []
        with self._lock:
            counts = Counter(self._busy)
        for row in due:
            if len(chosen) >= free or counts[row.webhook_id] >= (1 if row.failing else REQUESTS_PER_ENDPOINT):
                continue
            if row.failing:
                if doubtful <= 0:
                    continue
                doubtful -= 1
            counts[row.webhook_id] += 1
            chosen.append(row.id)
        return chosen

    def _send(self, row: TakenDelivery) -> None:
        try:
            self._record(row, *self._post(row))
        except UNAVAILABLE_ERRORS as error:
            log.warning("webhook.not_recorded", delivery=row.id, reason=type(error).__name__)
        except Exception:
            log.exception("webhook.failed", delivery=row.id)
        finally:
            with self._lock:
                self._busy[row.webhook_id] -= 1
                self._busy += Counter()
                self._failing -= row.failing
            self._wake()

    def _post(self, row: TakenDelivery) -> tuple[int | None, str]:
        """Return the response status, None without a response, and the failure reason."""
        content = row.body.encode()
        try:
            keys = endpoints.open_secrets(self._keys(), row.webhook_id, row.secret, row.previous)
            headers = signing.sign_headers(keys, row.event_id, int(time.time()), content)
            headers |= {"Content-Type": "application/json", "User-Agent": "retrieval-webhooks/1"}
            with limit_time(REQUEST_TIMEOUT_SECONDS):
                if not row.url.lower().startswith("https://"):
                    endpoints.check_url(self._guard, row.url)
                timeouts = dict.fromkeys(("connect", "read", "write", "pool"), REQUEST_TIMEOUT_SECONDS)
                request = httpx.Request(
                    "POST", row.url, content=content, headers=headers, extensions={"timeout": timeouts}
                )
                with contextlib.closing(self._transport.handle_request(request)) as answer:
                    return answer.status_code, f"The endpoint answered {answer.status_code}."
        except BlockedAddress as error:
            return None, str(error)
        except (httpx.TimeoutException, httpcore.TimeoutException):
            return None, f"The endpoint did not answer within {REQUEST_TIMEOUT_SECONDS:.0f} s."
        except SecretError:
            return None, "The secret of the webhook cannot be opened: rotate it."
        except Exception as error:  # noqa: BLE001 - whatever it is, it was not taken
            return None, f"The endpoint cannot be reached ({type(error).__name__})."

    def _record(self, row: TakenDelivery, status: int | None, reason: str) -> None:
        about = {"id": row.id, "webhook": row.webhook_id, "response_status": status, "reason": reason}
        if status is not None and 200 <= status < 300:
            queries.record_delivered(self._db, about)
            return
        delivery_status = queries.record_refused(self._db, {**about, "pause": retry_policy.retry_pause(row.tries)})
        if delivery_status is not None:
            queries.mark_failing(self._db, {**about, "gone": status == 410, "failed": delivery_status == "FAILED"})
            log.info("webhook.not_taken", webhook_id=row.webhook_id, delivery=row.id, status=status)
