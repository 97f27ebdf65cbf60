"""Vector stores and files in the format of OpenAI's API: namespaces and documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct

from retrieval.database.pagination import Aged
from retrieval.documents import metadata
from retrieval.documents.documents import DocumentRow
from retrieval.documents.queries import uploads as file_uploads
from retrieval.documents.queries.uploads import StoreCount
from retrieval.errors import ErrorCode, ServiceError
from retrieval.job_config import Ingestion
from retrieval.jobs.runs import JobRun
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.settings import Settings
from retrieval.statuses import DocumentStatus

EntryT = TypeVar("EntryT", bound=Aged)
INVALID_REQUEST = ErrorCode.INVALID_REQUEST
DEFAULT_NAME = "Vector store"
MAX_BATCH_FILES = 500

_ATTRIBUTES_SCHEMA = {
    "maxProperties": 16,
    "additionalProperties": {
        "anyOf": [{"type": "string", "maxLength": 512}, {"type": "number"}, {"type": "boolean"}],
    },
    "propertyNames": {"maxLength": 64},
}
Attributes = Annotated[
    dict[str, Any],
    Meta(
        description="Up to 16 pairs of strings, numbers and booleans: the document's metadata.",
        examples=[{"topic": "seals"}],
        extra_json_schema=_ATTRIBUTES_SCHEMA,
    ),
]
FileStatus = Literal["in_progress", "completed", "failed", "cancelled"]
Moment = Annotated[int, Meta(description="Unix seconds.")]
_FILE_STATUSES: dict[str, FileStatus] = {
    DocumentStatus.SUCCESS: "completed",
    DocumentStatus.FAILED: "failed",
    DocumentStatus.CANCELLED: "cancelled",
}


def file_status(status: str) -> FileStatus:
    """Return OpenAI's name of a document status."""
    return _FILE_STATUSES.get(status, "in_progress")


def document_statuses(name: FileStatus) -> tuple[str, ...]:
    """Return the document statuses of an OpenAI status."""
    return tuple(str(status) for status in DocumentStatus if file_status(status) == name)


def accept_attributes(attributes: dict[str, Any] | None, settings: Settings) -> dict[str, Any]:
    """Return the attributes with keys in NFC; raise INVALID_REQUEST above the limits."""
    pairs = attributes or {}
    for key, value in pairs.items():
        if not isinstance(value, str | int | float) or len(key) > 64 or len(str(value)) > 512:
            message = "attributes: keys have up to 64 characters, values are strings of up to 512, numbers or booleans."
            raise ServiceError(INVALID_REQUEST, message, field=f"attributes.{key[:64]}", reason="wrong_type")
    if len(pairs) > 16:
        raise ServiceError(INVALID_REQUEST, "attributes: at most 16 pairs.", field="attributes", reason="too_many_keys")
    return metadata.accept_metadata(pairs, settings, INVALID_REQUEST, "attributes")


class StaticChunks(Struct):
    """Chunk settings in tokens of the embedding model."""

    max_chunk_size_tokens: Annotated[int, Meta(ge=1, le=8191, description="Maximum number of tokens of a chunk.")] = 800
    chunk_overlap_tokens: Annotated[
        int, Meta(ge=0, le=8190, description="Number of tokens shared with the previous chunk.")
    ] = 400


class ChunkingStrategy(Struct):
    """`auto`: the defaults of the service; `static`: the sent sizes."""

    type: Annotated[Literal["auto", "static", "other"], Meta(description="The kind of chunking.")] = "auto"
    static: StaticChunks | None = None


def build_ingestion(strategy: ChunkingStrategy | None) -> Ingestion:
    """Return the settings of a job run; raise INVALID_REQUEST for an overlap not below the chunk size."""
    if strategy is None or strategy.type != "static":
        return Ingestion()
    chunks, at = strategy.static or StaticChunks(), "chunking_strategy.static.chunk_overlap_tokens"
    if chunks.chunk_overlap_tokens >= chunks.max_chunk_size_tokens:
        message = f"{at} must be smaller than max_chunk_size_tokens."
        raise ServiceError(INVALID_REQUEST, message, field=at, reason="overlap_too_large")
    return Ingestion(chunk_size=chunks.max_chunk_size_tokens, chunk_overlap=chunks.chunk_overlap_tokens)


