"""Documents in requests and responses: listings, changes, statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.links import FileKind, LinkHolder, LinkSigner
from api.wire.access import Access
from api.wire.common import DataAnswer, DeletionAnswered, NamespaceId, NextCursor, ObjectReference, PageSize, Timestamp
from api.wire.document_parts import DocumentProperties, EmbeddingConfig, Providers
from api.wire.filters import FilterConfig
from api.wire.ingest import Metadata
from retrieval.documents.documents import DocumentRow, DocumentStats
from retrieval.documents.facets import MAX_FACETS
from retrieval.errors import ErrorCode
from retrieval.failure_causes import CAUSE_NAMES, find_cause
from retrieval.filters import DOCUMENT_TYPE_NAMES, SOURCE_NAMES, STATUS_NAMES
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import Scope

INVALID_FILTER = ErrorCode.INVALID_FILTER_CONFIG

FileUrl = Annotated[str, Meta(description="Signed URL that needs no API key until it expires.")]


class Pagination(Struct, rename="camel"):
    """A page of a listing; `cursor` is the `nextCursor` of the previous page."""

    page_size: PageSize = None
    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the previous page.")] = None


class IncludeConfig(Struct, rename="camel"):
    """Optional parts of the response."""

    documents: Annotated[bool | None, Meta(description="Whether to return the documents.")] = True
    raw_file_url: Annotated[bool | None, Meta(description="Whether to return a link to the file.")] = False
    parsed_text_file_url: Annotated[bool | None, Meta(description="Whether to return a link to the text.")] = False
    stats_by_source: Annotated[bool | None, Meta(description="Number of documents by source.")] = False
    stats_by_status: Annotated[bool | None, Meta(description="Number of documents by status.")] = False
    stats_by_site: Annotated[bool | None, Meta(description="Number of web pages by site, for 100 sites.")] = False


class FetchDocuments(Struct, rename="camel", kw_only=True):
    """Filter of the documents to list, and the parts of the response."""

    namespace_id: NamespaceId
    filter_config: FilterConfig
    pagination: Annotated[Pagination | None, Meta(description="The page. Default: the first 1000 documents.")] = None
    include_config: Annotated[IncludeConfig | None, Meta(description="Optional parts of the response.")] = None
    facets: (
        Annotated[
            list[str],
            Meta(
                max_length=MAX_FACETS,
                description="Fields whose values are counted, named as in a condition.",
                examples=[["metadata.topic", "document.language"]],
            ),
        ]
        | None
    ) = None


class MetadataOperators(Struct, rename={"set": "$set", "append": "$append", "remove": "$remove"}):
    """`$set` replaces by key, `$append` adds values to lists, `$remove` takes values out of lists."""

    set: Metadata | None = None
    append: Metadata | None = None
    remove: Metadata | None = None


class DocumentChange(Struct, rename={"operators": "$metadata"}):
    """Changes to documents. `metadata` changes the sent keys only; `access` replaces the whole list."""

    metadata: Metadata | None = None
    operators: MetadataOperators | None = None
    access: Annotated[
        Access | Literal["inherit"] | UnsetType | None,
        Meta(description="The access list. Null: everyone with a key. `inherit`: the list of the containing document."),
    ] = UNSET


class UpdateDocuments(Struct, rename="camel", kw_only=True):
    """Filter of the documents, with at least one restriction, and the changes."""

    namespace_id: NamespaceId
    filter_config: FilterConfig
    data: DocumentChange


class DeleteDocuments(Struct, rename="camel", kw_only=True):
    """Filter of the documents to delete, with at least one restriction."""

    namespace_id: NamespaceId
    filter_config: FilterConfig


class NamespaceReference(Struct):
    """Reference to a namespace."""

    identifier: Annotated[str, Meta(description="The namespace's id.")]


HiddenScope = Literal["DOCUMENT", "PASSAGES"]


class Document(Struct, rename="camel", kw_only=True):
    """An ingested document."""

    id: Annotated[str, Meta(description="The object's id.")]
    external_id: Annotated[
        str, Meta(description="The document's external id. Ingesting the same external id again replaces the document.")
    ]
    name: Annotated[str, Meta(description="The display name.")]
    document_type: Annotated[
        str,
        Meta(
            extra_json_schema={"enum": sorted(DOCUMENT_TYPE_NAMES - {"SITEMAP", "WEBSITE"})},
            description="The type of the document.",
        ),
    ]
    metadata: Annotated[dict[str, Any], Meta(description="The document's metadata.")]
    ingestion_source: Annotated[
        str,
        Meta(extra_json_schema={"enum": sorted(SOURCE_NAMES - {"FILE"})}, description="The source of the document."),
    ]
    ingestion_status: Annotated[
        str, Meta(extra_json_schema={"enum": sorted(STATUS_NAMES)}, description="The current status of the document.")
    ]
    ingestion_error: Annotated[
        str | None, Meta(description="Reason of the failure; null if the document has not failed.")
    ]
    failure_cause: Annotated[
        str | None,
        Meta(
            extra_json_schema={"enum": [*CAUSE_NAMES, None]},
            description="Cause of the failure, which determines the remedy; null if the document has not failed.",
        ),
    ]
    ingest_job: Annotated[ObjectReference, Meta(description="The ingestion job.")]
    ingest_job_run: Annotated[ObjectReference, Meta(description="The latest job run of the document.")]
    connection: Annotated[ObjectReference | None, Meta(description="The connection; null without one.")]
    connection_ids: Annotated[
        list[str], Meta(description="All connections that have the document, `connection` included.")
    ]
    archive: Annotated[
        ObjectReference | None, Meta(description="The archive or mail that contains the document; null without one.")
    ]
    awaiting_removal: Annotated[
        bool,
        Meta(description="Whether the document no longer exists at the source and its removal awaits confirmation."),
    ]
    document_properties: Annotated[
        DocumentProperties, Meta(description="Properties of the content; null before it was parsed.")
    ]
    embedding_config: Annotated[
        EmbeddingConfig, Meta(description="Model and chunk settings; null before it was embedded.")
    ]
    providers: Annotated[Providers, Meta(description="The storage and model providers.")]
    tenant_id: Annotated[str | None, Meta(description="The tenant; null without one.")]
    namespace: Annotated[NamespaceReference, Meta(description="The namespace that it belongs to.")]
    organization: Annotated[ObjectReference, Meta(description="The organization that owns it.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    updated_at: Annotated[Timestamp, Meta(description="Time of the last change.")]
    last_synced_at: Annotated[
        Timestamp | None, Meta(description="Time of the last fetch from the source; null before the first.")
    ]
    access: Annotated[
        Access | UnsetType,
        Meta(description="The access list, if there is one. Absent in requests on behalf of a user."),
    ] = UNSET
    next_access: Annotated[
        Access | UnsetType,
        Meta(description="The access list of the version in progress; until it is indexed, both lists apply."),
    ] = UNSET
    access_inherited: Annotated[
        bool | UnsetType,
        Meta(description="Whether the access list is inherited from `archive`; absent if the document has its own."),
    ] = UNSET
    access_status: Annotated[
        Literal["UNKNOWN"] | UnsetType,
        Meta(description="UNKNOWN if permissions could not be read, so that no user sees the document."),
    ] = UNSET
    access_reason: Annotated[str | UnsetType, Meta(description="The reason of `accessStatus`, and a remedy.")] = UNSET
    hidden: Annotated[
        HiddenScope | UnsetType,
        Meta(description="Content hidden from search; absent if none is, and in requests on behalf of a user."),
    ] = UNSET
    raw_file_url: FileUrl | UnsetType | None = UNSET
    parsed_text_file_url: FileUrl | UnsetType | None = UNSET

    def add_links(self, row: DocumentRow, include: IncludeConfig, signer: LinkSigner, holder: LinkHolder) -> None:
        """Add the requested links of the holder; the link to a missing file is null."""
        if include.raw_file_url:
            self.raw_file_url = signer.make_link(row.id, FileKind.RAW, holder) if row.raw_key else None
        if include.parsed_text_file_url:
            self.parsed_text_file_url = signer.make_link(row.id, FileKind.PARSED, holder) if row.parsed_key else None


@dataclass(frozen=True, slots=True)
class DocumentPresenter:
    """Converter of rows of one namespace and tenant to documents of responses."""

    scope: Scope
    providers: Providers
    # False for requests on behalf of a user.
    shows_access: bool

    @classmethod
    def from_namespace(cls, scope: Scope, namespace: NamespaceConfig, *, principal: str | None) -> DocumentPresenter:
        scraper = namespace.web_scraper
        providers = Providers(
            namespace.file_storage["type"],
            namespace.vector_storage["provider"],
            namespace.embedding_model["provider"],
            scraper["provider"] if scraper else None,
        )
        return cls(scope, providers, shows_access=principal is None)

    def present(self, row: DocumentRow) -> Document:
        """Convert a row, without links."""
        document = Document(
            id=row.id,
            external_id=row.external_id,
            name=row.name,
            document_type=row.document_type,
            metadata=dict(row.metadata),
            ingestion_source=row.source,
            ingestion_status=row.status,
            ingestion_error=row.error,
            failure_cause=find_cause(row.error),
            ingest_job=ObjectReference(row.job_id),
            ingest_job_run=ObjectReference(row.job_run_id),
            connection=ObjectReference(row.connection_id) if row.connection_id else None,
            connection_ids=list(row.connection_ids),
            archive=ObjectReference(row.archive_id) if row.archive_id else None,
            awaiting_removal=row.awaiting_removal,
            document_properties=DocumentProperties.from_row(row),
            embedding_config=msgspec.convert(row.embedding, EmbeddingConfig),
            providers=self.providers,
            tenant_id=self.scope.tenant or None,
            namespace=NamespaceReference(self.scope.namespace),
            organization=ObjectReference(self.scope.organization),
            created_at=Timestamp.from_datetime(row.created_at),
            updated_at=Timestamp.from_datetime(row.updated_at),
            last_synced_at=Timestamp.from_optional(row.synced_at),
        )
        if self.shows_access:
            _add_access(document, row)
        return document


def _add_access(document: Document, row: DocumentRow) -> None:
    """Set the fields about access lists and hidden content."""
    if row.access is not None:
        document.access = Access.from_stored(row.access)
    if row.next_access is not None:
        document.next_access = Access.from_stored(row.next_access)
    if row.inherits_access:
        document.access_inherited = True
    if row.access_reason:
        document.access_status, document.access_reason = "UNKNOWN", row.access_reason
    if row.hidden:
        document.hidden = msgspec.convert(row.hidden, HiddenScope)


class SourceCount(Struct, rename="camel", omit_defaults=True):
    """Number of documents of one source."""

    source: Annotated[str, Meta(description="The source of the documents.")]
    total_count: Annotated[int, Meta(description="Number of documents.")]
    last_synced_at: Annotated[
        Timestamp | UnsetType,
        Meta(description="Time of the last complete listing, the earliest of its active connections."),
    ] = UNSET


class StatusCount(Struct, rename="camel"):
    """Number of documents with one status."""

    status: Annotated[str, Meta(description="The status of the documents.")]
    total_count: Annotated[int, Meta(description="Number of documents.")]


class SiteCount(Struct, rename="camel"):
    """Number of web pages of one site."""

    site: Annotated[str, Meta(description="The host, with its port if the URLs have one.")]
    total_count: Annotated[int, Meta(description="Number of documents.")]


class FacetCount(Struct):
    """A value of a field with the number of documents; for a field `row.<column>`, of rows and records."""

    value: Annotated[str | float | bool, Meta(description="A value of the field.")]
    count: Annotated[int, Meta(description="Number of documents, or of rows and records.")]


class DocumentsData(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A page of documents, newest first, and requested statistics of all matching documents."""

    documents: list[Document] | UnsetType = UNSET
    items_returned: Annotated[int, Meta(description="Number of entries in this response.")]
    has_next_page: Annotated[bool, Meta(description="Whether another page follows.")]
    next_cursor: NextCursor
    stats_by_source: Annotated[list[SourceCount] | UnsetType, Meta(description="Number of documents by source.")] = (
        UNSET
    )
    stats_by_status: Annotated[list[StatusCount] | UnsetType, Meta(description="Number of documents by status.")] = (
        UNSET
    )
    stats_by_site: Annotated[
        list[SiteCount] | UnsetType,
        Meta(description="Number of web pages by site, for 100 sites."),
    ] = UNSET
    facets: Annotated[
        dict[str, list[FacetCount]] | UnsetType, Meta(description="The most frequent values of the requested fields.")
    ] = UNSET

    def add_statistics(self, stats: DocumentStats, include: IncludeConfig, sync_times: Mapping[str, datetime]) -> None:
        """Add the requested statistics; `sync_times`: time of the last complete listing by source."""
        if include.stats_by_source:
            timestamps = {source: Timestamp.from_datetime(moment) for source, moment in sync_times.items()}
            self.stats_by_source = [
                SourceCount(source, count, timestamps.get(source, UNSET)) for source, count in stats.by_source.items()
            ]
        if include.stats_by_status:
            self.stats_by_status = [StatusCount(status, count) for status, count in stats.by_status.items()]


class UpdatedDocumentsData(Struct, rename="camel"):
    """The documents after the change."""

    documents: list[Document]
    items_updated: Annotated[int, Meta(description="Number of changed documents.")]


class DocumentsAnswer(DataAnswer[DocumentsData]):
    """The documents that match, newest first."""


class DocumentsUpdatedAnswer(DataAnswer[UpdatedDocumentsData]):
    """The documents that were changed."""


class DocumentsDeletedAnswer(DeletionAnswered[None], kw_only=True):
    """The documents were deleted; the message has their number."""

    data: Annotated[None, Meta(description="Always null.")] = None
