"""The report of a dry run: documents and pages by what would become of them, tokens, seconds and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, LiteralString

from retrieval.database.database import Database
from retrieval.ports import Embedder

MOST_LISTED: Final = 500
"""Documents of each action that a report names."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A document that an ingestion would create, update or remove, or that fails."""

    name: str
    action: str
    error: str | None = None
    linked_from: str | None = None


_NO_FIGURES: Final = frozenset({"remove", "sampled", "model_choice", "planned"})


@dataclass(slots=True)
class Report:
    """Documents by what would become of them, and what that takes."""

    create: int = 0
    update: int = 0
    unchanged: int = 0
    remove: int = 0
    failed: int = 0
    pages: int = 0
    pages_recognised: int = 0
    pages_unread: int = 0
    chunks: int = 0
    tokens: int = 0
    calls: int = 0
    sampled: bool = False
    model_choice: str = ""
    """The model that would be chosen for the namespace, and why."""
    planned: dict[str, list[Planned]] = field(default_factory=dict)
    """By action."""

    def plan(self, name: str, action: str, error: str | None = None, linked_from: str | None = None) -> None:
        """Name a document, unless enough of its action are named."""
        documents = self.planned.setdefault(action, [])
        if len(documents) < MOST_LISTED:
            documents.append(Planned(name, action, error, linked_from or None))

    def grow(self, other: Report, factor: float) -> None:
        """Add what a sample of a listing came to, in proportion."""
        for name in (column.name for column in fields(self) if column.name not in _NO_FIGURES):
            setattr(self, name, getattr(self, name) + round(getattr(other, name) * factor))
        for documents in other.planned.values():
            for document in documents:
                self.plan(document.name, document.action, document.error, document.linked_from)


_PACE: LiteralString = """
    select case when sum(r.seconds) > 0 then (sum(t.tokens) / greatest(sum(r.seconds), 0.01))::float8 end from (
        select id, (timings ->> 'embed')::float8 as seconds from job_runs
        where partition_id = %(partition)s and finished_at is not null and timings ? 'embed'
        order by number desc limit 20
    ) r cross join lateral (
        select coalesce(sum((w.properties ->> 'tokenCount')::bigint), 0) as tokens from run_documents w
        where w.job_run_id = r.id and w.status = 'SUCCESS'
    ) t
"""
USUAL_PACE: Final = 3_000.0
"""Tokens that are embedded in a second where nothing was yet."""


def estimate_seconds(db: Database, partition: int, tokens: int, spent: float) -> float:
    """Estimate the seconds of the ingestion: the time of the dry run, plus embedding at the pace of the last runs."""
    pace = db.fetch_one(float, _PACE, {"partition": partition}) or USUAL_PACE
    return round(spent + tokens / max(pace, 1.0), 1)


def report_json(
    report: Report, embedder: Embedder, prices: Mapping[str, float], currency: str, estimate: float
) -> dict[str, Any]:
    """The report with the names of the wire; its cost where the model's price is known."""
    figures: dict[str, Any] = {
        "create": report.create,
        "update": report.update,
        "unchanged": report.unchanged,
        "remove": report.remove,
        "failed": report.failed,
        "pages": report.pages,
        "pagesRecognised": report.pages_recognised,
        "pagesUnread": report.pages_unread,
        "chunks": report.chunks,
        "tokensToEmbed": report.tokens,
        "embeddingCalls": report.calls,
        "estimatedSeconds": estimate,
        "sampled": report.sampled,
        "documents": [
            {"name": document.name, "action": action, "error": document.error, "linkedFrom": document.linked_from}
            for action in ("FAILED", "CREATE", "UPDATE", "REMOVE")
            for document in report.planned.get(action, ())
        ],
    }
    if report.model_choice:
        figures["modelChoice"] = report.model_choice
    cost = estimate_cost(embedder.provider, embedder.model, report.tokens, prices)
    if cost is not None:
        figures["estimatedCost"] = {"amount": cost, "currency": currency}
    return figures


def estimate_cost(provider: str, model: str, tokens: int, prices: Mapping[str, float]) -> float | None:
    """Estimate what embedding takes by the operator's prices of a million tokens; None if the model has none."""
    price = 0.0 if provider == "LOCAL" else prices.get(f"{provider}/{model}")
    return None if price is None else round(tokens * price / 1_000_000, 6)