Chunking = Annotated[ChunkingStrategy | None, Meta(description="Chunk settings. Default: those of the service.")]
FileIds = Annotated[
    list[Annotated[str, Meta(max_length=64)]],
    Meta(
        max_length=MAX_BATCH_FILES, description="Ids of uploaded files.", examples=[["file-06gzpnn6z30k9qdmrw54faz30g"]]
    ),
]
StoreName = Annotated[Annotated[str, Meta(max_length=200)] | None, Meta(description="The namespace's name.")]


class CreateVectorStore(Struct):
    """A namespace on the embedded defaults. `metadata` and `expires_after` are accepted and have no effect."""

    name: StoreName = None
    file_ids: FileIds = []
    chunking_strategy: Chunking = None

    def list_files(self) -> list[AddFile]:
        """Return distinct files."""
        return [AddFile(name, None, self.chunking_strategy) for name in dict.fromkeys(self.file_ids)]


class UpdateVectorStore(Struct):
    """Another name. `metadata` and `expires_after` are accepted and have no effect."""

    name: StoreName = None


class AddFile(Struct):
    """An uploaded file to ingest."""

    file_id: Annotated[str, Meta(max_length=64, description="The id of the uploaded file.")]
    attributes: Attributes | None = None
    chunking_strategy: Chunking = None


class AddFiles(Struct):
    """Uploaded files to ingest: `file_ids` with attributes for all, or `files` with attributes of their own."""

    file_ids: FileIds = []
    files: Annotated[
        list[AddFile], Meta(max_length=MAX_BATCH_FILES, description="Files with attributes of their own.")
    ] = []
    attributes: Attributes | None = None
    chunking_strategy: Chunking = None

    def list_files(self) -> list[AddFile]:
        """Return distinct files; raise INVALID_REQUEST for none, both forms or different chunk settings."""
        if bool(self.file_ids) is bool(self.files):
            raise ServiceError(INVALID_REQUEST, "Send either file_ids or files.", field="file_ids", reason="missing")
        files = self.files or [AddFile(name, self.attributes, self.chunking_strategy) for name in self.file_ids]
        if any(file.chunking_strategy != files[0].chunking_strategy for file in files):
            message = "All files of a batch have the same chunking_strategy."
            raise ServiceError(INVALID_REQUEST, message, field="files", reason="not_allowed")
        return list({file.file_id: file for file in files}.values())


class UpdateFile(Struct):
    """New attributes, in place of the document's."""

    attributes: Attributes | None


class StoreList(Struct):
    """A page of a list: entries after `after` and before `before`. Both are ids of entries."""

    after: Annotated[str | None, Meta(description="The id of the entry that the page begins after.")] = None
    before: Annotated[str | None, Meta(description="The id of the entry that the list ends before.")] = None
    limit: Annotated[int, Meta(ge=1, le=100, description="Maximum number of entries.")] = 20
    order: Annotated[Literal["asc", "desc"], Meta(description="By time of creation.")] = "desc"

    @property
    def is_ascending(self) -> bool:
        """Return whether the oldest entry is the first."""
        return self.order == "asc"

    def cut_page(self, rows: Sequence[EntryT], end: Aged | None) -> tuple[list[EntryT], bool]:
        """Return the page's rows before `end`, and whether more follow; `rows` has one more than a page."""
        if end is not None:
            position = (end.created_at, end.id)
            rows = [row for row in rows if _precedes((row.created_at, row.id), position, ascending=self.is_ascending)]
        return list(rows[: self.limit]), len(rows) > self.limit


def _precedes(position: tuple[datetime, str], end: tuple[datetime, str], *, ascending: bool) -> bool:
    return position < end if ascending else position > end


