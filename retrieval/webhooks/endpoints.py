"""Webhook endpoints of clients: URLs, events and secrets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

from sqlalchemy import (
    Boolean,
    Double,
    Text,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    null,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from retrieval import ids
from retrieval.accounts.queries.organizations import LOCK_ORGANIZATION
from retrieval.database import pagination
from retrieval.database.compiling import (
    columns_of,
    compile_page,
    compile_statement,
    equals,
    equals_if_given,
    parameters,
)
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.rows import Params
from retrieval.database.schema import webhooks as webhook_schema
from retrieval.errors import ErrorCode, Retryable, ServiceError
from retrieval.jobs.run_health import Health
from retrieval.namespaces import namespaces
from retrieval.network import service_urls
from retrieval.network.fetch_guard import BlockedAddress, Guard, parse_host_port
from retrieval.security.secrets import KeyRing
from retrieval.webhooks import signing
from retrieval.webhooks.retry_policy import DELIVERY_LIFETIME


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
    # Deliveries of the last 24 hours.
    delivered_last_day: int
    failed_last_day: int

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


_table: Any = webhook_schema.Webhook
_delivery: Any = webhook_schema.WebhookDelivery
_next_attempt = (
    select(func.min(_delivery.next_attempt_at))
    # A column of the model would add its table to the subquery in `returning`, where SQLAlchemy does not correlate.
    .where(_delivery.webhook_id == literal_column("webhooks.id"), _delivery.status == "PENDING")
    .scalar_subquery()
)


def _count_last_day(status: str) -> Any:
    return (
        select(func.count(_delivery.id))
        .where(
            _delivery.webhook_id == literal_column("webhooks.id"),
            _delivery.status == status,
            _delivery.created_at > func.now() - timedelta(days=1),
        )
        .scalar_subquery()
    )


_columns = columns_of(
    _table,
    Webhook,
    next_attempt_at=case((_table.status == "ACTIVE", _next_attempt), else_=null()),
    delivered_last_day=_count_last_day("DELIVERED"),
    failed_last_day=_count_last_day("FAILED"),
)
_in_scope = and_(
    equals(_table.organization_id, "organization"),
    equals_if_given(_table.namespace_id, "namespace"),
    equals_if_given(_table.tenant),
)
_is_webhook = and_(_in_scope, equals(_table.id))
_status = bindparam("status", type_=Text)
_new_status = func.coalesce(_status, _table.status)
# Outcomes of another address say nothing of this one.
_is_same_url = func.coalesce(bindparam("url"), _table.url) == _table.url
_outcomes: dict[str, Any] = {
    "last_success_at": null(),
    "failures_since": null(),
    "failure_reason": null(),
    "consecutive_failures": 0,
}
_changes: dict[str, Any] = {
    "url": func.coalesce(bindparam("url"), _table.url),
    "events": func.coalesce(bindparam("events", type_=ARRAY(Text)), _table.events),
    "description": case((bindparam("keep", type_=Boolean), _table.description), else_=bindparam("description")),
    "status": _new_status,
    "status_reason": case(
        (_new_status == _table.status, _table.status_reason),
        (_status == "DISABLED", "Switched off by a request."),
    ),
    "failing": and_(_table.failing, func.coalesce(_status, "") != "ACTIVE"),
    "alive_at": case((_status == "ACTIVE", func.now()), else_=_table.alive_at),
    **{name: case((_is_same_url, getattr(_table, name)), else_=value) for name, value in _outcomes.items()},
}
_COUNT_WEBHOOKS = compile_statement(select(func.count(_table.id)).where(equals(_table.organization_id, "organization")))
_INSERT_WEBHOOK = compile_statement(
    insert(_table)
    .values(
        organization_id=bindparam("organization"),
        namespace_id=bindparam("namespace"),
        **parameters("id", "tenant", "url", "events", "description", "secret"),
    )
    .returning(*_columns)
)
_LIST_WEBHOOKS = compile_page(select(*_columns).where(_in_scope), _table)
_GET_WEBHOOK = compile_statement(select(*_columns).where(_is_webhook))
_CHANGE_WEBHOOK = compile_statement(update(_table).where(_is_webhook).values(**_changes).returning(*_columns))
_DELETE_WEBHOOK = compile_statement(delete(_table).where(_is_webhook).returning(*_columns))
_hours = bindparam("hours", type_=Double)
_ROTATE_SECRET = compile_statement(
    update(_table)
    .where(_is_webhook)
    .values(
        secret=bindparam("secret"),
        previous=case((_hours > 0, _table.secret)),
        previous_until=func.now() + _hours * text("interval '1 hour'"),
    )
    .returning(*_columns)
)
_RETRY_DELIVERIES = compile_statement(
    update(_delivery)
    .where(equals(_delivery.webhook_id), _delivery.status == "PENDING", _delivery.tries > 0)
    .values(next_attempt_at=func.now(), give_up_at=func.now() + DELIVERY_LIFETIME, tries=0)
)


async def create_webhook(
    db: Database,
    ring: KeyRing,
    reach: WebhookScope,
    *,
    url: str,
    events: Sequence[str],
    description: str | None,
) -> tuple[Webhook, str]:
    """Create and return a webhook, and the secret. Raises NAMESPACE_NOT_FOUND, INVALID_REQUEST above 50."""
    if reach.namespace is not None:
        await namespaces.require_namespace(db, reach.organization, reach.namespace)
    webhook_id, secret = ids.webhook_id(), signing.create_secret()
    values: Params = {**reach.values(), "id": webhook_id, "url": url, "events": list(dict.fromkeys(events))}
    values |= {"description": description, "secret": ring.seal(secret.encode(), row=row_name(webhook_id))}
    async with db.async_together():
        await db.async_execute(LOCK_ORGANIZATION, values)
        if (await db.async_fetch_one(int, _COUNT_WEBHOOKS, values) or 0) >= MAX_WEBHOOKS:
            message = f"An organization has {MAX_WEBHOOKS} webhooks at most: delete one first."
            raise ServiceError(ErrorCode.INVALID_REQUEST, message, reason="webhook_limit")
        return (await db.async_fetch(Webhook, _INSERT_WEBHOOK, values))[0], secret


async def list_webhooks(db: Database, reach: WebhookScope, part: PageRequest | None = None) -> Page[Webhook]:
    """List webhooks, newest first; `part` None: all."""
    webhooks = await db.async_fetch(Webhook, _LIST_WEBHOOKS, {**reach.values(), **pagination.page_params(part)})
    return pagination.cut_page(webhooks, part)


async def get_webhook(db: Database, reach: WebhookScope, webhook_id: str) -> Webhook:
    """Return a webhook in reach. Raises WEBHOOK_NOT_FOUND."""
    return await _fetch_webhook(db, _GET_WEBHOOK, reach, webhook_id)


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
        changed = await _fetch_webhook(db, _CHANGE_WEBHOOK, reach, webhook_id, values)
        if status == "ACTIVE":
            await db.async_execute(_RETRY_DELIVERIES, {"webhook_id": webhook_id})
    return changed


async def delete_webhook(db: Database, reach: WebhookScope, webhook_id: str) -> Webhook:
    """Delete a webhook with its deliveries. Raises WEBHOOK_NOT_FOUND."""
    return await _fetch_webhook(db, _DELETE_WEBHOOK, reach, webhook_id)


async def rotate_secret(
    db: Database, ring: KeyRing, reach: WebhookScope, webhook_id: str, overlap_hours: float
) -> tuple[Webhook, str]:
    """Create a new secret; deliveries carry both signatures for `overlap_hours`."""
    secret = signing.create_secret()
    sealed = ring.seal(secret.encode(), row=row_name(webhook_id))
    rotated = await _fetch_webhook(
        db, _ROTATE_SECRET, reach, webhook_id, {"secret": sealed, "hours": float(overlap_hours)}
    )
    return rotated, secret


def open_secrets(ring: KeyRing, webhook_id: str, *sealed_secrets: bytes | None) -> list[str]:
    return [ring.open(sealed, row=row_name(webhook_id)).decode() for sealed in sealed_secrets if sealed is not None]


def row_name(webhook_id: str) -> str:
    """Return the seal name of a webhook's secrets."""
    return f"webhooks/{webhook_id}/secret"


def not_found() -> ServiceError:
    return ServiceError(ErrorCode.WEBHOOK_NOT_FOUND, "There is no such webhook.")


async def _fetch_webhook(
    db: Database, statement: LiteralString, reach: WebhookScope, webhook_id: str, params: Params | None = None
) -> Webhook:
    webhook = await db.async_fetch_one(Webhook, statement, {**reach.values(), **(params or {}), "id": webhook_id})
    if webhook is None:
        raise not_found()
    return webhook
