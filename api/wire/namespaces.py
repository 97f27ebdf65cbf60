"""Namespaces on the wire: configs come in with their secrets and go out without them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, DeletionAnswered, Identified, Listing, Timestamp
from api.wire.connector_apps import ConnectorAppView, masked, views, with_apps
from retrieval.evaluations import gate as gates
from retrieval.namespaces import validation
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.search.languages import CONFIGURATIONS

Text = Annotated[str, Meta(min_length=1, max_length=2048)]
Secret = Annotated[str, Meta(min_length=1, max_length=8192)]
ProviderKey = Annotated[Secret, Meta(description="The key of the provider. Answers show it masked or not at all.")]
MaskedKey = Annotated[
    str, Meta(description="The key of the provider. Answers show it masked or not at all.", examples=["••••1234"])
]
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

    access_key_id: Annotated[Secret, Meta(description="The id of the access key.")]
    secret_access_key: Annotated[Secret, Meta(description="The secret of the access key.")]


class S3Storage(Struct, rename="camel", tag_field="type", tag="S3_COMPATIBLE"):
    """A bucket of any S3-compatible storage."""

    bucket: Annotated[Text, Meta(description="The bucket's name.")]
    region: Annotated[Text, Meta(description="The storage's region.")]
    endpoint: Annotated[Text, Meta(description="The storage's URL.")]
    credentials: Annotated[S3Credentials, Meta(description="The access key of the bucket.")]


class LocalStorage(Struct, rename="camel", tag_field="type", tag="LOCAL"):
    """A folder beside the service; needs no account."""


class PineconeStore(Struct, rename="camel", tag_field="provider", tag="PINECONE"):
    """A Pinecone index."""

    api_key: ProviderKey
    index_host: Annotated[Text, Meta(description="The host of the index.")]


class PgvectorStore(Struct, rename="camel", tag_field="provider", tag="PGVECTOR"):
    """The service's own PostgreSQL; needs no account."""


class OpenAIModel(Struct, rename="camel", tag_field="provider", tag="OPENAI", omit_defaults=True):
    """An embedding model of OpenAI, or of the server with OpenAI's API that the operator has set."""

    model: Annotated[Text, Meta(description="The model's name.")]
    api_key: ProviderKey
    query_prefix: QueryPrefix | UnsetType = UNSET
    passage_prefix: PassagePrefix | UnsetType = UNSET


class CohereModel(Struct, rename="camel", tag_field="provider", tag="COHERE"):
    """An embedding model of Cohere."""

    model: Annotated[Text, Meta(description="The model's name.")]
    api_key: ProviderKey


class JinaModel(Struct, rename="camel", tag_field="provider", tag="JINA"):
    """An embedding model of Jina."""

    model: Annotated[Text, Meta(description="The model's name.")]
    api_key: ProviderKey


class LocalModel(Struct, rename="camel", tag_field="provider", tag="LOCAL"):
    """A model that runs inside the service; needs no account."""

    model: Annotated[Text, Meta(description="The model's name.")]


class FirecrawlScraper(Struct, rename="camel", tag_field="provider", tag="FIRECRAWL"):
    """Firecrawl."""

    api_key: ProviderKey


class JinaScraper(Struct, rename="camel", tag_field="provider", tag="JINA"):
    """Jina Reader."""

    api_key: ProviderKey


class ScrapingBeeScraper(Struct, rename="camel", tag_field="provider", tag="SCRAPINGBEE"):
    """ScrapingBee."""

    api_key: ProviderKey


class BuiltinScraper(Struct, rename="camel", tag_field="provider", tag="BUILTIN", omit_defaults=True):
    """The service's own crawler; a key is not needed and not used."""

    api_key: ProviderKey | UnsetType = UNSET


class CohereReranker(Struct, rename="camel", tag_field="provider", tag="COHERE"):
    """A reranker of Cohere."""

    model: Annotated[Text, Meta(description="The model's name.")]
    api_key: ProviderKey


class JinaReranker(Struct, rename="camel", tag_field="provider", tag="JINA"):
    """A reranker of Jina."""

    model: Annotated[Text, Meta(description="The model's name.")]
    api_key: ProviderKey


class EndpointReranker(Struct, rename="camel", tag_field="provider", tag="ENDPOINT", omit_defaults=True):
    """A server with the `/rerank` of text-embeddings-inference, vLLM and Infinity; `model` where it has several."""

    url: Annotated[
        Text, Meta(description="Where the reranker answers: its base, or the address that ends in `/rerank`.")
    ]
    model: Annotated[Text | UnsetType, Meta(description="The model's name.")] = UNSET
    api_key: ProviderKey | UnsetType = UNSET