def unknown_entry(field: str) -> ServiceError:
    """Return the error for an unknown id in `after` or `before`."""
    return ServiceError(INVALID_REQUEST, f"{field} names no entry of this list.", field=field, reason="bad_cursor")


class StoreFileList(StoreList):
    """A page of a vector store's files."""

    filter: Annotated[FileStatus | None, Meta(description="The status of the files.")] = None


class FileCounts(Struct):
    """Numbers of files by status."""

    in_progress: Annotated[int, Meta(description="Files that are being ingested.")] = 0
    completed: Annotated[int, Meta(description="Files that are searchable.")] = 0
    failed: Annotated[int, Meta(description="Files that could not be ingested.")] = 0
    cancelled: Annotated[int, Meta(description="Files whose ingestion was cancelled.")] = 0
    total: Annotated[int, Meta(description="All files.")] = 0

    def add_files(self, status: FileStatus, number: int) -> None:
        setattr(self, status, getattr(self, status) + number)
        self.total += number


class VectorStore(Struct, kw_only=True):
    """A namespace."""

    id: Annotated[str, Meta(description="The namespace's id.")]
    object: Annotated[Literal["vector_store"], Meta(description="The type of the object.")] = "vector_store"
    created_at: Moment
    name: Annotated[str, Meta(description="The namespace's name.")]
    usage_bytes: Annotated[int, Meta(description="Bytes of all documents.")]
    file_counts: FileCounts
    status: Annotated[Literal["in_progress", "completed"], Meta(description="Whether documents are being ingested.")]
    last_active_at: Annotated[int | None, Meta(description="Time of the last change, in Unix seconds.")]
    expires_after: Annotated[None, Meta(description="Always null.")] = None
    expires_at: Annotated[None, Meta(description="Always null.")] = None
    metadata: Annotated[None, Meta(description="Always null.")] = None

    @classmethod
    def from_namespace(cls, namespace: NamespaceConfig, counts: Iterable[StoreCount]) -> VectorStore:
        """Return the vector store; `counts` covers all namespaces of the response."""
        store_counts = [count for count in counts if count.namespace_id == namespace.id]
        files = FileCounts()
        for count in store_counts:
            files.add_files(file_status(count.status), count.documents)
        return cls(
            id=namespace.id,
            created_at=unix_seconds(namespace.created_at),
            name=namespace.name,
            usage_bytes=sum(count.size for count in store_counts),
            file_counts=files,
            status="in_progress" if files.in_progress else "completed",
            last_active_at=unix_seconds(max([namespace.updated_at, *(count.updated_at for count in store_counts)])),
        )


class LastError(Struct):
    """The reason of a failure."""

    message: Annotated[str, Meta(description="The reason and a remedy.")]
    code: Annotated[Literal["server_error", "invalid_file"], Meta(description="The kind of failure.")] = "invalid_file"


class VectorStoreFile(Struct, kw_only=True):
    """A document of a vector store."""

    id: Annotated[str, Meta(description="The id of its upload, else the document's.")]
    object: Annotated[Literal["vector_store.file"], Meta(description="The type of the object.")] = "vector_store.file"
    created_at: Moment
    vector_store_id: Annotated[str, Meta(description="The namespace's id.")]
    status: Annotated[FileStatus, Meta(description="The status of the document.")]
    last_error: LastError | None
    usage_bytes: Annotated[int, Meta(description="The size of its content.")]
    attributes: Annotated[
        dict[str, str | int | float | bool], Meta(description="Metadata with string, number and boolean values.")
    ]
    chunking_strategy: Chunking

    @classmethod
    def from_row(cls, row: DocumentRow, namespace_id: str) -> VectorStoreFile:
        size, overlap = row.embedding.get("chunkSize"), row.embedding.get("chunkOverlap")
        chunks = None if size is None else ChunkingStrategy("static", StaticChunks(size, overlap or 0))
        return cls(
            id=file_uploads.file_id(row.id, row.external_id),
            created_at=unix_seconds(row.created_at),
            vector_store_id=namespace_id,
            status=file_status(row.status),
            last_error=LastError(row.error) if row.error is not None else None,
            usage_bytes=int(row.properties.get("fileSize") or 0),
            attributes=scalar_values(row.metadata),
            chunking_strategy=chunks,
        )


