"""Namespaces on the wire: configs come in with their secrets and go out without them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import Answer, DeletionAnswered, Identified, Listing, Timestamp
from api.wire.connector_apps import ConnectorAppView, masked, views, with_apps
from retrieval.evaluations import gate as gates
from retrieval.namespaces import validation
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.search.languages import CONFIGURATIONS

Text = Annotated[str, Meta(min_length=1, max_length=2048)]
Secret = Annotated[str, Meta(min_length=1, max_length=8192)]
QueryPrefix = Annotated[
    str,
    Meta(
        min_length=1, max_length=500, description="Text that the model needs before each query.", examples=["query: "]
    ),
]
PassagePrefix = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="Text that the model needs before each passage; it is not stored with chunks.",
        examples=["passage: "],
    ),
]
Name = Annotated[str, Meta(min_length=1, max_length=200, examples=["Product manuals"])]


class S3Credentials(Struct, rename="camel"):
    """An access key that may read, write and delete in the bucket."""

    access_key_id: Secret
    secret_access_key: Secret


class S3Storage(Struct, rename="camel", tag_field="type", tag="S3_COMPATIBLE"):
    """A bucket of any S3-compatible storage."""

    bucket: Text
    region: Text
    endpoint: Text
    credentials: S3Credentials


class LocalStorage(Struct, rename="camel", tag_field="type", tag="LOCAL"):
    """A folder beside the service; needs no account."""


class PineconeStore(Struct, rename="camel", tag_field="provider", tag="PINECONE"):
    """A Pinecone index."""

    api_key: Secret
    index_host: Text


class PgvectorStore(Struct, rename="camel", tag_field="provider", tag="PGVECTOR"):
    """The service's own PostgreSQL; needs no account."""


class OpenAIModel(Struct, rename="camel", tag_field="provider", tag="OPENAI", omit_defaults=True):
    """An embedding model of OpenAI, or of the server with OpenAI's API that the operator has set."""

    model: Text
    api_key: Secret
    query_prefix: QueryPrefix | UnsetType = UNSET
    passage_prefix: PassagePrefix | UnsetType = UNSET


class CohereModel(Struct, rename="camel", tag_field="provider", tag="COHERE"):
    """An embedding model of Cohere."""

    model: Text
    api_key: Secret


class JinaModel(Struct, rename="camel", tag_field="provider", tag="JINA"):
    """An embedding model of Jina."""

    model: Text
    api_key: Secret


class LocalModel(Struct, rename="camel", tag_field="provider", tag="LOCAL"):
    """A model that runs inside the service; needs no account."""

    model: Text


class FirecrawlScraper(Struct, rename="camel", tag_field="provider", tag="FIRECRAWL"):
    """Firecrawl."""

    api_key: Secret


class JinaScraper(Struct, rename="camel", tag_field="provider", tag="JINA"):
    """Jina Reader."""

    api_key: Secret


class ScrapingBeeScraper(Struct, rename="camel", tag_field="provider", tag="SCRAPINGBEE"):
    """ScrapingBee."""

    api_key: Secret


class BuiltinScraper(Struct, rename="camel", tag_field="provider", tag="BUILTIN", omit_defaults=True):
    """The service's own crawler; a key is not needed and not used."""

    api_key: Secret | UnsetType = UNSET


class CohereReranker(Struct, rename="camel", tag_field="provider", tag="COHERE"):
    """A reranker of Cohere."""

    model: Text
    api_key: Secret


class JinaReranker(Struct, rename="camel", tag_field="provider", tag="JINA"):
    """A reranker of Jina."""

    model: Text
    api_key: Secret


class EndpointReranker(Struct, rename="camel", tag_field="provider", tag="ENDPOINT", omit_defaults=True):
    """A server with the `/rerank` of text-embeddings-inference, vLLM and Infinity; `model` where it has several."""

    url: Text
    model: Text | UnsetType = UNSET
    api_key: Secret | UnsetType = UNSET


class LocalReranker(Struct, rename="camel", tag_field="provider", tag="LOCAL", omit_defaults=True):
    """A folder with an ONNX cross-encoder and its tokenizer, below the one that the operator has set."""

    path: Text
    model: Text | UnsetType = UNSET


class EndpointParser(Struct, rename="camel", tag_field="provider", tag="ENDPOINT", omit_defaults=True):
    """A server with the `/v1/convert/file` of docling-serve."""

    url: Annotated[Text, Meta(description="Where the parser answers: its base, or the address of that operation.")]
    api_key: Secret | UnsetType = UNSET


FileStorage = S3Storage | LocalStorage
VectorStore = PineconeStore | PgvectorStore
EmbeddingModel = OpenAIModel | CohereModel | JinaModel | LocalModel
WebScraper = FirecrawlScraper | JinaScraper | ScrapingBeeScraper | BuiltinScraper
RerankConfig = CohereReranker | JinaReranker | EndpointReranker | LocalReranker
ParserConfig = Annotated[
    EndpointParser | UnsetType | None,
    Meta(description="What reads the pages and files that the service cannot read itself; null takes it away."),
]


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

    name: Name
    file_storage_config: FileStorage
    vector_storage_config: VectorStore
    embedding_model_config: EmbeddingModel
    web_scraper_config: WebScraper | None = None
    rerank_config: RerankConfig | UnsetType | None = UNSET
    parser_config: ParserConfig = UNSET
    keyword_language: KeywordLanguage | None = None


