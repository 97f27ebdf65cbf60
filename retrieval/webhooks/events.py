"""Names and bodies of webhook events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

EVENT_NAMES = (
    "DOCUMENTS_QUEUED_FOR_INGESTION",
    "DOCUMENTS_QUEUED_FOR_UPDATE",
    "DOCUMENTS_QUEUED_FOR_RESYNC",
    "DOCUMENTS_QUEUED_FOR_DELETION",
    "DOCUMENTS_PROCESSING",
    "DOCUMENTS_ERROR",
    "DOCUMENTS_READY",
    "DOCUMENTS_DELETED",
    "INGEST_JOB_RUN_QUEUED",
    "INGEST_JOB_RUN_PRE_PROCESSING",
    "INGEST_JOB_RUN_PROCESSING",
    "INGEST_JOB_RUN_COMPLETED",
    "CONNECTION_ACTIVE",
    "CONNECTION_FAILED",
    "CONNECTION_REMOVALS_WAITING",
    "HIDDEN_PASSAGES_UNMATCHED",
)
EVERY_EVENT = "*"
# Sent only on request.
TEST_EVENT = "WEBHOOK_TEST"


def event_body(event: str, at: datetime, data: Mapping[str, Any]) -> str:
    """Return the JSON body of an event: ids, statuses and errors, never content."""
    return json.dumps({"type": event, "timestamp": iso_time(at), "data": data}, ensure_ascii=False)


def event_scope(organization: str, namespace: str | None, tenant: str | None) -> dict[str, str | None]:
    """Return the scope fields of an event's data."""
    return {"organizationId": organization, "namespaceId": namespace, "tenantId": tenant or None}


def iso_time(moment: datetime) -> str:
    """Format as ISO 8601 UTC with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
