"""Bodies of requests, with the wire's names. Written by `generate.py` from the API's description."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class Access(TypedDict):
    """Access list of a document, at most 1,000 names. Without names and `public`, no user may see the document."""

    users: NotRequired[list[str] | None]
    groups: NotRequired[list[str] | None]
    denied: NotRequired[Denied | None]
    public: NotRequired[bool | None]


class BoxConfig(TypedDict):
    """All that the connection gives access to, or what `include` and `exclude` leave of it."""

    connectionId: str
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    include: NotRequired[list[Part] | None]
    exclude: NotRequired[list[Part] | None]
    pick: NotRequired[bool | None]
    fullListing: NotRequired[bool | None]


class BoxIngestion(TypedDict):
    """Files of a Box."""

    config: BoxConfig
    chunkConfig: NotRequired[ChunkConfig | None]
    source: Literal["BOX"]


class BrowseConnection(TypedDict):
    """The folder to list; the top of the account without `parentId`."""

    namespaceId: str
    parentId: NotRequired[str | None]
    cursor: NotRequired[str | None]


class BuiltinScraper(TypedDict):
    """The service's own crawler; needs no key."""

    provider: Literal["BUILTIN"]
    apiKey: NotRequired[str]


class ChunkConfig(TypedDict):
    """Chunking of documents, in tokens of the embedding model. Values above the model's limit are lowered."""

    chunkSize: int
    chunkOverlap: int


class CohereModel(TypedDict):
    """An embedding model of Cohere."""

    provider: Literal["COHERE"]
    model: Literal[
        "embed-english-v3.0",
        "embed-multilingual-v3.0",
        "embed-english-light-v3.0",
        "embed-multilingual-light-v3.0",
        "embed-v4.0",
        "embed-english-v2.0",
        "embed-english-light-v2.0",
        "embed-multilingual-v2.0",
    ]
    apiKey: str


class CohereReranker(TypedDict):
    """A reranker of Cohere."""

    provider: Literal["COHERE"]
    model: str
    apiKey: str


class ConnectorApp(TypedDict):
    """The app of Dropbox, Box or Gmail that users authorize."""

    clientId: str
    clientSecret: str


class CreateConnection(TypedDict):
    """A connection to create. Without `config`, the namespace must have an OAuth app of the connector."""

    namespaceId: str
    name: str
    connector: Literal[
        "AIRTABLE",
        "ASANA",
        "AZURE_DEVOPS",
        "BOX",
        "CLICKUP",
        "CONFLUENCE",
        "CUSTOM",
        "DISCOURSE",
        "DROPBOX",
        "FEED",
        "FRESHDESK",
        "GITHUB",
        "GITLAB",
        "GMAIL",
        "GOOGLE_DRIVE",
        "HUBSPOT",
        "INTERCOM",
        "JIRA",
        "LINEAR",
        "MONDAY",
        "NOTION",
        "OBJECTS",
        "ONEDRIVE",
        "OUTLOOK_MAIL",
        "SALESFORCE",
        "SERVICENOW",
        "SHAREPOINT",
        "SLACK",
        "SQL",
        "TEAMS",
        "WORDPRESS",
        "ZENDESK",
    ]
    clientRedirectUrl: NotRequired[str | None]
    syncIntervalMinutes: NotRequired[int | None]
    permissions: NotRequired[Literal["IGNORE", "SOURCE"]]
    config: NotRequired[SourceAddress | None]


class CreateEvaluation(TypedDict):
    """A set of judged questions."""

    namespaceId: str
    name: str
    questions: list[Question]


class CreateKey(TypedDict):
    """A key to create. Without `scopes` it may do everything except administration; it may be bound to a namespace
    or tenant.
    """

    name: str
    scopes: NotRequired[
        list[
            Literal[
                "namespaces:read",
                "namespaces:write",
                "documents:read",
                "documents:write",
                "ingest:read",
                "ingest:write",
                "search",
                "connections:read",
                "connections:write",
                "webhooks:read",
                "webhooks:write",
                "admin",
            ]
        ]
        | None
    ]
    namespaceId: NotRequired[str | None]
    tenantId: NotRequired[str | None]
    principal: NotRequired[str | None]
    principalRequired: NotRequired[bool | None]


class CreateNamespace(TypedDict):
    """A namespace to create. Credentials are stored encrypted."""

    name: str
    fileStorageConfig: NotRequired[S3Storage | LocalStorage]
    vectorStorageConfig: NotRequired[PineconeStore | PgvectorStore]
    embeddingModelConfig: NotRequired[OpenAIModel | CohereModel | JinaModel | EndpointModel | LocalModel]
    webScraperConfig: NotRequired[
        FirecrawlScraper | JinaScraper | ScrapingBeeScraper | EndpointScraper | BuiltinScraper | None
    ]
    rerankConfig: NotRequired[CohereReranker | JinaReranker | EndpointReranker | LocalReranker | None]
    parserConfig: NotRequired[EndpointParser | None]
    keywordLanguage: NotRequired[str | None]
    notionConfig: NotRequired[NotionApp | None]
    googleDriveConfig: NotRequired[GoogleDriveApp | None]
    dropboxConfig: NotRequired[ConnectorApp | None]
    onedriveConfig: NotRequired[MicrosoftApp | None]
    sharepointConfig: NotRequired[MicrosoftApp | None]
    boxConfig: NotRequired[ConnectorApp | None]
    outlookMailConfig: NotRequired[MicrosoftApp | None]
    gmailConfig: NotRequired[ConnectorApp | None]


