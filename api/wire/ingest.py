"""Ingestion on the wire: what to take in and how to cut it, and the receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from api.wire.access import Access, of_request
from api.wire.common import Answer, Identified, Timestamp
from retrieval.errors import ErrorCode, ServiceError
from retrieval.job_config import Ingestion
from retrieval.jobs.outcome import Notice
from retrieval.jobs.queueing import Waiting
from retrieval.jobs.runs import Accepted, JobRun, Receipt, RunDocument
from retrieval.ports import OcrStrategy
from retrieval.statuses import DocumentStatus, RunStatus

Metadata = Annotated[
    dict[str, Any],
    Meta(description="Free-form, up to 50 keys; filters work on scalars and lists of scalars.", examples=[{"page": 7}]),
]
NamespaceId = Annotated[
    str, Meta(description="The namespace's id.", examples=["ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"])
]
ModifiedAt = Annotated[
    str,
    Meta(
        max_length=64,
        description="When the content was last modified: ISO 8601; without an offset in UTC.",
        examples=["2026-01-31T12:00:00Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
DryRun = Annotated[
    bool, Meta(description="Ingest nothing: the job run reports what would be created, updated, removed and embedded.")
]
ShortText = Annotated[str, Meta(min_length=1, max_length=1024)]


For = Annotated[
    Access | None,
    Meta(description="Whom its documents are for. Absent: a new one is for everyone, a known one as it is."),
]


class ChunkConfig(Struct, rename="camel"):
    """How to cut documents, in tokens of the embedding model. What is above the model's limit is lowered to it."""

    chunk_size: Annotated[int, Meta(ge=1, le=8191, examples=[1000])]
    chunk_overlap: Annotated[int, Meta(ge=0, le=8190, examples=[200])]

    def check(self, field: str) -> None:
        if self.chunk_overlap >= self.chunk_size:
            raise ServiceError(
                ErrorCode.INVALID_CHUNK_CONFIG,
                f"{field}.chunkOverlap must be smaller than chunkSize.",
                field=f"{field}.chunkOverlap",
                reason="overlap_too_large",
            )


class OcrConfig(Struct, rename="camel"):
    """How to find the text of a file."""

    strategy: OcrStrategy = OcrStrategy.BASIC_PARSER


class TextConfig(Struct, rename="camel"):
    """A text. Its identity is `externalId`, else `name`, else the text itself: the same identity again replaces it."""

    text: Annotated[str, Meta(min_length=1, examples=["Turn the key to the left to open the cover."])]
    metadata: Metadata | None = None
    name: ShortText | None = None
    external_id: ShortText | None = None
    chunk_config: ChunkConfig | None = None
    modified_at: ModifiedAt | None = None
    access: For = None


class TextIngestion(Struct, rename="camel"):
    """A text with how to cut it. A `chunkConfig` within `config` is honoured where there is none beside it."""

    source: Literal["TEXT"]
    config: TextConfig
    chunk_config: ChunkConfig | None = None


