"""The figures of the key's organization for Prometheus."""

from __future__ import annotations

from api.operation import Call, TenantUse, operation
from retrieval.errors import ErrorCode
from retrieval.metrics import counts, exposition


@operation(
    "GET",
    "/metrics",
    tag="Administration",
    media_type=exposition.MEDIA_TYPE.partition("; charset")[0],
    tenant=TenantUse.IGNORED,
    invalid=ErrorCode.INVALID_REQUEST,
)
async def read_metrics(call: Call[None, None]) -> bytes:
    """Figures for Prometheus.

    Of the organization alone, in Prometheus' text format. Those of the whole installation are on the port of
    `RETRIEVAL_METRICS_PORT`.
    """
    services = call.services
    await counts.async_write(services.db)
    reading = await services.count(call.caller.organization)
    return exposition.text(reading, of_organization=True)


HANDLERS = (read_metrics,)
