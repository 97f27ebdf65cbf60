"""Job runs in requests and responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from api.wire.common import DataAnswer, NamespaceId, NextCursor, ObjectReference, PageSize, Timestamp
from api.wire.dry_runs import DryRunReport
from api.wire.ingest import Chunking, JobRunDocument, OcrConfig
from api.wire.push import Trigger
from retrieval.jobs import runs
from retrieval.jobs.control import RunSummary
from retrieval.jobs.queueing import QueueEstimate
from retrieval.jobs.run_outcome import Notice
from retrieval.jobs.runs import JobRun, RunDocument
from retrieval.statuses import RunStatus

StatusName = Literal["QUEUED", "PRE_PROCESSING", "PROCESSING", "COMPLETED"]
RunOutcome = Literal["SUCCEEDED", "COMPLETED_WITH_FAILURES", "FAILED", "CANCELLED"]

FailureCause = Literal[
    "NO_TEXT", "PASSWORD", "CONNECTION", "PAGE_MISSING", "ADDRESS", "NOT_ANSWERING", "UNREADABLE", "OTHER"
]

FilePassword = Annotated[
    Annotated[str, Meta(min_length=1, max_length=255)] | None,
    Meta(
        description="Password of the protected files. No response shows it; it is deleted when the job run has ended."
    ),
]


class ListQuery(Struct, rename="camel"):
    """Filters, order and page of job runs."""

    namespace_id: NamespaceId
    status: Annotated[StatusName | None, Meta(description="Only job runs with this status.")] = None
    outcome: Annotated[RunOutcome | None, Meta(description="Only job runs with this outcome.")] = None
    source: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="Only job runs and dry runs of this source."),
    ] = None
    q: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(description="Substring of the run's id, URL or account, or of its first document's name, ignoring case."),
    ] = None
    ids: Annotated[
        Annotated[str, Meta(max_length=6000)] | None,
        Meta(description="Only job runs with these ids: at most 100, separated by commas."),
    ] = None
    sort: Annotated[
        Literal["newest", "oldest", "longest", "status"] | None,
        Meta(
            description="The order. Default: newest first. `longest`: by working time. `status`: unfinished runs first."
        ),
    ] = None
    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the previous page.")] = None
    page_size: PageSize = None


class RunQuery(Struct, rename="camel"):
    """Namespace of the job run, and options of the response."""

    namespace_id: NamespaceId
    document_limit: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | None,
        Meta(description="Maximum number of documents, failed and unfinished ones first. Default: all."),
    ] = None
    wait_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=30)] | None,
        Meta(description="Maximum time to wait until the status differs from `since`, in seconds."),
    ] = None
    since: Annotated[StatusName | None, Meta(description="The last known status.")] = None
    with_flow_run: Annotated[
        bool, Meta(description="True to read the states of the flow run from Prefect, for at most 2 seconds.")
    ] = False


class RunRequest(Struct, rename="camel"):
    """Namespace of the job run."""

    namespace_id: NamespaceId


class RetryRequest(Struct, rename="camel"):
    """Namespace of the job run, failed documents to retry, and changed options."""

    namespace_id: NamespaceId
    failure_causes: Annotated[
        list[FailureCause] | None, Meta(description="Only documents with these failure causes. Default: all.")
    ] = None
    ocr_config: Annotated[OcrConfig | None, Meta(description="Settings of text recognition.")] = None
    chunk_config: Chunking = None
    password: FilePassword = None

    def to_changes(self) -> dict[str, Any]:
        """Return the changes to the job's configuration; raise INVALID_CHUNK_CONFIG for a too large overlap."""
        changes: dict[str, Any] = {}
        if self.ocr_config is not None:
            changes["ocr"] = self.ocr_config.strategy.value
        if self.chunk_config is not None:
            self.chunk_config.check_overlap("chunkConfig")
            changes["chunkSize"] = self.chunk_config.chunk_size
            changes["chunkOverlap"] = self.chunk_config.chunk_overlap
        return changes


class JobRunDocuments(Struct):
    """Documents of a run by status."""

    queued: Annotated[list[JobRunDocument], Meta(description="Documents that wait.")]
    processing: Annotated[list[JobRunDocument], Meta(description="Documents that are processed.")]
    completed: Annotated[list[JobRunDocument], Meta(description="Documents that are searchable.")]
    failed: Annotated[list[JobRunDocument], Meta(description="Documents that failed, with the reason.")]
    cancelled: Annotated[list[JobRunDocument], Meta(description="Cancelled documents.")]


class FailureCount(Struct):
    """Number of failed documents with the same cause."""

    cause: Annotated[FailureCause, Meta(description="Cause of the failures; it determines the remedy.")]
    count: Annotated[int, Meta(description="Number of documents.")]
    open: Annotated[int, Meta(description="Number of these without a later job run, such as a retry.")]

    @classmethod
    def from_count(cls, count: runs.CauseCount) -> FailureCount:
        return cls(convert(count.cause, FailureCause), count.documents, count.open)


