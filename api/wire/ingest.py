"""Ingestion on the wire: what to take in and how to cut it, and the receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from api.wire.access import Access, of_request
from api.wire.common import Answer, DataAnswer, Identified, Timestamp
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

    chunk_size: Annotated[int, Meta(ge=1, le=8191, examples=[1000], description="Tokens of a chunk at most.")]
    chunk_overlap: Annotated[
        int,
        Meta(
            ge=0,
            le=8190,
            examples=[200],
            description="Tokens that a chunk repeats of the one before; fewer than chunkSize.",
        ),
    ]

    def check(self, field: str) -> None:
        if self.chunk_overlap >= self.chunk_size:
            raise ServiceError(
                ErrorCode.INVALID_CHUNK_CONFIG,
                f"{field}.chunkOverlap must be smaller than chunkSize.",
                field=f"{field}.chunkOverlap",
                reason="overlap_too_large",
            )


Chunking = Annotated[
    ChunkConfig | None, Meta(description="How to cut documents; 1000 tokens with 200 of overlap without it.")
]


class OcrConfig(Struct, rename="camel"):
    """How to find the text of a file."""

    strategy: Annotated[
        OcrStrategy, Meta(description="The file's own text layer only, or optical recognition too.")
    ] = OcrStrategy.BASIC_PARSER


class TextConfig(Struct, rename="camel"):
    """A text. Its identity is `externalId`, else `name`, else the text itself: the same identity again replaces it."""

    text: Annotated[
        str,
        Meta(
            min_length=1, examples=["Turn the key to the left to open the cover."], description="The text, up to 5 MiB."
        ),
    ]
    metadata: Metadata | None = None
    name: Annotated[
        ShortText | None, Meta(description="The document's name; its identity where no externalId is sent.")
    ] = None
    external_id: Annotated[
        ShortText | None,
        Meta(description="The document's identity at its source: the same one again replaces the document."),
    ] = None
    chunk_config: Chunking = None
    modified_at: ModifiedAt | None = None
    access: For = None


class TextIngestion(Struct, rename="camel"):
    """A text with how to cut it. A `chunkConfig` within `config` is honoured where there is none beside it."""

    source: Annotated[Literal["TEXT"], Meta(description="Where the content comes from; it must fit the path.")]
    config: Annotated[TextConfig, Meta(description="What to take from the source.")]
    chunk_config: Chunking = None


class IngestText(Struct, rename="camel"):
    """A text to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: Annotated[TextIngestion, Meta(description="What to ingest, and how.")]
    dry_run: DryRun | None = False


class FileSource(StrEnum):
    """Where a file comes from; both mean this request."""

    FILE = "FILE"
    LOCAL_FILE = "LOCAL_FILE"


class FileForm(Struct, rename="camel", kw_only=True):
    """The fields of the form beside the file; those that are objects are JSON as text."""

    namespace_id: NamespaceId
    source: Annotated[FileSource, Meta(description="Where the content comes from; it must fit the path.")] = (
        FileSource.LOCAL_FILE
    )
    metadata: Metadata | None = None
    chunk_config: Chunking = None
    ocr_config: Annotated[OcrConfig | None, Meta(description="How to find the text of a file.")] = None
    external_id: Annotated[
        ShortText | None,
        Meta(description="The document's identity at its source: the same one again replaces the document."),
    ] = None
    modified_at: ModifiedAt | None = None
    dry_run: DryRun = False
    access: For = None


class JobRunDocument(Struct, rename="camel"):
    """A document within a job run. `error` is null unless it failed. `name`: its file, page or title in that run.

    `name` is absent in the answer to an ingestion.
    """

    id: Annotated[str, Meta(description="The id.")]
    status: Annotated[
        str,
        Meta(extra_json_schema={"enum": [*map(str, DocumentStatus)]}, description="How far it is."),
    ]
    error: Annotated[str | None, Meta(description="Why the document failed and what to do; null unless it failed.")]
    name: Annotated[str | UnsetType, Meta(description="The name, for people.")] = UNSET

    @classmethod
    def of(cls, entry: RunDocument) -> JobRunDocument:
        return cls(entry.id, entry.status, entry.error, UNSET if entry.name is None else entry.name)


class IngestData(Struct, rename="camel"):
    """The receipt: read the job run to follow its progress."""

    ingest_job_run_id: Annotated[str, Meta(description="The job run to follow.")]
    documents: Annotated[list[JobRunDocument], Meta(description="The documents that are known at once.")]


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

    queued: Annotated[list[JobRunDocument], Meta(description="Documents that wait.")]
    processing: Annotated[list[JobRunDocument], Meta(description="Documents that are worked on.")]
    completed: Annotated[list[JobRunDocument], Meta(description="Documents that are searchable.")]
    failed: Annotated[list[JobRunDocument], Meta(description="Documents that failed, with the reason.")]
    cancelled: Annotated[list[JobRunDocument], Meta(description="Documents that were ended by a person.")]