class IngestText(Struct, rename="camel"):
    """A text to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: TextIngestion
    dry_run: DryRun | None = False


class FileSource(StrEnum):
    """Where a file comes from; both mean this request."""

    FILE = "FILE"
    LOCAL_FILE = "LOCAL_FILE"


class FileForm(Struct, rename="camel", kw_only=True):
    """The fields of the form beside the file; those that are objects are JSON as text."""

    namespace_id: NamespaceId
    source: FileSource = FileSource.LOCAL_FILE
    metadata: Metadata | None = None
    chunk_config: ChunkConfig | None = None
    ocr_config: OcrConfig | None = None
    external_id: ShortText | None = None
    modified_at: ModifiedAt | None = None
    dry_run: DryRun = False
    access: For = None


class JobRunDocument(Struct, rename="camel"):
    """A document within a job run. `error` is null unless it failed. `name`: its file, page or title in that run.

    `name` is absent in the answer to an ingestion.
    """

    id: str
    status: Annotated[
        str,
        Meta(extra_json_schema={"enum": [*map(str, DocumentStatus)]}),
    ]
    error: str | None
    name: str | UnsetType = UNSET

    @classmethod
    def of(cls, entry: RunDocument) -> JobRunDocument:
        return cls(entry.id, entry.status, entry.error, UNSET if entry.name is None else entry.name)


class IngestData(Struct, rename="camel"):
    """The receipt: read the job run to follow its progress."""

    ingest_job_run_id: str
    documents: list[JobRunDocument]


class IngestAnswer(Answer, kw_only=True):
    """The request is queued, durably."""

    data: IngestData

    @classmethod
    def of(cls, accepted: Accepted, what: str) -> IngestAnswer:
        known = [JobRunDocument(accepted.document_id, DocumentStatus.QUEUED, None)]
        message = f"Added {what} ingestion request to the queue"
        if accepted.replaces:
            message += "; it replaces the document of the same identity, which stays searchable until then"
        return cls(message=message, data=IngestData(accepted.job_run_id, known))

    @classmethod
    def of_dry_run(cls, receipt: Receipt, what: str) -> IngestAnswer:
        """Nothing will be ingested."""
        message = f"Added dry run of the {what} ingestion to the queue"
        return cls(message=message, data=IngestData(receipt.job_run_id, []))

    @classmethod
    def of_several(cls, receipt: Receipt, what: str) -> IngestAnswer:
        known = [JobRunDocument(document, DocumentStatus.QUEUED, None) for document in receipt.documents]
        message = f"Added {what} ingestion request to the queue"
        if receipt.replaces:
            message += f"; documents that it replaces, which stay searchable until then: {receipt.replaces}"
        return cls(message=message, data=IngestData(receipt.job_run_id, known))


class JobRunDocuments(Struct):
    """The documents of a run by how far they have come."""

    queued: list[JobRunDocument]
    processing: list[JobRunDocument]
    completed: list[JobRunDocument]
    failed: list[JobRunDocument]
    cancelled: list[JobRunDocument]


class RunProgress(Struct, rename="camel"):
    """How many documents have come how far. An unchanged one was fetched and needed no more; skipped ones were found
    and left out, with the reasons. Removed ones are gone at the content service; of many at once the removal awaits a
    person's confirmation."""

    found: int
    fetched: int
    parsed: int
    chunked: int
    embedded: int
    upserted: int
    failed: int
    skipped: int = 0
    skipped_reasons: dict[str, int] = {}
    removed: int = 0
    awaiting_confirmation: int = 0


class RunNotice(Struct):
    """What a person is to know of a run beside its documents, and of how many things it is true."""

    reason: str
    count: int

    @classmethod
    def all_of(cls, told: Sequence[Notice]) -> list[RunNotice]:
        return [cls(one.reason, one.count) for one in told]


Timings = Annotated[dict[str, float], Meta(description="Seconds spent in each step.", examples=[{"parse": 0.12}])]
PrefectUrl = Annotated[str | None, Meta(description="The flow run in Prefect's own pages; null before it has one.")]

QueuePosition = Annotated[
    int | None,
    Meta(
        description="From 1, the next to begin, among the job runs of its source in this namespace and tenant; counted"
        " to 10,001. Null when the run does not wait."
    ),
]
EstimatedStart = Annotated[
    Timestamp | None,
    Meta(description="When it is likely to begin, by recent throughput. Null when it does not wait, or nobody knows."),
]


ShownDryRun = Annotated[bool, Meta(description="There only where it is true: nothing is ingested.")]
RunOutcome = Literal["SUCCEEDED", "COMPLETED_WITH_FAILURES", "FAILED", "CANCELLED"]
Outcome = Annotated[RunOutcome | None, Meta(description="How the run ended; null before it has.")]


class EstimatedCost(Struct):
    """What the embedding costs, by the prices that the operator has set."""

    amount: float
    currency: str