class RunProgress(Struct, rename="camel"):
    """Number of documents by step. The removal of many documents requires confirmation."""

    found: Annotated[int, Meta(description="Listed documents.")]
    fetched: Annotated[int, Meta(description="Fetched documents.")]
    parsed: Annotated[int, Meta(description="Parsed documents.")]
    chunked: Annotated[int, Meta(description="Chunked documents.")]
    embedded: Annotated[int, Meta(description="Embedded documents.")]
    upserted: Annotated[int, Meta(description="Documents whose vectors are stored.")]
    failed: Annotated[int, Meta(description="Documents that failed.")]
    indexed: Annotated[int, Meta(description="Documents whose version of this run is searchable.")] = 0
    unchanged: Annotated[int, Meta(description="Fetched documents whose content has not changed.")] = 0
    cancelled: Annotated[int, Meta(description="Cancelled documents.")] = 0
    open: Annotated[int, Meta(description="Documents that wait or are processed.")] = 0
    skipped: Annotated[int, Meta(description="Entries that were listed but not ingested.")] = 0
    skipped_reasons: Annotated[dict[str, int], Meta(description="Number of skipped entries by reason.")] = {}
    removed: Annotated[int, Meta(description="Documents removed because they no longer exist at the source.")] = 0
    awaiting_confirmation: Annotated[int, Meta(description="Documents whose removal awaits confirmation.")] = 0


class RunNotice(Struct):
    """A notice about a run, with the number of affected objects."""

    reason: Annotated[str, Meta(description="The notice as a sentence.")]
    count: Annotated[int, Meta(description="Number of affected objects; 0 if not applicable.")]

    @classmethod
    def from_notices(cls, notices: Sequence[Notice]) -> list[RunNotice]:
        return [cls(notice.reason, notice.count) for notice in notices]


Timings = Annotated[dict[str, float], Meta(description="Seconds spent in each step.", examples=[{"parse": 0.12}])]
PrefectUrl = Annotated[str | None, Meta(description="URL of the flow run in Prefect; null before it exists.")]

QueuePosition = Annotated[
    int | None,
    Meta(
        description="Position in the queue among the job runs of its source in this namespace and tenant, from 1; "
        "10,001 for all later positions. Null if the run does not wait."
    ),
]
EstimatedStart = Annotated[
    Timestamp | None,
    Meta(description="Estimated start, from recent throughput. Null if unknown, or if the run does not wait."),
]


DryRunFlag = Annotated[bool, Meta(description="True for a dry run, which ingests nothing; absent otherwise.")]
OutcomeOrNull = Annotated[RunOutcome | None, Meta(description="Result of the run; null before its end.")]


class FlowRunState(Struct, rename="camel"):
    """A state of the flow run in Prefect."""

    type: Annotated[str, Meta(description="Type of the state in Prefect, such as RUNNING.", examples=["COMPLETED"])]
    name: Annotated[str, Meta(description="Name of the state in Prefect, such as Late or CompletedWithFailures.")]
    message: Annotated[str | None, Meta(description="Message of the state; null without one.")]
    began_at: Annotated[Timestamp, Meta(description="Time at which the flow run entered the state.")]


class FlowRun(Struct, rename="camel"):
    """The flow run of a job run in Prefect."""

    reachable: Annotated[bool, Meta(description="False if Prefect does not answer, or refuses the request.")]
    states: Annotated[
        list[FlowRunState], Meta(description="States of the flow run, oldest first; the last is current.")
    ]