class CreateSchedule(TypedDict):
    """The ingestion to repeat, by `intervalMinutes` or `cron`."""

    namespaceId: str
    ingestJobRunId: str
    intervalMinutes: NotRequired[int | None]
    cron: NotRequired[str | None]
    timeZone: NotRequired[str]


class CreateTenant(TypedDict):
    """A tenant to register, by the name in X-Tenant-ID."""

    id: str


class CreateWebhook(TypedDict):
    """An endpoint to notify of events; of one tenant's events if X-Tenant-ID is sent."""

    url: str
    events: list[
        Literal[
            "DOCUMENTS_QUEUED_FOR_INGESTION",
            "DOCUMENTS_QUEUED_FOR_UPDATE",
            "DOCUMENTS_QUEUED_FOR_RESYNC",
            "DOCUMENTS_QUEUED_FOR_DELETION",
            "DOCUMENTS_PROCESSING",
            "DOCUMENTS_ERROR",
            "DOCUMENTS_READY",
            "DOCUMENTS_DELETED",
            "INGEST_JOB_RUN_QUEUED",
            "INGEST_JOB_RUN_PRE_PROCESSING",
            "INGEST_JOB_RUN_PROCESSING",
            "INGEST_JOB_RUN_COMPLETED",
            "CONNECTION_ACTIVE",
            "CONNECTION_FAILED",
            "CONNECTION_REMOVALS_WAITING",
            "HIDDEN_PASSAGES_UNMATCHED",
            "*",
        ]
    ]
    namespaceId: NotRequired[str | None]
    description: NotRequired[str | None]


class DeleteDocuments(TypedDict):
    """Filter of the documents to delete, with at least one restriction."""

    namespaceId: str
    filterConfig: FilterConfig


class Denied(TypedDict):
    """Users and groups that may not see the document. A denial overrides every permission."""

    users: NotRequired[list[str] | None]
    groups: NotRequired[list[str] | None]


class DifyCondition(TypedDict):
    """A condition on metadata. Numeric text is compared as a number."""

    name: list[str] | str
    comparison_operator: Literal[
        "<",
        "=",
        ">",
        "after",
        "before",
        "contains",
        "empty",
        "end with",
        "in",
        "is",
        "is not",
        "not contains",
        "not empty",
        "not in",
        "start with",
        "\u2260",
        "\u2264",
        "\u2265",
    ]
    value: NotRequired[str | int | float | bool | list[str | int | float] | None]


class DifyConditions(TypedDict):
    """Conditions on metadata; all must hold, or one with `or`."""

    conditions: NotRequired[list[DifyCondition] | None]
    logical_operator: NotRequired[Literal["and", "or"] | None]


class DifyRetrieval(TypedDict):
    """Dify's request to an external knowledge base."""

    knowledge_id: str
    query: str
    retrieval_setting: NotRequired[DifySetting]
    metadata_condition: NotRequired[DifyConditions | None]


class DifySetting(TypedDict):
    """Number of records, and their minimum score."""

    top_k: NotRequired[int | None]
    score_threshold: NotRequired[float | None]


class DraftConfigs(TypedDict):
    """Configs to test. Nothing is stored."""

    name: NotRequired[str]
    fileStorageConfig: NotRequired[S3Storage | LocalStorage]
    vectorStorageConfig: NotRequired[PineconeStore | PgvectorStore]
    embeddingModelConfig: NotRequired[OpenAIModel | CohereModel | JinaModel | EndpointModel | LocalModel]
    webScraperConfig: NotRequired[
        FirecrawlScraper | JinaScraper | ScrapingBeeScraper | EndpointScraper | BuiltinScraper | None
    ]
    rerankConfig: NotRequired[CohereReranker | JinaReranker | EndpointReranker | LocalReranker | None]
    parserConfig: NotRequired[EndpointParser | None]
    keywordLanguage: NotRequired[str | None]
    notionConfig: NotRequired[NotionApp | None]
    googleDriveConfig: NotRequired[GoogleDriveApp | None]
    dropboxConfig: NotRequired[ConnectorApp | None]
    onedriveConfig: NotRequired[MicrosoftApp | None]
    sharepointConfig: NotRequired[MicrosoftApp | None]
    boxConfig: NotRequired[ConnectorApp | None]
    outlookMailConfig: NotRequired[MicrosoftApp | None]
    gmailConfig: NotRequired[ConnectorApp | None]
    namespaceId: NotRequired[str]


class DropboxConfig(TypedDict):
    """All that the connection gives access to, or what `include` and `exclude` leave of it."""

    connectionId: str
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    include: NotRequired[list[Part] | None]
    exclude: NotRequired[list[Part] | None]
    pick: NotRequired[bool | None]
    fullListing: NotRequired[bool | None]


class DropboxIngestion(TypedDict):
    """Files of a Dropbox."""

    config: DropboxConfig
    chunkConfig: NotRequired[ChunkConfig | None]
    source: Literal["DROPBOX"]


