"""Push: addresses for hints of content services, and the job runs that hints start."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from retrieval import ids
from retrieval.accounts import quotas
from retrieval.connections import queries, queries_push, queries_schedules
from retrieval.connections.push_vendors import PUSH_VENDORS, PushAnswer, PushRequest, SecretOrigin, WrongSignature
from retrieval.connections.queries_push import PushRow
from retrieval.connections.schedules import REFUSED_PREFIX
from retrieval.database.database import Database
from retrieval.database.rows import Params
from retrieval.errors import ErrorCode, ServiceError
from retrieval.job_config import JobConfig
from retrieval.ports import Scope
from retrieval.security.secrets import KeyRing

PUSH_TRIGGER = "PUSH"
# Hints within this time of a job run's creation start one further run.
PAUSE_SECONDS = 5.0
_ADDRESS_BYTES = 32


@dataclass(frozen=True, slots=True)
class Push:
    """Push of a connection. `secret`: only in the answer to the request that turns push on."""

    row: PushRow
    secret: str | None = field(default=None, repr=False)


def require_vendor(connector: str) -> None:
    """Raise INVALID_REQUEST for a connector without push."""
    if connector not in PUSH_VENDORS:
        names = ", ".join(PUSH_VENDORS)
        message = f"{connector} has no push: use syncIntervalMinutes. Push is for {names}."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field="connectionId", reason="not_supported")


async def turn_on(
    db: Database,
    ring: KeyRing,
    scope: Scope,
    connection_id: str,
    *,
    connector: str,
    secret: str | None,
    app_secret: str,
) -> Push:
    """Create the address of a connection, or set another secret. INVALID_REQUEST for a missing or unexpected secret."""
    require_vendor(connector)
    secret_origin = PUSH_VENDORS[connector].secret_origin
    new_secret, answered_secret = secret, None
    subscribes = secret_origin is SecretOrigin.SUBSCRIPTION
    if subscribes and secret is not None:
        raise _secret_error("is made by the Retrieval Service: leave it out")
    if new_secret is None and (subscribes or secret_origin is SecretOrigin.GENERATED):
        new_secret = secrets.token_urlsafe(32)
        answered_secret = None if subscribes else new_secret
    if new_secret is None and secret_origin is SecretOrigin.APP:
        new_secret = app_secret or None
    if new_secret is not None and secret_origin is SecretOrigin.RECEIVED:
        raise _secret_error("is sent by the service itself: leave it out")
    if new_secret is None and secret_origin is not SecretOrigin.RECEIVED:
        raise _secret_error(f"is needed for {connector}")
    sealed = None if new_secret is None else ring.seal(new_secret.encode(), row=row_name(connection_id))
    address = secrets.token_urlsafe(_ADDRESS_BYTES)
    await queries_push.save_push(db, scope, connection_id, address, sealed, subscribes=subscribes)
    row = await queries_push.get_push(db, connection_id)
    if row is None:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST,
            "The connection is REVOKED, which is final: create another one.",
            reason="revoked",
        )
    if secret_origin is SecretOrigin.RECEIVED and row.confirmed_at is None:
        # A person enters this token at the service. After the first signed request nobody needs it.
        answered_secret = open_secret(ring, row)
    return Push(row, answered_secret)


async def turn_off(db: Database, connection_id: str) -> None:
    """Delete the address of a connection."""
    await queries_push.delete_push(db, connection_id)


def _secret_error(problem: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_REQUEST, f"secret {problem}.", field="secret", reason="invalid_secret")


async def receive(db: Database, ring: KeyRing, address: str, request: PushRequest) -> PushAnswer:
    """Check a request to an address and record its hint. NOT_FOUND for an unknown address, UNAUTHORIZED for a wrong
    signature."""
    row = await queries_push.find_push(db, address)
    vendor = PUSH_VENDORS.get(row.connector) if row else None
    if row is None or vendor is None:
        raise not_found()
    try:
        answer = vendor.read(request, open_secret(ring, row), row.account)
        if answer.secret is not None:
            await _keep_secret(db, ring, row, answer.secret)
    except WrongSignature:
        await queries_push.record_refusal(db, row.connection_id)
        raise ServiceError(
            ErrorCode.UNAUTHORIZED, "The signature of this request is missing, wrong or too old.", reason="signature"
        ) from None
    if answer.needs_renewal:
        await queries_push.renew_soon(db, row.connection_id)
    if answer.secret is None and not answer.is_unsigned:
        await queries_push.record_hint(db, row.connection_id, due=answer.is_hint, pause=PAUSE_SECONDS)
    return answer


async def _keep_secret(db: Database, ring: KeyRing, row: PushRow, secret: str) -> None:
    sealed = ring.seal(secret.encode(), row=row_name(row.connection_id))
    if not await queries_push.keep_secret(db, row.connection_id, sealed):
        raise WrongSignature  # another token was kept in the meantime


async def require_challenge(db: Database, address: str) -> None:
    """Raise NOT_FOUND unless the service of this address checks it by a GET request."""
    row = await queries_push.find_push(db, address)
    if row is None or not PUSH_VENDORS[row.connector].has_get_challenge:
        raise not_found()


def not_found() -> ServiceError:
    return ServiceError(ErrorCode.NOT_FOUND, "There is no such push address.")


def open_secret(ring: KeyRing, row: PushRow) -> str | None:
    """Return the secret of a push address, None before the service has sent it."""
    return None if row.secret is None else ring.open(row.secret, row=row_name(row.connection_id)).decode()


def row_name(connection_id: str) -> str:
    """Return the sealing name of a push secret."""
    return f"pushes/{connection_id}/secret"


def start_due(db: Database) -> bool:
    """Insert the job runs of due pushes; return whether others wait for their time or for a run under way."""
    for connection_id in queries_push.list_due(db):
        try:
            _start_run(db, connection_id)
        except ServiceError as error:
            # The next hint tries again, and the connection shows the reason.
            queries_push.settle_due(db, connection_id)
            queries.explain_connection(db, connection_id, REFUSED_PREFIX + error.message)
    return queries_push.has_due(db)


def _start_run(db: Database, connection_id: str) -> None:
    """Insert the job run of a due push, unless another is unfinished. QUOTA_EXCEEDED undoes the transaction."""
    with db.transaction() as connection:
        push = queries_push.lock_due(connection, connection_id)
        if push is None:
            return
        if not queries_push.is_startable(connection, connection_id):
            queries_push.settle_due(connection, connection_id)
            return
        usage = quotas.lock_usage(connection, push.organization_id, push.tenant) if push.counted else None
        values: Params = {
            "connection": connection_id,
            "job": ids.job_id(),
            "run": ids.job_run_id(),
            "config": JobConfig(request={}, connection_id=connection_id, scheduled=True).dump(),
            "trigger": PUSH_TRIGGER,
        }
        if queries_schedules.insert_scheduled_run(connection, values) is None:
            return
        if usage is not None:
            quotas.check_usage(usage, quotas.read_usage(connection, push.organization_id, push.tenant))
        queries_push.settle_due(connection, connection_id)
        queries.withdraw_reason(connection, connection_id, REFUSED_PREFIX)
