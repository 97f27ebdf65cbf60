"""Resyncs in requests and responses, with reports of dry runs."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, NamespaceId
from api.wire.dry_runs import EstimatedCost
from api.wire.filters import FilterConfig
from api.wire.ingest import OcrConfig
from api.wire.runs import FilePassword
from retrieval.documents.queries.counts import StoredSize
from retrieval.jobs import resync
from retrieval.jobs.resync import Resync


class ResyncDocuments(Struct, rename="camel", kw_only=True):
    """Filter of the documents to ingest again from their source. A filter without restrictions is refused."""

    namespace_id: NamespaceId
    filter_config: FilterConfig
    confirm_deletions: Annotated[
        bool | None, Meta(description="Confirm the removal of documents that a complete listing no longer contains.")
    ] = False
    ocr_config: Annotated[
        OcrConfig | None,
        Meta(description="Settings of text recognition, for texts, files and URL lists. Default: those of before."),
    ] = None
    password: FilePassword = None
    dry_run: Annotated[
        bool | None, Meta(description="Queue nothing: the response has what would be queued, and a `report` of it.")
    ] = False


class ResyncReport(Struct, rename="camel", kw_only=True):
    """Stored size of the documents to queue: the maximum to embed unless content grew."""

    documents: Annotated[int, Meta(description="Documents to read again, with those that are packed into them.")]
    documents_without_chunks: Annotated[
        int, Meta(description="Documents among them without stored chunks, such as failed ones: not estimated.")
    ]
    chunks: Annotated[int, Meta(description="Stored chunks of the documents.")]
    tokens: Annotated[
        int, Meta(description="Tokens of these chunks. Chunks that did not change are not embedded again.")
    ]
    estimated_cost: Annotated[
        EstimatedCost | UnsetType,
        Meta(description="Cost of embedding all of these tokens; absent if the model has no price."),
    ] = UNSET

    @classmethod
    def from_size(cls, size: StoredSize, cost: float | None, currency: str) -> ResyncReport:
        return cls(
            documents=size.documents,
            documents_without_chunks=size.unread,
            chunks=size.chunks,
            tokens=size.tokens,
            estimated_cost=UNSET if cost is None else EstimatedCost(cost, currency),
        )


class ResyncedDocument(Struct, rename="camel"):
    """Result for a matching document. `error` is the reason why the document is not eligible."""

    id: Annotated[str, Meta(description="The object's id.")]
    status: Annotated[
        str,
        Meta(
            extra_json_schema={"enum": [resync.QUEUED_STATUS, resync.NOT_ELIGIBLE_STATUS, resync.REMOVED_STATUS]},
            description="The current status.",
        ),
    ]
    error: Annotated[
        str | None, Meta(description="Reason why the document cannot be fetched again; null if it is queued.")
    ]


class ResyncData(Struct, rename="camel", kw_only=True):
    """One job run for each job of the queued documents; `ingestJobRunId` is the first, null without any."""

    items_queued: Annotated[int, Meta(description="Number of queued documents.")]
    items_skipped: Annotated[int, Meta(description="Number of documents that cannot be fetched again.")]
    documents: Annotated[list[ResyncedDocument], Meta(description="Result for each matching document.")]
    ingest_job_run_id: Annotated[str | None, Meta(description="The first of the job runs; null if nothing was queued.")]
    ingest_job_run_ids: Annotated[list[str], Meta(description="The job runs to follow.")]
    report: Annotated[
        ResyncReport | UnsetType, Meta(description="Effects of the resync; absent unless it is a dry run.")
    ] = UNSET

    @classmethod
    def from_result(cls, result: Resync, report: ResyncReport | UnsetType = UNSET) -> ResyncData:
        return cls(
            items_queued=result.queued,
            items_skipped=len(result.documents) - result.queued,
            documents=[ResyncedDocument(document.id, document.status, document.error) for document in result.documents],
            ingest_job_run_id=result.job_runs[0] if result.job_runs else None,
            ingest_job_run_ids=result.job_runs,
            report=report,
        )


class ResyncAnswer(DataAnswer[ResyncData]):
    """The eligible documents are queued, or would be in a dry run; until the end nothing changes in searches."""
