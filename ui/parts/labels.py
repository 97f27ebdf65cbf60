"""Words, colors and icons for values of the API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from ui.parts import api_schema

Color = Literal["red", "orange", "blue", "green", "gray", "violet"]

# Status to word, color and icon.
STATUS_LABELS: dict[str, tuple[str, Color, str]] = {
    "QUEUED": ("Queued", "gray", "schedule"),
    "BACKLOG": ("Backlog", "gray", "schedule"),
    "QUEUED_FOR_RESYNC": ("Queued for resync", "gray", "schedule"),
    "PRE_PROCESSING": ("Discovering", "blue", "travel_explore"),
    "PROCESSING": ("Processing", "blue", "sync"),
    "RUNNING": ("Running", "blue", "sync"),
    "SUCCESS": ("Indexed", "green", "check_circle"),
    "COMPLETED": ("Completed", "green", "check_circle"),
    "SUCCEEDED": ("Succeeded", "green", "check_circle"),
    "COMPLETED_WITH_FAILURES": ("Completed with failures", "orange", "warning"),
    "FAILED": ("Failed", "red", "error"),
    "CANCELLED": ("Cancelled", "gray", "cancel"),
    "PENDING": ("Pending authorization", "orange", "hourglass_empty"),
    "ACTIVE": ("Active", "green", "check_circle"),
    "REVOKED": ("Revoked", "gray", "block"),
    "DISABLED": ("Disabled", "gray", "block"),
    "TO_SEND": ("Waiting", "orange", "hourglass_empty"),
    "DELIVERED": ("Delivered", "green", "check_circle"),
    "HEALTHY": ("Healthy", "green", "check_circle"),
    "FAILING": ("Failing", "red", "error"),
    "NOT_STARTED": ("Not started", "red", "error"),
    "UNKNOWN": ("No outcome yet", "gray", "help"),
}

ACTIVE_STATUSES = frozenset({"QUEUED", "PRE_PROCESSING", "PROCESSING"})
# Outcomes of ended job runs; an unended job run shows its status.
RUN_OUTCOMES = ("SUCCEEDED", "COMPLETED_WITH_FAILURES", "FAILED", "CANCELLED")
PIPELINE_STEPS = ("discover", "fetch", "parse", "chunk", "embed", "upsert")
DOCUMENT_STAGES = ("found", "fetched", "parsed", "chunked", "embedded", "upserted")


@dataclass(frozen=True, slots=True)
class Source:
    """Source of content: title and ingestion path."""

    title: str
    path: str


# The API adds the content services.
_BASIC_SOURCES = {
    "TEXT": Source("Text", "text"),
    "LOCAL_FILE": Source("File", "file"),
    "URLS_LIST": Source("URL list", "urls"),
    "SITEMAP": Source("Sitemap", "sitemap"),
    "WEBSITE": Source("Website", "website"),
}


def offered_sources() -> dict[str, Source]:
    return _BASIC_SOURCES | {
        name: Source(service.title, service.path) for name, service in api_schema.known_services().items()
    }


def parse_time(value: dict[str, Any] | None) -> datetime | None:
    return datetime.fromisoformat(value["isoString"]) if value else None


def format_span(seconds: float) -> str:
    for size, unit in ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def time_since(value: dict[str, Any], current_time: datetime | None = None) -> str:
    return format_span(
        ((current_time or datetime.now(UTC)) - datetime.fromisoformat(value["isoString"])).total_seconds()
    )


def span_until(value: dict[str, Any], current_time: datetime | None = None) -> str:
    return format_span(
        (datetime.fromisoformat(value["isoString"]) - (current_time or datetime.now(UTC))).total_seconds()
    )


def time_ago(value: dict[str, Any] | None, current_time: datetime | None = None) -> str:
    return f"{time_since(value, current_time)} ago" if value else "never"


def describe_health(health: dict[str, Any]) -> str:
    """Describe observed outcomes in one line."""
    parts = []
    if health["consecutiveFailures"]:
        parts.append(f"{format_count(health['consecutiveFailures'], 'failure')} in a row")
    if health["failuresSince"]:
        parts.append(f"the first {time_ago(health['failuresSince'])}")
    parts.append(f"last success {time_ago(health['lastSuccessAt'])}" if health["lastSuccessAt"] else "no success yet")
    if health["nextAttemptAt"]:
        parts.append(f"next attempt in {span_until(health['nextAttemptAt'])}")
    text = " · ".join(parts)
    return text[0].upper() + text[1:]


def format_size(size: int | None) -> str:
    """Format bytes in the largest unit above 1."""
    value = float(size or 0)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def format_seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


def format_milliseconds(value: float | None) -> str:
    """Format a short time, "-" without a value."""
    return "-" if value is None else f"{value:,.0f} ms"


def source_title(value: str) -> str:
    source = _BASIC_SOURCES.get(value) or api_schema.known_services().get(value)
    if source:
        return source.title
    if value == "OBJECTS":
        return "Storage"
    schema = api_schema.sources_without_app().get(value)
    return str(schema["title"]) if schema else value.replace("_", " ").capitalize()


def format_number(value: int | None) -> str:
    """Format with thousands separators, "" without a value."""
    return "" if value is None else f"{value:,}"


def format_count(count: int, noun: str) -> str:
    """Format as `1 document`, `2 documents`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_cost(reports: list[dict[str, Any]]) -> str:
    """Sum the cost of dry runs, or report a missing price."""
    costs = [report["estimatedCost"] for report in reports if report.get("estimatedCost")]
    if len(costs) < len(reports):
        return "the model's price is not set"
    return f"about {sum(cost['amount'] for cost in costs):,.4f} {costs[0]['currency']}"