class JobRunData(Struct, rename="camel"):
    """A job run. COMPLETED means that no document waits or is processed; `outcome` is the result."""

    id: Annotated[str, Meta(description="The object's id.")]
    name: Annotated[
        str,
        Meta(
            description="Name of the run: a host, a file, a connection, or a number of documents. It never contains "
            "a query string."
        ),
    ]
    status: Annotated[str, Meta(extra_json_schema={"enum": [*map(str, RunStatus)]}, description="The current status.")]
    outcome: OutcomeOrNull
    source: Annotated[str, Meta(description="The source of the content.")]
    connection: Annotated[ObjectReference | None, Meta(description="The connection; null without one.")]
    documents: Annotated[JobRunDocuments, Meta(description="The documents of the run by status.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    updated_at: Annotated[Timestamp, Meta(description="Time of the last change.")]
    queue_position: QueuePosition
    estimated_start: EstimatedStart
    progress: Annotated[RunProgress, Meta(description="Number of documents by step.")]
    failures: Annotated[
        list[FailureCount], Meta(description="Number of failed documents by cause, the most frequent first.")
    ]
    notices: Annotated[list[RunNotice], Meta(description="Notices about the run, such as why it is empty.")]
    timings: Timings
    prefect_url: PrefectUrl
    trigger: Trigger | UnsetType = UNSET
    flow_run: Annotated[
        FlowRun | UnsetType | None,
        Meta(
            description="The flow run in Prefect, with `withFlowRun`; null before it exists or without Prefect's URL."
        ),
    ] = UNSET
    dry_run: DryRunFlag | UnsetType = UNSET
    report: Annotated[
        DryRunReport | UnsetType | None, Meta(description="Effects of the ingestion; null until the dry run has ended.")
    ] = UNSET

    @classmethod
    def from_job_run(
        cls,
        run: JobRun,
        prefect_url: str | None,
        queue_estimate: QueueEstimate | None = None,
        flow_run: FlowRun | UnsetType | None = UNSET,
    ) -> JobRunData:
        def list_documents(group: list[RunDocument]) -> list[JobRunDocument]:
            return [JobRunDocument.from_entry(entry) for entry in group]

        return cls(
            id=run.id,
            name=run.name,
            status=run.status,
            outcome=convert(run.outcome, RunOutcome | None),
            source=run.source,
            connection=ObjectReference(run.connection_id) if run.connection_id else None,
            documents=JobRunDocuments(
                list_documents(run.queued),
                list_documents(run.processing),
                list_documents(run.completed),
                list_documents(run.failed),
                list_documents(run.cancelled),
            ),
            created_at=Timestamp.from_datetime(run.created_at),
            updated_at=Timestamp.from_datetime(run.updated_at),
            queue_position=queue_estimate.position if queue_estimate else None,
            estimated_start=(
                Timestamp.from_datetime(queue_estimate.start) if queue_estimate and queue_estimate.start else None
            ),
            progress=convert(run.progress, RunProgress),
            failures=[FailureCount.from_count(count) for count in run.failures],
            notices=RunNotice.from_notices(run.notices),
            timings=dict(run.timings),
            prefect_url=prefect_url,
            trigger="PUSH" if run.trigger else UNSET,
            flow_run=flow_run,
            dry_run=True if run.dry_run else UNSET,
            report=DryRunReport.from_progress(run.progress) if run.dry_run else UNSET,
        )


class JobRunAnswer(DataAnswer[JobRunData]):
    """The current state of a job run."""


class JobRunSummary(Struct, rename="camel", kw_only=True):
    """A job run without its documents."""

    id: Annotated[str, Meta(description="The object's id.")]
    name: Annotated[str, Meta(description="Name of the run: a host, a file, a connection, or a number of documents.")]
    status: Annotated[StatusName, Meta(description="The current status.")]
    outcome: OutcomeOrNull
    source: Annotated[str, Meta(description="The source of the content.")]
    ingest_job: Annotated[ObjectReference, Meta(description="The ingestion job.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    updated_at: Annotated[Timestamp, Meta(description="Time of the last change.")]
    started_at: Annotated[Timestamp | None, Meta(description="Time at which a worker started the run; null before.")]
    finished_at: Annotated[Timestamp | None, Meta(description="Time at which the run ended; null before.")]
    progress: Annotated[RunProgress, Meta(description="Number of documents by step.")]
    notices: Annotated[list[RunNotice], Meta(description="Notices about the run, such as why it is empty.")]
    timings: Timings
    prefect_url: PrefectUrl
    trigger: Trigger | UnsetType = UNSET
    dry_run: DryRunFlag | UnsetType = UNSET
    report: Annotated[
        DryRunReport | UnsetType | None, Meta(description="Effects of the ingestion; null until the dry run has ended.")
    ] = UNSET

    @classmethod
    def from_summary(cls, run: RunSummary, prefect_url: str | None) -> JobRunSummary:
        return cls(
            id=run.id,
            name=run.name,
            status=convert(run.status, StatusName),
            outcome=convert(run.outcome, RunOutcome | None),
            source=run.source,
            ingest_job=ObjectReference(run.job_id),
            created_at=Timestamp.from_datetime(run.created_at),
            updated_at=Timestamp.from_datetime(run.updated_at),
            started_at=Timestamp.from_optional(run.started_at),
            finished_at=Timestamp.from_optional(run.finished_at),
            progress=convert(run.progress, RunProgress),
            notices=RunNotice.from_notices(run.notices),
            timings=dict(run.timings),
            prefect_url=prefect_url,
            trigger="PUSH" if run.trigger else UNSET,
            dry_run=True if run.dry_run else UNSET,
            report=DryRunReport.from_progress(run.progress, lists_documents=False) if run.dry_run else UNSET,
        )


class JobRunsData(Struct, rename="camel"):
    """A page of job runs, in the order of `sort`."""

    ingest_job_runs: list[JobRunSummary]
    items_returned: Annotated[int, Meta(description="Number of entries in this response.")]
    has_next_page: Annotated[bool, Meta(description="Whether another page follows.")]
    next_cursor: NextCursor
    total_count: Annotated[
        int | UnsetType, Meta(description="Number of entries on all pages; not with `q` or `outcome`.")
    ] = UNSET


class JobRunsAnswer(DataAnswer[JobRunsData]):
    """The job runs of the namespace and tenant."""
