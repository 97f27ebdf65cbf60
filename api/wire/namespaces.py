"""Namespaces in requests and responses. Secrets of configs are accepted, and returned masked or not at all."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, DeletionAnswered, Identified, Listing, Timestamp
from api.wire.connectors import ConnectorAppView, masked, views, with_apps
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
from retrieval.keywords.languages import CONFIGURATIONS
from retrieval.namespaces import validation
from retrieval.namespaces.namespaces import NamespaceConfig

Name = Annotated[str, Meta(min_length=1, max_length=200, examples=["Product manuals"])]
KeywordLanguage = Annotated[
    str,
    Meta(
        min_length=2,
        max_length=32,
        description="The language that all documents are read in for keyword search, by PostgreSQL's name or ISO 639-1;"
        " without one each is read in its own.",
        examples=["german", *sorted({*CONFIGURATIONS.values()} - {"german"})],
    ),
]


@with_apps(lambda app: app | None, None)
class CreateNamespace(Struct, rename="camel", kw_only=True):
    """A namespace to create. Credentials are stored encrypted."""

    name: Annotated[Name, Meta(description="The name, for people.")]
    file_storage_config: Annotated[FileStorage, Meta(description="Where raw and parsed files are kept.")]
    vector_storage_config: Annotated[VectorStore, Meta(description="Where vectors are kept.")]
    embedding_model_config: Annotated[EmbeddingModel, Meta(description="What embeds documents and queries.")]
    web_scraper_config: Annotated[WebScraper | None, Meta(description="What fetches web pages; null without one.")] = (
        None
    )
    rerank_config: Annotated[
        RerankConfig | UnsetType | None,
        Meta(description="The model that reads the best results again; null takes it away."),
    ] = UNSET
    parser_config: ParserConfig = UNSET
    keyword_language: KeywordLanguage | None = None


@with_apps(lambda app: app | UnsetType | None, UNSET)
class _Changes(Struct, rename="camel", kw_only=True):
    """Fields that may be changed at any time."""

    name: Annotated[Name | UnsetType, Meta(description="The name, for people.")] = UNSET
    file_storage_config: Annotated[
        FileStorage | UnsetType, Meta(description="Where raw and parsed files are kept.")
    ] = UNSET
    vector_storage_config: Annotated[VectorStore | UnsetType, Meta(description="Where vectors are kept.")] = UNSET
    embedding_model_config: Annotated[
        EmbeddingModel | UnsetType, Meta(description="What embeds documents and queries.")
    ] = UNSET
    web_scraper_config: Annotated[
        WebScraper | UnsetType | None, Meta(description="What fetches web pages; null without one.")
    ] = UNSET
    rerank_config: Annotated[
        RerankConfig | UnsetType | None,
        Meta(description="The model that reads the best results again; null takes it away."),
    ] = UNSET
    parser_config: ParserConfig = UNSET
    keyword_language: KeywordLanguage | UnsetType | None = UNSET


Share = Annotated[float, Meta(ge=0, le=1)]


class Gate(Struct, rename="camel", kw_only=True):
    """Condition for swapping in the new generation: `minimum`, or `notWorseThan` compared with the current one."""

    evaluation_id: Annotated[str, Meta(min_length=1, max_length=200, description="An evaluation of the namespace.")]
    metric: Annotated[
        Literal["ndcgAt10", "recallAt10", "recallAt100", "mrr", "spanRecallAt10"],
        Meta(description="The measure of the evaluation's runs that decides, of the search by meaning."),
    ]
    minimum: Annotated[Share | UnsetType, Meta(description="What the new generation reaches at least.")] = UNSET
    not_worse_than: Annotated[Share | UnsetType, Meta(description="By how much it may fall below today's.")] = UNSET

    def asked(self) -> gates.Gate:
        """Return the condition. Raises INVALID_NAMESPACE_CONFIG unless it has exactly one of the two."""
        if (self.minimum is UNSET) == (self.not_worse_than is UNSET):
            raise validation.invalid("gate", "gate takes either minimum or notWorseThan.", "invalid")
        minimum = None if self.minimum is UNSET else self.minimum
        tolerance = None if self.not_worse_than is UNSET else self.not_worse_than
        return gates.Gate(self.evaluation_id, self.metric, minimum, tolerance)


class UpdateNamespace(_Changes, kw_only=True):
    """Changes to a namespace. A config is replaced whole; null removes an optional one; a masked secret stays as
    stored."""

    reembed: Annotated[
        bool, Meta(description="Embed all documents again where the model or the index becomes another one.")
    ] = False
    """With another embedding model or vector store: embed all documents again, search with the old until then."""
    gate: Annotated[
        Gate | UnsetType,
        Meta(
            description="What the new embeddings must achieve, by an evaluation, before they take over; with `reembed`."
        ),
    ] = UNSET
    """With `reembed`: what the new generation must achieve."""


@with_apps(lambda _: ConnectorAppView | UnsetType | None, UNSET)
class _Shown(Struct, rename="camel", kw_only=True):
    """Fields of a namespace in responses, before its times."""

    id: Annotated[str, Meta(description="The id.")]
    identifier: Annotated[str, Meta(description="The namespace's id, under its other name.")]
    name: Annotated[str, Meta(description="The name, for people.")]
    organization: Annotated[Identified | UnsetType, Meta(description="The organization that owns it.")] = UNSET
    file_storage_config: Annotated[
        FileStorageView | UnsetType, Meta(description="Where raw and parsed files are kept.")
    ] = UNSET
    vector_storage_config: Annotated[VectorStorageView | UnsetType, Meta(description="Where vectors are kept.")] = UNSET
    embedding_model_config: Annotated[
        EmbeddingModelView | UnsetType, Meta(description="What embeds documents and queries.")
    ] = UNSET
    web_scraper_config: Annotated[
        WebScraperView | UnsetType | None, Meta(description="What fetches web pages; null without one.")
    ] = UNSET
    rerank_config: Annotated[
        RerankConfigView | UnsetType,
        Meta(description="The model that reads the best results again; null takes it away."),
    ] = UNSET
    parser_config: Annotated[
        ParserConfigView | UnsetType, Meta(description="What reads the pages and files that the service cannot read.")
    ] = UNSET
    keyword_language: Annotated[
        str | UnsetType,
        Meta(description="The one language that words are indexed in; each document's own where it is absent."),
    ] = UNSET


class Namespace(_Shown, kw_only=True):
    """A namespace in responses; a bound key gets only `id`, `identifier` and `name`."""

    created_at: Annotated[Timestamp | UnsetType, Meta(description="When it was made.")] = UNSET
    updated_at: Annotated[Timestamp | UnsetType, Meta(description="When it last changed.")] = UNSET

    @classmethod
    def name_of(cls, namespace: NamespaceConfig) -> Namespace:
        """Return the fields that a bound key may see."""
        return cls(id=namespace.id, identifier=namespace.id, name=namespace.name)

    @classmethod
    def of(cls, namespace: NamespaceConfig) -> Namespace:
        """Return the namespace, with its secrets masked."""
        scraper, reranker, parser = namespace.web_scraper, namespace.reranker, namespace.parser
        return cls(
            id=namespace.id,
            identifier=namespace.id,
            name=namespace.name,
            organization=Identified(namespace.organization_id),
            file_storage_config=msgspec.convert(namespace.file_storage, FileStorageView),
            vector_storage_config=msgspec.convert(namespace.vector_storage, VectorStorageView),
            embedding_model_config=msgspec.convert(namespace.embedding_model, EmbeddingModelView),
            web_scraper_config=msgspec.convert(masked(scraper), WebScraperView) if scraper else None,
            rerank_config=msgspec.convert(masked(reranker), RerankConfigView) if reranker else UNSET,
            parser_config=msgspec.convert(masked(parser), ParserConfigView) if parser else UNSET,
            keyword_language=namespace.keyword_language or UNSET,
            created_at=Timestamp.of(namespace.created_at),
            updated_at=Timestamp.of(namespace.updated_at),
            **views(namespace.connectors),
        )


class NamespaceData(Struct, rename="camel"):
    """One namespace; `ingestJobRunId` if its documents are being embedded again."""

    namespace: Namespace
    ingest_job_run_id: Annotated[str | UnsetType, Meta(description="The job run to follow.")] = UNSET


class NamespacesData(Listing, kw_only=True):
    """Namespaces, newest first; all or one page."""

    namespaces: list[Namespace]


class DeletedNamespace(Struct):
    """The id of the deleted namespace, under both of its names."""

    id: Annotated[str, Meta(description="The id.")]
    identifier: Annotated[str, Meta(description="The namespace's id, under its other name.")]


class NamespaceAnswer(DataAnswer[NamespaceData]):
    """One namespace."""


class NamespacesAnswer(DataAnswer[NamespacesData]):
    """Every namespace that the key may see."""


class NamespaceDeletedAnswer(DeletionAnswered[DeletedNamespace]):
    """The namespace no longer appears in any response; its data is removed in the background."""
