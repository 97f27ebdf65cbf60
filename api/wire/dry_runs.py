"""Reports of dry runs in responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert, structs


class EstimatedCost(Struct):
    """Cost of the embedding at the operator's prices."""

    amount: Annotated[float, Meta(description="The amount in units of the currency.")]
    currency: Annotated[str, Meta(description="Currency code (ISO 4217).")]


class PlannedDocument(Struct, rename="camel"):
    """Effect of the ingestion on one document."""

    name: Annotated[str, Meta(description="The name of the document, or the URL of the page.")]
    action: Annotated[
        Literal["CREATE", "UPDATE", "REMOVE", "FAILED"],
        Meta(description="Whether it would be created, updated or removed, or fails."),
    ]
    error: Annotated[str | None, Meta(description="Reason of the failure; null if it does not fail.")] = None
    linked_from: Annotated[
        str | None, Meta(description="A page with a link to this page if a crawl could not fetch it; null otherwise.")
    ] = None


class DryRunReport(Struct, rename="camel", kw_only=True):
    """Effects of an ingestion on documents, and the cost."""

    create: Annotated[int, Meta(description="Documents that would be new.")]
    update: Annotated[int, Meta(description="Documents that would be replaced.")]
    unchanged: Annotated[int, Meta(description="Documents that would stay unchanged.")]
    remove: Annotated[
        int, Meta(description="Documents that would be removed because they no longer exist at the source.")
    ]
    failed: Annotated[int, Meta(description="Documents that cannot be read.")]
    pages: Annotated[int, Meta(description="Pages of the documents to create and update; 0 for formats without pages.")]
    chunks: Annotated[int, Meta(description="Chunks of the documents to create and update.")]
    tokens_to_embed: Annotated[int, Meta(description="Tokens that would be sent to the model, titles included.")]
    embedding_calls: Annotated[int, Meta(description="Requests to the model, or batches of a LOCAL model.")]
    estimated_seconds: Annotated[float, Meta(description="Estimated duration of the ingestion in seconds.")]
    sampled: Annotated[bool, Meta(description="Whether the report is estimated from a sample of the documents.")]
    pages_recognised: Annotated[int, Meta(description="Pages that need optical character recognition.")] = 0
    pages_unread: Annotated[int, Meta(description="Pages that cannot be read and are omitted.")] = 0
    estimated_cost: Annotated[
        EstimatedCost | UnsetType,
        Meta(description="Estimated cost of the embedding; absent if the model has no price."),
    ] = UNSET
    model_choice: Annotated[
        str | UnsetType,
        Meta(description="Model that would be chosen for `auto`, and the reason; absent for a namespace with a model."),
    ] = UNSET
    documents: Annotated[
        list[PlannedDocument] | UnsetType,
        Meta(
            description="At most 500 documents per action, of a sampled list only the sample; absent in lists of runs."
        ),
    ] = UNSET

    @classmethod
    def from_progress(cls, progress: Mapping[str, Any], *, lists_documents: bool = True) -> DryRunReport | None:
        """Return the report in a run's progress; None before the end of the dry run."""
        if not progress.get("report"):
            return None
        report = convert(progress["report"], cls)
        return report if lists_documents else structs.replace(report, documents=UNSET)
