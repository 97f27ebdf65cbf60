"""Webhook endpoints of clients: URLs, events and secrets."""

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
    """Raise INVALID_REQUEST unless the URL is https to an allowed address, or http to an allowed range. Blocking."""
    try:
        service_urls.require_url(url, ("https", "http"))
    except ValueError as error:
        raise _url_error(f"url {error}.") from error
    try:
        check_url(guard, url)
    except BlockedAddress as error:
        raise _url_error(str(error)) from error
    except Retryable:
        # Checked again at each connection.
        return


def check_url(guard: Guard, url: str) -> None:
    """Raise BlockedAddress with the reason for a forbidden URL, Retryable for a failed host lookup."""
    guard.check_url(url)
    host, port = parse_host_port(url)
    if url.lower().startswith("http://") and not guard.allows_plainly(host, port):
        raise BlockedAddress(
            "The address must begin with https://; http:// is for ranges that RETRIEVAL_FETCH_ALLOW names."
        )


def _url_error(message: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_REQUEST, message, field="url", reason="not_allowed")


# Webhooks of an organization.
MAX_WEBHOOKS = 50
# Validity of a rotated secret.
MAX_OVERLAP_HOURS = 720
# Default of `change_webhook`: keep the description.
KEEP_DESCRIPTION = "\x00"


@dataclass(frozen=True, slots=True)
class WebhookScope:
    """Visible webhooks of a request: of an organization, a namespace, or a tenant."""

    organization: str
    namespace: str | None = None
    tenant: str | None = None

    def values(self) -> dict[str, str | None]:
        return {"organization": self.organization, "namespace": self.namespace, "tenant": self.tenant}


@dataclass(frozen=True, slots=True)
class Webhook:
    """Endpoint without its secret. `namespace_id`, `tenant` None: events of all."""

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


WEBHOOK_COLUMNS: LiteralString = (
    "id, url, events, namespace_id, tenant, description, status, status_reason, created_at, last_success_at,"
    " failures_since, consecutive_failures, failure_reason, case when status = 'ACTIVE' then (select"
    " min(d.next_attempt_at) from webhook_deliveries d where d.webhook_id = webhooks.id and d.status = 'PENDING') end"
    " as next_attempt_at"
)
IN_SCOPE: LiteralString = (
    "organization_id = %(organization)s and (%(namespace)s::text is null or namespace_id = %(namespace)s)"
    " and (%(tenant)s::text is null or tenant = %(tenant)s)"
)
_WITHIN_BY_ID: LiteralString = IN_SCOPE + " and id = %(id)s"


async def create_webhook(
    db: Database,
    ring: KeyRing,
    reach: WebhookScope,
    *,
    url: str,
    events: Sequence[str],
    description: str | None,
) -> tuple[Webhook, str]:
    """Create a webhook and return it with its secret. Raises NAMESPACE_NOT_FOUND, INVALID_REQUEST above 50."""
    if reach.namespace is not None:
        await namespaces.require_namespace(db, reach.organization, reach.namespace)
    webhook_id, secret = ids.webhook_id(), signing.create_secret()
    values: Params = {**reach.values(), "id": webhook_id, "url": url, "events": list(dict.fromkeys(events))}
    values |= {
        "description": description,
        "secret": ring.seal(secret.encode(), row=row_name(webhook_id)),
        "limit": MAX_WEBHOOKS,
    }
    async with db.async_together():
        await db.async_execute("select id from organizations where id = %(organization)s for no key update", values)
        webhook = await db.async_fetch_one(
            Webhook,
            "insert into webhooks (id, organization_id, namespace_id, tenant, url, events, description, secret)"
            " select %(id)s, %(organization)s, %(namespace)s, %(tenant)s, %(url)s, %(events)s, %(description)s,"
            " %(secret)s where (select count(*) from webhooks where organization_id = %(organization)s) < %(limit)s"
            " returning " + WEBHOOK_COLUMNS,
            values,
        )
    if webhook is None:
        message = f"An organization has {MAX_WEBHOOKS} webhooks at most: delete one first."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, reason="webhook_limit")
    return webhook, secret


async def list_webhooks(db: Database, reach: WebhookScope, part: PageRequest | None = None) -> Page[Webhook]:
    """List webhooks, newest first; `part` None: all."""
    statement: LiteralString = (
        "select " + WEBHOOK_COLUMNS + " from webhooks where " + IN_SCOPE + pagination.order_desc()
    )
    webhooks = await db.async_fetch(Webhook, statement, {**reach.values(), **pagination.page_params(part)})
    return pagination.cut_page(webhooks, part)