class EndpointModel(TypedDict):
    """A model server with OpenAI's `/embeddings`: Ollama, vLLM, LiteLLM, text-embeddings-inference and others."""

    provider: Literal["ENDPOINT"]
    url: str
    model: str
    apiKey: NotRequired[str]
    queryPrefix: NotRequired[str]
    passagePrefix: NotRequired[str]
    dimensions: NotRequired[int]


class EndpointParser(TypedDict):
    """A server with the `/v1/convert/file` of docling-serve."""

    provider: Literal["ENDPOINT"]
    url: str
    apiKey: NotRequired[str]


class EndpointReranker(TypedDict):
    """A server with the `/rerank` of text-embeddings-inference, vLLM and Infinity; `model` selects among several."""

    provider: Literal["ENDPOINT"]
    url: str
    model: NotRequired[str]
    apiKey: NotRequired[str]


class EndpointScraper(TypedDict):
    """A server of your own with the API of Firecrawl or crawl4ai."""

    provider: Literal["ENDPOINT"]
    url: str
    api: NotRequired[Literal["CRAWL4AI", "FIRECRAWL"]]
    apiKey: NotRequired[str]


class Expand(TypedDict):
    """Context of each result: a unit of the document, up to a number of tokens of the embedding model."""

    unit: Literal["CHUNK", "DOCUMENT", "PAGE", "SECTION"]
    maxTokens: NotRequired[int | None]


class FetchDocuments(TypedDict):
    """Filter of the documents to list, and the parts of the response."""

    namespaceId: str
    filterConfig: FilterConfig
    pagination: NotRequired[Pagination | None]
    includeConfig: NotRequired[IncludeConfig | None]
    facets: NotRequired[list[str] | None]


class FilesConfig(TypedDict):
    """Files to ingest by a single job run, with common settings."""

    files: list[UploadedFile]
    name: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    ocrConfig: NotRequired[OcrConfig | None]
    access: NotRequired[Access | None]


class FilesIngestion(TypedDict):
    """Files with chunk settings. `chunkConfig` takes precedence over `config.chunkConfig`."""

    source: Literal["FILE", "LOCAL_FILE"]
    config: FilesConfig
    chunkConfig: NotRequired[ChunkConfig | None]


class FilterConfig(TypedDict):
    """AND between fields, OR within a field. An absent, null or empty field restricts nothing."""

    documentIds: NotRequired[list[str] | None]
    documentExternalIds: NotRequired[list[str] | None]
    documentTypes: NotRequired[list[str] | None]
    documentConnectionIds: NotRequired[list[str] | None]
    documentArchiveIds: NotRequired[list[str] | None]
    documentIngestionSources: NotRequired[list[str] | None]
    documentIngestionStatuses: NotRequired[list[str] | None]
    metadata: NotRequired[dict[str, Any] | None]
    awaitingRemoval: NotRequired[bool | None]
    where: NotRequired[dict[str, Any] | None]
    text: NotRequired[str | None]
    sites: NotRequired[list[str] | None]
    accessStatuses: NotRequired[list[str] | None]


class FirecrawlScraper(TypedDict):
    """Firecrawl."""

    provider: Literal["FIRECRAWL"]
    apiKey: str


class Gate(TypedDict):
    """Condition for activating the new embeddings: `minimum`, or `notWorseThan` compared with the current ones."""

    evaluationId: str
    metric: Literal["mrr", "ndcgAt10", "recallAt10", "recallAt100", "spanRecallAt10"]
    minimum: NotRequired[float]
    notWorseThan: NotRequired[float]


class GmailConfig(TypedDict):
    """All threads but drafts, spam and trash, or what `include` and `exclude` leave of their labels."""

    connectionId: str
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    include: NotRequired[list[Part] | None]
    exclude: NotRequired[list[Part] | None]
    pick: NotRequired[bool | None]
    fullListing: NotRequired[bool | None]


class GmailIngestion(TypedDict):
    """Threads of mails of a Gmail mailbox."""

    config: GmailConfig
    chunkConfig: NotRequired[ChunkConfig | None]
    source: Literal["GMAIL"]


class GoogleDriveApp(TypedDict):
    """The Google Cloud app that users authorize."""

    clientId: str
    clientSecret: str
    apiKey: str


class GoogleDriveConfig(TypedDict):
    """All that the connection gives access to, or what `include` and `exclude` leave of it."""

    connectionId: str
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    include: NotRequired[list[Part] | None]
    exclude: NotRequired[list[Part] | None]
    pick: NotRequired[bool | None]
    fullListing: NotRequired[bool | None]


class GoogleDriveIngestion(TypedDict):
    """Files of a Google Drive."""

    config: GoogleDriveConfig
    chunkConfig: NotRequired[ChunkConfig | None]
    source: Literal["GOOGLE_DRIVE"]


class GroupMembers(TypedDict):
    """Members of a group. Groups may be members of each other, in cycles too."""

    users: NotRequired[list[str] | None]
    groups: NotRequired[list[str] | None]


class HidePassage(TypedDict):
    """A chunk or a document to hide from search, and the reason."""

    namespaceId: str
    reason: str
    chunkIndex: NotRequired[int | None]


class HybridConfig(TypedDict):
    """Weights of meaning and words; they sum to 1.0."""

    semanticWeight: float
    keywordWeight: float


