"""Probes: `/health` says that the process runs, `/ready` that it can do its work. Neither needs a key."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import msgspec
from litestar import Request, Response, get
from msgspec import UNSET

from api.services import Services
from api.wire.activity import Health, Readiness
from connectors import registry
from retrieval.database.database import AWAY
from retrieval.readiness import roles

_SECONDS = 2.0
_KEPT_SECONDS = 1.0
"""That it is ready is asked of the database once in that time, however many ask."""


@get("/health", opt={"public": (Health, "The process answers")})
async def health() -> Response[bytes]:
    return _json(200, Health("ok"))


@get("/ready", opt={"public": (Readiness, "Requests are served and accepted work is on its way")})
async def ready(request: Request[Any, Any, Any]) -> Response[bytes]:
    services = cast("Services", request.app.state.services)
    if services.ending.is_set():
        return _unavailable(("This process is about to end: send requests to another one.",))
    requests_only = request.query_params.get("for") == "requests"
    kept = services.ready_at
    reasons: tuple[str, ...] = ()
    if time.monotonic() - kept.get(requests_only, float("-inf")) > _KEPT_SECONDS:
        reasons = await _look(services, requests_only=requests_only)
        if not reasons:
            kept[requests_only] = time.monotonic()
    if reasons:
        return _unavailable(reasons)
    return _json(200, Readiness("ready", warnings=registry.parser_warnings() or UNSET))


async def _look(services: Services, *, requests_only: bool) -> tuple[str, ...]:
    """Why it is not ready. A question that gets no answer in time is left to end by itself."""
    asking = asyncio.create_task(roles.api(services.db, services.settings, requests_only=requests_only))
    answered, _ = await asyncio.wait({asking}, timeout=_SECONDS)
    if not answered:
        asking.cancel()
        return ("The database does not answer.",)
    try:
        return asking.result()
    except AWAY:
        return ("The database does not answer.",)


HANDLERS = (health, ready)


def _unavailable(reasons: tuple[str, ...]) -> Response[bytes]:
    return _json(503, Readiness("unavailable", " ".join(reasons)), {"Retry-After": "2"})


def _json(status: int, content: Health | Readiness, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(
        msgspec.json.encode(content), status_code=status, media_type="application/json", headers=headers or {}
    )
