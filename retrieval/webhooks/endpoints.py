"""Webhook endpoints of clients: create, list and change them, their secrets, and the addresses they may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from retrieval import ids
from retrieval.database import pagination
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.rows import Params
from retrieval.errors import ErrorCode, Retryable, ServiceError
from retrieval.jobs.run_health import Health
from retrieval.namespaces import namespaces
from retrieval.network import service_urls
from retrieval.network.fetch_guard import BlockedAddress, Guard, parse_host_port
from retrieval.security.secrets import KeyRing
from retrieval.webhooks import signing


def require_url(guard: Guard, url: str) -> None:
    """INVALID_REQUEST unless it is https to an address that the guard lets through, or http to an allowed range.

    Looks its host up, so it blocks. A name that cannot be looked up now is let in: it is checked when dialled.
    """
    try:
        service_urls.require_url(url, ("https", "http"))
    except ValueError as error:
        raise _refused(f"url {error}.") from error
    try:
        check_url(guard, url)
    except BlockedAddress as error:
        raise _refused(str(error)) from error
    except Retryable:
        return


def check_url(guard: Guard, url: str) -> None:
    """Blocked, with the reason, if it may not be dialled; Retryable if its host cannot be looked up now."""
    guard.check_url(url)
    host, port = parse_host_port(url)
    if url.lower().startswith("http://") and not guard.allows_plainly(host, port):
        raise BlockedAddress(
            "The address must begin with https://; http:// is for ranges that RETRIEVAL_FETCH_ALLOW names."
        )


def _refused(message: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_REQUEST, message, field="url", reason="not_allowed")


MOST = 50
"""Webhooks of an organization."""
OVERLAP_HOURS = 720
"""For which a former secret may count at most."""
UNSET = "\x00"
"""For `change`: leave the description as it is."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Which webhooks a request may see: all of the organization, or those of one namespace, of one tenant."""

    organization: str
    namespace: str | None = None
    tenant: str | None = None

    def values(self) -> dict[str, str | None]:
        return {"organization": self.organization, "namespace": self.namespace, "tenant": self.tenant}


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint without its secret. No namespace, no tenant: it hears of all of them."""

    id: str
    url: str
    events: list[str]
    namespace_id: str | None
    tenant: str | None
    description: str | None
    status: str
    status_reason: str | None
    created_at: datetime
    last_success_at: datetime | None
    failures_since: datetime | None
    consecutive_failures: int
    failure_reason: str | None
    next_attempt_at: datetime | None

    @property
    def health(self) -> Health:
        outcome = "FAILED" if self.consecutive_failures else "DELIVERED" if self.last_success_at else None
        return Health(
            last_outcome=outcome,
            last_success_at=self.last_success_at,
            failures_since=self.failures_since,
            consecutive_failures=self.consecutive_failures,
            reason=self.failure_reason,
            next_attempt_at=self.next_attempt_at,
        )


COLUMNS: LiteralString = (
    "id, url, events, namespace_id, tenant, description, status, status_reason, created_at, last_success_at,"
    " failures_since, consecutive_failures, failure_reason, case when status = 'ACTIVE' then (select"
    " min(d.next_attempt_at) from webhook_deliveries d where d.webhook_id = webhooks.id and d.status = 'PENDING') end"
    " as next_attempt_at"
)
WITHIN: LiteralString = (
    "organization_id = %(organization)s and (%(namespace)s::text is null or namespace_id = %(namespace)s)"
    " and (%(tenant)s::text is null or tenant = %(tenant)s)"
)
_ONE: LiteralString = WITHIN + " and id = %(id)s"


async def create(
    db: Database,
    ring: KeyRing,
    reach: Reach,
    *,
    url: str,
    events: Sequence[str],
    description: str | None,
) -> tuple[Webhook, str]:
    """A webhook that hears of what `reach` spans, and its secret. NAMESPACE_NOT_FOUND; INVALID_REQUEST beyond 50."""
    if reach.namespace is not None:
        await namespaces.require_namespace(db, reach.organization, reach.namespace)
    webhook_id, secret = ids.webhook_id(), signing.create_secret()
    values: Params = {**reach.values(), "id": webhook_id, "url": url, "events": list(dict.fromkeys(events))}
    values |= {"description": description, "secret": ring.seal(secret.encode(), row=row_name(webhook_id)), "most": MOST}
    async with db.async_together():
        await db.async_execute("select id from organizations where id = %(organization)s for no key update", values)
        webhook = await db.async_fetch_one(
            Webhook,
            "insert into webhooks (id, organization_id, namespace_id, tenant, url, events, description, secret)"
            " select %(id)s, %(organization)s, %(namespace)s, %(tenant)s, %(url)s, %(events)s, %(description)s,"
            " %(secret)s where (select count(*) from webhooks where organization_id = %(organization)s) < %(most)s"
            " returning " + COLUMNS,
            values,
        )
    if webhook is None:
        message = f"An organization has {MOST} webhooks at most: delete one first."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, reason="webhook_limit")
    return webhook, secret


async def list_part(db: Database, reach: Reach, part: PageRequest | None = None) -> Page[Webhook]:
    """Newest first, or a part of it."""
    statement: LiteralString = "select " + COLUMNS + " from webhooks where " + WITHIN + pagination.order_desc()
    webhooks = await db.async_fetch(Webhook, statement, {**reach.values(), **pagination.page_params(part)})
    return pagination.cut_page(webhooks, part)


async def get(db: Database, reach: Reach, webhook_id: str) -> Webhook:
    """WEBHOOK_NOT_FOUND if it is not within reach."""
    return await _one(db, "select " + COLUMNS + " from webhooks where " + _ONE, reach, webhook_id)


async def change(
    db: Database,
    reach: Reach,
    webhook_id: str,
    *,
    url: str | None = None,
    events: Sequence[str] | None = None,
    description: str | None = UNSET,
    status: str | None = None,
) -> Webhook:
    """Change an endpoint; None leaves a field as it is. ACTIVE restarts it: waiting deliveries are tried at once, for a
    day."""
    values: Params = {
        "url": url,
        "events": None if events is None else list(dict.fromkeys(events)),
        "description": description,
        "keep": description == UNSET,
        "status": status,
    }
    if description == UNSET:
        values["description"] = None
    async with db.async_together():
        changed = await _one(
            db,
            "update webhooks set url = coalesce(%(url)s, url), events = coalesce(%(events)s, events),"
            " description = case when %(keep)s then description else %(description)s end,"
            " status_reason = case when coalesce(%(status)s, status) = status then status_reason"
            " when %(status)s = 'DISABLED' then 'Switched off by a request.' end,"
            " failing = failing and coalesce(%(status)s, '') <> 'ACTIVE',"
            " alive_at = case when %(status)s = 'ACTIVE' then now() else alive_at end,"
            # Outcomes of another address say nothing of this one.
            + _reset("last_success_at", "failures_since", "failure_reason", "consecutive_failures")
            + " status = coalesce(%(status)s, status) where "
            + _ONE
            + " returning "
            + COLUMNS,
            reach,
            webhook_id,
            values,
        )
        if status == "ACTIVE":
            await db.async_execute(
                "update webhook_deliveries set next_attempt_at = now(), give_up_at = now() + interval '1 day',"
                " tries = 0 where webhook_id = %(id)s and status = 'PENDING' and tries > 0",
                {"id": webhook_id},
            )
    return changed


async def delete(db: Database, reach: Reach, webhook_id: str) -> Webhook:
    """With all that waits for it."""
    return await _one(db, "delete from webhooks where " + _ONE + " returning " + COLUMNS, reach, webhook_id)


async def rotate_secret(
    db: Database, ring: KeyRing, reach: Reach, webhook_id: str, overlap_hours: float
) -> tuple[Webhook, str]:
    """A new secret; requests are signed with the former one too for so many hours."""
    secret = signing.create_secret()
    rotated = await _one(
        db,
        "update webhooks set secret = %(secret)s, previous = case when %(hours)s > 0 then secret end,"
        " previous_until = now() + make_interval(secs => %(hours)s * 3600) where " + _ONE + " returning " + COLUMNS,
        reach,
        webhook_id,
        {"secret": ring.seal(secret.encode(), row=row_name(webhook_id)), "hours": float(overlap_hours)},
    )
    return rotated, secret


def open_secrets(ring: KeyRing, webhook_id: str, *sealed_secrets: bytes | None) -> list[str]:
    return [ring.open(sealed, row=row_name(webhook_id)).decode() for sealed in sealed_secrets if sealed is not None]


def row_name(webhook_id: str) -> str:
    """Name of the row that the secrets of a webhook are sealed for."""
    return f"webhooks/{webhook_id}/secret"


def not_found() -> ServiceError:
    return ServiceError(ErrorCode.WEBHOOK_NOT_FOUND, "There is no such webhook.")


def _reset(*columns: LiteralString) -> LiteralString:
    """Return assignments that reset the columns when the URL changes."""
    return "".join(
        f" {name} = case when coalesce(%(url)s, url) = url then {name}"
        f" else {'0' if name == 'consecutive_failures' else 'null'} end,"
        for name in columns
    )


async def _one(
    db: Database, statement: LiteralString, reach: Reach, webhook_id: str, more: Params | None = None
) -> Webhook:
    webhook = await db.async_fetch_one(Webhook, statement, {**reach.values(), **(more or {}), "id": webhook_id})
    if webhook is None:
        raise not_found()
    return webhook