class DryRunReport(Struct, rename="camel", kw_only=True):
    """What an ingestion would do to documents, and what it takes. `sampled`: not all of them were read."""

    create: int
    update: int
    unchanged: int
    remove: int
    failed: int
    pages: int
    chunks: int
    tokens_to_embed: int
    embedding_calls: int
    estimated_seconds: float
    sampled: bool
    pages_recognised: Annotated[int, Meta(description="Pages that are recognised from their picture.")] = 0
    pages_unread: Annotated[int, Meta(description="Pages that cannot be read, and are left out.")] = 0
    estimated_cost: EstimatedCost | UnsetType = UNSET

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> DryRunReport | None:
        return convert(progress["report"], cls) if progress.get("report") else None


class JobRunData(Struct, rename="camel"):
    """A job run. COMPLETED when every document is at its end, failed ones too; its outcome says how it ended."""

    id: str
    name: str
    status: Annotated[str, Meta(extra_json_schema={"enum": [*map(str, RunStatus)]})]
    outcome: Outcome
    source: str
    connection: Identified | None
    documents: JobRunDocuments
    created_at: Timestamp
    updated_at: Timestamp
    queue_position: QueuePosition
    estimated_start: EstimatedStart
    progress: RunProgress
    notices: list[RunNotice]
    timings: Timings
    prefect_url: PrefectUrl
    dry_run: ShownDryRun | UnsetType = UNSET
    report: DryRunReport | UnsetType | None = UNSET

    @classmethod
    def of(cls, run: JobRun, prefect_url: str | None, waiting: Waiting | None = None) -> JobRunData:
        def entries(group: list[RunDocument]) -> list[JobRunDocument]:
            return [JobRunDocument.of(entry) for entry in group]

        return cls(
            id=run.id,
            name=run.name,
            status=run.status,
            outcome=convert(run.outcome, RunOutcome | None),
            source=run.source,
            connection=Identified(run.connection_id) if run.connection_id else None,
            documents=JobRunDocuments(
                entries(run.queued),
                entries(run.processing),
                entries(run.completed),
                entries(run.failed),
                entries(run.cancelled),
            ),
            created_at=Timestamp.of(run.created_at),
            updated_at=Timestamp.of(run.updated_at),
            queue_position=waiting.position if waiting else None,
            estimated_start=Timestamp.of(waiting.start) if waiting and waiting.start else None,
            progress=convert(run.progress, RunProgress),
            notices=RunNotice.all_of(run.notices),
            timings=dict(run.timings),
            prefect_url=prefect_url,
            dry_run=True if run.dry_run else UNSET,
            report=DryRunReport.of(run.progress) if run.dry_run else UNSET,
        )


class JobRunAnswer(Answer, kw_only=True):
    """A job run as it stands."""

    data: JobRunData


def ingestion(
    metadata: dict[str, Any] | None,
    chunks: ChunkConfig | None,
    *,
    chunks_at: str,
    ocr: OcrConfig | None = None,
    modified: tuple[str, str | None] | None = None,
    access: tuple[str, Access | None] | None = None,
) -> Ingestion:
    """The wire's options as the service's own; what was not sent takes the service's defaults.

    modified, access: the path of `modifiedAt` and of `access` in the request, and what was sent there.
    """
    given: dict[str, Any] = {"metadata": metadata}
    if chunks is not None:
        chunks.check(chunks_at)
        given |= {"chunk_size": chunks.chunk_size, "chunk_overlap": chunks.chunk_overlap}
    if ocr is not None:
        given["ocr"] = ocr.strategy
    if modified is not None and modified[1] is not None:
        given["modified_at"] = _moment(modified[1], modified[0])
    if access is not None:
        given["access"] = of_request(access[1], ErrorCode.INVALID_INGEST_CONFIG, access[0])
    return Ingestion(**given)


def _moment(sent: str, field: str) -> str:
    """In UTC, to the millisecond."""
    try:
        moment = datetime.fromisoformat(sent)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        message = f"{field} must be a date by ISO 8601 in the years 1 to 9999, such as 2026-11-20T12:00:00Z."
        raise ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field=field, reason="not_a_date") from error
    return Timestamp.of(moment).iso_string
