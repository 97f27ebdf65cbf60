"""Providers of a namespace: storage, models, scrapers, rerankers, parsers and apps."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Text = Annotated[str, Meta(min_length=1, max_length=2048)]
Secret = Annotated[str, Meta(min_length=1, max_length=8192)]
ProviderKey = Annotated[Secret, Meta(description="The key of the provider. Responses mask or omit it.")]
MaskedKey = Annotated[
    str, Meta(description="The key of the provider. Responses mask or omit it.", examples=["••••1234"])
]
QueryPrefix = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="Prefix that the model requires before each query.",
        examples=["query: "],
    ),
]
PassagePrefix = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="Prefix that the model requires before each passage. It is not stored with chunks.",
        examples=["passage: "],
    ),
]


class S3Credentials(Struct, rename="camel"):
    """An access key with permission to read, write and delete in the bucket."""

    access_key_id: Annotated[Secret, Meta(description="The id of the access key.")]
    secret_access_key: Annotated[Secret, Meta(description="The secret of the access key.")]


class S3Storage(Struct, rename="camel", tag_field="type", tag="S3_COMPATIBLE"):
    """A bucket of any S3-compatible storage."""

    bucket: Annotated[Text, Meta(description="The bucket's name.")]
    region: Annotated[Text, Meta(description="The storage's region.")]
    endpoint: Annotated[Text, Meta(description="The storage's URL.")]
    credentials: Annotated[S3Credentials, Meta(description="The access key of the bucket.")]


class LocalStorage(Struct, rename="camel", tag_field="type", tag="LOCAL"):
    """A folder of the service; needs no account."""


class PineconeStore(Struct, rename="camel", tag_field="provider", tag="PINECONE"):
    """A Pinecone index."""

    api_key: ProviderKey
    index_host: Annotated[Text, Meta(description="The host of the index.")]


class PgvectorStore(Struct, rename="camel", tag_field="provider", tag="PGVECTOR"):
    """The service's own PostgreSQL; needs no account."""


class OpenAIModel(Struct, rename="camel", tag_field="provider", tag="OPENAI", omit_defaults=True):
    """An embedding model of OpenAI, or of the operator's server with OpenAI's API."""

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


class EndpointModel(Struct, rename="camel", tag_field="provider", tag="ENDPOINT", omit_defaults=True):
    """A model server with OpenAI's `/embeddings`: Ollama, vLLM, LiteLLM, text-embeddings-inference and others."""

    url: Annotated[Text, Meta(description="URL of the server: its base URL, or the URL that ends in `/embeddings`.")]
    model: Annotated[Text, Meta(description="The model's name.")]
    api_key: ProviderKey | UnsetType = UNSET
    query_prefix: QueryPrefix | UnsetType = UNSET
    passage_prefix: PassagePrefix | UnsetType = UNSET
    dimensions: Annotated[
        Annotated[int, Meta(ge=1, le=4000)] | UnsetType,
        Meta(description="Dimensions to request, for models with nested vectors. Default: the model's, at most 4,000."),
    ] = UNSET


class LocalModel(Struct, rename="camel", tag_field="provider", tag="LOCAL"):
    """A model of the service itself; needs no account."""

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


class EndpointScraper(Struct, rename="camel", tag_field="provider", tag="ENDPOINT", omit_defaults=True):
    """A server of your own with the API of Firecrawl or crawl4ai."""

    url: Annotated[Text, Meta(description="URL of the server, without the paths of its API.")]
    api: Annotated[
        Literal["FIRECRAWL", "CRAWL4AI"] | UnsetType, Meta(description="The server's API; FIRECRAWL if omitted.")
    ] = UNSET
    api_key: ProviderKey | UnsetType = UNSET


class BuiltinScraper(Struct, rename="camel", tag_field="provider", tag="BUILTIN", omit_defaults=True):
    """The service's own crawler; needs no key."""

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
    """A server with the `/rerank` of text-embeddings-inference, vLLM and Infinity; `model` selects among several."""

    url: Annotated[Text, Meta(description="URL of the reranker: its base URL, or the URL that ends in `/rerank`.")]
    model: Annotated[Text | UnsetType, Meta(description="The model's name.")] = UNSET
    api_key: ProviderKey | UnsetType = UNSET


class LocalReranker(Struct, rename="camel", tag_field="provider", tag="LOCAL", omit_defaults=True):
    """The service's own model by late interaction, or the ONNX cross-encoder of a folder with its tokenizer."""

    path: Annotated[
        Text | UnsetType, Meta(description="The folder of the model, below the one that RETRIEVAL_RERANKERS names.")
    ] = UNSET
    model: Annotated[Text | UnsetType, Meta(description="The model's name.")] = UNSET