class HybridSearchRequest(TypedDict):
    """A hybrid search."""

    query: str
    namespaceId: NotRequired[str | None]
    namespaceIds: NotRequired[list[str] | None]
    hybridConfig: HybridConfig
    topK: NotRequired[int | None]
    scoreThreshold: NotRequired[float | None]
    filter: NotRequired[SearchFilter | None]
    searchType: NotRequired[Literal["HYBRID"] | None]
    explain: NotRequired[bool | None]
    rerank: NotRequired[bool | RerankOptions | None]
    rerankConfig: NotRequired[SearchReranker | None]
    perDocument: NotRequired[int | None]
    expand: NotRequired[Expand | None]
    recency: NotRequired[RecencyConfig | None]
    groupBy: NotRequired[Literal["document"] | None]
    minProbability: NotRequired[float | None]


class IncludeConfig(TypedDict):
    """Optional parts of the response."""

    documents: NotRequired[bool | None]
    rawFileUrl: NotRequired[bool | None]
    parsedTextFileUrl: NotRequired[bool | None]
    statsBySource: NotRequired[bool | None]
    statsByStatus: NotRequired[bool | None]
    statsBySite: NotRequired[bool | None]


class IngestBox(TypedDict):
    """A Box to ingest into a namespace."""

    namespaceId: str
    dryRun: NotRequired[bool | None]
    ingestConfig: BoxIngestion


class IngestDropbox(TypedDict):
    """A Dropbox to ingest into a namespace."""

    namespaceId: str
    dryRun: NotRequired[bool | None]
    ingestConfig: DropboxIngestion


class IngestFiles(TypedDict):
    """Uploaded files to ingest into a namespace."""

    namespaceId: str
    ingestConfig: FilesIngestion
    dryRun: NotRequired[bool | None]


class IngestGmail(TypedDict):
    """A mailbox of Gmail to ingest into a namespace."""

    namespaceId: str
    dryRun: NotRequired[bool | None]
    ingestConfig: GmailIngestion


class IngestGoogleDrive(TypedDict):
    """A Google Drive to ingest into a namespace."""

    namespaceId: str
    dryRun: NotRequired[bool | None]
    ingestConfig: GoogleDriveIngestion


class IngestNotion(TypedDict):
    """A Notion workspace to ingest into a namespace."""

    namespaceId: str
    dryRun: NotRequired[bool | None]
    ingestConfig: NotionIngestion


class IngestOnedrive(TypedDict):
    """A OneDrive to ingest into a namespace."""

    namespaceId: str
    dryRun: NotRequired[bool | None]
    ingestConfig: OnedriveIngestion


class IngestOutlookMail(TypedDict):
    """A mailbox of Outlook to ingest into a namespace."""

    namespaceId: str
    dryRun: NotRequired[bool | None]
    ingestConfig: OutlookMailIngestion


class IngestSharepoint(TypedDict):
    """Document libraries of SharePoint to ingest into a namespace."""

    namespaceId: str
    dryRun: NotRequired[bool | None]
    ingestConfig: SharepointIngestion


class IngestSitemap(TypedDict):
    """A sitemap to ingest into a namespace."""

    namespaceId: str
    ingestConfig: SitemapIngestion
    dryRun: NotRequired[bool | None]


class IngestSource(TypedDict):
    """A bucket or folder to ingest into a namespace."""

    namespaceId: str
    dryRun: NotRequired[bool | None]
    ingestConfig: SourceIngestion


class IngestText(TypedDict):
    """A text to ingest into a namespace."""

    namespaceId: str
    ingestConfig: TextIngestion
    dryRun: NotRequired[bool | None]


class IngestUrls(TypedDict):
    """URLs to ingest into a namespace."""

    namespaceId: str
    ingestConfig: UrlsIngestion
    dryRun: NotRequired[bool | None]


class IngestWebsite(TypedDict):
    """A website to ingest into a namespace."""

    namespaceId: str
    ingestConfig: WebsiteIngestion
    dryRun: NotRequired[bool | None]


class JinaModel(TypedDict):
    """An embedding model of Jina."""

    provider: Literal["JINA"]
    model: Literal["jina-embeddings-v3", "jina-embeddings-v4"]
    apiKey: str


class JinaReranker(TypedDict):
    """A reranker of Jina."""

    provider: Literal["JINA"]
    model: str
    apiKey: str


class JinaScraper(TypedDict):
    """Jina Reader."""

    provider: Literal["JINA"]
    apiKey: str


class LocalModel(TypedDict):
    """A model of the service itself; needs no account."""

    provider: Literal["LOCAL"]
    model: Literal["all-MiniLM-L6-v2", "multilingual-e5-small", "wordllama-l2-supercat-256", "auto"]


class LocalReranker(TypedDict):
    """The service's own model by late interaction, or the ONNX cross-encoder of a folder with its tokenizer."""

    provider: Literal["LOCAL"]
    path: NotRequired[str]
    model: NotRequired[str]


class LocalStorage(TypedDict):
    """A folder of the service; needs no account."""

    type: Literal["LOCAL"]


MetadataChange = TypedDict(
    "MetadataChange",
    {
        "$metadata": "MetadataOperators | None",
    },
)
"""Changes by operators; `metadata` may be sent too."""


class MetadataMerge(TypedDict):
    """Merges by key: keys that are not named stay."""

    metadata: dict[str, Any] | None


