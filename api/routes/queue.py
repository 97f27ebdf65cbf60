"""The queue and the workers: whether something is stuck, and why."""

from __future__ import annotations

from api.operation import Call, TenantUse, operation
from api.wire.activity import QueueAnswer, QueueData
from connectors import registry
from retrieval.errors import ErrorCode
from retrieval.readiness import work


@operation("GET", "/v1/queue", tag="Administration", tenant=TenantUse.IGNORED, invalid=ErrorCode.INVALID_REQUEST)
async def read_queue(call: Call[None, None]) -> QueueAnswer:
    """Read the queue.

    What of the organization waits, what it waits for, and what workers have in hand; all tenants together.
    """
    found = await work.read(call.services.db, call.caller.organization)
    data = QueueData.of(found, registry.parser_warnings(), await call.services.storage.reasons())
    return QueueAnswer(message="Queue fetched successfully", data=data)


HANDLERS = (read_queue,)
