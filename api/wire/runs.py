"""Job runs in a listing, and what is asked of one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from api.wire.common import Answer, Identified, Timestamp
from api.wire.ingest import (
    ChunkConfig,
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
    status: RunStatus | None = None
    outcome: RunOutcome | None = None
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
    cursor: str | None = None
    page_size: Annotated[int, Meta(ge=1, le=100)] | None = None


class RunQuery(Struct, rename="camel"):
    """Where the job run is, how many of its documents to answer, and how long to wait for another status."""

    namespace_id: NamespaceId
    document_limit: Annotated[int, Meta(ge=0, le=1000)] | None = None
    wait_seconds: Annotated[int, Meta(ge=0, le=30)] | None = None
    since: RunStatus | None = None


class RunRequest(Struct, rename="camel"):
    """Where the job run is."""

    namespace_id: NamespaceId


class RetryRequest(Struct, rename="camel"):
    """Where the job run is, and how else to read and cut what failed."""

    namespace_id: NamespaceId
    ocr_config: OcrConfig | None = None
    chunk_config: ChunkConfig | None = None

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

    id: str
    name: str
    status: RunStatus
    outcome: Outcome
    source: str
    ingest_job: Identified
    created_at: Timestamp
    updated_at: Timestamp
    progress: RunProgress
    notices: list[RunNotice]
    timings: Timings
    prefect_url: PrefectUrl
    dry_run: ShownDryRun | UnsetType = UNSET
    report: DryRunReport | UnsetType | None = UNSET

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
    items_returned: int
    has_next_page: bool
    next_cursor: str | None


class JobRunsAnswer(Answer, kw_only=True):
    """The job runs of the namespace and tenant, newest first."""

    data: JobRunsData
