"""Job runs in a listing, and what is asked of one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from api.wire.common import DataAnswer, Identified, NextCursor, PageSize, Timestamp
from api.wire.ingest import (
    Chunking,
    DryRunReport,
    NamespaceId,
    OcrConfig,
    Outcome,
    PrefectUrl,
    RunNotice,
    RunOutcome,
    RunProgress,
    ShownDryRun,
    Timings,
)
from retrieval.jobs.control import Summary

RunStatus = Literal["QUEUED", "PRE_PROCESSING", "PROCESSING", "COMPLETED"]


class ListQuery(Struct, rename="camel"):
    """Which job runs; `cursor` is the `nextCursor` of the page before."""

    namespace_id: NamespaceId
    status: Annotated[RunStatus | None, Meta(description="Only job runs with this status.")] = None
    outcome: Annotated[RunOutcome | None, Meta(description="Only job runs that ended so.")] = None
    source: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="Job runs of this source only; dry runs by the one that they try."),
    ] = None
    q: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(description="A piece of the run's id, address or account, or of its first document's name, in any case."),
    ] = None
    ids: Annotated[
        Annotated[str, Meta(max_length=6000)] | None,
        Meta(description="Ids of job runs with commas between, up to 100: these alone."),
    ] = None
    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the page before.")] = None
    page_size: PageSize = None


class RunQuery(Struct, rename="camel"):
    """Where the job run is, how many of its documents to answer, and how long to wait for another status."""

    namespace_id: NamespaceId
    document_limit: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        Meta(description="Documents at most, failed and unfinished ones first; all of them without it."),
    ] = None
    wait_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=30)] | None, Meta(description="How long to wait for another status.")
    ] = None
    since: Annotated[RunStatus | None, Meta(description="The status that is known already.")] = None


class RunRequest(Struct, rename="camel"):
    """Where the job run is."""

    namespace_id: NamespaceId


class RetryRequest(Struct, rename="camel"):
    """Where the job run is, and how else to read and cut what failed."""

    namespace_id: NamespaceId
    ocr_config: Annotated[OcrConfig | None, Meta(description="How to find the text of a file.")] = None
    chunk_config: Chunking = None

    def changes(self) -> dict[str, Any]:
        """Of the job's configuration. INVALID_CHUNK_CONFIG."""
        changed: dict[str, Any] = {}
        if self.ocr_config is not None:
            changed["ocr"] = self.ocr_config.strategy.value
        if self.chunk_config is not None:
            self.chunk_config.check("chunkConfig")
            size, overlap = self.chunk_config.chunk_size, self.chunk_config.chunk_overlap
            changed |= {"chunkSize": size, "chunkOverlap": overlap}
        return changed


class JobRunSummary(Struct, rename="camel", kw_only=True):
    """A job run without its documents."""

    id: Annotated[str, Meta(description="The id.")]
    name: Annotated[str, Meta(description="What the run is about: a host, a file, a connection, how many documents.")]
    status: Annotated[RunStatus, Meta(description="How far it is.")]
    outcome: Outcome
    source: Annotated[str, Meta(description="Where the content came from.")]
    ingest_job: Annotated[Identified, Meta(description="The ingestion request that it came from.")]
    created_at: Annotated[Timestamp, Meta(description="When it was made.")]
    updated_at: Annotated[Timestamp, Meta(description="When it last changed.")]
    progress: Annotated[RunProgress, Meta(description="How many documents have come how far.")]
    notices: Annotated[
        list[RunNotice],
        Meta(description="What a person is to know of the run beside its documents, such as why it found nothing."),
    ]
    timings: Timings
    prefect_url: PrefectUrl
    dry_run: ShownDryRun | UnsetType = UNSET
    report: Annotated[
        DryRunReport | UnsetType | None,
        Meta(description="What the ingestion would do; null until the dry run has ended."),
    ] = UNSET

    @classmethod
    def of(cls, run: Summary, prefect_url: str | None) -> JobRunSummary:
        return cls(
            id=run.id,
            name=run.name,
            status=convert(run.status, RunStatus),
            outcome=convert(run.outcome, RunOutcome | None),
            source=run.source,
            ingest_job=Identified(run.job_id),
            created_at=Timestamp.of(run.created_at),
            updated_at=Timestamp.of(run.updated_at),
            progress=convert(run.progress, RunProgress),
            notices=RunNotice.all_of(run.notices),
            timings=dict(run.timings),
            prefect_url=prefect_url,
            dry_run=True if run.dry_run else UNSET,
            report=DryRunReport.of(run.progress) if run.dry_run else UNSET,
        )


class JobRunsData(Struct, rename="camel"):
    """A page of job runs, newest first."""

    ingest_job_runs: list[JobRunSummary]
    items_returned: Annotated[int, Meta(description="How many are in this answer.")]
    has_next_page: Annotated[bool, Meta(description="Whether there are more.")]
    next_cursor: NextCursor


class JobRunsAnswer(DataAnswer[JobRunsData]):
    """The job runs of the namespace and tenant, newest first."""