class RunProgress(Struct, rename="camel"):
    """How many documents have come how far. An unchanged one was fetched and needed no more; skipped ones were found
    and left out, with the reasons. Removed ones are gone at the content service; of many at once the removal awaits a
    person's confirmation."""

    found: Annotated[int, Meta(description="Documents that are known.")]
    fetched: Annotated[int, Meta(description="Documents whose content is there.")]
    parsed: Annotated[int, Meta(description="Documents whose text was read.")]
    chunked: Annotated[int, Meta(description="Documents that were cut.")]
    embedded: Annotated[int, Meta(description="Documents whose chunks have vectors.")]
    upserted: Annotated[int, Meta(description="Documents whose vectors are stored.")]
    failed: Annotated[int, Meta(description="Documents that failed.")]
    skipped: Annotated[int, Meta(description="What was found and left out.")] = 0
    skipped_reasons: Annotated[dict[str, int], Meta(description="How many were left out for which reason.")] = {}
    removed: Annotated[int, Meta(description="Documents that are gone at the content service and were removed.")] = 0
    awaiting_confirmation: Annotated[
        int, Meta(description="Documents that are gone at the content service and wait for a person's confirmation.")
    ] = 0


class RunNotice(Struct):
    """What a person is to know of a run beside its documents, and of how many things it is true."""

    reason: Annotated[str, Meta(description="What there is to know, in a sentence.")]
    count: Annotated[int, Meta(description="Of how many things it is true; 0 where there is nothing to count.")]

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

    amount: Annotated[float, Meta(description="In units of the currency.")]
    currency: Annotated[str, Meta(description="ISO 4217.")]


class DryRunReport(Struct, rename="camel", kw_only=True):
    """What an ingestion would do to documents, and what it takes. `sampled`: not all of them were read."""

    create: Annotated[int, Meta(description="Documents that would be new.")]
    update: Annotated[int, Meta(description="Documents that would be replaced.")]
    unchanged: Annotated[int, Meta(description="Documents of which nothing would be embedded.")]
    remove: Annotated[int, Meta(description="Documents that would be removed because they are gone at their source.")]
    failed: Annotated[int, Meta(description="Documents that cannot be read.")]
    pages: Annotated[int, Meta(description="Pages of the documents to create and update, where they have pages.")]
    chunks: Annotated[int, Meta(description="Chunks of the documents to create and update.")]
    tokens_to_embed: Annotated[int, Meta(description="Tokens that would be sent to the model, titles included.")]
    embedding_calls: Annotated[int, Meta(description="Requests to the model; batches of a LOCAL one.")]
    estimated_seconds: Annotated[float, Meta(description="How long the ingestion takes, about.")]
    sampled: Annotated[bool, Meta(description="Whether some documents were read for all.")]
    pages_recognised: Annotated[int, Meta(description="Pages that are recognised from their picture.")] = 0
    pages_unread: Annotated[int, Meta(description="Pages that cannot be read, and are left out.")] = 0
    estimated_cost: Annotated[
        EstimatedCost | UnsetType,
        Meta(description="What the embedding costs; absent where the model's price is not set."),
    ] = UNSET

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> DryRunReport | None:
        return convert(progress["report"], cls) if progress.get("report") else None


class JobRunData(Struct, rename="camel"):
    """A job run. COMPLETED when every document is at its end, failed ones too; its outcome says how it ended."""

    id: Annotated[str, Meta(description="The id.")]
    name: Annotated[
        str,
        Meta(
            description="What the run is about: a host, a file, a connection, how many documents. Never a query string."
        ),
    ]
    status: Annotated[str, Meta(extra_json_schema={"enum": [*map(str, RunStatus)]}, description="How far it is.")]
    outcome: Outcome
    source: Annotated[str, Meta(description="Where the content comes from.")]
    connection: Annotated[Identified | None, Meta(description="The connection that it came by; null without one.")]
    documents: Annotated[JobRunDocuments, Meta(description="The documents of the run by their state.")]
    created_at: Annotated[Timestamp, Meta(description="When it was made.")]
    updated_at: Annotated[Timestamp, Meta(description="When it last changed.")]
    queue_position: QueuePosition
    estimated_start: EstimatedStart
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


class JobRunAnswer(DataAnswer[JobRunData]):
    """A job run as it stands."""


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
