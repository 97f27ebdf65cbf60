"""Ingestion requests of texts, files and web pages, receipts, and conversion of files."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.access import Access, read_access
from api.wire.common import Answer, DataAnswer, NamespaceId, Timestamp
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ingestion.convert import ConversionResult
from retrieval.job_config import Ingestion
from retrieval.jobs.runs import DocumentReceipt, RunDocument, RunReceipt
from retrieval.ports import OcrStrategy
from retrieval.statuses import DocumentStatus

Metadata = Annotated[
    dict[str, Any],
    Meta(description="Free-form, up to 50 keys; filters work on scalars and lists of scalars.", examples=[{"page": 7}]),
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


AccessOption = Annotated[
    Access | None,
    Meta(
        description="Access list of the documents. Absent: new documents are open to everyone with a key, "
        "existing ones keep their list."
    ),
]


class ChunkConfig(Struct, rename="camel"):
    """Chunking of documents, in tokens of the embedding model. Values above the model's limit are lowered."""

    chunk_size: Annotated[int, Meta(ge=1, le=8191, examples=[1000], description="Maximum number of tokens of a chunk.")]
    chunk_overlap: Annotated[
        int, Meta(ge=0, le=8190, examples=[200], description="Number of tokens shared with the previous chunk.")
    ]

    def check_overlap(self, field: str) -> None:
        if self.chunk_overlap >= self.chunk_size:
            raise ServiceError(
                ErrorCode.INVALID_CHUNK_CONFIG,
                f"{field}.chunkOverlap must be smaller than chunkSize.",
                field=f"{field}.chunkOverlap",
                reason="overlap_too_large",
            )


Chunking = Annotated[
    ChunkConfig | None, Meta(description="Chunk settings. Default: 1000 tokens with an overlap of 200.")
]


class OcrConfig(Struct, rename="camel"):
    """Text recognition of a file."""

    strategy: Annotated[
        OcrStrategy,
        Meta(description="Whether to use only the file's text layer, or optical character recognition too."),
    ] = OcrStrategy.BASIC_PARSER


class TextConfig(Struct, rename="camel"):
    """A text. Its identity is `externalId`, else `name`, else the text; the same identity again replaces the
    document."""

    text: Annotated[
        str,
        Meta(
            min_length=1, examples=["Turn the key to the left to open the cover."], description="The text, up to 5 MiB."
        ),
    ]
    metadata: Metadata | None = None
    name: Annotated[ShortText | None, Meta(description="The document's name. Used as external id if none is sent.")] = (
        None
    )
    external_id: Annotated[
        ShortText | None,
        Meta(description="The document's external id. Ingesting the same external id again replaces the document."),
    ] = None
    chunk_config: Chunking = None
    modified_at: ModifiedAt | None = None
    access: AccessOption = None


class TextIngestion(Struct, rename="camel"):
    """A text with chunk settings. `chunkConfig` takes precedence over `config.chunkConfig`."""

    source: Annotated[Literal["TEXT"], Meta(description="The source. It must match the path.")]
    config: Annotated[TextConfig, Meta(description="Settings of the source.")]
    chunk_config: Chunking = None


