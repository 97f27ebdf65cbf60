"""Documents on the wire: filters, pages, changes of metadata, and a document with all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.links import Bearer, Kind, Signer
from api.wire.access import Access
from api.wire.common import Answer, DeletionAnswered, Identified, Timestamp
from api.wire.document_properties import DocumentProperties
from api.wire.ingest import Metadata, NamespaceId
from retrieval import filters, finding
from retrieval.conditions.model import OPS
from retrieval.documents import facets
from retrieval.documents.documents import DocumentRow, Stats
from retrieval.errors import ErrorCode
from retrieval.filters import ACCESS_STATUSES, SOURCES, STATUSES, TYPES, DocumentFilter
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import Scope

INVALID = ErrorCode.INVALID_FILTER_CONFIG

FileUrl = Annotated[str, Meta(description="Signed: opens without an API key, until it expires.")]
Ids = Annotated[list[str], Meta(max_length=filters.ENTRIES)]


def _one_of(values: frozenset[str]) -> Meta:
    return Meta(max_length=filters.ENTRIES, extra_json_schema={"items": {"type": "string", "enum": sorted(values)}})


Where = Annotated[
    dict[str, Any],
    Meta(
        description="A condition: `all`, `any`, `not`, or a `field` with `op` and `value`, or in short fields"
        " with their values. `row.<column>` reads the rows of tables and records.",
        examples=[
            {"field": "metadata.year", "op": "gte", "value": 2024},
            {"row.status": "open", "row.amount_eur": {"gte": 1000}},
        ],
        extra_json_schema={
            "properties": {
                "all": {"type": "array", "items": {"type": "object"}},
                "any": {"type": "array", "items": {"type": "object"}},
                "not": {"type": "object"},
                "field": {"type": "string"},
                "op": {"type": "string", "enum": list(OPS)},
                "value": {},
            },
        },
    ),
]


class FilterConfig(Struct, rename="camel", omit_defaults=True):
    """AND between the fields, OR within one. An absent, null or empty field restricts nothing."""

    document_ids: Ids | None = None
    document_external_ids: Ids | None = None
    document_types: Annotated[list[str], _one_of(TYPES)] | None = None
    document_connection_ids: Ids | None = None
    document_archive_ids: Ids | None = None
    document_ingestion_sources: Annotated[list[str], _one_of(SOURCES)] | None = None
    document_ingestion_statuses: Annotated[list[str], _one_of(STATUSES)] | None = None
    metadata: Annotated[dict[str, Any], Meta(examples=[{"manual": ["A-7", "A-8"]}])] | None = None
    awaiting_removal: bool | None = None
    where: Where | None = None
    text: (
        Annotated[
            str,
            Meta(
                max_length=finding.LONGEST,
                description="Each of its words stands somewhere in the name or the external id, whatever its case.",
                examples=["report 2025"],
            ),
        ]
        | None
    ) = None
    sites: (
        Annotated[
            list[str],
            Meta(
                max_length=filters.ENTRIES,
                description="Web pages of these hosts, each with its port if the URL has one.",
                examples=[["docs.example.com"]],
            ),
        ]
        | None
    ) = None
    access_statuses: Annotated[list[str], _one_of(ACCESS_STATUSES)] | None = None

    def to_values(self, code: ErrorCode = INVALID, *, where: str = "filterConfig") -> DocumentFilter:
        return filters.parse(msgspec.to_builtins(self), code, where=where)


class Pagination(Struct, rename="camel"):
    """A page of a listing; `cursor` is the `nextCursor` of the page before."""

    page_size: Annotated[int, Meta(ge=1, le=100)] | None = None
    cursor: str | None = None


class IncludeConfig(Struct, rename="camel"):
    """What an answer holds beside or instead of the documents."""

    documents: bool | None = True
    raw_file_url: bool | None = False
    parsed_text_file_url: bool | None = False
    stats_by_source: bool | None = False
    stats_by_status: bool | None = False
    stats_by_site: bool | None = False


class FetchDocuments(Struct, rename="camel", kw_only=True):
    """Which documents to list. Without pagination up to 1000 and a cursor."""

    namespace_id: NamespaceId
    filter_config: FilterConfig
    pagination: Pagination | None = None
    include_config: IncludeConfig | None = None
    facets: (
        Annotated[
            list[str],
            Meta(
                max_length=facets.FACETS,
                description="Fields whose values are counted over all documents that match, named as in a condition.",
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
    """`metadata` merges by key: keys that are not named stay. `access` replaces all that was said of it."""

    metadata: Metadata | None = None
    operators: MetadataOperators | None = None
    access: Annotated[
        Access | Literal["inherit"] | UnsetType | None,
        Meta(description="Null: for everyone with a key. `inherit`: the list of the document that it is packed into."),
    ] = UNSET


class UpdateDocuments(Struct, rename="camel", kw_only=True):
    """Which documents to change, and how. A filter that restricts nothing is refused."""

    namespace_id: NamespaceId
    filter_config: FilterConfig
    data: DocumentChange


class DeleteDocuments(Struct, rename="camel", kw_only=True):
    """Which documents to delete. A filter that restricts nothing is refused."""

    namespace_id: NamespaceId
    filter_config: FilterConfig


class EmbeddingConfig(Struct, rename="camel"):
    """How a document was cut and embedded: the values used, which may be lower than those asked for."""

    provider: str | None = None
    model: str | None = None
    dimensions: int | None = None
    chunk_size: int | None = None
    chunk_overlap: int | None = None


class Providers(Struct, rename="camel"):
    """Who serves the namespace."""

    file_storage: str
    vector_storage: str
    embedding_model: str
    web_scraper: str | None


class NamespaceReference(Struct):
    """The owning namespace."""

    identifier: str


class Document(Struct, rename="camel", kw_only=True):
    """An ingested unit."""

    id: str
    external_id: str
    name: str
    document_type: Annotated[str, Meta(extra_json_schema={"enum": sorted(TYPES - {"SITEMAP", "WEBSITE"})})]
    metadata: dict[str, Any]
    ingestion_source: Annotated[str, Meta(extra_json_schema={"enum": sorted(SOURCES - {"FILE"})})]
    ingestion_status: Annotated[str, Meta(extra_json_schema={"enum": sorted(STATUSES)})]
    ingestion_error: str | None
    ingest_job: Identified
    ingest_job_run: Identified
    connection: Identified | None
    connection_ids: Annotated[list[str], Meta(description="All connections that have it; `connection` is one of them.")]
    archive: Identified | None
    awaiting_removal: bool
    document_properties: DocumentProperties
    embedding_config: EmbeddingConfig
    providers: Providers
    tenant_id: str | None
    namespace: NamespaceReference
    organization: Identified
    created_at: Timestamp
    updated_at: Timestamp
    last_synced_at: Timestamp | None
    access: (
        Annotated[Access, Meta(description="Whom it is for, if it is not open; shown to requests for no user.")]
        | UnsetType
    ) = UNSET
    next_access: (
        Annotated[
            Access,
            Meta(description="Whom it is for with the version that is being ingested; till then whom both say."),
        ]
        | UnsetType
    ) = UNSET
    access_inherited: (
        Annotated[bool, Meta(description="Its list is that of `archive`, and follows it; absent if it has its own.")]
        | UnsetType
    ) = UNSET
    access_status: (
        Annotated[
            Literal["UNKNOWN"],
            Meta(description="UNKNOWN: whom the content service shows it cannot be told, so that it is nobody's."),
        ]
        | UnsetType
    ) = UNSET
    access_reason: Annotated[str, Meta(description="Why that is so, and what to do.")] | UnsetType = UNSET
    raw_file_url: FileUrl | UnsetType | None = UNSET
    parsed_text_file_url: FileUrl | UnsetType | None = UNSET

    def add_links(self, row: DocumentRow, include: IncludeConfig, signer: Signer, bearer: Bearer) -> None:
        """Add the links that were asked for, for the caller; null where there is no such file yet."""
        if include.raw_file_url:
            self.raw_file_url = signer.link(row.id, Kind.RAW, bearer) if row.raw_key else None
        if include.parsed_text_file_url:
            self.parsed_text_file_url = signer.link(row.id, Kind.PARSED, bearer) if row.parsed_key else None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a document says of where it lies."""

    scope: Scope
    providers: Providers
    tells_access: bool
    """Not to a request on behalf of a user."""

    @classmethod
    def of(cls, scope: Scope, namespace: NamespaceConfig, *, principal: str | None) -> Surroundings:
        scraper = namespace.web_scraper
        return cls(
            scope,
            Providers(
                namespace.file_storage["type"],
                namespace.vector_storage["provider"],
                namespace.embedding_model["provider"],
                scraper["provider"] if scraper else None,
            ),
            principal is None,
        )

    def show(self, row: DocumentRow) -> Document:
        """The one place that says what of a document is echoed."""
        return Document(
            id=row.id,
            external_id=row.external_id,
            name=row.name,
            document_type=row.document_type,
            metadata=dict(row.metadata),
            ingestion_source=row.source,
            ingestion_status=row.status,
            ingestion_error=row.error,
            ingest_job=Identified(row.job_id),
            ingest_job_run=Identified(row.job_run_id),
            connection=Identified(row.connection_id) if row.connection_id else None,
            connection_ids=list(row.connection_ids),
            archive=Identified(row.archive_id) if row.archive_id else None,
            awaiting_removal=row.awaiting_removal,
            document_properties=DocumentProperties.of(row),
            embedding_config=_known(row.embedding, EmbeddingConfig),
            providers=self.providers,
            tenant_id=self.scope.tenant or None,
            namespace=NamespaceReference(self.scope.namespace),
            organization=Identified(self.scope.organization),
            created_at=Timestamp.of(row.created_at),
            updated_at=Timestamp.of(row.updated_at),
            last_synced_at=Timestamp.of(row.synced_at) if row.synced_at else None,
            access=Access.of(row.access) if row.access is not None and self.tells_access else UNSET,
            next_access=Access.of(row.next_access) if row.next_access is not None and self.tells_access else UNSET,
            access_inherited=True if row.inherits_access and self.tells_access else UNSET,
            access_status="UNKNOWN" if row.access_reason and self.tells_access else UNSET,
            access_reason=row.access_reason if row.access_reason and self.tells_access else UNSET,
        )


