"""Namespaces in requests and responses; secrets are accepted, and returned masked or omitted."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, DeletionAnswered, Listing, ObjectReference, PaginationQuery, Timestamp
from api.wire.connectors import ConnectorAppView, app_views, mask_apps, with_apps
from api.wire.providers import (
    EmbeddingModel,
    EmbeddingModelView,
    FileStorage,
    FileStorageView,
    ParserConfig,
    ParserConfigView,
    RerankConfig,
    RerankConfigView,
    VectorStorageView,
    VectorStore,
    WebScraper,
    WebScraperView,
)
from retrieval.evaluations import gate as gates
from retrieval.keywords.languages import LANGUAGE_CONFIGURATIONS
from retrieval.namespaces import queries, validation
from retrieval.namespaces.namespaces import NamespaceConfig

Name = Annotated[str, Meta(min_length=1, max_length=200, examples=["Product manuals"])]
KeywordLanguage = Annotated[
    str,
    Meta(
        min_length=2,
        max_length=32,
        description="Language of keyword search for all documents, as PostgreSQL's name or ISO 639-1. Default: "
        "each document's own language.",
        examples=["german", *sorted({*LANGUAGE_CONFIGURATIONS.values()} - {"german"})],
    ),
]


_DEFAULT_NOTE = " Required, unless the operator has set a default (`RETRIEVAL_DEFAULT_NAMESPACE`)."


@with_apps(lambda app: app | UnsetType | None, UNSET)
class CreateNamespace(Struct, rename="camel", kw_only=True):
    """A namespace to create. Credentials are stored encrypted."""

    name: Annotated[Name, Meta(description="The display name.")]
    # The route fills them from RETRIEVAL_DEFAULT_NAMESPACE, or refuses the request.
    file_storage_config: Annotated[
        FileStorage | UnsetType, Meta(description="Storage of original files and parsed texts." + _DEFAULT_NOTE)
    ] = UNSET
    vector_storage_config: Annotated[
        VectorStore | UnsetType, Meta(description="Storage of vectors." + _DEFAULT_NOTE)
    ] = UNSET
    embedding_model_config: Annotated[
        EmbeddingModel | UnsetType, Meta(description="Embedding model of documents and queries." + _DEFAULT_NOTE)
    ] = UNSET
    web_scraper_config: Annotated[WebScraper | UnsetType | None, Meta(description="Web scraper; null without one.")] = (
        UNSET
    )
    rerank_config: Annotated[
        RerankConfig | UnsetType | None, Meta(description="Reranker of search results; null removes it.")
    ] = UNSET
    parser_config: ParserConfig = UNSET
    keyword_language: KeywordLanguage | None = None


@with_apps(lambda app: app | UnsetType | None, UNSET)
class _NamespaceChanges(Struct, rename="camel", kw_only=True):
    """Fields of a namespace that may change at any time."""

    name: Annotated[Name | UnsetType, Meta(description="The display name.")] = UNSET
    file_storage_config: Annotated[
        FileStorage | UnsetType, Meta(description="Storage of original files and parsed texts.")
    ] = UNSET
    vector_storage_config: Annotated[VectorStore | UnsetType, Meta(description="Storage of vectors.")] = UNSET
    embedding_model_config: Annotated[
        EmbeddingModel | UnsetType, Meta(description="Embedding model of documents and queries.")
    ] = UNSET
    web_scraper_config: Annotated[WebScraper | UnsetType | None, Meta(description="Web scraper; null without one.")] = (
        UNSET
    )
    rerank_config: Annotated[
        RerankConfig | UnsetType | None, Meta(description="Reranker of search results; null removes it.")
    ] = UNSET
    parser_config: ParserConfig = UNSET
    keyword_language: KeywordLanguage | UnsetType | None = UNSET


Share = Annotated[float, Meta(ge=0, le=1)]


class Gate(Struct, rename="camel", kw_only=True):
    """Condition for activating the new embeddings: `minimum`, or `notWorseThan` compared with the current ones."""

    evaluation_id: Annotated[str, Meta(min_length=1, max_length=200, description="An evaluation of the namespace.")]
    metric: Annotated[
        Literal["ndcgAt10", "recallAt10", "recallAt100", "mrr", "spanRecallAt10"],
        Meta(description="Metric of the semantic search that decides."),
    ]
    minimum: Annotated[Share | UnsetType, Meta(description="Minimum value of the new generation.")] = UNSET
    not_worse_than: Annotated[Share | UnsetType, Meta(description="Maximum decrease from the current generation.")] = (
        UNSET
    )

    def to_values(self) -> gates.Gate:
        """Return the condition; raise INVALID_NAMESPACE_CONFIG unless exactly one limit is set."""
        if (self.minimum is UNSET) == (self.not_worse_than is UNSET):
            raise validation.invalid_field("gate", "gate takes either minimum or notWorseThan.", "invalid")
        minimum = None if self.minimum is UNSET else self.minimum
        tolerance = None if self.not_worse_than is UNSET else self.not_worse_than
        return gates.Gate(self.evaluation_id, self.metric, minimum, tolerance)


class UpdateNamespace(_NamespaceChanges, kw_only=True):
    """Changes to a namespace. A config is replaced as a whole; null removes an optional config; masked secrets stay."""

    # Searches use the old embeddings until then.
    reembed: Annotated[bool, Meta(description="Embed all documents again if the model or the index changes.")] = False
    gate: Annotated[
        Gate | UnsetType, Meta(description="Condition for activating the new embeddings. Only with `reembed`.")
    ] = UNSET


class DraftConfigs(_NamespaceChanges, kw_only=True):
    """Configs to test. Nothing is stored."""

    namespace_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType,
        Meta(description="Namespace whose stored secrets replace masked ones."),
    ] = UNSET


class ConfigTest(Struct, rename="camel"):
    """Result of the test of one config."""

    field: Annotated[str, Meta(description="Name of the tested config.", examples=["vectorStorageConfig"])]
    # A busy service, a model that failed its own test, or a config without a test (scraper, apps).
    outcome: Annotated[Literal["PASSED", "FAILED", "NOT_TESTED"], Meta(description="The result.")]
    message: Annotated[str, Meta(description="The observation in one sentence.")]
    seconds: Annotated[float, Meta(description="Duration of the test.")]
    error_field: Annotated[
        str | None, Meta(description="Path of the wrong field, if known.", examples=["vectorStorageConfig.indexHost"])
    ] = None


class ConfigTestsData(Struct):
    """Results of the tested configs."""

    tests: Annotated[list[ConfigTest], Meta(description="One result per tested config.")]


class ConfigTestsAnswer(DataAnswer[ConfigTestsData]):
    """The results of the tests."""


@with_apps(lambda _: ConnectorAppView | UnsetType | None, UNSET)
class _NamespaceFields(Struct, rename="camel", kw_only=True):
    """Fields of a namespace in responses."""

    id: Annotated[str, Meta(description="The object's id.")]
    identifier: Annotated[str, Meta(description="The namespace's id, under its other name.")]
    name: Annotated[str, Meta(description="The display name.")]
    organization: Annotated[ObjectReference | UnsetType, Meta(description="The organization that owns it.")] = UNSET
    file_storage_config: Annotated[
        FileStorageView | UnsetType, Meta(description="Storage of original files and parsed texts.")
    ] = UNSET
    vector_storage_config: Annotated[VectorStorageView | UnsetType, Meta(description="Storage of vectors.")] = UNSET
    embedding_model_config: Annotated[
        EmbeddingModelView | UnsetType, Meta(description="Embedding model of documents and queries.")
    ] = UNSET
    web_scraper_config: Annotated[
        WebScraperView | UnsetType | None, Meta(description="Web scraper; null without one.")
    ] = UNSET
    rerank_config: Annotated[
        RerankConfigView | UnsetType, Meta(description="Reranker of search results; null removes it.")
    ] = UNSET
    parser_config: Annotated[
        ParserConfigView | UnsetType, Meta(description="External parser for files that the service cannot read.")
    ] = UNSET
    keyword_language: Annotated[
        str | UnsetType, Meta(description="Language of keyword search; absent if each document's own is used.")
    ] = UNSET


class NamespacesQuery(PaginationQuery, rename="camel", kw_only=True):
    """Page, order and name filter of namespaces."""

    name: Annotated[Name | None, Meta(description="A part of the name, ignoring case.")] = None
    sort: Annotated[
        Literal["newest", "name", "documents", "searches"] | None,
        Meta(description="The order. Default: newest first. `documents`, `searches`: the one with the most first."),
    ] = None
    counts: Annotated[
        bool | None,
        Meta(description="Whether to return `documentCount` and the other numbers of its use; these orders do."),
    ] = None

    def to_listing(self, only: str | None, tenant: str | None, *, may_count: bool) -> queries.Listing:
        """Return the listing; a caller without access to all documents gets no counts."""
        sort = self.sort or "newest"
        by_use = sort in ("documents", "searches")
        has_counts = may_count and (bool(self.counts) or by_use)
        order: queries.Order = "newest" if by_use and not may_count else sort
        return queries.Listing(order, self.name, only, has_counts, tenant)


class Namespace(_NamespaceFields, kw_only=True):
    """A namespace in responses; a bound key gets only `id`, `identifier`, `name` and usage numbers."""

    created_at: Annotated[Timestamp | UnsetType, Meta(description="Time of creation.")] = UNSET
    updated_at: Annotated[Timestamp | UnsetType, Meta(description="Time of the last change.")] = UNSET
    document_count: Annotated[int | UnsetType, Meta(description="Number of documents, if requested.")] = UNSET
    failed_count: Annotated[int | UnsetType, Meta(description="Number of failed documents, if requested.")] = UNSET
    chunk_count: Annotated[int | UnsetType, Meta(description="Number of chunks, if requested.")] = UNSET
    stored_bytes: Annotated[int | UnsetType, Meta(description="Size of the documents as sent, if requested.")] = UNSET
    search_count: Annotated[int | UnsetType, Meta(description="Searches of the last 30 days, if requested.")] = UNSET
    last_document_change: Annotated[
        Timestamp | UnsetType | None,
        Meta(description="Time of the last change of a document, if requested; null without documents."),
    ] = UNSET

    def add_usage(self, namespace: NamespaceConfig) -> Namespace:
        """Set the usage numbers, if counted."""
        if use := namespace.use:
            for name in ("document_count", "failed_count", "chunk_count", "stored_bytes", "search_count"):
                setattr(self, name, use[name])
            last = use["last_change"]
            self.last_document_change = last and Timestamp.from_datetime(datetime.fromisoformat(last))
        return self

    @classmethod
    def name_of(cls, namespace: NamespaceConfig) -> Namespace:
        """Return the fields visible to a bound key."""
        return cls(id=namespace.id, identifier=namespace.id, name=namespace.name)

    @classmethod
    def from_namespace(cls, namespace: NamespaceConfig) -> Namespace:
        """Return the namespace with masked secrets."""
        scraper, reranker, parser = namespace.web_scraper, namespace.reranker, namespace.parser
        return cls(
            id=namespace.id,
            identifier=namespace.id,
            name=namespace.name,
            organization=ObjectReference(namespace.organization_id),
            file_storage_config=msgspec.convert(namespace.file_storage, FileStorageView),
            vector_storage_config=msgspec.convert(namespace.vector_storage, VectorStorageView),
            embedding_model_config=msgspec.convert(namespace.embedding_model, EmbeddingModelView),
            web_scraper_config=msgspec.convert(mask_apps(scraper), WebScraperView) if scraper else None,
            rerank_config=msgspec.convert(mask_apps(reranker), RerankConfigView) if reranker else UNSET,
            parser_config=msgspec.convert(mask_apps(parser), ParserConfigView) if parser else UNSET,
            keyword_language=namespace.keyword_language or UNSET,
            created_at=Timestamp.from_datetime(namespace.created_at),
            updated_at=Timestamp.from_datetime(namespace.updated_at),
            **app_views(namespace.connectors),
        )


class NamespaceData(Struct, rename="camel"):
    """A namespace, with `ingestJobRunId` during a new embedding of its documents."""

    namespace: Namespace
    ingest_job_run_id: Annotated[str | UnsetType, Meta(description="The job run to follow.")] = UNSET


class NamespacesData(Listing, kw_only=True):
    """Namespaces in the requested order; all or one page."""

    namespaces: list[Namespace]


class DeletedNamespace(Struct):
    """The id of the deleted namespace, under both of its names."""

    id: Annotated[str, Meta(description="The object's id.")]
    identifier: Annotated[str, Meta(description="The namespace's id, under its other name.")]


class NamespaceAnswer(DataAnswer[NamespaceData]):
    """A namespace."""


class NamespacesAnswer(DataAnswer[NamespacesData]):
    """The namespaces visible to the key."""


class NamespaceDeletedAnswer(DeletionAnswered[DeletedNamespace]):
    """The namespace no longer appears in any response; its data is removed in the background."""
