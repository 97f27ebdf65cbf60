"""Common parts of all ingestion operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from litestar.handlers import HTTPRouteHandler

from api.operation import operation
from api.request import ApiRequest, TenantUse
from api.wire.common import Answer
from api.wire.ingest import IngestAnswer
from retrieval.errors import ErrorCode
from retrieval.job_config import Ingestion
from retrieval.jobs import dry_runs
from retrieval.ports import Scope

INVALID = ErrorCode.INVALID_INGEST_CONFIG


def ingestion_operation(
    path: str, *, raises: tuple[ErrorCode, ...] = (), **stated: Any
) -> Callable[[Callable[..., Awaitable[Answer | bytes]]], HTTPRouteHandler]:
    """An operation that accepts an ingestion; `raises` beyond what all of them may."""
    return operation(
        "POST",
        path,
        tag="Ingestion",
        tenant=TenantUse.MADE,
        invalid=INVALID,
        failed=ErrorCode.INGESTION_FAILED,
        raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INVALID_CHUNK_CONFIG, *raises),
        notifies=True,
        **stated,
    )


async def dry_run(
    request: ApiRequest,
    scope: Scope,
    what: str,
    *,
    source: str,
    how: Ingestion,
    config: Mapping[str, Any],
    connection_id: str | None = None,
    text: str | None = None,
) -> IngestAnswer:
    """Record that it is to be found out what this ingestion would do."""
    receipt = await dry_runs.accept(
        request.services.db,
        scope,
        source=source,
        request=config,
        ingestion=how,
        connection_id=connection_id,
        content=text,
    )
    await request.save_tenant()
    return IngestAnswer.of_dry_run(receipt, what)