MetadataOperators = TypedDict(
    "MetadataOperators",
    {
        "$set": "NotRequired[dict[str, Any] | None]",
        "$append": "NotRequired[dict[str, Any] | None]",
        "$remove": "NotRequired[dict[str, Any] | None]",
    },
)
"""`$set` replaces by key, `$append` adds values to lists, `$remove` takes values out of lists."""


class MicrosoftApp(TypedDict):
    """The app of OneDrive, SharePoint or Outlook mail that users authorize."""

    clientId: str
    clientSecret: str
    tenantId: NotRequired[str]


class NotionApp(TypedDict):
    """The Notion integration that users authorize."""

    clientId: str
    clientSecret: str
    authorizationUrl: NotRequired[str]


class NotionConfig(TypedDict):
    """All that the connection gives access to, or what `include` and `exclude` leave of it."""

    connectionId: str
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    include: NotRequired[list[Part] | None]
    exclude: NotRequired[list[Part] | None]
    pick: NotRequired[bool | None]
    fullListing: NotRequired[bool | None]


class NotionIngestion(TypedDict):
    """Pages of a Notion workspace."""

    config: NotionConfig
    chunkConfig: NotRequired[ChunkConfig | None]
    source: Literal["NOTION"]


class OcrConfig(TypedDict):
    """Text recognition of a file."""

    strategy: NotRequired[Literal["BASIC_PARSER", "STANDARD_OCR"]]


class OnedriveConfig(TypedDict):
    """All that the connection gives access to, or what `include` and `exclude` leave of it."""

    connectionId: str
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    include: NotRequired[list[Part] | None]
    exclude: NotRequired[list[Part] | None]
    pick: NotRequired[bool | None]
    fullListing: NotRequired[bool | None]


class OnedriveIngestion(TypedDict):
    """Files of a OneDrive."""

    config: OnedriveConfig
    chunkConfig: NotRequired[ChunkConfig | None]
    source: Literal["ONEDRIVE"]


class OpenAIModel(TypedDict):
    """An embedding model of OpenAI, or of the operator's server with OpenAI's API."""

    provider: Literal["OPENAI"]
    model: Literal["text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002"]
    apiKey: str
    queryPrefix: NotRequired[str]
    passagePrefix: NotRequired[str]


class OutlookMailConfig(TypedDict):
    """All folders but drafts, junk and deleted mails, or what `include` and `exclude` leave of them."""

    connectionId: str
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    include: NotRequired[list[Part] | None]
    exclude: NotRequired[list[Part] | None]
    pick: NotRequired[bool | None]
    fullListing: NotRequired[bool | None]


class OutlookMailIngestion(TypedDict):
    """Threads of mails of an Outlook mailbox."""

    config: OutlookMailConfig
    chunkConfig: NotRequired[ChunkConfig | None]
    source: Literal["OUTLOOK_MAIL"]


class Pagination(TypedDict):
    """A page of a listing; `cursor` is the `nextCursor` of the previous page."""

    pageSize: NotRequired[int | None]
    cursor: NotRequired[str | None]


class Part(TypedDict):
    """A file or folder with all below it, by its id or its path, or a type of files: one of them."""

    id: NotRequired[str]
    path: NotRequired[str]
    mimeType: NotRequired[str]


class PgvectorStore(TypedDict):
    """The service's own PostgreSQL; needs no account."""

    provider: Literal["PGVECTOR"]


class PineconeStore(TypedDict):
    """A Pinecone index."""

    provider: Literal["PINECONE"]
    apiKey: str
    indexHost: str


class Place(TypedDict):
    """A site, a document library or what lies in it: by its id at Microsoft Graph or the path of its address; or a
    type of files. One of them.
    """

    id: NotRequired[str]
    path: NotRequired[str]
    mimeType: NotRequired[str]


class PutGroup(TypedDict):
    """All members of a group, at most 10,000; they replace the current members."""

    namespaceId: str
    members: GroupMembers


class Question(TypedDict):
    """A query of users, with its relevant documents."""

    query: str
    relevant: list[Relevant]
    filter: NotRequired[SearchFilter | None]


class RecencyConfig(TypedDict):
    """Weight of a document's age, by `modifiedAt`, else `createdAt`; the boost halves every `halfLifeDays`."""

    halfLifeDays: float
    weight: float


class Relevant(TypedDict):
    """A relevant document by one of its ids, optionally with a span of its parsed text."""

    documentId: NotRequired[str]
    externalId: NotRequired[str]
    start: NotRequired[int]
    end: NotRequired[int]
    grade: NotRequired[int]


class RerankOptions(TypedDict):
    """Number of results to rerank, and the time limit."""

    candidates: NotRequired[int]
    budgetMs: NotRequired[int]


class ResyncDocuments(TypedDict):
    """Filter of the documents to ingest again from their source. A filter without restrictions is refused."""

    namespaceId: str
    filterConfig: FilterConfig
    confirmDeletions: NotRequired[bool | None]
    ocrConfig: NotRequired[OcrConfig | None]
    password: NotRequired[str | None]
    dryRun: NotRequired[bool | None]


