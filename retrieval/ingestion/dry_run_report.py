"""Report of a dry run: documents and pages by outcome, tokens, seconds and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, LiteralString

from retrieval.database.database import Database
from retrieval.ports import Embedder

MAX_PLANNED_PER_ACTION: Final = 500


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """Document to be created, updated or removed by an ingestion, or failed."""

    name: str
    action: str
    error: str | None = None
    linked_from: str | None = None


_UNSCALED_FIELDS: Final = frozenset({"remove", "sampled", "model_choice", "planned"})


@dataclass(slots=True)
class DryRunReport:
    """Counts of a dry run by outcome, and the planned documents."""

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
    # Chosen model and reason.
    model_choice: str = ""
    # By action.
    planned: dict[str, list[PlannedDocument]] = field(default_factory=dict)

    def plan(self, name: str, action: str, error: str | None = None, linked_from: str | None = None) -> None:
        """Add a document to the plan, up to the limit per action."""
        documents = self.planned.setdefault(action, [])
        if len(documents) < MAX_PLANNED_PER_ACTION:
            documents.append(PlannedDocument(name, action, error, linked_from or None))

    def add_sample(self, sample: DryRunReport, factor: float) -> None:
        """Add the counts of a sample times `factor`."""
        for name in (column.name for column in fields(self) if column.name not in _UNSCALED_FIELDS):
            setattr(self, name, getattr(self, name) + round(getattr(sample, name) * factor))
        for documents in sample.planned.values():
            for document in documents:
                self.plan(document.name, document.action, document.error, document.linked_from)


_PACE_QUERY: LiteralString = """
    select case when sum(r.seconds) > 0 then (sum(t.tokens) / greatest(sum(r.seconds), 0.01))::float8 end from (
        select id, (timings ->> 'embed')::float8 as seconds from job_runs
        where partition_id = %(partition)s and finished_at is not null and timings ? 'embed'
        order by number desc limit 20
    ) r cross join lateral (
        select coalesce(sum((w.properties ->> 'tokenCount')::bigint), 0) as tokens from run_documents w
        where w.job_run_id = r.id and w.status = 'SUCCESS'
    ) t
"""
# Tokens per second, for a partition without earlier runs.
DEFAULT_TOKENS_PER_SECOND: Final = 3_000.0


def estimate_seconds(db: Database, partition: int, tokens: int, spent: float) -> float:
    """Estimate the seconds of the ingestion: the dry run's time plus embedding at the pace of the last runs."""
    pace = db.fetch_one(float, _PACE_QUERY, {"partition": partition}) or DEFAULT_TOKENS_PER_SECOND
    return round(spent + tokens / max(pace, 1.0), 1)


def report_json(
    report: DryRunReport, embedder: Embedder, prices: Mapping[str, float], currency: str, estimate: float
) -> dict[str, Any]:
    """Return the report in wire names, with the cost if the model's price is known."""
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
    """Estimate the embedding cost by the prices per million tokens; None for a model without a price."""
    price = 0.0 if provider == "LOCAL" else prices.get(f"{provider}/{model}")
    return None if price is None else round(tokens * price / 1_000_000, 6)