class IngestText(Struct, rename="camel"):
    """A text to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: Annotated[TextIngestion, Meta(description="Settings of the ingestion.")]
    dry_run: DryRun | None = False


class FileSource(StrEnum):
    """Source of a file; both values mean the file of this request."""

    FILE = "FILE"
    LOCAL_FILE = "LOCAL_FILE"


class FileForm(Struct, rename="camel", kw_only=True):
    """Fields of the form other than the file; objects are JSON as text."""

    namespace_id: NamespaceId
    source: Annotated[FileSource, Meta(description="The source. It must match the path.")] = FileSource.LOCAL_FILE
    metadata: Metadata | None = None
    chunk_config: Chunking = None
    ocr_config: Annotated[OcrConfig | None, Meta(description="Settings of text recognition.")] = None
    external_id: Annotated[
        ShortText | None,
        Meta(description="The document's external id. Ingesting the same external id again replaces the document."),
    ] = None
    modified_at: ModifiedAt | None = None
    dry_run: DryRun = False
    access: AccessOption = None


class JobRunDocument(Struct, rename="camel"):
    """A document within a job run. `error` is null unless the document failed.

    `name` is absent in the response to an ingestion.
    """

    id: Annotated[str, Meta(description="The object's id.")]
    status: Annotated[
        str, Meta(extra_json_schema={"enum": [*map(str, DocumentStatus)]}, description="The current status.")
    ]
    error: Annotated[
        str | None, Meta(description="Reason of the failure and a remedy; null if the document has not failed.")
    ]
    name: Annotated[str | UnsetType, Meta(description="The display name: a URL for a page of a crawl.")] = UNSET
    linked_from: Annotated[
        str | UnsetType, Meta(description="The page that led to it, for a page that a crawl could not fetch.")
    ] = UNSET
    retried_in: Annotated[
        str | UnsetType, Meta(description="The later job run that took a failed document, such as a retry.")
    ] = UNSET

    @classmethod
    def from_entry(cls, entry: RunDocument) -> JobRunDocument:
        name = UNSET if entry.name is None else entry.name
        linked_from, retried_in = entry.linked_from or UNSET, entry.retried_in or UNSET
        return cls(entry.id, entry.status, entry.error, name, linked_from, retried_in)


class IngestData(Struct, rename="camel"):
    """The receipt: read the job run to follow its progress."""

    ingest_job_run_id: Annotated[str, Meta(description="The job run to follow.")]
    documents: Annotated[list[JobRunDocument], Meta(description="The documents that are already known.")]


class IngestAnswer(Answer, kw_only=True):
    """The request is durably queued."""

    data: IngestData

    @classmethod
    def for_document(cls, accepted: DocumentReceipt, noun: str) -> IngestAnswer:
        documents = [JobRunDocument(accepted.document_id, DocumentStatus.QUEUED, None)]
        message = f"Added {noun} ingestion request to the queue"
        if accepted.replaces:
            message += "; it replaces the document of the same identity, which stays searchable until then"
        return cls(message=message, data=IngestData(accepted.job_run_id, documents))

    @classmethod
    def of_dry_run(cls, receipt: RunReceipt, noun: str) -> IngestAnswer:
        message = f"Added dry run of the {noun} ingestion to the queue"
        return cls(message=message, data=IngestData(receipt.job_run_id, []))

    @classmethod
    def of_several(cls, receipt: RunReceipt, noun: str) -> IngestAnswer:
        queued = [JobRunDocument(document, DocumentStatus.QUEUED, None) for document in receipt.document_ids]
        message = f"Added {noun} ingestion request to the queue"
        if receipt.replaced_ids:
            message += f"; documents that it replaces, which stay searchable until then: {len(receipt.replaced_ids)}"
        return cls(message=message, data=IngestData(receipt.job_run_id, queued))


def build_ingestion(
    metadata: dict[str, Any] | None,
    chunks: ChunkConfig | None,
    *,
    chunks_at: str,
    ocr: OcrConfig | None = None,
    modified: tuple[str, str | None] | None = None,
    access: tuple[str, Access | None] | None = None,
) -> Ingestion:
    """Convert request options to an Ingestion; absent options take the defaults."""
    # `modified` and `access`: path and value of the option.
    values: dict[str, Any] = {"metadata": metadata}
    if chunks is not None:
        chunks.check_overlap(chunks_at)
        values |= {"chunk_size": chunks.chunk_size, "chunk_overlap": chunks.chunk_overlap}
    if ocr is not None:
        values["ocr"] = ocr.strategy
    if modified is not None and modified[1] is not None:
        values["modified_at"] = _normalize_date(modified[1], modified[0])
    if access is not None:
        values["access"] = read_access(access[1], ErrorCode.INVALID_INGEST_CONFIG, access[0])
    return Ingestion(**values)


def _normalize_date(text: str, field: str) -> str:
    """Return a date in UTC, to the millisecond."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        message = f"{field} must be a date by ISO 8601 in the years 1 to 9999, such as 2026-11-20T12:00:00Z."
        raise ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field=field, reason="not_a_date") from error
    return Timestamp.from_datetime(moment).iso_string


Address = Annotated[str, Meta(min_length=1, max_length=2048, examples=["https://docs.example.com/start"])]
Selector = Annotated[str, Meta(min_length=1)]
Fragment = Annotated[str, Meta(min_length=1, max_length=2048)]
Paths = Annotated[list[Fragment], Meta(description="Substrings of the URL, at most 100.", examples=[["/guide/"]])]
MaxLinks = Annotated[int, Meta(ge=1, description="Maximum number of documents, up to 10,000.")]


class ScrapeOptions(Struct, rename="camel"):
    """CSS selectors of included and excluded elements of a page; up to 50 of 200 characters each."""

    include_selectors: Annotated[
        Annotated[list[Selector], Meta(examples=[["main"]])] | None,
        Meta(description="CSS selectors of the elements to include."),
    ] = None
    exclude_selectors: Annotated[
        Annotated[list[Selector], Meta(examples=[["nav", ".ads"]])] | None,
        Meta(description="CSS selectors of the elements to exclude."),
    ] = None