class RetryRequest(TypedDict):
    """Namespace of the job run, failed documents to retry, and changed options."""

    namespaceId: str
    failureCauses: NotRequired[
        list[
            Literal[
                "ADDRESS", "CONNECTION", "NOT_ANSWERING", "NO_TEXT", "OTHER", "PAGE_MISSING", "PASSWORD", "UNREADABLE"
            ]
        ]
        | None
    ]
    ocrConfig: NotRequired[OcrConfig | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    password: NotRequired[str | None]


class RevokeConnection(TypedDict):
    """The connection's namespace, and the treatment of its documents."""

    namespaceId: str
    documents: NotRequired[Literal["DELETE", "KEEP"]]


class RotateWebhook(TypedDict):
    """Options of the rotation of a webhook's secret."""

    overlapHours: NotRequired[float]


class RunRequest(TypedDict):
    """Namespace of the job run."""

    namespaceId: str


class S3Credentials(TypedDict):
    """An access key with permission to read, write and delete in the bucket."""

    accessKeyId: str
    secretAccessKey: str


class S3Storage(TypedDict):
    """A bucket of any S3-compatible storage."""

    type: Literal["S3_COMPATIBLE"]
    bucket: str
    region: str
    endpoint: str
    credentials: S3Credentials


class ScrapeOptions(TypedDict):
    """CSS selectors of included and excluded elements of a page; up to 50 of 200 characters each."""

    includeSelectors: NotRequired[list[str] | None]
    excludeSelectors: NotRequired[list[str] | None]


class ScrapingBeeScraper(TypedDict):
    """ScrapingBee."""

    provider: Literal["SCRAPINGBEE"]
    apiKey: str


class SearchBatchRequest(TypedDict):
    """Searches in one namespace, or in several common ones."""

    namespaceId: NotRequired[str | None]
    namespaceIds: NotRequired[list[str] | None]
    queries: list[dict[str, Any]]


class SearchFilter(TypedDict):
    """Every metadata key must match: a value, any of a list, or an element of the document's list. `documents`
    restricts by document fields, `where` by a condition; all must hold.
    """

    metadata: NotRequired[dict[str, Any] | None]
    documents: NotRequired[FilterConfig | None]
    where: NotRequired[dict[str, Any] | None]


class SearchRequest(TypedDict):
    """A semantic search."""

    query: str
    namespaceId: NotRequired[str | None]
    namespaceIds: NotRequired[list[str] | None]
    topK: NotRequired[int | None]
    scoreThreshold: NotRequired[float | None]
    filter: NotRequired[SearchFilter | None]
    searchType: NotRequired[Literal["SEMANTIC"] | None]
    explain: NotRequired[bool | None]
    rerank: NotRequired[bool | RerankOptions | None]
    rerankConfig: NotRequired[SearchReranker | None]
    perDocument: NotRequired[int | None]
    expand: NotRequired[Expand | None]
    recency: NotRequired[RecencyConfig | None]
    groupBy: NotRequired[Literal["document"] | None]
    minProbability: NotRequired[float | None]


class SearchReranker(TypedDict):
    """The service's own reranker, by late interaction; available in every namespace."""

    provider: Literal["LOCAL"]


class SetQuotas(TypedDict):
    """Limits to set; null removes a limit, absent limits stay."""

    documents: NotRequired[int | None]
    storedBytes: NotRequired[int | None]
    tokensPerMonth: NotRequired[int | None]
    concurrentRuns: NotRequired[int | None]


class Setting(TypedDict):
    """A named setting of the search; the weights sum to 1.0."""

    name: str
    semanticWeight: float
    keywordWeight: float
    topK: NotRequired[int]
    rerank: NotRequired[bool | RerankOptions]
    rerankConfig: NotRequired[SearchReranker]
    perDocument: NotRequired[int]
    recency: NotRequired[RecencyConfig]


class SharepointConfig(TypedDict):
    """All libraries of the sites that the person follows, or those of `include`, followed or not."""

    connectionId: str
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    include: NotRequired[list[Place] | None]
    exclude: NotRequired[list[Part] | None]
    pick: NotRequired[bool | None]
    fullListing: NotRequired[bool | None]


class SharepointIngestion(TypedDict):
    """Files of document libraries of SharePoint."""

    config: SharepointConfig
    chunkConfig: NotRequired[ChunkConfig | None]
    source: Literal["SHAREPOINT"]


class SitemapConfig(TypedDict):
    """The pages of a sitemap. `excludePaths` takes precedence over `includePaths`."""

    scrapeOptions: NotRequired[ScrapeOptions | None]
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    url: str
    maxLinks: NotRequired[int | None]
    includePaths: NotRequired[list[str] | None]
    excludePaths: NotRequired[list[str] | None]


class SitemapIngestion(TypedDict):
    """A sitemap with chunk settings."""

    source: Literal["SITEMAP"]
    config: SitemapConfig
    chunkConfig: NotRequired[ChunkConfig | None]


class SourceAddress(TypedDict):
    """Address and credentials of a connector without an app, such as OBJECTS, or of an organization."""

    url: str
    credentials: NotRequired[SourceCredentials | None]
    fullListingMinutes: NotRequired[int | None]
    endpoint: NotRequired[str | None]
    region: NotRequired[str | None]
    hostKey: NotRequired[str | None]
    query: NotRequired[str | None]
    key: NotRequired[str | None]
    changed: NotRequired[str | None]
    title: NotRequired[str | None]
    text: NotRequired[str | None]
    tenantId: NotRequired[str | None]
    enterpriseId: NotRequired[str | None]
    sites: NotRequired[str | None]
    people: NotRequired[bool | None]


class SourceConfig(TypedDict):
    """All that the connection gives access to, or what `include` and `exclude` leave of it."""

    connectionId: str
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    include: NotRequired[list[Part] | None]
    exclude: NotRequired[list[Part] | None]
    pick: NotRequired[bool | None]
    fullListing: NotRequired[bool | None]


class SourceCredentials(TypedDict):
    """Credentials of a storage or service, encrypted; responses never show credentials."""

    accessKeyId: NotRequired[str | None]
    secretAccessKey: NotRequired[str | None]
    sessionToken: NotRequired[str | None]
    accountKey: NotRequired[str | None]
    sasToken: NotRequired[str | None]
    user: NotRequired[str | None]
    token: NotRequired[str | None]
    clientId: NotRequired[str | None]
    clientSecret: NotRequired[str | None]
    password: NotRequired[str | None]
    privateKey: NotRequired[str | None]
    publicCertificate: NotRequired[str | None]


class SourceIngestion(TypedDict):
    """Files of a bucket, file server or folder."""

    config: SourceConfig
    chunkConfig: NotRequired[ChunkConfig | None]
    source: Literal[
        "AIRTABLE",
        "ASANA",
        "AZURE_DEVOPS",
        "CLICKUP",
        "CONFLUENCE",
        "CUSTOM",
        "DISCOURSE",
        "FEED",
        "FRESHDESK",
        "GITHUB",
        "GITLAB",
        "HUBSPOT",
        "INTERCOM",
        "JIRA",
        "LINEAR",
        "MONDAY",
        "OBJECTS",
        "SALESFORCE",
        "SERVICENOW",
        "SLACK",
        "SQL",
        "TEAMS",
        "WORDPRESS",
        "ZENDESK",
    ]


class StartRun(TypedDict):
    """Settings to compare; differences are computed from the first."""

    namespaceId: str
    settings: list[Setting]


class TextConfig(TypedDict):
    """A text. Its identity is `externalId`, else `name`, else the text; the same identity again replaces the
    document.
    """

    text: str
    metadata: NotRequired[dict[str, Any] | None]
    name: NotRequired[str | None]
    externalId: NotRequired[str | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    modifiedAt: NotRequired[str | None]
    access: NotRequired[Access | None]


class TextIngestion(TypedDict):
    """A text with chunk settings. `chunkConfig` takes precedence over `config.chunkConfig`."""

    source: Literal["TEXT"]
    config: TextConfig
    chunkConfig: NotRequired[ChunkConfig | None]


class TurnPushOn(TypedDict):
    """The connection's namespace, and the secret of the content service."""

    namespaceId: str
    secret: NotRequired[str | None]


class UpdateConnection(TypedDict):
    """Changes to a connection; a request without changes begins a new authorization. Null removes a value."""

    namespaceId: str
    name: NotRequired[str]
    clientRedirectUrl: NotRequired[str | None]
    syncIntervalMinutes: NotRequired[int | None]
    permissions: NotRequired[Literal["IGNORE", "SOURCE"]]
    config: NotRequired[SourceAddress | None]


class UpdateDocuments(TypedDict):
    """Filter of the documents, with at least one restriction, and the changes."""

    namespaceId: str
    filterConfig: FilterConfig
    data: MetadataMerge | MetadataChange


class UpdateEvaluation(TypedDict):
    """Changes to an evaluation, in this order: name, removed queries, added questions, judgements."""

    namespaceId: str
    name: NotRequired[str]
    add: NotRequired[list[Question]]
    remove: NotRequired[list[str]]
    judge: NotRequired[list[Verdict]]


class UpdateNamespace(TypedDict):
    """Changes to a namespace. A config is replaced as a whole; null removes an optional config; masked secrets
    stay.
    """

    name: NotRequired[str]
    fileStorageConfig: NotRequired[S3Storage | LocalStorage]
    vectorStorageConfig: NotRequired[PineconeStore | PgvectorStore]
    embeddingModelConfig: NotRequired[OpenAIModel | CohereModel | JinaModel | EndpointModel | LocalModel]
    webScraperConfig: NotRequired[
        FirecrawlScraper | JinaScraper | ScrapingBeeScraper | EndpointScraper | BuiltinScraper | None
    ]
    rerankConfig: NotRequired[CohereReranker | JinaReranker | EndpointReranker | LocalReranker | None]
    parserConfig: NotRequired[EndpointParser | None]
    keywordLanguage: NotRequired[str | None]
    notionConfig: NotRequired[NotionApp | None]
    googleDriveConfig: NotRequired[GoogleDriveApp | None]
    dropboxConfig: NotRequired[ConnectorApp | None]
    onedriveConfig: NotRequired[MicrosoftApp | None]
    sharepointConfig: NotRequired[MicrosoftApp | None]
    boxConfig: NotRequired[ConnectorApp | None]
    outlookMailConfig: NotRequired[MicrosoftApp | None]
    gmailConfig: NotRequired[ConnectorApp | None]
    reembed: NotRequired[bool]
    gate: NotRequired[Gate]


class UpdateOrganization(TypedDict):
    """Changes to the organization."""

    quotas: NotRequired[SetQuotas]


class UpdateSchedule(TypedDict):
    """Changes to a schedule; absent fields stay."""

    namespaceId: str
    intervalMinutes: NotRequired[int]
    cron: NotRequired[str]
    timeZone: NotRequired[str]
    paused: NotRequired[bool]


class UpdateTenant(TypedDict):
    """Changes to a tenant."""

    quotas: NotRequired[SetQuotas]


class UpdateWebhook(TypedDict):
    """Changes to a webhook; absent fields do not change."""

    url: NotRequired[str]
    events: NotRequired[
        list[
            Literal[
                "DOCUMENTS_QUEUED_FOR_INGESTION",
                "DOCUMENTS_QUEUED_FOR_UPDATE",
                "DOCUMENTS_QUEUED_FOR_RESYNC",
                "DOCUMENTS_QUEUED_FOR_DELETION",
                "DOCUMENTS_PROCESSING",
                "DOCUMENTS_ERROR",
                "DOCUMENTS_READY",
                "DOCUMENTS_DELETED",
                "INGEST_JOB_RUN_QUEUED",
                "INGEST_JOB_RUN_PRE_PROCESSING",
                "INGEST_JOB_RUN_PROCESSING",
                "INGEST_JOB_RUN_COMPLETED",
                "CONNECTION_ACTIVE",
                "CONNECTION_FAILED",
                "CONNECTION_REMOVALS_WAITING",
                "HIDDEN_PASSAGES_UNMATCHED",
                "*",
            ]
        ]
    ]
    description: NotRequired[str | None]
    status: NotRequired[Literal["ACTIVE", "DISABLED"]]


class UploadedFile(TypedDict):
    """A stored file, and the identity of its document: `externalId`, else its name, else its content."""

    uploadId: str
    externalId: NotRequired[str | None]


class UrlsConfig(TypedDict):
    """Pages by their URLs, up to 1000. The same URL again replaces its document."""

    scrapeOptions: NotRequired[ScrapeOptions | None]
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    urls: list[str]


class UrlsIngestion(TypedDict):
    """Pages with chunk settings. `chunkConfig` takes precedence over `config.chunkConfig`."""

    source: Literal["URLS_LIST"]
    config: UrlsConfig
    chunkConfig: NotRequired[ChunkConfig | None]


class VectorStoreFilter(TypedDict):
    """A comparison of a metadata key, or a combination of filters with `and` or `or`."""

    type: Literal["and", "eq", "gt", "gte", "in", "lt", "lte", "ne", "nin", "or"]
    key: NotRequired[str]
    value: NotRequired[str | int | float | bool | list[str | int | float | bool]]
    filters: NotRequired[list[VectorStoreFilter]]


class VectorStoreRanking(TypedDict):
    """Ranking of results, and their minimum score."""

    ranker: NotRequired[str | None]
    score_threshold: NotRequired[float | None]
    hybrid_search: NotRequired[VectorStoreWeights | None]


class VectorStoreSearch(TypedDict):
    """OpenAI's request to search a vector store."""

    query: str | list[str]
    filters: NotRequired[VectorStoreFilter | None]
    max_num_results: NotRequired[int | None]
    ranking_options: NotRequired[VectorStoreRanking | None]
    rewrite_query: NotRequired[bool | None]


class VectorStoreWeights(TypedDict):
    """Weights of meaning and words, in proportion."""

    embedding_weight: float
    text_weight: float


class Verdict(TypedDict):
    """Judgement of a document for a query; grade 0 removes the judgement. `filter` applies to a new question."""

    query: str
    documentId: NotRequired[str]
    externalId: NotRequired[str]
    grade: NotRequired[int]
    filter: NotRequired[SearchFilter | None]


class VerifyDeletion(TypedDict):
    """A receipt in the field `deletion`, or the receipt itself as the body."""

    deletion: NotRequired[dict[str, Any]]


class WebsiteConfig(TypedDict):
    """The pages of a site, found by links. `maxDepth` counts links from the start page."""

    scrapeOptions: NotRequired[ScrapeOptions | None]
    metadata: NotRequired[dict[str, Any] | None]
    chunkConfig: NotRequired[ChunkConfig | None]
    access: NotRequired[Access | None]
    url: str
    maxDepth: NotRequired[int | None]
    maxLinks: NotRequired[int | None]
    includePaths: NotRequired[list[str] | None]
    excludePaths: NotRequired[list[str] | None]
    useSitemap: NotRequired[bool]


class WebsiteIngestion(TypedDict):
    """A website with chunk settings."""

    source: Literal["WEBSITE"]
    config: WebsiteConfig
    chunkConfig: NotRequired[ChunkConfig | None]


class WhyRequest(TypedDict):
    """A search, hybrid with `hybridConfig`, and the document to explain: by its id or its external id."""

    query: str
    namespaceId: str
    documentId: NotRequired[str | None]
    externalId: NotRequired[str | None]
    hybridConfig: NotRequired[HybridConfig | None]
    topK: NotRequired[int | None]
    scoreThreshold: NotRequired[float | None]
    filter: NotRequired[SearchFilter | None]
    perDocument: NotRequired[int | None]
    recency: NotRequired[RecencyConfig | None]
    searchType: NotRequired[Literal["HYBRID", "SEMANTIC"] | None]
    explain: NotRequired[bool | None]