async def get_webhook(db: Database, reach: WebhookScope, webhook_id: str) -> Webhook:
    """Return a webhook in reach. Raises WEBHOOK_NOT_FOUND."""
    return await _fetch_webhook(
        db, "select " + WEBHOOK_COLUMNS + " from webhooks where " + _WITHIN_BY_ID, reach, webhook_id
    )


async def change_webhook(
    db: Database,
    reach: WebhookScope,
    webhook_id: str,
    *,
    url: str | None = None,
    events: Sequence[str] | None = None,
    description: str | None = KEEP_DESCRIPTION,
    status: str | None = None,
) -> Webhook:
    """Change an endpoint; None keeps a field. ACTIVE retries waiting deliveries at once, for a day."""
    values: Params = {
        "url": url,
        "events": None if events is None else list(dict.fromkeys(events)),
        "description": description,
        "keep": description == KEEP_DESCRIPTION,
        "status": status,
    }
    if description == KEEP_DESCRIPTION:
        values["description"] = None
    async with db.async_together():
        changed = await _fetch_webhook(
            db,
            "update webhooks set url = coalesce(%(url)s, url), events = coalesce(%(events)s, events),"
            " description = case when %(keep)s then description else %(description)s end,"
            " status_reason = case when coalesce(%(status)s, status) = status then status_reason"
            " when %(status)s = 'DISABLED' then 'Switched off by a request.' end,"
            " failing = failing and coalesce(%(status)s, '') <> 'ACTIVE',"
            " alive_at = case when %(status)s = 'ACTIVE' then now() else alive_at end,"
            # Outcomes of another address say nothing of this one.
            + _reset_for_new_url("last_success_at", "failures_since", "failure_reason", "consecutive_failures")
            + " status = coalesce(%(status)s, status) where "
            + _WITHIN_BY_ID
            + " returning "
            + WEBHOOK_COLUMNS,
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


async def delete_webhook(db: Database, reach: WebhookScope, webhook_id: str) -> Webhook:
    """Delete a webhook with its deliveries. Raises WEBHOOK_NOT_FOUND."""
    return await _fetch_webhook(
        db, "delete from webhooks where " + _WITHIN_BY_ID + " returning " + WEBHOOK_COLUMNS, reach, webhook_id
    )


async def rotate_secret(
    db: Database, ring: KeyRing, reach: WebhookScope, webhook_id: str, overlap_hours: float
) -> tuple[Webhook, str]:
    """Create a new secret; deliveries carry both signatures for `overlap_hours`."""
    secret = signing.create_secret()
    rotated = await _fetch_webhook(
        db,
        "update webhooks set secret = %(secret)s, previous = case when %(hours)s > 0 then secret end,"
        " previous_until = now() + make_interval(secs => %(hours)s * 3600) where "
        + _WITHIN_BY_ID
        + " returning "
        + WEBHOOK_COLUMNS,
        reach,
        webhook_id,
        {"secret": ring.seal(secret.encode(), row=row_name(webhook_id)), "hours": float(overlap_hours)},
    )
    return rotated, secret


def open_secrets(ring: KeyRing, webhook_id: str, *sealed_secrets: bytes | None) -> list[str]:
    return [ring.open(sealed, row=row_name(webhook_id)).decode() for sealed in sealed_secrets if sealed is not None]


def row_name(webhook_id: str) -> str:
    """Return the seal name of a webhook's secrets."""
    return f"webhooks/{webhook_id}/secret"


def not_found() -> ServiceError:
    return ServiceError(ErrorCode.WEBHOOK_NOT_FOUND, "There is no such webhook.")


def _reset_for_new_url(*columns: LiteralString) -> LiteralString:
    """Return assignments that reset the columns for a changed URL."""
    return "".join(
        f" {name} = case when coalesce(%(url)s, url) = url then {name}"
        f" else {'0' if name == 'consecutive_failures' else 'null'} end,"
        for name in columns
    )


async def _fetch_webhook(
    db: Database, statement: LiteralString, reach: WebhookScope, webhook_id: str, params: Params | None = None
) -> Webhook:
    webhook = await db.async_fetch_one(Webhook, statement, {**reach.values(), **(params or {}), "id": webhook_id})
    if webhook is None:
        raise not_found()
    return webhook
