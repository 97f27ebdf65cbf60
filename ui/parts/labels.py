"""The contract's values in the words, colours and marks that people read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from ui.parts import services

Color = Literal["red", "orange", "blue", "green", "gray", "violet"]

STATUS: dict[str, tuple[str, Color, str]] = {
    "QUEUED": ("waits", "gray", "schedule"),
    "BACKLOG": ("waits", "gray", "schedule"),
    "QUEUED_FOR_RESYNC": ("waits for resync", "gray", "schedule"),
    "PRE_PROCESSING": ("finding out", "blue", "travel_explore"),
    "PROCESSING": ("works", "blue", "sync"),
    "SUCCESS": ("searchable", "green", "check_circle"),
    "COMPLETED": ("completed", "green", "check_circle"),
    "SUCCEEDED": ("succeeded", "green", "check_circle"),
    "COMPLETED_WITH_FAILURES": ("with failures", "orange", "warning"),
    "FAILED": ("failed", "red", "error"),
    "CANCELLED": ("cancelled", "gray", "cancel"),
    "PENDING": ("not yet authorized", "orange", "hourglass_empty"),
    "ACTIVE": ("active", "green", "check_circle"),
    "REVOKED": ("revoked", "gray", "block"),
}
"""Status to word, colour and icon; the same everywhere."""

MOVING = frozenset({"QUEUED", "PRE_PROCESSING", "PROCESSING"})
OUTCOMES = ("SUCCEEDED", "COMPLETED_WITH_FAILURES", "FAILED", "CANCELLED")
"""How a job run ended; before that its status says how far it is."""
STEPS = ("discover", "fetch", "parse", "chunk", "embed", "upsert")
STAGES = ("found", "fetched", "parsed", "chunked", "embedded", "upserted")


@dataclass(frozen=True, slots=True)
class Source:
    """Where content comes from: its name, and the last part of its ingestion path."""

    title: str
    path: str


_SOURCES = {
    "TEXT": Source("Text", "text"),
    "LOCAL_FILE": Source("File", "file"),
    "URLS_LIST": Source("URL list", "urls"),
    "SITEMAP": Source("Sitemap", "sitemap"),
    "WEBSITE": Source("Website", "website"),
}
"""The sources beside content services."""


def sources() -> dict[str, Source]:
    """Every source that people start an ingestion of, in the order in which they are offered."""
    return _SOURCES | {name: Source(one.title, one.path) for name, one in services.known().items()}


def moment(value: dict[str, Any] | None) -> datetime | None:
    """A timestamp of the contract as a time in UTC."""
    return datetime.fromisoformat(value["isoString"]) if value else None


def ago(value: dict[str, Any] | None, now: datetime | None = None) -> str:
    """How long ago, as people say it."""
    then = moment(value)
    if then is None:
        return "never"
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{max(0, int(seconds))} s ago"


def size(of: int | None) -> str:
    """Bytes in the largest unit that leaves digits before the point."""
    value = float(of or 0)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def seconds(value: float | None) -> str:
    """A duration, short."""
    if value is None:
        return "-"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


def milliseconds(value: float | None) -> str:
    """A short time, or a dash where there is none."""
    return "-" if value is None else f"{value:,.0f} ms"


def title(value: str) -> str:
    """A source or connector as people name it."""
    known = _SOURCES.get(value) or services.known().get(value)
    return known.title if known else value.replace("_", " ").capitalize()


def number(value: int | None) -> str:
    """With thousands apart; nothing where it is not known."""
    return "" if value is None else f"{value:,}"


def count(many: int, one: str) -> str:
    """`1 document`, `2 documents`."""
    return f"{many:,} {one}" if many == 1 else f"{many:,} {one}s"


def counted(data: dict[str, Any]) -> str:
    """How many documents there are, and how many of each status."""
    groups = data["statsByStatus"]
    total = sum(entry["totalCount"] for entry in groups)
    each = " · ".join(f"{entry['totalCount']:,} {entry['status']}" for entry in groups)
    return f"{count(total, 'document')}: {each}" if groups else count(0, "document")