class SourceCount(Struct, rename="camel"):
    """Documents of one source."""

    source: str
    total_count: int


class StatusCount(Struct, rename="camel"):
    """Documents of one status."""

    status: str
    total_count: int


class SiteCount(Struct, rename="camel"):
    """Web pages of one site: a host, with its port if the URLs have one."""

    site: str
    total_count: int


class FacetCount(Struct):
    """A value of a field, and how many documents have it; of a field `row.<column>`, how many rows and records."""

    value: str | float | bool
    count: int


class DocumentsData(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A page of documents, newest first; statistics, if they were asked for, count all that match."""

    documents: list[Document] | UnsetType = UNSET
    items_returned: int
    has_next_page: bool
    next_cursor: str | None
    stats_by_source: list[SourceCount] | UnsetType = UNSET
    stats_by_status: list[StatusCount] | UnsetType = UNSET
    stats_by_site: list[SiteCount] | UnsetType = UNSET
    facets: dict[str, list[FacetCount]] | UnsetType = UNSET

    def count(self, stats: Stats, include: IncludeConfig) -> None:
        """Add the statistics that were asked for."""
        if include.stats_by_source:
            self.stats_by_source = [SourceCount(name, number) for name, number in stats.by_source.items()]
        if include.stats_by_status:
            self.stats_by_status = [StatusCount(name, number) for name, number in stats.by_status.items()]


class UpdatedDocumentsData(Struct, rename="camel"):
    """The documents as they are now."""

    documents: list[Document]
    items_updated: int


class DocumentsAnswer(Answer, kw_only=True):
    """The documents that match, newest first."""

    data: DocumentsData


class DocumentsUpdatedAnswer(Answer, kw_only=True):
    """The documents that were changed."""

    data: UpdatedDocumentsData


class DocumentsDeletedAnswer(DeletionAnswered, kw_only=True):
    """The documents are gone from every answer; the message says how many."""

    data: None = None


def _known(values: Mapping[str, Any], kind: type[Any]) -> Any:
    """The values of the pipeline that the struct names."""
    return msgspec.convert(values, kind)