@with_apps(lambda app: app | UnsetType | None, UNSET)
class _Changes(Struct, rename="camel", kw_only=True):
    """What may be changed at any time."""

    name: Name | UnsetType = UNSET
    file_storage_config: FileStorage | UnsetType = UNSET
    vector_storage_config: VectorStore | UnsetType = UNSET
    embedding_model_config: EmbeddingModel | UnsetType = UNSET
    web_scraper_config: WebScraper | UnsetType | None = UNSET
    rerank_config: RerankConfig | UnsetType | None = UNSET
    parser_config: ParserConfig = UNSET
    keyword_language: KeywordLanguage | UnsetType | None = UNSET


Share = Annotated[float, Meta(ge=0, le=1)]


class Gate(Struct, rename="camel", kw_only=True):
    """What the new generation must achieve before it is swapped in: `minimum`, or `notWorseThan` with today's."""

    evaluation_id: Annotated[str, Meta(min_length=1, max_length=200, description="An evaluation of the namespace.")]
    metric: Annotated[
        Literal["ndcgAt10", "recallAt10", "recallAt100", "mrr", "spanRecallAt10"],
        Meta(description="The measure of the evaluation's runs that decides, of the search by meaning."),
    ]
    minimum: Annotated[Share | UnsetType, Meta(description="What the new generation reaches at least.")] = UNSET
    not_worse_than: Annotated[Share | UnsetType, Meta(description="By how much it may fall below today's.")] = UNSET

    def asked(self) -> gates.Gate:
        """INVALID_NAMESPACE_CONFIG unless it has one of the two."""
        if (self.minimum is UNSET) == (self.not_worse_than is UNSET):
            raise validation.invalid("gate", "gate takes either minimum or notWorseThan.", "invalid")
        minimum = None if self.minimum is UNSET else self.minimum
        tolerance = None if self.not_worse_than is UNSET else self.not_worse_than
        return gates.Gate(self.evaluation_id, self.metric, minimum, tolerance)


class UpdateNamespace(_Changes, kw_only=True):
    """What to change. A config is replaced whole; null removes an optional one; a masked secret stays as stored."""

    reembed: bool = False
    """With another embedding model or vector store: embed all documents again, search with the old until then."""
    gate: Gate | UnsetType = UNSET
    """With `reembed`: what the new generation must achieve."""


class FileStorageView(Struct, rename="camel", omit_defaults=True):
    """File storage without its credentials."""

    type: str
    bucket: str | UnsetType = UNSET
    region: str | UnsetType = UNSET
    endpoint: str | UnsetType = UNSET


class VectorStorageView(Struct, rename="camel", omit_defaults=True):
    """Vector storage without its key."""

    provider: str
    index_host: str | UnsetType = UNSET


class EmbeddingModelView(Struct, rename="camel", omit_defaults=True):
    """The embedding model without its key."""

    provider: str
    model: str
    query_prefix: QueryPrefix | UnsetType = UNSET
    passage_prefix: PassagePrefix | UnsetType = UNSET


class WebScraperView(Struct, rename="camel", omit_defaults=True):
    """The web scraper with its key masked."""

    provider: str
    api_key: Annotated[str, Meta(examples=["••••1234"])] | UnsetType = UNSET


class RerankConfigView(Struct, rename="camel", omit_defaults=True):
    """The reranker with its key masked."""

    provider: str
    model: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    path: str | UnsetType = UNSET
    api_key: Annotated[str, Meta(examples=["••••1234"])] | UnsetType = UNSET


class ParserConfigView(Struct, rename="camel", omit_defaults=True):
    """The external parser with its key masked."""

    provider: str
    url: Annotated[str, Meta(description="Where the parser answers.")]
    api_key: Annotated[str, Meta(examples=["••••1234"])] | UnsetType = UNSET


@with_apps(lambda _: ConnectorAppView | UnsetType | None, UNSET)
class _Shown(Struct, rename="camel", kw_only=True):
    """What of a namespace answers show before its times."""

    id: str
    identifier: str
    name: str
    organization: Identified | UnsetType = UNSET
    file_storage_config: FileStorageView | UnsetType = UNSET
    vector_storage_config: VectorStorageView | UnsetType = UNSET
    embedding_model_config: EmbeddingModelView | UnsetType = UNSET
    web_scraper_config: WebScraperView | UnsetType | None = UNSET
    rerank_config: RerankConfigView | UnsetType = UNSET
    parser_config: (
        Annotated[ParserConfigView, Meta(description="What reads the pages and files that the service cannot read.")]
        | UnsetType
    ) = UNSET
    keyword_language: str | UnsetType = UNSET


class Namespace(_Shown, kw_only=True):
    """A namespace as answers show it; a bound key is shown `id`, `identifier` and `name` alone."""

    created_at: Timestamp | UnsetType = UNSET
    updated_at: Timestamp | UnsetType = UNSET

    @classmethod
    def name_of(cls, namespace: NamespaceConfig) -> Namespace:
        """What a bound key may see of it."""
        return cls(id=namespace.id, identifier=namespace.id, name=namespace.name)

    @classmethod
    def of(cls, namespace: NamespaceConfig) -> Namespace:
        """The one place that says what of a namespace is echoed, and what masked."""
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
    """One namespace; `ingestJobRunId` where its documents are embedded again."""

    namespace: Namespace
    ingest_job_run_id: str | UnsetType = UNSET


class NamespacesData(Listing, kw_only=True):
    """All namespaces, or a part of them, newest first."""

    namespaces: list[Namespace]


class DeletedNamespace(Struct):
    """The id of what is gone, under both of its names."""

    id: str
    identifier: str


class NamespaceAnswer(Answer, kw_only=True):
    """One namespace."""

    data: NamespaceData


class NamespacesAnswer(Answer, kw_only=True):
    """Every namespace that the key may see."""

    data: NamespacesData


class NamespaceDeletedAnswer(DeletionAnswered, kw_only=True):
    """The namespace is gone from every answer; what it stored follows in the background."""

    data: DeletedNamespace