class EndpointParser(Struct, rename="camel", tag_field="provider", tag="ENDPOINT", omit_defaults=True):
    """A server with the `/v1/convert/file` of docling-serve."""

    url: Annotated[Text, Meta(description="URL of the parser: its base URL, or the URL of the operation.")]
    api_key: ProviderKey | UnsetType = UNSET


FileStorage = S3Storage | LocalStorage
VectorStore = PineconeStore | PgvectorStore
EmbeddingModel = OpenAIModel | CohereModel | JinaModel | EndpointModel | LocalModel
WebScraper = FirecrawlScraper | JinaScraper | ScrapingBeeScraper | EndpointScraper | BuiltinScraper
RerankConfig = CohereReranker | JinaReranker | EndpointReranker | LocalReranker
ParserConfig = Annotated[
    EndpointParser | UnsetType | None,
    Meta(description="External parser for files that the service cannot read; null removes it."),
]


class FileStorageView(Struct, rename="camel", omit_defaults=True):
    """File storage without its credentials."""

    type: Annotated[str, Meta(description="The type of file storage.")]
    bucket: Annotated[str | UnsetType, Meta(description="The bucket's name.")] = UNSET
    region: Annotated[str | UnsetType, Meta(description="The storage's region.")] = UNSET
    endpoint: Annotated[str | UnsetType, Meta(description="The storage's URL.")] = UNSET


class VectorStorageView(Struct, rename="camel", omit_defaults=True):
    """Vector storage without its key."""

    provider: Annotated[str, Meta(description="The provider.")]
    index_host: Annotated[str | UnsetType, Meta(description="The host of the index.")] = UNSET


class LearnedLimits(Struct, rename="camel", omit_defaults=True):
    """Format and limits of a model server as learned by the check, or the reason for a local model."""

    choice: Annotated[str | UnsetType, Meta(description="Why the service chose this model, if it was left to it.")] = (
        UNSET
    )
    texts_per_request: Annotated[int | UnsetType, Meta(description="Texts of a request.")] = UNSET
    tokens_per_text: Annotated[int | UnsetType, Meta(description="Tokens of the longest text embedded whole.")] = UNSET
    dimensions: Annotated[int | UnsetType, Meta(description="Dimensions of the stored vectors.")] = UNSET
    base64: Annotated[bool | UnsetType, Meta(description="The server answers in base64.")] = UNSET
    normalized: Annotated[bool | UnsetType, Meta(description="The server's vectors have length 1.")] = UNSET
    path: Annotated[str | UnsetType, Meta(description="Path of the operation, if the URL does not name it.")] = UNSET


class EmbeddingModelView(Struct, rename="camel", omit_defaults=True):
    """The embedding model without its key."""

    provider: Annotated[str, Meta(description="The provider.")]
    model: Annotated[str, Meta(description="The model's name.")]
    url: Annotated[str | UnsetType, Meta(description="URL of the model server.")] = UNSET
    query_prefix: QueryPrefix | UnsetType = UNSET
    passage_prefix: PassagePrefix | UnsetType = UNSET
    dimensions: Annotated[int | UnsetType, Meta(description="The dimensions that are requested.")] = UNSET
    learned: Annotated[LearnedLimits | UnsetType, Meta(description="What the check of a model server found.")] = UNSET


class WebScraperView(Struct, rename="camel", omit_defaults=True):
    """The web scraper with its key masked."""

    provider: Annotated[str, Meta(description="The provider.")]
    url: Annotated[str | UnsetType, Meta(description="URL of the server.")] = UNSET
    api: Annotated[str | UnsetType, Meta(description="The server's API.")] = UNSET
    api_key: MaskedKey | UnsetType = UNSET


class RerankConfigView(Struct, rename="camel", omit_defaults=True):
    """The reranker with its key masked."""

    provider: Annotated[str, Meta(description="The provider.")]
    model: Annotated[str | UnsetType, Meta(description="The model's name.")] = UNSET
    url: Annotated[str | UnsetType, Meta(description="URL of the reranker.")] = UNSET
    path: Annotated[
        str | UnsetType, Meta(description="The folder of the model, below the one that RETRIEVAL_RERANKERS names.")
    ] = UNSET
    api_key: MaskedKey | UnsetType = UNSET


class ParserConfigView(Struct, rename="camel", omit_defaults=True):
    """The external parser with its key masked."""

    provider: Annotated[str, Meta(description="The provider.")]
    url: Annotated[str, Meta(description="URL of the parser.")]
    api_key: MaskedKey | UnsetType = UNSET