class LocalReranker(Struct, rename="camel", tag_field="provider", tag="LOCAL", omit_defaults=True):
    """A folder with an ONNX cross-encoder and its tokenizer, below the one that the operator has set."""

    path: Annotated[Text, Meta(description="The folder of the model, below the one that RETRIEVAL_RERANKERS names.")]
    model: Annotated[Text | UnsetType, Meta(description="The model's name.")] = UNSET


class EndpointParser(Struct, rename="camel", tag_field="provider", tag="ENDPOINT", omit_defaults=True):
    """A server with the `/v1/convert/file` of docling-serve."""

    url: Annotated[Text, Meta(description="Where the parser answers: its base, or the address of that operation.")]
    api_key: ProviderKey | UnsetType = UNSET


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
    """What may be changed at any time."""

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


class FileStorageView(Struct, rename="camel", omit_defaults=True):
    """File storage without its credentials."""

    type: Annotated[str, Meta(description="Which kind of file storage.")]
    bucket: Annotated[str | UnsetType, Meta(description="The bucket's name.")] = UNSET
    region: Annotated[str | UnsetType, Meta(description="The storage's region.")] = UNSET
    endpoint: Annotated[str | UnsetType, Meta(description="The storage's URL.")] = UNSET


class VectorStorageView(Struct, rename="camel", omit_defaults=True):
    """Vector storage without its key."""

    provider: Annotated[str, Meta(description="Whose service it is.")]
    index_host: Annotated[str | UnsetType, Meta(description="The host of the index.")] = UNSET


class EmbeddingModelView(Struct, rename="camel", omit_defaults=True):
    """The embedding model without its key."""

    provider: Annotated[str, Meta(description="Whose service it is.")]
    model: Annotated[str, Meta(description="The model's name.")]
    query_prefix: QueryPrefix | UnsetType = UNSET
    passage_prefix: PassagePrefix | UnsetType = UNSET


class WebScraperView(Struct, rename="camel", omit_defaults=True):
    """The web scraper with its key masked."""

    provider: Annotated[str, Meta(description="Whose service it is.")]
    api_key: MaskedKey | UnsetType = UNSET


class RerankConfigView(Struct, rename="camel", omit_defaults=True):
    """The reranker with its key masked."""

    provider: Annotated[str, Meta(description="Whose service it is.")]
    model: Annotated[str | UnsetType, Meta(description="The model's name.")] = UNSET
    url: Annotated[str | UnsetType, Meta(description="Where the reranker answers.")] = UNSET
    path: Annotated[
        str | UnsetType, Meta(description="The folder of the model, below the one that RETRIEVAL_RERANKERS names.")
    ] = UNSET
    api_key: MaskedKey | UnsetType = UNSET


class ParserConfigView(Struct, rename="camel", omit_defaults=True):
    """The external parser with its key masked."""

    provider: Annotated[str, Meta(description="Whose service it is.")]
    url: Annotated[str, Meta(description="Where the parser answers.")]
    api_key: MaskedKey | UnsetType = UNSET


@with_apps(lambda _: ConnectorAppView | UnsetType | None, UNSET)
class _Shown(Struct, rename="camel", kw_only=True):
    """What of a namespace answers show before its times."""

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
    parser_config: (
        Annotated[ParserConfigView, Meta(description="What reads the pages and files that the service cannot read.")]
        | UnsetType
    ) = UNSET
    keyword_language: Annotated[
        str | UnsetType,
        Meta(description="The one language that words are indexed in; each document's own where it is absent."),
    ] = UNSET


class Namespace(_Shown, kw_only=True):
    """A namespace as answers show it; a bound key is shown `id`, `identifier` and `name` alone."""

    created_at: Annotated[Timestamp | UnsetType, Meta(description="When it was made.")] = UNSET
    updated_at: Annotated[Timestamp | UnsetType, Meta(description="When it last changed.")] = UNSET

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
    ingest_job_run_id: Annotated[str | UnsetType, Meta(description="The job run to follow.")] = UNSET


class NamespacesData(Listing, kw_only=True):
    """All namespaces, or a part of them, newest first."""

    namespaces: list[Namespace]


class DeletedNamespace(Struct):
    """The id of what is gone, under both of its names."""

    id: Annotated[str, Meta(description="The id.")]
    identifier: Annotated[str, Meta(description="The namespace's id, under its other name.")]


class NamespaceAnswer(DataAnswer[NamespaceData]):
    """One namespace."""


class NamespacesAnswer(DataAnswer[NamespacesData]):
    """Every namespace that the key may see."""


class NamespaceDeletedAnswer(DeletionAnswered[DeletedNamespace]):
    """The namespace is gone from every answer; what it stored follows in the background."""