class FileBatch(Struct, kw_only=True):
    """A job run over uploaded files."""

    id: Annotated[str, Meta(description="The job run's id.")]
    object: Annotated[Literal["vector_store.files_batch"], Meta(description="The type of the object.")] = (
        "vector_store.files_batch"
    )
    created_at: Moment
    vector_store_id: Annotated[str, Meta(description="The namespace's id.")]
    status: Annotated[FileStatus, Meta(description="The status of the job run.")]
    file_counts: FileCounts

    @classmethod
    def from_job_run(cls, run: JobRun, namespace_id: str) -> FileBatch:
        counts = FileCounts()
        for status, documents in (
            ("in_progress", [*run.queued, *run.processing]),
            ("completed", run.completed),
            ("failed", run.failed),
            ("cancelled", run.cancelled),
        ):
            counts.add_files(status, len(documents))  # type: ignore[arg-type]
        return cls(
            id=run.id,
            created_at=unix_seconds(run.created_at),
            vector_store_id=namespace_id,
            status=_batch_status(run, counts),
            file_counts=counts,
        )


def _batch_status(run: JobRun, counts: FileCounts) -> FileStatus:
    if counts.in_progress or (run.outcome is None and not counts.total):
        return "in_progress"
    return "cancelled" if counts.cancelled else "failed" if counts.failed == counts.total else "completed"


class Removed(Struct, kw_only=True):
    """The receipt of a deletion."""

    id: Annotated[str, Meta(description="The id of what was deleted.")]
    object: Annotated[
        Literal["vector_store.deleted", "vector_store.file.deleted", "file"],
        Meta(description="The type of the object."),
    ]
    deleted: Annotated[Literal[True], Meta(description="Always true.")] = True


class EntryPage(Struct, kw_only=True):
    object: Annotated[Literal["list"], Meta(description="The type of the response.")] = "list"
    first_id: Annotated[str | None, Meta(description="The id of the first entry; null without any.")]
    last_id: Annotated[str | None, Meta(description="The id of the last entry; null without any.")]
    has_more: Annotated[bool, Meta(description="Whether further entries follow.")]


class VectorStorePage(EntryPage, kw_only=True):
    """A page of vector stores."""

    data: list[VectorStore]

    @classmethod
    def from_entries(cls, entries: list[VectorStore], *, has_more: bool) -> VectorStorePage:
        first, last = (entries[0].id, entries[-1].id) if entries else (None, None)
        return cls(data=entries, has_more=has_more, first_id=first, last_id=last)


class VectorStoreFilePage(EntryPage, kw_only=True):
    """A page of a vector store's files."""

    data: list[VectorStoreFile]

    @classmethod
    def from_entries(cls, entries: list[VectorStoreFile], *, has_more: bool) -> VectorStoreFilePage:
        first, last = (entries[0].id, entries[-1].id) if entries else (None, None)
        return cls(data=entries, has_more=has_more, first_id=first, last_id=last)


class FileText(Struct):
    """The parsed text."""

    text: Annotated[str, Meta(description="The text.")]
    type: Annotated[Literal["text"], Meta(description="The kind of content: always text.")] = "text"


class FileTextPage(Struct, kw_only=True):
    """The parsed text of a vector store's file."""

    object: Annotated[Literal["vector_store.file_content.page"], Meta(description="The type of the response.")] = (
        "vector_store.file_content.page"
    )
    data: list[FileText]
    has_more: Annotated[Literal[False], Meta(description="Always false: there is one page.")] = False
    next_page: Annotated[None, Meta(description="Always null.")] = None


def scalar_values(values: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Return the metadata values that attributes can hold."""
    return {name: value for name, value in values.items() if isinstance(value, str | int | float)}


def unix_seconds(moment: datetime) -> int:
    return int(moment.astimezone(UTC).timestamp())
