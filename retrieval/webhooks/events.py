"""Names of events, and the body of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

EVENTS = (
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
)
EVERY = "*"
TEST = "WEBHOOK_TEST"
"""Sent on request alone."""


def event_body(event: str, at: datetime, data: Mapping[str, Any]) -> str:
    """Body of a webhook request, as JSON: ids, statuses and errors alone, never content."""
    return json.dumps({"type": event, "timestamp": iso_time(at), "data": data}, ensure_ascii=False)


def event_scope(organization: str, namespace: str | None, tenant: str | None) -> dict[str, str | None]:
    """Scope of an event: the first fields of its data."""
    return {"organizationId": organization, "namespaceId": namespace, "tenantId": tenant or None}


def iso_time(moment: datetime) -> str:
    """ISO 8601 with milliseconds, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
