"""What all ingestion operations have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from litestar.handlers import HTTPRouteHandler

from api.operation import Call, TenantUse, operation
from api.wire.common import Answer
from api.wire.ingest import IngestAnswer
from retrieval.errors import ErrorCode

INVALID = ErrorCode.INVALID_INGEST_CONFIG


def ingestion_operation(
    path: str, *, raises: tuple[ErrorCode, ...] = (), **said: Any
) -> Callable[[Callable[[Call[Any, Any]], Awaitable[Answer | bytes]]], HTTPRouteHandler]:
    """An operation that accepts an ingestion; `raises` beyond what all of them may."""
    return operation(
        "POST",
        path,
        tag="Ingestion",
        tenant=TenantUse.MADE,
        invalid=INVALID,
        failed=ErrorCode.INGESTION_FAILED,
        answer=IngestAnswer,
        raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INVALID_CHUNK_CONFIG, *raises),
        creates=True,
        **said,
    )
