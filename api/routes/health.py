"""Probes: `/health` says that the process lives, `/ready` that it can serve. Neither needs a key."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
from litestar import Request, Response, get

from api.services import Services
from api.wire.health import Health, Readiness
from retrieval.database import AWAY

_SECONDS = 2.0


@get("/health", opt={"public": (Health, "The process answers")})
async def health() -> Response[bytes]:
    return _json(200, Health("ok"))


@get("/ready", opt={"public": (Readiness, "The database is there and has the schema of this version")})
async def ready(request: Request[Any, Any, Any]) -> Response[bytes]:
    services = cast("Services", request.app.state.services)
    try:
        async with asyncio.timeout(_SECONDS):
            row = await services.db.async_row(
                "select exists (select from information_schema.tables"
                " where table_schema = current_schema and table_name = 'alembic_version') as migrated"
            )
    except (*AWAY, TimeoutError):
        return _json(503, Readiness("unavailable", "The database does not answer."), {"Retry-After": "2"})
    if not (row and row["migrated"]):
        return _json(503, Readiness("unavailable", "The database is not migrated yet."), {"Retry-After": "2"})
    return _json(200, Readiness("ready"))


HANDLERS = (health, ready)


def _json(status: int, content: Health | Readiness, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(
        msgspec.json.encode(content), status_code=status, media_type="application/json", headers=headers or {}
    )