class PageConfig(Struct, rename="camel", kw_only=True):
    """Common options of URLs, sitemaps and websites."""

    scrape_options: Annotated[ScrapeOptions | None, Meta(description="Elements of a page to include and exclude.")] = (
        None
    )
    metadata: Metadata | None = None
    chunk_config: Chunking = None
    access: AccessOption = None

    def to_job_config(self, **addresses: Any) -> dict[str, Any]:
        """Return the options for the flow under their API names, without options of the ingestion."""
        members = msgspec.to_builtins(self) | addresses
        return {
            key: value
            for key, value in members.items()
            if key not in {"metadata", "chunkConfig", "access"} and value is not None
        }


class UrlsConfig(PageConfig, kw_only=True):
    """Pages by their URLs, up to 1000. The same URL again replaces its document."""

    urls: Annotated[list[Address], Meta(min_length=1, description="The pages' URLs, up to 1000.")]


class SitemapConfig(PageConfig, kw_only=True):
    """The pages of a sitemap. `excludePaths` takes precedence over `includePaths`."""

    url: Annotated[Address, Meta(description="URL of the sitemap or the start page.")]
    max_links: MaxLinks | None = 1000
    include_paths: Paths | None = None
    exclude_paths: Paths | None = None


class WebsiteConfig(PageConfig, kw_only=True):
    """The pages of a site, found by links. `maxDepth` counts links from the start page."""

    url: Annotated[Address, Meta(description="URL of the sitemap or the start page.")]
    max_depth: Annotated[
        Annotated[int, Meta(ge=1, le=5)] | None,
        Meta(description="Maximum number of links between the start page and a page."),
    ] = 3
    max_links: MaxLinks | None = 100
    include_paths: Paths | None = None
    exclude_paths: Paths | None = None
    use_sitemap: Annotated[
        bool, Meta(description="Whether to ingest pages that only the sitemaps in robots.txt name, within `maxLinks`.")
    ] = True


class UrlsIngestion(Struct, rename="camel"):
    """Pages with chunk settings. `chunkConfig` takes precedence over `config.chunkConfig`."""

    source: Annotated[Literal["URLS_LIST"], Meta(description="The source. It must match the path.")]
    config: Annotated[UrlsConfig, Meta(description="Settings of the source.")]
    chunk_config: Chunking = None


class SitemapIngestion(Struct, rename="camel"):
    """A sitemap with chunk settings."""

    source: Annotated[Literal["SITEMAP"], Meta(description="The source. It must match the path.")]
    config: Annotated[SitemapConfig, Meta(description="Settings of the source.")]
    chunk_config: Chunking = None


class WebsiteIngestion(Struct, rename="camel"):
    """A website with chunk settings."""

    source: Annotated[Literal["WEBSITE"], Meta(description="The source. It must match the path.")]
    config: Annotated[WebsiteConfig, Meta(description="Settings of the source.")]
    chunk_config: Chunking = None


class IngestUrls(Struct, rename="camel"):
    """URLs to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: Annotated[UrlsIngestion, Meta(description="Settings of the ingestion.")]
    dry_run: DryRun | None = False


class IngestSitemap(Struct, rename="camel"):
    """A sitemap to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: Annotated[SitemapIngestion, Meta(description="Settings of the ingestion.")]
    dry_run: DryRun | None = False


class IngestWebsite(Struct, rename="camel"):
    """A website to ingest into a namespace."""

    namespace_id: NamespaceId
    ingest_config: Annotated[WebsiteIngestion, Meta(description="Settings of the ingestion.")]
    dry_run: DryRun | None = False


class ConvertForm(Struct, rename="camel", kw_only=True):
    """Fields of the form other than the file; `ocrConfig` is JSON as text."""

    ocr_config: Annotated[OcrConfig | None, Meta(description="Settings of text recognition.")] = None


class ConvertedDocument(Struct, omit_defaults=True):
    """The file, or a contained file; `error` is the reason why a contained file is unreadable."""

    filename: Annotated[str, Meta(description="The file's name, with the path of a contained file.")]
    markdown: Annotated[str, Meta(description="The text; empty if it could not be read.")]
    error: Annotated[str | UnsetType, Meta(description="Reason why the contained file could not be read.")] = UNSET

    @classmethod
    def from_converted(cls, converted: ConversionResult) -> ConvertedDocument:
        return cls(converted.filename, converted.markdown, UNSET if converted.error is None else converted.error)


class ConvertData(Struct):
    """The file, followed by its contained files."""

    documents: Annotated[list[ConvertedDocument], Meta(description="The file, followed by the files that it contains.")]


class ConvertAnswer(DataAnswer[ConvertData]):
    """The file and the contained files as Markdown."""