def name_of(names: Mapping[str, str], object_id: str | None) -> str:
    """Return the object's name, else its id; "" without an id."""
    return names.get(object_id, object_id) if object_id else ""


def document_label(name: str | None) -> str:
    """Return a document's name in one line, or a placeholder."""
    return " ".join((name or "").split()) or "without a name"


def plain_error(error: str | None) -> str:
    """Return an error without the API's names of settings; "" without one."""
    return (error or "").replace(" (ocrConfig)", "").replace("the OCR strategy STANDARD_OCR", "OCR")


def format_value(value: object) -> str:
    """Format a metadata value, with a placeholder for blanks."""
    return str(value).strip() or "(empty)"


def format_field(name: str) -> str:
    """Convert a configuration field to words: `clientId` to Client ID."""
    words = "folder" if name == "path" else re.sub(r"(?=[A-Z])", " ", name).lower()
    return re.sub(r"(?i)\b(id|url|api)\b", lambda word: word[0].upper(), words[0].upper() + words[1:])


def status_word(status: str) -> str:
    label = STATUS_LABELS.get(status)
    return label[0] if label else status


def count_documents(data: dict[str, Any]) -> int:
    return sum(entry["totalCount"] for entry in data["statsByStatus"])


def document_counts(data: dict[str, Any]) -> str:
    total, groups = format_count(count_documents(data), "document"), data["statsByStatus"]
    per_status = " · ".join(f"{entry['totalCount']:,} {status_word(entry['status']).lower()}" for entry in groups)
    return f"{total}: {per_status}" if groups else total


# Labels by minutes between ingestions.
INTERVAL_LABELS = {
    None: "Only on request",
    15: "Every 15 minutes",
    60: "Every hour",
    360: "Every 6 hours",
    1440: "Every day",
    10080: "Every week",
}


def timing_of(schedule: dict[str, Any]) -> str:
    cron = schedule["cron"]
    return f"{cron} ({schedule['timeZone']})" if cron else interval_label(schedule["intervalMinutes"])


def due_in(schedule: dict[str, Any]) -> str:
    if schedule["nextRunAt"]:
        return f"in {span_until(schedule['nextRunAt'])}"
    return "paused" if schedule["paused"] else "not while the connection is inactive"


def interval_label(minutes: int | None) -> str:
    """Return an interval in words."""
    return INTERVAL_LABELS.get(minutes, f"Every {minutes} minutes")
