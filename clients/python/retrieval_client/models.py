"""Records of answers. Written by `generate.py` from the API's description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from retrieval_client.record import Record


class Access(Record):
    """Access list of a document, at most 1,000 names. Without names and `public`, no user may see the document."""

    users: list[str] | None
    groups: list[str] | None
    denied: Denied | None
    public: bool | None
    _fields = frozenset(["denied", "groups", "public", "users"])
    _records: ClassVar[Mapping[str, str]] = {"denied": "Denied"}


class ActivityAnswer(Record):
    """Activity of the namespace and tenant."""

    success: Literal[True]
    message: str
    data: ActivityData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ActivityData"}


class ActivityData(Record):
    """Job runs, documents and searches of the namespace and tenant."""

    runs: OpenRuns
    documents_failed_last_day: int
    tokens: int
    searches: SearchActivity
    history: DocumentHistory | None
    _fields = frozenset(["documentsFailedLastDay", "history", "runs", "searches", "tokens"])
    _records: ClassVar[Mapping[str, str]] = {
        "runs": "OpenRuns",
        "searches": "SearchActivity",
        "history": "DocumentHistory",
    }


class Allowance(Record):
    """A limit and the current usage."""

    used: int
    limit: int
    _fields = frozenset(["limit", "used"])


class Answerable(Record):
    """Estimate of whether the results answer the query, as a verdict and a probability."""

    verdict: Literal["likely", "unclear", "unlikely"]
    probability: float
    basis: str
    answered_share: float | None
    _fields = frozenset(["answeredShare", "basis", "probability", "verdict"])


class AuditAnswer(Record):
    """The organization's writes."""

    success: Literal[True]
    message: str
    data: AuditData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "AuditData"}


class AuditData(Record):
    """A page of the audit log."""

    entries: list[AuditEntry]
    items_returned: int
    has_next_page: bool
    next_cursor: str | None
    total_count: int | None
    _fields = frozenset(["entries", "hasNextPage", "itemsReturned", "nextCursor", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"entries": "AuditEntry"}


class AuditEntry(Record):
    """A successful or refused write. `objectId` is null for several objects, and for an unknown one."""

    id: str
    at: Timestamp
    key_id: str | None
    key_name: str | None
    principal: str | None
    method: str
    route: str
    object_type: str
    object_id: str | None
    status: int
    request_id: str | None
    source: Literal["API", "CLI", "PREFECT"]
    subject: str | None
    object_ids: list[str] | None
    object_count: int | None
    changes: list[dict[str, Any]] | None
    client_request_id: str | None
    _fields = frozenset(
        [
            "at",
            "changes",
            "clientRequestId",
            "id",
            "keyId",
            "keyName",
            "method",
            "objectCount",
            "objectId",
            "objectIds",
            "objectType",
            "principal",
            "requestId",
            "route",
            "source",
            "status",
            "subject",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {"at": "Timestamp"}


class Batch(Record):
    """Job runs of one source in process at the same worker."""

    ingest_job_run_id: str
    namespace_id: str
    tenant_id: str | None
    source: str
    job_runs: int
    attempt: int
    document: str | None
    created_at: Timestamp
    started_at: Timestamp | None
    lease_until: Timestamp | None
    _fields = frozenset(
        [
            "attempt",
            "createdAt",
            "document",
            "ingestJobRunId",
            "jobRuns",
            "leaseUntil",
            "namespaceId",
            "source",
            "startedAt",
            "tenantId",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "createdAt": "Timestamp",
        "startedAt": "Timestamp",
        "leaseUntil": "Timestamp",
    }


class Breaker(Record):
    """Vendor or site with paused requests after failures."""

    name: str
    reason: str
    failures: int
    since: Timestamp
    until: Timestamp
    waiting_job_runs: int
    _fields = frozenset(["failures", "name", "reason", "since", "until", "waitingJobRuns"])
    _records: ClassVar[Mapping[str, str]] = {"since": "Timestamp", "until": "Timestamp"}


class BrowsedAnswer(Record):
    """Entries of a folder."""

    success: Literal[True]
    message: str
    data: BrowsedData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "BrowsedData"}


class BrowsedData(Record):
    """A page of a folder's entries, in the content service's order."""

    items: list[BrowsedEntry]
    has_next_page: bool
    next_cursor: str | None
    _fields = frozenset(["hasNextPage", "items", "nextCursor"])
    _records: ClassVar[Mapping[str, str]] = {"items": "BrowsedEntry"}


class BrowsedEntry(Record):
    """A file or folder of an account."""

    id: str
    name: str
    path: str
    kind: Literal["FILE", "FOLDER"]
    mime_type: str | None
    size: int | None
    modified_at: str | None
    has_children: bool
    selected: bool
    _fields = frozenset(["hasChildren", "id", "kind", "mimeType", "modifiedAt", "name", "path", "selected", "size"])


class Calibration(Record):
    """Accuracy of `answerable` on questions with and without an answer. Figures of a fit come from held-out
    questions.
    """

    questions: int
    unanswerable: int
    fitted: bool
    auroc: float
    ece: float
    refused_at95: float
    bins: list[CalibrationBin]
    _fields = frozenset(["auroc", "bins", "ece", "fitted", "questions", "refusedAt95", "unanswerable"])
    _records: ClassVar[Mapping[str, str]] = {"bins": "CalibrationBin"}


class CalibrationBin(Record):
    """Questions with a probability in a tenth of the range, and the share of answered questions."""

    from_: float
    to: float
    questions: int
    probability: float
    answered: float
    _fields = frozenset(["answered", "from", "probability", "questions", "to"])


class Chunk(Record):
    """A piece of the parsed document: `parsed[start:end] == content`; pages count from 1, null without pages."""

    index: int
    start: int
    end: int
    page: int | None
    tokens: int
    content: str
    hidden: bool
    _fields = frozenset(["content", "end", "hidden", "index", "page", "start", "tokens"])


class ChunksAnswer(Record):
    """The searchable chunks of the document, in their order."""

    success: Literal[True]
    message: str
    data: ChunksData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ChunksData"}


class ChunksData(Record):
    """A page of chunks in their order."""

    chunks: list[Chunk]
    items_returned: int
    has_next_page: bool
    next_cursor: str | None
    _fields = frozenset(["chunks", "hasNextPage", "itemsReturned", "nextCursor"])
    _records: ClassVar[Mapping[str, str]] = {"chunks": "Chunk"}


class Compared(Record):
    """Number of questions with a higher, equal or lower rank of the first judged document than under the first
    setting.
    """

    better: int
    same: int
    worse: int
    _fields = frozenset(["better", "same", "worse"])


class ConfigTest(Record):
    """Result of the test of one config."""

    field: str
    outcome: Literal["FAILED", "NOT_TESTED", "PASSED"]
    message: str
    seconds: float
    error_field: str | None
    _fields = frozenset(["errorField", "field", "message", "outcome", "seconds"])


class ConfigTestsAnswer(Record):
    """The results of the tests."""

    success: Literal[True]
    message: str
    data: ConfigTestsData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ConfigTestsData"}


class ConfigTestsData(Record):
    """Results of the tested configs."""

    tests: list[ConfigTest]
    _fields = frozenset(["tests"])
    _records: ClassVar[Mapping[str, str]] = {"tests": "ConfigTest"}


class Connection(Record):
    """An authorization of a content service."""

    id: str
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
    status: Literal["PENDING", "ACTIVE", "FAILED", "REVOKED"]
    status_reason: str | None
    config: ConnectionConfig
    client_redirect_url: str | None
    sync_interval_minutes: int | None
    tenant_id: str | None
    namespace: NamespaceReference
    organization: ObjectReference
    created_at: Timestamp
    updated_at: Timestamp
    permissions: Literal["IGNORE", "SOURCE"] | None
    next_sync_at: Timestamp | None
    health: ResourceHealth | None
    _fields = frozenset(
        [
            "clientRedirectUrl",
            "config",
            "connector",
            "createdAt",
            "health",
            "id",
            "name",
            "namespace",
            "nextSyncAt",
            "organization",
            "permissions",
            "status",
            "statusReason",
            "syncIntervalMinutes",
            "tenantId",
            "updatedAt",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "config": "ConnectionConfig",
        "namespace": "NamespaceReference",
        "organization": "ObjectReference",
        "createdAt": "Timestamp",
        "updatedAt": "Timestamp",
        "nextSyncAt": "Timestamp",
        "health": "ResourceHealth",
    }


class ConnectionAnswer(Record):
    """A connection."""

    success: Literal[True]
    message: str
    data: ConnectionData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ConnectionData"}


class ConnectionConfig(Record):
    """Authorization of a connection."""

    auth_type: Literal["CONFIG", "OAUTH2"] | None
    credentials: ConnectionCredentials | None
    url: str | None
    _fields = frozenset(["authType", "credentials", "url"])
    _records: ClassVar[Mapping[str, str]] = {"credentials": "ConnectionCredentials"}


class ConnectionCreatedAnswer(Record):
    """The new connection, PENDING before the authorization."""

    success: Literal[True]
    message: str
    data: CreatedConnectionData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "CreatedConnectionData"}


class ConnectionCredentials(Record):
    """The masked tokens."""

    access_token: str
    refresh_token: str | None
    _fields = frozenset(["accessToken", "refreshToken"])


class ConnectionData(Record):
    """A connection, with the number of its documents."""

    connection: Connection
    documents: ConnectionDocuments
    chosen: Selection | None
    push: Push | None
    _fields = frozenset(["chosen", "connection", "documents", "push"])
    _records: ClassVar[Mapping[str, str]] = {
        "connection": "Connection",
        "documents": "ConnectionDocuments",
        "chosen": "Selection",
        "push": "Push",
    }


class ConnectionDocuments(Record):
    """Number of documents of this connection only, and of documents shared with others."""

    own: int
    shared: int
    _fields = frozenset(["own", "shared"])


class ConnectionRevokedAnswer(Record):
    """The revoked connection and its documents."""

    success: Literal[True]
    message: str
    data: RevokedConnectionData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "RevokedConnectionData"}


class ConnectionUpdatedAnswer(Record):
    """The current state of the connection."""

    success: Literal[True]
    message: str
    data: UpdatedConnectionData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "UpdatedConnectionData"}


class ConnectionsAnswer(Record):
    """Every connection of the namespace and tenant."""

    success: Literal[True]
    message: str
    data: ConnectionsData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ConnectionsData"}


class ConnectionsData(Record):
    """Connections, newest first."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    connections: list[Connection]
    _fields = frozenset(["connections", "hasNextPage", "nextCursor", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"connections": "Connection"}


class ConnectorAppView(Record):
    """A connector app with its secrets masked."""

    client_id: str
    client_secret: str
    api_key: str | None
    authorization_url: str | None
    tenant_id: str | None
    _fields = frozenset(["apiKey", "authorizationUrl", "clientId", "clientSecret", "tenantId"])


class ConvertAnswer(Record):
    """The file and the contained files as Markdown."""

    success: Literal[True]
    message: str
    data: ConvertData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ConvertData"}


class ConvertData(Record):
    """The file, followed by its contained files."""

    documents: list[ConvertedDocument]
    _fields = frozenset(["documents"])
    _records: ClassVar[Mapping[str, str]] = {"documents": "ConvertedDocument"}


class ConvertedDocument(Record):
    """The file, or a contained file; `error` is the reason why a contained file is unreadable."""

    filename: str
    markdown: str
    error: str | None
    _fields = frozenset(["error", "filename", "markdown"])


class CorrectedWord(Record):
    """A query word without a match, and the words searched instead."""

    word: str
    words: list[str]
    _fields = frozenset(["word", "words"])


class CreatedConnectionData(Record):
    """The new connection with an authorization URL."""

    connection: ObjectReference
    authorization_url: str | None
    _fields = frozenset(["authorizationUrl", "connection"])
    _records: ClassVar[Mapping[str, str]] = {"connection": "ObjectReference"}


class DailyUsage(Record):
    """Tokens of a namespace and model on a day. `cost` is null for a model without a price."""

    day: str
    namespace_id: str
    provider: str
    model: str
    tokens: int
    cost: float | None
    _fields = frozenset(["cost", "day", "model", "namespaceId", "provider", "tokens"])


class DeletedGroup(Record):
    """The group's name."""

    id: str
    _fields = frozenset(["id"])


class DeletedNamespace(Record):
    """The id of the deleted namespace, under both of its names."""

    id: str
    identifier: str
    _fields = frozenset(["id", "identifier"])


class Deletion(Record):
    """Receipt of a deletion: the removed objects, and the stores with the time of their check."""

    id: str
    status: Literal["CONFIRMED", "FAILED", "PENDING"]
    requested_at: Timestamp
    confirmed_at: Timestamp | None
    documents: int
    chunks: int
    vectors: int
    files: int
    stores: list[DeletionStore]
    signature: str | None
    _fields = frozenset(
        ["chunks", "confirmedAt", "documents", "files", "id", "requestedAt", "signature", "status", "stores", "vectors"]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "requestedAt": "Timestamp",
        "confirmedAt": "Timestamp",
        "stores": "DeletionStore",
    }


class DeletionAnswer(Record):
    """The receipt in its current state."""

    success: Literal[True]
    message: str
    data: DeletionData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "DeletionData"}


class DeletionData(Record):
    """A receipt."""

    deletion: Deletion
    _fields = frozenset(["deletion"])
    _records: ClassVar[Mapping[str, str]] = {"deletion": "Deletion"}


class DeletionStore(Record):
    """Removals from one vector or file store."""

    store: str
    removed: int
    read_back_at: Timestamp | None
    _fields = frozenset(["readBackAt", "removed", "store"])
    _records: ClassVar[Mapping[str, str]] = {"readBackAt": "Timestamp"}


class DeletionVerifiedAnswer(Record):
    """The receipt was checked: `valid` if this service signed it and it is unchanged."""

    success: Literal[True]
    message: str
    data: VerifiedDeletion
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "VerifiedDeletion"}


class DeliveriesAnswer(Record):
    """Deliveries to the webhook, sent and pending."""

    success: Literal[True]
    message: str
    data: DeliveriesData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "DeliveriesData"}


class DeliveriesData(Record):
    """Deliveries, newest first."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    deliveries: list[Delivery]
    _fields = frozenset(["deliveries", "hasNextPage", "nextCursor", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"deliveries": "Delivery"}


class Delivery(Record):
    """Delivery of one event to one webhook."""

    id: str
    webhook_id: str
    event_id: str
    type: str
    sequence: int
    status: Literal["DELIVERED", "FAILED", "PENDING"]
    attempts: int
    response_status: int | None
    reason: str | None
    next_attempt_at: Timestamp | None
    created_at: Timestamp
    _fields = frozenset(
        [
            "attempts",
            "createdAt",
            "eventId",
            "id",
            "nextAttemptAt",
            "reason",
            "responseStatus",
            "sequence",
            "status",
            "type",
            "webhookId",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {"nextAttemptAt": "Timestamp", "createdAt": "Timestamp"}


class DeliveryAnswer(Record):
    """The new delivery, already in progress."""

    success: Literal[True]
    message: str
    data: DeliveryData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "DeliveryData"}


class DeliveryData(Record):
    """A delivery."""

    delivery: Delivery
    _fields = frozenset(["delivery"])
    _records: ClassVar[Mapping[str, str]] = {"delivery": "Delivery"}


class Denied(Record):
    """Users and groups that may not see the document. A denial overrides every permission."""

    users: list[str] | None
    groups: list[str] | None
    _fields = frozenset(["groups", "users"])


class DifyAnswer(Record):
    """Dify's response fields, in addition to the common ones."""

    success: Literal[True]
    message: str
    records: list[DifyRecord]
    _fields = frozenset(["message", "records", "success"])
    _records: ClassVar[Mapping[str, str]] = {"records": "DifyRecord"}


class DifyRecord(Record):
    """A matching chunk."""

    content: str
    score: float
    title: str
    metadata: dict[str, Any]
    _fields = frozenset(["content", "metadata", "score", "title"])


class DispatcherLoop(Record):
    """Loop of a dispatcher: dispatch, recovery or garbage collection."""

    loop: str
    last_success_seconds: float
    late: bool
    reason: str | None
    _fields = frozenset(["lastSuccessSeconds", "late", "loop", "reason"])


class Document(Record):
    """An ingested document."""

    id: str
    external_id: str
    name: str
    document_type: Literal[
        "AIRTABLE_DOCUMENT",
        "ASANA_DOCUMENT",
        "AZURE_DEVOPS_DOCUMENT",
        "BOX_DOCUMENT",
        "CLICKUP_DOCUMENT",
        "CONFLUENCE_DOCUMENT",
        "CUSTOM_DOCUMENT",
        "DISCOURSE_DOCUMENT",
        "DROPBOX_DOCUMENT",
        "FEED_DOCUMENT",
        "FILE",
        "FRESHDESK_DOCUMENT",
        "GITHUB_DOCUMENT",
        "GITLAB_DOCUMENT",
        "GMAIL_DOCUMENT",
        "GOOGLE_DRIVE_DOCUMENT",
        "HUBSPOT_DOCUMENT",
        "INTERCOM_DOCUMENT",
        "JIRA_DOCUMENT",
        "LINEAR_DOCUMENT",
        "MONDAY_DOCUMENT",
        "NOTION_DOCUMENT",
        "OBJECTS_DOCUMENT",
        "ONEDRIVE_DOCUMENT",
        "OUTLOOK_MAIL_DOCUMENT",
        "SALESFORCE_DOCUMENT",
        "SERVICENOW_DOCUMENT",
        "SHAREPOINT_DOCUMENT",
        "SLACK_DOCUMENT",
        "SQL_DOCUMENT",
        "TEAMS_DOCUMENT",
        "TEXT",
        "URL",
        "WORDPRESS_DOCUMENT",
        "ZENDESK_DOCUMENT",
    ]
    metadata: dict[str, Any]
    ingestion_source: Literal[
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
        "LOCAL_FILE",
        "MONDAY",
        "NOTION",
        "OBJECTS",
        "ONEDRIVE",
        "OUTLOOK_MAIL",
        "SALESFORCE",
        "SERVICENOW",
        "SHAREPOINT",
        "SITEMAP",
        "SLACK",
        "SQL",
        "TEAMS",
        "TEXT",
        "URLS_LIST",
        "WEBSITE",
        "WORDPRESS",
        "ZENDESK",
    ]
    ingestion_status: Literal["BACKLOG", "CANCELLED", "FAILED", "PROCESSING", "QUEUED", "QUEUED_FOR_RESYNC", "SUCCESS"]
    ingestion_error: str | None
    failure_cause: str | None
    ingest_job: ObjectReference
    ingest_job_run: ObjectReference
    connection: ObjectReference | None
    connection_ids: list[str]
    archive: ObjectReference | None
    awaiting_removal: bool
    document_properties: DocumentProperties
    embedding_config: EmbeddingConfig
    providers: Providers
    tenant_id: str | None
    namespace: NamespaceReference
    organization: ObjectReference
    created_at: Timestamp
    updated_at: Timestamp
    last_synced_at: Timestamp | None
    access: Access | None
    next_access: Access | None
    access_inherited: bool | None
    access_status: Literal["UNKNOWN"] | None
    access_reason: str | None
    hidden: Literal["DOCUMENT", "PASSAGES"] | None
    raw_file_url: str | None
    parsed_text_file_url: str | None
    _fields = frozenset(
        [
            "access",
            "accessInherited",
            "accessReason",
            "accessStatus",
            "archive",
            "awaitingRemoval",
            "connection",
            "connectionIds",
            "createdAt",
            "documentProperties",
            "documentType",
            "embeddingConfig",
            "externalId",
            "failureCause",
            "hidden",
            "id",
            "ingestJob",
            "ingestJobRun",
            "ingestionError",
            "ingestionSource",
            "ingestionStatus",
            "lastSyncedAt",
            "metadata",
            "name",
            "namespace",
            "nextAccess",
            "organization",
            "parsedTextFileUrl",
            "providers",
            "rawFileUrl",
            "tenantId",
            "updatedAt",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "ingestJob": "ObjectReference",
        "ingestJobRun": "ObjectReference",
        "connection": "ObjectReference",
        "archive": "ObjectReference",
        "documentProperties": "DocumentProperties",
        "embeddingConfig": "EmbeddingConfig",
        "providers": "Providers",
        "namespace": "NamespaceReference",
        "organization": "ObjectReference",
        "createdAt": "Timestamp",
        "updatedAt": "Timestamp",
        "lastSyncedAt": "Timestamp",
        "access": "Access",
        "nextAccess": "Access",
    }


class DocumentCount(Record):
    """Documents whose job run ended in an hour or day."""

    at: Timestamp
    indexed: int
    failed: int
    _fields = frozenset(["at", "failed", "indexed"])
    _records: ClassVar[Mapping[str, str]] = {"at": "Timestamp"}


class DocumentHistory(Record):
    """Indexed and failed documents by hour and day, oldest first; hours and days without documents are included."""

    hours: list[DocumentCount]
    days: list[DocumentCount]
    _fields = frozenset(["days", "hours"])
    _records: ClassVar[Mapping[str, str]] = {"hours": "DocumentCount", "days": "DocumentCount"}


class DocumentProperties(Record):
    """Properties of a document's content; null while unknown."""

    mime_type: str | None
    file_size: int | None
    character_count: int | None
    token_count: int | None
    embedding_count: int | None
    title: str | None
    author: str | None
    language: str | None
    page_count: int | None
    text_quality: float | None
    pages_to_check: list[PageToCheck] | None
    created_at: Timestamp | None
    modified_at: Timestamp | None
    url: str | None
    path: str | None
    owner: str | None
    notice: str | None
    _fields = frozenset(
        [
            "author",
            "characterCount",
            "createdAt",
            "embeddingCount",
            "fileSize",
            "language",
            "mimeType",
            "modifiedAt",
            "notice",
            "owner",
            "pageCount",
            "pagesToCheck",
            "path",
            "textQuality",
            "title",
            "tokenCount",
            "url",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "pagesToCheck": "PageToCheck",
        "createdAt": "Timestamp",
        "modifiedAt": "Timestamp",
    }


class DocumentsAnswer(Record):
    """The documents that match, newest first."""

    success: Literal[True]
    message: str
    data: DocumentsData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "DocumentsData"}


class DocumentsData(Record):
    """A page of documents, newest first, and requested statistics of all matching documents."""

    documents: list[Document] | None
    items_returned: int
    has_next_page: bool
    next_cursor: str | None
    stats_by_source: list[SourceCount] | None
    stats_by_status: list[StatusCount] | None
    stats_by_site: list[SiteCount] | None
    facets: dict[str, list[FacetCount]] | None
    _fields = frozenset(
        [
            "documents",
            "facets",
            "hasNextPage",
            "itemsReturned",
            "nextCursor",
            "statsBySite",
            "statsBySource",
            "statsByStatus",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "documents": "Document",
        "statsBySource": "SourceCount",
        "statsByStatus": "StatusCount",
        "statsBySite": "SiteCount",
    }
    _maps: ClassVar[Mapping[str, str]] = {"facets": "FacetCount"}


class DocumentsDeletedAnswer(Record):
    """The documents were deleted; the message has their number."""

    success: Literal[True]
    message: str
    deletion_id: str
    data: None
    _fields = frozenset(["data", "deletionId", "message", "success"])


class DocumentsUpdatedAnswer(Record):
    """The documents that were changed."""

    success: Literal[True]
    message: str
    data: UpdatedDocumentsData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "UpdatedDocumentsData"}


class DryRunReport(Record):
    """Effects of an ingestion on documents, and the cost."""

    create: int
    update: int
    unchanged: int
    remove: int
    failed: int
    pages: int
    chunks: int
    tokens_to_embed: int
    embedding_calls: int
    estimated_seconds: float
    sampled: bool
    pages_recognised: int | None
    pages_unread: int | None
    estimated_cost: EstimatedCost | None
    model_choice: str | None
    documents: list[PlannedDocument] | None
    _fields = frozenset(
        [
            "chunks",
            "create",
            "documents",
            "embeddingCalls",
            "estimatedCost",
            "estimatedSeconds",
            "failed",
            "modelChoice",
            "pages",
            "pagesRecognised",
            "pagesUnread",
            "remove",
            "sampled",
            "tokensToEmbed",
            "unchanged",
            "update",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {"estimatedCost": "EstimatedCost", "documents": "PlannedDocument"}


class DuplicateDocument(Record):
    """Another document with the text of a result."""

    document_id: str
    name: str
    external_id: str
    document_type: str
    _fields = frozenset(["documentId", "documentType", "externalId", "name"])


class EmbeddingConfig(Record):
    """Effective chunking and embedding of a document; values may be lower than requested."""

    provider: str | None
    model: str | None
    dimensions: int | None
    chunk_size: int | None
    chunk_overlap: int | None
    _fields = frozenset(["chunkOverlap", "chunkSize", "dimensions", "model", "provider"])


class EmbeddingModelView(Record):
    """The embedding model without its key."""

    provider: str
    model: str
    url: str | None
    query_prefix: str | None
    passage_prefix: str | None
    dimensions: int | None
    learned: LearnedLimits | None
    _fields = frozenset(["dimensions", "learned", "model", "passagePrefix", "provider", "queryPrefix", "url"])
    _records: ClassVar[Mapping[str, str]] = {"learned": "LearnedLimits"}


class ErrorDetails(Record):
    """Details of an error. `reason` is stable, for programs; `field` is the dotted path of the invalid field.
    `quota`, `used` and `limit` are present with QUOTA_EXCEEDED only.
    """

    reason: str
    field: str | None
    quota: str | None
    used: int | None
    limit: int | None
    _fields = frozenset(["field", "limit", "quota", "reason", "used"])


class ErrorInfo(Record):
    """Code, message and details of an error. `type` and `param` are for clients of OpenAI's API."""

    code: Literal[
        "CONFLICT",
        "CONNECTION_NOT_FOUND",
        "CREATE_CONNECTION_FAILED",
        "DELETE_DOCUMENTS_FAILED",
        "DOCUMENTS_NOT_FOUND",
        "EMBEDDING_CONFIG_ERROR",
        "FETCH_CONNECTIONS_FAILED",
        "FORBIDDEN",
        "IDEMPOTENCY_CONFLICT",
        "INGESTION_FAILED",
        "INGEST_JOB_RUN_NOT_FOUND",
        "INTERNAL_ERROR",
        "INVALID_CHUNK_CONFIG",
        "INVALID_FILTER_CONFIG",
        "INVALID_HYBRID_CONFIG",
        "INVALID_INGEST_CONFIG",
        "INVALID_NAMESPACE_CONFIG",
        "INVALID_REQUEST",
        "INVALID_SCRAPE_OPTIONS",
        "INVALID_SEARCH_REQUEST",
        "METHOD_NOT_ALLOWED",
        "NAMESPACE_LIMIT_EXCEEDED",
        "NAMESPACE_NOT_FOUND",
        "NOT_FOUND",
        "PAYLOAD_TOO_LARGE",
        "QUOTA_EXCEEDED",
        "RATE_LIMIT_EXCEEDED",
        "REQUEST_TIMEOUT",
        "SEARCH_FAILED",
        "SERVICE_UNAVAILABLE",
        "STORAGE_CONFIG_ERROR",
        "UNAUTHORIZED",
        "UNSUPPORTED_MEDIA_TYPE",
        "UPDATE_DOCUMENTS_FAILED",
        "VECTOR_DB_CONFIG_ERROR",
        "WEBHOOK_NOT_FOUND",
        "WEB_SCRAPER_CONFIG_NOT_SET",
        "invalid_tenant_id",
        "missing_tenant_id",
    ]
    message: str
    details: ErrorDetails
    type: str | None
    param: str | None
    _fields = frozenset(["code", "details", "message", "param", "type"])
    _records: ClassVar[Mapping[str, str]] = {"details": "ErrorDetails"}


class EstimatedCost(Record):
    """Cost of the embedding at the operator's prices."""

    amount: float
    currency: str
    _fields = frozenset(["amount", "currency"])


class Evaluation(Record):
    """A set of questions; `unresolved` has judged external ids without a document (not in listings)."""

    id: str
    name: str
    namespace_id: str
    question_count: int
    unresolved: list[str] | None
    created_at: Timestamp
    _fields = frozenset(["createdAt", "id", "name", "namespaceId", "questionCount", "unresolved"])
    _records: ClassVar[Mapping[str, str]] = {"createdAt": "Timestamp"}


class EvaluationAnswer(Record):
    """An evaluation."""

    success: Literal[True]
    message: str
    data: EvaluationData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "EvaluationData"}


class EvaluationData(Record):
    """An evaluation."""

    evaluation: Evaluation
    _fields = frozenset(["evaluation"])
    _records: ClassVar[Mapping[str, str]] = {"evaluation": "Evaluation"}


class EvaluationDeletedAnswer(Record):
    """The evaluation was deleted with its runs."""

    success: Literal[True]
    message: str
    data: None
    _fields = frozenset(["data", "message", "success"])


class EvaluationRun(Record):
    """A run, with `questions` after the end and `error` if FAILED; `progress` with `questionLimit`."""

    id: str
    evaluation_id: str
    status: Literal["COMPLETED", "FAILED", "QUEUED", "RUNNING"]
    settings: list[SettingResult]
    questions: list[QuestionResult]
    error: str | None
    created_at: Timestamp
    finished_at: Timestamp | None
    progress: Progress | None
    _fields = frozenset(
        ["createdAt", "error", "evaluationId", "finishedAt", "id", "progress", "questions", "settings", "status"]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "settings": "SettingResult",
        "questions": "QuestionResult",
        "createdAt": "Timestamp",
        "finishedAt": "Timestamp",
        "progress": "Progress",
    }


class EvaluationsAnswer(Record):
    """Evaluations of the scope, all or one page."""

    success: Literal[True]
    message: str
    data: EvaluationsData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "EvaluationsData"}


class EvaluationsData(Record):
    """Evaluations, newest first."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    evaluations: list[Evaluation]
    _fields = frozenset(["evaluations", "hasNextPage", "nextCursor", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"evaluations": "Evaluation"}


class Explanation(Record):
    """Parts of a score: scores before weighting, and the rank in each list, null if absent. `recencyScore` is
    present with `recency`: the boost by age before weighting.
    """

    semantic_score: float
    keyword_score: float
    semantic_rank: int | None
    keyword_rank: int | None
    rerank_score: float | None
    rank_before: int | None
    rerank_weight: float | None
    recency_score: float | None
    _fields = frozenset(
        [
            "keywordRank",
            "keywordScore",
            "rankBefore",
            "recencyScore",
            "rerankScore",
            "rerankWeight",
            "semanticRank",
            "semanticScore",
        ]
    )


class FacetCount(Record):
    """A value of a field with the number of documents; for a field `row.<column>`, of rows and records."""

    value: str | float | bool
    count: int
    _fields = frozenset(["count", "value"])


class FailureCount(Record):
    """Number of failed documents with the same cause."""

    cause: Literal[
        "ADDRESS", "CONNECTION", "NOT_ANSWERING", "NO_TEXT", "OTHER", "PAGE_MISSING", "PASSWORD", "UNREADABLE"
    ]
    count: int
    open: int
    _fields = frozenset(["cause", "count", "open"])


class FileStorageView(Record):
    """File storage without its credentials."""

    type: str
    bucket: str | None
    region: str | None
    endpoint: str | None
    _fields = frozenset(["bucket", "endpoint", "region", "type"])


class FileUploadAnswer(Record):
    """The file is stored."""

    success: Literal[True]
    message: str
    data: FileUploadData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "FileUploadData"}


class FileUploadData(Record):
    """A stored file, not yet ingested."""

    upload_id: str
    name: str
    size: int
    _fields = frozenset(["name", "size", "uploadId"])


class FilterConfig(Record):
    """AND between fields, OR within a field. An absent, null or empty field restricts nothing."""

    document_ids: list[str] | None
    document_external_ids: list[str] | None
    document_types: list[str] | None
    document_connection_ids: list[str] | None
    document_archive_ids: list[str] | None
    document_ingestion_sources: list[str] | None
    document_ingestion_statuses: list[str] | None
    metadata: dict[str, Any] | None
    awaiting_removal: bool | None
    where: dict[str, Any] | None
    text: str | None
    sites: list[str] | None
    access_statuses: list[str] | None
    _fields = frozenset(
        [
            "accessStatuses",
            "awaitingRemoval",
            "documentArchiveIds",
            "documentConnectionIds",
            "documentExternalIds",
            "documentIds",
            "documentIngestionSources",
            "documentIngestionStatuses",
            "documentTypes",
            "metadata",
            "sites",
            "text",
            "where",
        ]
    )


class FlowRun(Record):
    """The flow run of a job run in Prefect."""

    reachable: bool
    states: list[FlowRunState]
    _fields = frozenset(["reachable", "states"])
    _records: ClassVar[Mapping[str, str]] = {"states": "FlowRunState"}


class FlowRunState(Record):
    """A state of the flow run in Prefect."""

    type: str
    name: str
    message: str | None
    began_at: Timestamp
    _fields = frozenset(["beganAt", "message", "name", "type"])
    _records: ClassVar[Mapping[str, str]] = {"beganAt": "Timestamp"}


class ForgottenTenant(Record):
    """The tenant's name."""

    id: str
    _fields = frozenset(["id"])


class Group(Record):
    """A group of users and of other groups."""

    id: str
    members: StoredGroupMembers
    created_at: Timestamp
    updated_at: Timestamp
    _fields = frozenset(["createdAt", "id", "members", "updatedAt"])
    _records: ClassVar[Mapping[str, str]] = {
        "members": "StoredGroupMembers",
        "createdAt": "Timestamp",
        "updatedAt": "Timestamp",
    }


class GroupAnswer(Record):
    """The current group."""

    success: Literal[True]
    message: str
    data: GroupData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "GroupData"}


class GroupData(Record):
    """A group."""

    group: Group
    _fields = frozenset(["group"])
    _records: ClassVar[Mapping[str, str]] = {"group": "Group"}


class GroupDeletedAnswer(Record):
    """The group was deleted."""

    success: Literal[True]
    message: str
    data: DeletedGroup
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "DeletedGroup"}


class Health(Record):
    """Liveness of the process."""

    status: Literal["ok"]
    _fields = frozenset(["status"])


class HiddenPassage(Record):
    """A passage or document hidden from search."""

    id: str
    document_id: str
    document_name: str
    reason: str
    content_hash: str | None
    excerpt: str | None
    created_at: Timestamp
    matched: bool
    _fields = frozenset(
        ["contentHash", "createdAt", "documentId", "documentName", "excerpt", "id", "matched", "reason"]
    )
    _records: ClassVar[Mapping[str, str]] = {"createdAt": "Timestamp"}


class HiddenPassageAnswer(Record):
    """The passage is hidden from search."""

    success: Literal[True]
    message: str
    data: HiddenPassageData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "HiddenPassageData"}


class HiddenPassageData(Record):
    """The hidden passage."""

    hidden_passage: HiddenPassage
    _fields = frozenset(["hiddenPassage"])
    _records: ClassVar[Mapping[str, str]] = {"hiddenPassage": "HiddenPassage"}


class HiddenPassagesAnswer(Record):
    """The hidden passages of the namespace."""

    success: Literal[True]
    message: str
    data: HiddenPassagesData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "HiddenPassagesData"}


class HiddenPassagesData(Record):
    """Hidden passages, those of the newest document first."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    hidden_passages: list[HiddenPassage]
    _fields = frozenset(["hasNextPage", "hiddenPassages", "nextCursor", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"hiddenPassages": "HiddenPassage"}


class HistoryAnswer(Record):
    """The document's job runs, newest first."""

    success: Literal[True]
    message: str
    data: HistoryData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "HistoryData"}


class HistoryData(Record):
    """A page of the history, newest first."""

    history: list[HistoryEntry]
    items_returned: int
    has_next_page: bool
    next_cursor: str | None
    _fields = frozenset(["hasNextPage", "history", "itemsReturned", "nextCursor"])
    _records: ClassVar[Mapping[str, str]] = {"history": "HistoryEntry"}


class HistoryEntry(Record):
    """The document in one job run."""

    ingest_job_run: ObjectReference
    source: str
    status: str
    error: str | None
    unchanged: bool
    active: bool
    chunks: int | None
    file_size: int | None
    created_at: Timestamp
    finished_at: Timestamp | None
    _fields = frozenset(
        [
            "active",
            "chunks",
            "createdAt",
            "error",
            "fileSize",
            "finishedAt",
            "ingestJobRun",
            "source",
            "status",
            "unchanged",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "ingestJobRun": "ObjectReference",
        "createdAt": "Timestamp",
        "finishedAt": "Timestamp",
    }


class IngestAnswer(Record):
    """The request is durably queued."""

    success: Literal[True]
    message: str
    data: IngestData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "IngestData"}


class IngestData(Record):
    """The receipt: read the job run to follow its progress."""

    ingest_job_run_id: str
    documents: list[JobRunDocument]
    _fields = frozenset(["documents", "ingestJobRunId"])
    _records: ClassVar[Mapping[str, str]] = {"documents": "JobRunDocument"}


class JobRunAnswer(Record):
    """The current state of a job run."""

    success: Literal[True]
    message: str
    data: JobRunData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "JobRunData"}


class JobRunData(Record):
    """A job run. COMPLETED means that no document waits or is processed; `outcome` is the result."""

    id: str
    name: str
    status: Literal["QUEUED", "PRE_PROCESSING", "PROCESSING", "COMPLETED"]
    outcome: Literal["CANCELLED", "COMPLETED_WITH_FAILURES", "FAILED", "SUCCEEDED"] | None
    source: str
    connection: ObjectReference | None
    documents: JobRunDocuments
    created_at: Timestamp
    updated_at: Timestamp
    queue_position: int | None
    estimated_start: Timestamp | None
    progress: RunProgress
    failures: list[FailureCount]
    notices: list[RunNotice]
    timings: dict[str, float]
    prefect_url: str | None
    trigger: Literal["PUSH"] | None
    flow_run: FlowRun | None
    dry_run: bool | None
    report: DryRunReport | None
    _fields = frozenset(
        [
            "connection",
            "createdAt",
            "documents",
            "dryRun",
            "estimatedStart",
            "failures",
            "flowRun",
            "id",
            "name",
            "notices",
            "outcome",
            "prefectUrl",
            "progress",
            "queuePosition",
            "report",
            "source",
            "status",
            "timings",
            "trigger",
            "updatedAt",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "connection": "ObjectReference",
        "documents": "JobRunDocuments",
        "createdAt": "Timestamp",
        "updatedAt": "Timestamp",
        "estimatedStart": "Timestamp",
        "progress": "RunProgress",
        "failures": "FailureCount",
        "notices": "RunNotice",
        "flowRun": "FlowRun",
        "report": "DryRunReport",
    }


class JobRunDocument(Record):
    """A document within a job run. `error` is null unless the document failed. `name` is absent in the response to
    an ingestion.
    """

    id: str
    status: Literal["BACKLOG", "QUEUED", "QUEUED_FOR_RESYNC", "PROCESSING", "SUCCESS", "FAILED", "CANCELLED"]
    error: str | None
    name: str | None
    linked_from: str | None
    retried_in: str | None
    _fields = frozenset(["error", "id", "linkedFrom", "name", "retriedIn", "status"])


class JobRunDocuments(Record):
    """Documents of a run by status."""

    queued: list[JobRunDocument]
    processing: list[JobRunDocument]
    completed: list[JobRunDocument]
    failed: list[JobRunDocument]
    cancelled: list[JobRunDocument]
    _fields = frozenset(["cancelled", "completed", "failed", "processing", "queued"])
    _records: ClassVar[Mapping[str, str]] = {
        "queued": "JobRunDocument",
        "processing": "JobRunDocument",
        "completed": "JobRunDocument",
        "failed": "JobRunDocument",
        "cancelled": "JobRunDocument",
    }


class JobRunSummary(Record):
    """A job run without its documents."""

    id: str
    name: str
    status: Literal["COMPLETED", "PRE_PROCESSING", "PROCESSING", "QUEUED"]
    outcome: Literal["CANCELLED", "COMPLETED_WITH_FAILURES", "FAILED", "SUCCEEDED"] | None
    source: str
    ingest_job: ObjectReference
    created_at: Timestamp
    updated_at: Timestamp
    started_at: Timestamp | None
    finished_at: Timestamp | None
    progress: RunProgress
    notices: list[RunNotice]
    timings: dict[str, float]
    prefect_url: str | None
    trigger: Literal["PUSH"] | None
    dry_run: bool | None
    report: DryRunReport | None
    _fields = frozenset(
        [
            "createdAt",
            "dryRun",
            "finishedAt",
            "id",
            "ingestJob",
            "name",
            "notices",
            "outcome",
            "prefectUrl",
            "progress",
            "report",
            "source",
            "startedAt",
            "status",
            "timings",
            "trigger",
            "updatedAt",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "ingestJob": "ObjectReference",
        "createdAt": "Timestamp",
        "updatedAt": "Timestamp",
        "startedAt": "Timestamp",
        "finishedAt": "Timestamp",
        "progress": "RunProgress",
        "notices": "RunNotice",
        "report": "DryRunReport",
    }


class JobRunsAnswer(Record):
    """The job runs of the namespace and tenant."""

    success: Literal[True]
    message: str
    data: JobRunsData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "JobRunsData"}


class JobRunsData(Record):
    """A page of job runs, in the order of `sort`."""

    ingest_job_runs: list[JobRunSummary]
    items_returned: int
    has_next_page: bool
    next_cursor: str | None
    total_count: int | None
    _fields = frozenset(["hasNextPage", "ingestJobRuns", "itemsReturned", "nextCursor", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"ingestJobRuns": "JobRunSummary"}


class Key(Record):
    """An API key without the key itself: `hint` is its last four characters."""

    id: str
    name: str
    hint: str
    scopes: list[
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
    namespace_id: str | None
    tenant_id: str | None
    created_at: Timestamp
    revoked_at: Timestamp | None
    principal: str | None
    principal_required: bool | None
    role: str | None
    expires_at: Timestamp | None
    _fields = frozenset(
        [
            "createdAt",
            "expiresAt",
            "hint",
            "id",
            "name",
            "namespaceId",
            "principal",
            "principalRequired",
            "revokedAt",
            "role",
            "scopes",
            "tenantId",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "createdAt": "Timestamp",
        "revokedAt": "Timestamp",
        "expiresAt": "Timestamp",
    }


class KeyAnswer(Record):
    """The current API key."""

    success: Literal[True]
    message: str
    data: KeyData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "KeyData"}


class KeyData(Record):
    """An API key."""

    key: Key
    _fields = frozenset(["key"])
    _records: ClassVar[Mapping[str, str]] = {"key": "Key"}


class KeyMadeAnswer(Record):
    """The new API key, shown this once."""

    success: Literal[True]
    message: str
    data: MadeKeyData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "MadeKeyData"}


class KeysAnswer(Record):
    """The API keys of the organization, newest first."""

    success: Literal[True]
    message: str
    data: KeysData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "KeysData"}


class KeysData(Record):
    """Newest first, revoked keys included."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    keys: list[Key]
    _fields = frozenset(["hasNextPage", "keys", "nextCursor", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"keys": "Key"}


class LastRun(Record):
    """The newest job run of a schedule."""

    id: str
    status: str
    outcome: str | None
    created_at: Timestamp
    _fields = frozenset(["createdAt", "id", "outcome", "status"])
    _records: ClassVar[Mapping[str, str]] = {"createdAt": "Timestamp"}


class Latency(Record):
    """Milliseconds of a search without the embedding of the query."""

    p50: float
    p95: float
    _fields = frozenset(["p50", "p95"])


class LearnedLimits(Record):
    """Format and limits of a model server as learned by the check, or the reason for a local model."""

    choice: str | None
    texts_per_request: int | None
    tokens_per_text: int | None
    dimensions: int | None
    base64: bool | None
    normalized: bool | None
    path: str | None
    _fields = frozenset(["base64", "choice", "dimensions", "normalized", "path", "textsPerRequest", "tokensPerText"])


class MadeKeyData(Record):
    """The key is shown here and never again."""

    key: Key
    api_key: str
    _fields = frozenset(["apiKey", "key"])
    _records: ClassVar[Mapping[str, str]] = {"key": "Key"}


class Metric(Record):
    """A mean over the questions, with 95 % intervals of the mean and of the difference from the first setting."""

    value: float
    ci95: list[float]
    delta_ci95: list[float] | None
    _fields = frozenset(["ci95", "deltaCi95", "value"])


class Metrics(Record):
    """Metrics as defined by trec_eval; `spanRecallAt10` is null without judged spans."""

    ndcg_at10: Metric
    recall_at10: Metric
    recall_at100: Metric
    mrr: Metric
    span_recall_at10: Metric | None
    _fields = frozenset(["mrr", "ndcgAt10", "recallAt10", "recallAt100", "spanRecallAt10"])
    _records: ClassVar[Mapping[str, str]] = {
        "ndcgAt10": "Metric",
        "recallAt10": "Metric",
        "recallAt100": "Metric",
        "mrr": "Metric",
        "spanRecallAt10": "Metric",
    }


class ModelUsage(Record):
    """Tokens of a model. `cost` is null for a model without a price."""

    provider: str
    model: str
    tokens: int
    cost: float | None
    _fields = frozenset(["cost", "model", "provider", "tokens"])


class Namespace(Record):
    """A namespace in responses; a bound key gets only `id`, `identifier`, `name` and usage numbers."""

    id: str
    identifier: str
    name: str
    organization: ObjectReference | None
    file_storage_config: FileStorageView | None
    vector_storage_config: VectorStorageView | None
    embedding_model_config: EmbeddingModelView | None
    web_scraper_config: WebScraperView | None
    rerank_config: RerankConfigView | None
    parser_config: ParserConfigView | None
    keyword_language: str | None
    notion_config: ConnectorAppView | None
    google_drive_config: ConnectorAppView | None
    dropbox_config: ConnectorAppView | None
    onedrive_config: ConnectorAppView | None
    sharepoint_config: ConnectorAppView | None
    box_config: ConnectorAppView | None
    outlook_mail_config: ConnectorAppView | None
    gmail_config: ConnectorAppView | None
    created_at: Timestamp | None
    updated_at: Timestamp | None
    document_count: int | None
    failed_count: int | None
    chunk_count: int | None
    stored_bytes: int | None
    search_count: int | None
    last_document_change: Timestamp | None
    _fields = frozenset(
        [
            "boxConfig",
            "chunkCount",
            "createdAt",
            "documentCount",
            "dropboxConfig",
            "embeddingModelConfig",
            "failedCount",
            "fileStorageConfig",
            "gmailConfig",
            "googleDriveConfig",
            "id",
            "identifier",
            "keywordLanguage",
            "lastDocumentChange",
            "name",
            "notionConfig",
            "onedriveConfig",
            "organization",
            "outlookMailConfig",
            "parserConfig",
            "rerankConfig",
            "searchCount",
            "sharepointConfig",
            "storedBytes",
            "updatedAt",
            "vectorStorageConfig",
            "webScraperConfig",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "organization": "ObjectReference",
        "fileStorageConfig": "FileStorageView",
        "vectorStorageConfig": "VectorStorageView",
        "embeddingModelConfig": "EmbeddingModelView",
        "webScraperConfig": "WebScraperView",
        "rerankConfig": "RerankConfigView",
        "parserConfig": "ParserConfigView",
        "notionConfig": "ConnectorAppView",
        "googleDriveConfig": "ConnectorAppView",
        "dropboxConfig": "ConnectorAppView",
        "onedriveConfig": "ConnectorAppView",
        "sharepointConfig": "ConnectorAppView",
        "boxConfig": "ConnectorAppView",
        "outlookMailConfig": "ConnectorAppView",
        "gmailConfig": "ConnectorAppView",
        "createdAt": "Timestamp",
        "updatedAt": "Timestamp",
        "lastDocumentChange": "Timestamp",
    }


class NamespaceAnswer(Record):
    """A namespace."""

    success: Literal[True]
    message: str
    data: NamespaceData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "NamespaceData"}


class NamespaceData(Record):
    """A namespace, with `ingestJobRunId` during a new embedding of its documents."""

    namespace: Namespace
    ingest_job_run_id: str | None
    _fields = frozenset(["ingestJobRunId", "namespace"])
    _records: ClassVar[Mapping[str, str]] = {"namespace": "Namespace"}


class NamespaceDeletedAnswer(Record):
    """The namespace no longer appears in any response; its data is removed in the background."""

    success: Literal[True]
    message: str
    deletion_id: str
    data: DeletedNamespace
    _fields = frozenset(["data", "deletionId", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "DeletedNamespace"}


class NamespaceReference(Record):
    """Reference to a namespace."""

    identifier: str
    _fields = frozenset(["identifier"])


class NamespacesAnswer(Record):
    """The namespaces visible to the key."""

    success: Literal[True]
    message: str
    data: NamespacesData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "NamespacesData"}


class NamespacesData(Record):
    """Namespaces in the requested order; all or one page."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    namespaces: list[Namespace]
    _fields = frozenset(["hasNextPage", "namespaces", "nextCursor", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"namespaces": "Namespace"}


class ObjectReference(Record):
    """Reference to another object by id."""

    id: str
    _fields = frozenset(["id"])


class OpenRuns(Record):
    """Unfinished job runs by status, and the waiting time of the oldest."""

    queued: int
    pre_processing: int
    processing: int
    oldest_queued_at: Timestamp | None
    _fields = frozenset(["oldestQueuedAt", "preProcessing", "processing", "queued"])
    _records: ClassVar[Mapping[str, str]] = {"oldestQueuedAt": "Timestamp"}


class OrganizationAnswer(Record):
    """The current organization."""

    success: Literal[True]
    message: str
    data: OrganizationData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "OrganizationData"}


class OrganizationData(Record):
    """The organization."""

    organization: OrganizationDetails
    _fields = frozenset(["organization"])
    _records: ClassVar[Mapping[str, str]] = {"organization": "OrganizationDetails"}


class OrganizationDetails(Record):
    """The organization of the key."""

    id: str
    name: str
    plan: str
    created_at: Timestamp
    quotas: Quotas
    _fields = frozenset(["createdAt", "id", "name", "plan", "quotas"])
    _records: ClassVar[Mapping[str, str]] = {"createdAt": "Timestamp", "quotas": "Quotas"}


class PageToCheck(Record):
    """A page with possibly wrong or missing text."""

    page: int | None
    quality: float
    unread: bool
    reasons: list[str]
    _fields = frozenset(["page", "quality", "reasons", "unread"])


class ParserConfigView(Record):
    """The external parser with its key masked."""

    provider: str
    url: str
    api_key: str | None
    _fields = frozenset(["apiKey", "provider", "url"])


class PassageShownAnswer(Record):
    """The passage is found by searches again."""

    success: Literal[True]
    message: str
    data: ObjectReference
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ObjectReference"}


class PlannedDocument(Record):
    """Effect of the ingestion on one document."""

    name: str
    action: Literal["CREATE", "FAILED", "REMOVE", "UPDATE"]
    error: str | None
    linked_from: str | None
    _fields = frozenset(["action", "error", "linkedFrom", "name"])


class Problem(Record):
    """Something that blocks, fails or waits for a person."""

    severity: Literal["attention", "blocked", "failing", "info"]
    kind: Literal[
        "CONNECTION",
        "DISPATCHER",
        "FAILED_DOCUMENTS",
        "HIDDEN_PASSAGES",
        "MACHINE",
        "NOT_ANSWERING",
        "PREFECT",
        "REMOVALS",
        "SCHEDULE",
        "STORAGE",
        "WEBHOOK",
        "WORKER",
    ]
    cause: str
    remedy: str | None
    since: Timestamp | None
    link: str | None
    object_id: str | None
    count: int | None
    _fields = frozenset(["cause", "count", "kind", "link", "objectId", "remedy", "severity", "since"])
    _records: ClassVar[Mapping[str, str]] = {"since": "Timestamp"}


class ProblemsAnswer(Record):
    """Problems of the installation, and of a namespace."""

    success: Literal[True]
    message: str
    data: ProblemsData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ProblemsData"}


class ProblemsData(Record):
    """Problems, the most severe first."""

    problems: list[Problem]
    _fields = frozenset(["problems"])
    _records: ClassVar[Mapping[str, str]] = {"problems": "Problem"}


class Progress(Record):
    """Number of finished searches."""

    asked: int
    total: int
    _fields = frozenset(["asked", "total"])


class Providers(Record):
    """Services that store and serve the namespace."""

    file_storage: str
    vector_storage: str
    embedding_model: str
    web_scraper: str | None
    _fields = frozenset(["embeddingModel", "fileStorage", "vectorStorage", "webScraper"])


class Push(Record):
    """Address for hints of the content service. A hint starts an ingestion within seconds; its body is not read."""

    url: str
    setup: str
    setup_url: str
    confirmed_at: Timestamp | None
    hints: int
    last_hint_at: Timestamp | None
    refusals: int
    last_refusal_at: Timestamp | None
    subscribed_until: Timestamp | None
    problem: str | None
    _fields = frozenset(
        [
            "confirmedAt",
            "hints",
            "lastHintAt",
            "lastRefusalAt",
            "problem",
            "refusals",
            "setup",
            "setupUrl",
            "subscribedUntil",
            "url",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "confirmedAt": "Timestamp",
        "lastHintAt": "Timestamp",
        "lastRefusalAt": "Timestamp",
        "subscribedUntil": "Timestamp",
    }


class PushAnswer(Record):
    """Push is on."""

    success: Literal[True]
    message: str
    data: PushData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "PushData"}


class PushData(Record):
    """The push of a connection."""

    push: Push
    secret: str | None
    _fields = frozenset(["push", "secret"])
    _records: ClassVar[Mapping[str, str]] = {"push": "Push"}


class PushDeletedAnswer(Record):
    """Push is off."""

    success: Literal[True]
    message: str
    data: ObjectReference
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ObjectReference"}


class Question(Record):
    """A query of users, with its relevant documents."""

    query: str
    relevant: list[Relevant]
    filter: SearchFilter | None
    _fields = frozenset(["filter", "query", "relevant"])
    _records: ClassVar[Mapping[str, str]] = {"relevant": "Relevant", "filter": "SearchFilter"}


class QuestionResult(Record):
    """The rank of each judged document by setting, in the order of `relevant`; null if not found."""

    query: str
    ranks: dict[str, list[int | None]]
    error: str | None
    _fields = frozenset(["error", "query", "ranks"])


class QuestionsAnswer(Record):
    """A page of the questions, in their order."""

    success: Literal[True]
    message: str
    data: QuestionsData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "QuestionsData"}


class QuestionsData(Record):
    """A page of questions, in their order."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    questions: list[Question]
    _fields = frozenset(["hasNextPage", "nextCursor", "questions", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"questions": "Question"}


class QueueAnswer(Record):
    """The queue and the workers."""

    success: Literal[True]
    message: str
    data: QueueData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "QueueData"}


class QueueData(Record):
    """Waiting and running job runs of the organization, and the state of the installation."""

    queued: int
    oldest_queued_at: Timestamp | None
    held: int
    workers: int
    stalled: bool
    reasons: list[str]
    warnings: list[str]
    breakers: list[Breaker]
    working: list[Batch]
    loops: list[DispatcherLoop]
    _fields = frozenset(
        [
            "breakers",
            "held",
            "loops",
            "oldestQueuedAt",
            "queued",
            "reasons",
            "stalled",
            "warnings",
            "workers",
            "working",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "oldestQueuedAt": "Timestamp",
        "breakers": "Breaker",
        "working": "Batch",
        "loops": "DispatcherLoop",
    }


class Quotas(Record):
    """A number for each quota; null without a limit."""

    documents: int | None
    stored_bytes: int | None
    tokens_per_month: int | None
    concurrent_runs: int | None
    _fields = frozenset(["concurrentRuns", "documents", "storedBytes", "tokensPerMonth"])


class Readiness(Record):
    """Readiness of the service. `reason` has a sentence for each cause; `warnings` do not change the status."""

    status: Literal["ready", "unavailable"]
    reason: str | None
    warnings: list[str] | None
    _fields = frozenset(["reason", "status", "warnings"])


class RecencyConfig(Record):
    """Weight of a document's age, by `modifiedAt`, else `createdAt`; the boost halves every `halfLifeDays`."""

    half_life_days: float
    weight: float
    _fields = frozenset(["halfLifeDays", "weight"])


class Relevant(Record):
    """A relevant document by one of its ids, optionally with a span of its parsed text."""

    document_id: str | None
    external_id: str | None
    start: int | None
    end: int | None
    grade: int | None
    _fields = frozenset(["documentId", "end", "externalId", "grade", "start"])


class RerankConfigView(Record):
    """The reranker with its key masked."""

    provider: str
    model: str | None
    url: str | None
    path: str | None
    api_key: str | None
    _fields = frozenset(["apiKey", "model", "path", "provider", "url"])


class RerankOptions(Record):
    """Number of results to rerank, and the time limit."""

    candidates: int | None
    budget_ms: int | None
    _fields = frozenset(["budgetMs", "candidates"])


class ResourceHealth(Record):
    """Health of a webhook, schedule or connection by outcomes of deliveries or job runs."""

    state: Literal["FAILING", "HEALTHY", "UNKNOWN"]
    last_outcome: str | None
    last_success_at: Timestamp | None
    failures_since: Timestamp | None
    consecutive_failures: int
    next_attempt_at: Timestamp | None
    reason: str | None
    _fields = frozenset(
        ["consecutiveFailures", "failuresSince", "lastOutcome", "lastSuccessAt", "nextAttemptAt", "reason", "state"]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "lastSuccessAt": "Timestamp",
        "failuresSince": "Timestamp",
        "nextAttemptAt": "Timestamp",
    }


class ResultChunk(Record):
    """Position in the parsed document: `parsed[start:end] == content`; pages count from 1, null without pages."""

    index: int
    start: int
    end: int
    page: int | None
    _fields = frozenset(["end", "index", "page", "start"])


class ResultContext(Record):
    """The text around a result, `parsed[start:end] == content`, and the header of its table. Present with
    `expand`, and for rows of a table; without `expand` the content is the result's own.
    """

    content: str
    start: int
    end: int
    header: str | None
    _fields = frozenset(["content", "end", "header", "start"])


class ResultDocument(Record):
    """The document of a result."""

    id: str
    name: str
    external_id: str
    document_type: str
    _fields = frozenset(["documentType", "externalId", "id", "name"])


class ResyncAnswer(Record):
    """The eligible documents are queued, or would be in a dry run; until the end nothing changes in searches."""

    success: Literal[True]
    message: str
    data: ResyncData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ResyncData"}


class ResyncData(Record):
    """One job run for each job of the queued documents; `ingestJobRunId` is the first, null without any."""

    items_queued: int
    items_skipped: int
    documents: list[ResyncedDocument]
    ingest_job_run_id: str | None
    ingest_job_run_ids: list[str]
    report: ResyncReport | None
    _fields = frozenset(["documents", "ingestJobRunId", "ingestJobRunIds", "itemsQueued", "itemsSkipped", "report"])
    _records: ClassVar[Mapping[str, str]] = {"documents": "ResyncedDocument", "report": "ResyncReport"}


class ResyncReport(Record):
    """Stored size of the documents to queue: the maximum to embed unless content grew."""

    documents: int
    documents_without_chunks: int
    chunks: int
    tokens: int
    estimated_cost: EstimatedCost | None
    _fields = frozenset(["chunks", "documents", "documentsWithoutChunks", "estimatedCost", "tokens"])
    _records: ClassVar[Mapping[str, str]] = {"estimatedCost": "EstimatedCost"}


class ResyncedDocument(Record):
    """Result for a matching document. `error` is the reason why the document is not eligible."""

    id: str
    status: Literal["QUEUED_FOR_RESYNC", "NOT_ELIGIBLE_FOR_RESYNC", "REMOVED"]
    error: str | None
    _fields = frozenset(["error", "id", "status"])


class RevokedConnectionData(Record):
    """The revoked connection, and the treatment of its documents."""

    connection: Connection
    documents: RevokedDocuments
    _fields = frozenset(["connection", "documents"])
    _records: ClassVar[Mapping[str, str]] = {"connection": "Connection", "documents": "RevokedDocuments"}


class RevokedDocuments(Record):
    """Numbers of documents by their treatment."""

    kept: int
    deleted: int
    shared: int
    _fields = frozenset(["deleted", "kept", "shared"])


class RunAnswer(Record):
    """A run."""

    success: Literal[True]
    message: str
    data: RunData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "RunData"}


class RunData(Record):
    """A run."""

    run: EvaluationRun
    _fields = frozenset(["run"])
    _records: ClassVar[Mapping[str, str]] = {"run": "EvaluationRun"}


class RunNotice(Record):
    """A notice about a run, with the number of affected objects."""

    reason: str
    count: int
    _fields = frozenset(["count", "reason"])


class RunProgress(Record):
    """Number of documents by step. The removal of many documents requires confirmation."""

    found: int
    fetched: int
    parsed: int
    chunked: int
    embedded: int
    upserted: int
    failed: int
    indexed: int | None
    unchanged: int | None
    cancelled: int | None
    open: int | None
    skipped: int | None
    skipped_reasons: dict[str, int] | None
    removed: int | None
    awaiting_confirmation: int | None
    _fields = frozenset(
        [
            "awaitingConfirmation",
            "cancelled",
            "chunked",
            "embedded",
            "failed",
            "fetched",
            "found",
            "indexed",
            "open",
            "parsed",
            "removed",
            "skipped",
            "skippedReasons",
            "unchanged",
            "upserted",
        ]
    )


class RunsAnswer(Record):
    """Runs of an evaluation, all or one page."""

    success: Literal[True]
    message: str
    data: RunsData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "RunsData"}


class RunsData(Record):
    """Runs, newest first, without their questions."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    runs: list[EvaluationRun]
    _fields = frozenset(["hasNextPage", "nextCursor", "runs", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"runs": "EvaluationRun"}


class Schedule(Record):
    """An ingestion that is repeated automatically."""

    id: str
    source: str
    about: str | None
    connection_id: str | None
    namespace: NamespaceReference
    tenant_id: str | None
    interval_minutes: int | None
    cron: str | None
    time_zone: str
    paused: bool
    next_run_at: Timestamp | None
    last_run: LastRun | None
    status_reason: str | None
    created_at: Timestamp
    updated_at: Timestamp
    health: ResourceHealth
    _fields = frozenset(
        [
            "about",
            "connectionId",
            "createdAt",
            "cron",
            "health",
            "id",
            "intervalMinutes",
            "lastRun",
            "namespace",
            "nextRunAt",
            "paused",
            "source",
            "statusReason",
            "tenantId",
            "timeZone",
            "updatedAt",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "namespace": "NamespaceReference",
        "nextRunAt": "Timestamp",
        "lastRun": "LastRun",
        "createdAt": "Timestamp",
        "updatedAt": "Timestamp",
        "health": "ResourceHealth",
    }


class ScheduleAnswer(Record):
    """The current schedule."""

    success: Literal[True]
    message: str
    data: ScheduleData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ScheduleData"}


class ScheduleData(Record):
    """A schedule."""

    schedule: Schedule
    _fields = frozenset(["schedule"])
    _records: ClassVar[Mapping[str, str]] = {"schedule": "Schedule"}


class SchedulesAnswer(Record):
    """Schedules of a namespace or of all."""

    success: Literal[True]
    message: str
    data: SchedulesData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "SchedulesData"}


class SchedulesData(Record):
    """Schedules, newest first; all or one page."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    schedules: list[Schedule]
    _fields = frozenset(["hasNextPage", "nextCursor", "schedules", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"schedules": "Schedule"}


class SearchActivity(Record):
    """Searches of the last 24 hours. Durations are in milliseconds, and null if there was no search."""

    count: int
    p50: float | None
    p95: float | None
    times: list[SearchTimeCount]
    hours: list[SearchHour]
    _fields = frozenset(["count", "hours", "p50", "p95", "times"])
    _records: ClassVar[Mapping[str, str]] = {"times": "SearchTimeCount", "hours": "SearchHour"}


class SearchAnswer(Record):
    """Results of the search, best first."""

    success: Literal[True]
    message: str
    data: SearchData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "SearchData"}


class SearchBatchAnswer(Record):
    """Results of all searches."""

    success: Literal[True]
    message: str
    data: SearchBatchData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "SearchBatchData"}


class SearchBatchData(Record):
    """Results of the queries, in their order."""

    results: list[SearchBatchResult]
    _fields = frozenset(["results"])
    _records: ClassVar[Mapping[str, str]] = {"results": "SearchBatchResult"}


class SearchBatchResult(Record):
    """Result of one search: `results` or `error`."""

    results: list[SearchResult] | None
    timings: SearchTimings | None
    reranked: bool | None
    note: str | None
    answerable: Answerable | None
    error: ErrorInfo | None
    _fields = frozenset(["answerable", "error", "note", "reranked", "results", "timings"])
    _records: ClassVar[Mapping[str, str]] = {
        "results": "SearchResult",
        "timings": "SearchTimings",
        "answerable": "Answerable",
        "error": "ErrorInfo",
    }


class SearchData(Record):
    """Results, best first; `timings` and `corrections` with `explain`."""

    results: list[SearchResult]
    timings: SearchTimings | None
    reranked: bool | None
    corrections: list[CorrectedWord] | None
    note: str | None
    answerable: Answerable | None
    _fields = frozenset(["answerable", "corrections", "note", "reranked", "results", "timings"])
    _records: ClassVar[Mapping[str, str]] = {
        "results": "SearchResult",
        "timings": "SearchTimings",
        "corrections": "CorrectedWord",
        "answerable": "Answerable",
    }


class SearchFilter(Record):
    """Every metadata key must match: a value, any of a list, or an element of the document's list. `documents`
    restricts by document fields, `where` by a condition; all must hold.
    """

    metadata: dict[str, Any] | None
    documents: FilterConfig | None
    where: dict[str, Any] | None
    _fields = frozenset(["documents", "metadata", "where"])
    _records: ClassVar[Mapping[str, str]] = {"documents": "FilterConfig"}


class SearchHour(Record):
    """Searches of an hour."""

    at: Timestamp
    count: int
    p50: float | None
    p95: float | None
    _fields = frozenset(["at", "count", "p50", "p95"])
    _records: ClassVar[Mapping[str, str]] = {"at": "Timestamp"}


class SearchReranker(Record):
    """The service's own reranker, by late interaction; available in every namespace."""

    provider: Literal["LOCAL"]
    _fields = frozenset(["provider"])


class SearchResult(Record):
    """A matching chunk of a document."""

    content: str
    score: float
    metadata: dict[str, Any]
    document: ResultDocument
    chunk: ResultChunk
    explanation: Explanation | None
    context: ResultContext | None
    namespace_id: str | None
    duplicates: list[DuplicateDocument] | None
    more: list[SearchResult] | None
    _fields = frozenset(
        [
            "chunk",
            "content",
            "context",
            "document",
            "duplicates",
            "explanation",
            "metadata",
            "more",
            "namespaceId",
            "score",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "document": "ResultDocument",
        "chunk": "ResultChunk",
        "explanation": "Explanation",
        "context": "ResultContext",
        "duplicates": "DuplicateDocument",
        "more": "SearchResult",
    }


class SearchTimeCount(Record):
    """A bar of the histogram of search durations."""

    milliseconds: float
    count: int
    _fields = frozenset(["count", "milliseconds"])


class SearchTimings(Record):
    """Milliseconds by step; null for a skipped step."""

    embed: float | None
    vector: float | None
    keyword: float | None
    hydrate: float | None
    _fields = frozenset(["embed", "hydrate", "keyword", "vector"])


class SecretAnswer(Record):
    """The webhook and the new secret."""

    success: Literal[True]
    message: str
    data: SecretData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "SecretData"}


class SecretData(Record):
    """The webhook with its new secret, shown only once."""

    webhook: Webhook
    secret: str
    _fields = frozenset(["secret", "webhook"])
    _records: ClassVar[Mapping[str, str]] = {"webhook": "Webhook"}


class SelectedEntry(Record):
    """A file or folder by id or path, or all files of a media type."""

    id: str | None
    path: str | None
    mime_type: str | None
    _fields = frozenset(["id", "mimeType", "path"])


class Selection(Record):
    """The `include`, `exclude` and `access` of the newest ingestion as requested."""

    include: list[SelectedEntry]
    exclude: list[SelectedEntry]
    access: Access | None
    _fields = frozenset(["access", "exclude", "include"])
    _records: ClassVar[Mapping[str, str]] = {"include": "SelectedEntry", "exclude": "SelectedEntry", "access": "Access"}


class SettingResult(Record):
    """A setting with the results of a finished run; `compared` with `questionLimit`."""

    name: str
    semantic_weight: float
    keyword_weight: float
    top_k: int | None
    rerank: bool | RerankOptions | None
    rerank_config: SearchReranker | None
    per_document: int | None
    recency: RecencyConfig | None
    metrics: Metrics | None
    latency_ms: Latency | None
    reranked: int | None
    compared: Compared | None
    calibration: Calibration | None
    _fields = frozenset(
        [
            "calibration",
            "compared",
            "keywordWeight",
            "latencyMs",
            "metrics",
            "name",
            "perDocument",
            "recency",
            "rerank",
            "rerankConfig",
            "reranked",
            "semanticWeight",
            "topK",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "rerank": "RerankOptions",
        "rerankConfig": "SearchReranker",
        "recency": "RecencyConfig",
        "metrics": "Metrics",
        "latencyMs": "Latency",
        "compared": "Compared",
        "calibration": "Calibration",
    }


class SiteCount(Record):
    """Number of web pages of one site."""

    site: str
    total_count: int
    _fields = frozenset(["site", "totalCount"])


class SourceCount(Record):
    """Number of documents of one source."""

    source: str
    total_count: int
    last_synced_at: Timestamp | None
    _fields = frozenset(["lastSyncedAt", "source", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"lastSyncedAt": "Timestamp"}


class StatusCount(Record):
    """Number of documents with one status."""

    status: str
    total_count: int
    _fields = frozenset(["status", "totalCount"])


class StoredGroupMembers(Record):
    """Direct members of a group, with normalized names."""

    users: list[str]
    groups: list[str]
    _fields = frozenset(["groups", "users"])


class Tenant(Record):
    """A registered tenant with quotas."""

    id: str
    created_at: Timestamp
    quotas: Quotas
    _fields = frozenset(["createdAt", "id", "quotas"])
    _records: ClassVar[Mapping[str, str]] = {"createdAt": "Timestamp", "quotas": "Quotas"}


class TenantAnswer(Record):
    """The tenant is registered."""

    success: Literal[True]
    message: str
    data: TenantData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "TenantData"}


class TenantData(Record):
    """A tenant."""

    tenant: Tenant
    _fields = frozenset(["tenant"])
    _records: ClassVar[Mapping[str, str]] = {"tenant": "Tenant"}


class TenantDeletedAnswer(Record):
    """The tenant is no longer registered; its data stays."""

    success: Literal[True]
    message: str
    data: ForgottenTenant
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "ForgottenTenant"}


class TenantsAnswer(Record):
    """The registered tenants, oldest first."""

    success: Literal[True]
    message: str
    data: TenantsData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "TenantsData"}


class TenantsData(Record):
    """Oldest first."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    tenants: list[Tenant]
    _fields = frozenset(["hasNextPage", "nextCursor", "tenants", "totalCount"])
    _records: ClassVar[Mapping[str, str]] = {"tenants": "Tenant"}


class Timestamp(Record):
    """A moment in UTC, ISO 8601 with milliseconds."""

    iso_string: str
    _fields = frozenset(["isoString"])


class UpdatedConnectionData(Record):
    """The connection with a new authorization URL."""

    authorization_url: str | None
    connection: Connection
    _fields = frozenset(["authorizationUrl", "connection"])
    _records: ClassVar[Mapping[str, str]] = {"connection": "Connection"}


class UpdatedDocumentsData(Record):
    """The documents after the change."""

    documents: list[Document]
    items_updated: int
    _fields = frozenset(["documents", "itemsUpdated"])
    _records: ClassVar[Mapping[str, str]] = {"documents": "Document"}


class UsageAnswer(Record):
    """Usage and limits of the organization."""

    success: Literal[True]
    message: str
    data: UsageData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "UsageData"}


class UsageData(Record):
    """Usage of the organization. `storageBytes` sums the documents' sizes as sent; `requests` are those of this
    calendar minute. The fields after `namespaces` are present if days or groups were requested.
    """

    documents: int
    chunks: int
    storage_bytes: int
    requests: Allowance
    namespaces: Allowance
    from_: str | None
    to: str | None
    by: str | None
    used: Quotas | None
    limit: Quotas | None
    currency: str | None
    usage: list[UsageGroup] | None
    daily: list[DailyUsage] | None
    _fields = frozenset(
        [
            "by",
            "chunks",
            "currency",
            "daily",
            "documents",
            "from",
            "limit",
            "namespaces",
            "requests",
            "storageBytes",
            "to",
            "usage",
            "used",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {
        "requests": "Allowance",
        "namespaces": "Allowance",
        "used": "Quotas",
        "limit": "Quotas",
        "usage": "UsageGroup",
        "daily": "DailyUsage",
    }


class UsageGroup(Record):
    """Usage of a day, a namespace or a tenant. `used` and `limit` are present for tenants with quotas."""

    day: str | None
    namespace_id: str | None
    tenant_id: str | None
    documents: int
    stored_bytes: int
    tokens: int
    cost: float | None
    models: list[ModelUsage]
    used: Quotas | None
    limit: Quotas | None
    _fields = frozenset(
        ["cost", "day", "documents", "limit", "models", "namespaceId", "storedBytes", "tenantId", "tokens", "used"]
    )
    _records: ClassVar[Mapping[str, str]] = {"models": "ModelUsage", "used": "Quotas", "limit": "Quotas"}


class VectorStorageView(Record):
    """Vector storage without its key."""

    provider: str
    index_host: str | None
    _fields = frozenset(["indexHost", "provider"])


class VectorStoreContent(Record):
    """A chunk of the document."""

    text: str
    type: Literal["text"] | None
    _fields = frozenset(["text", "type"])


class VectorStoreDuplicate(Record):
    """Another document with the text of a chunk."""

    file_id: str
    filename: str
    _fields = frozenset(["file_id", "filename"])


class VectorStoreResult(Record):
    """A matching document with the best chunks."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str | int | float | bool]
    content: list[VectorStoreContent]
    duplicates: list[VectorStoreDuplicate] | None
    _fields = frozenset(["attributes", "content", "duplicates", "file_id", "filename", "score"])
    _records: ClassVar[Mapping[str, str]] = {"content": "VectorStoreContent", "duplicates": "VectorStoreDuplicate"}


class VectorStoreSearchAnswer(Record):
    """OpenAI's response fields, in addition to the common ones."""

    success: Literal[True]
    message: str
    search_query: list[str]
    data: list[VectorStoreResult]
    object: Literal["vector_store.search_results.page"] | None
    has_more: Literal[False]
    next_page: None
    _fields = frozenset(["data", "has_more", "message", "next_page", "object", "search_query", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "VectorStoreResult"}


class VerifiedDeletion(Record):
    """Result of checking a receipt."""

    valid: bool
    _fields = frozenset(["valid"])


class WeakSearch(Record):
    """A query with probably irrelevant results."""

    query: str
    count: int
    best_score: float | None
    probability: float
    last_at: Timestamp
    _fields = frozenset(["bestScore", "count", "lastAt", "probability", "query"])
    _records: ClassVar[Mapping[str, str]] = {"lastAt": "Timestamp"}


class WeakSearchesAnswer(Record):
    """The weak searches of the namespace."""

    success: Literal[True]
    message: str
    data: WeakSearchesData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "WeakSearchesData"}


class WeakSearchesData(Record):
    """Weak searches of a namespace and tenant, the most frequent first, 200 at most."""

    weak_searches: list[WeakSearch]
    retention_days: int
    _fields = frozenset(["retentionDays", "weakSearches"])
    _records: ClassVar[Mapping[str, str]] = {"weakSearches": "WeakSearch"}


class WebScraperView(Record):
    """The web scraper with its key masked."""

    provider: str
    url: str | None
    api: str | None
    api_key: str | None
    _fields = frozenset(["api", "apiKey", "provider", "url"])


class Webhook(Record):
    """An endpoint for events."""

    id: str
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
    namespace_id: str | None
    tenant_id: str | None
    description: str | None
    status: Literal["ACTIVE", "DISABLED"]
    status_reason: str | None
    created_at: Timestamp
    health: ResourceHealth
    delivered_last_day: int
    failed_last_day: int
    _fields = frozenset(
        [
            "createdAt",
            "deliveredLastDay",
            "description",
            "events",
            "failedLastDay",
            "health",
            "id",
            "namespaceId",
            "status",
            "statusReason",
            "tenantId",
            "url",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {"createdAt": "Timestamp", "health": "ResourceHealth"}


class WebhookAnswer(Record):
    """The current state of the webhook."""

    success: Literal[True]
    message: str
    data: WebhookData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "WebhookData"}


class WebhookData(Record):
    """A webhook."""

    webhook: Webhook
    _fields = frozenset(["webhook"])
    _records: ClassVar[Mapping[str, str]] = {"webhook": "Webhook"}


class WebhooksAnswer(Record):
    """The webhooks visible to the request."""

    success: Literal[True]
    message: str
    data: WebhooksData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "WebhooksData"}


class WebhooksData(Record):
    """Webhooks, newest first."""

    has_next_page: bool | None
    next_cursor: str | None
    total_count: int | None
    webhooks: list[Webhook]
    _fields = frozenset(["hasNextPage", "nextCursor", "totalCount", "webhooks"])
    _records: ClassVar[Mapping[str, str]] = {"webhooks": "Webhook"}


class WhyAnswer(Record):
    """The reasons for the rank or absence of the document."""

    success: Literal[True]
    message: str
    data: WhyData
    _fields = frozenset(["data", "message", "success"])
    _records: ClassVar[Mapping[str, str]] = {"data": "WhyData"}


class WhyData(Record):
    """Evaluation of the document by the search; scores, ranks and words of the best chunk."""

    document: WhyDocument
    shown: bool
    rank: int | None
    score: float | None
    semantic_rank: int | None
    keyword_rank: int | None
    semantic_score: float | None
    keyword_score: float | None
    last_shown_score: float | None
    reasons: list[WhyReason]
    matched_terms: list[str]
    missing_terms: list[str]
    _fields = frozenset(
        [
            "document",
            "keywordRank",
            "keywordScore",
            "lastShownScore",
            "matchedTerms",
            "missingTerms",
            "rank",
            "reasons",
            "score",
            "semanticRank",
            "semanticScore",
            "shown",
        ]
    )
    _records: ClassVar[Mapping[str, str]] = {"document": "WhyDocument", "reasons": "WhyReason"}


class WhyDocument(Record):
    """The explained document."""

    id: str
    name: str
    status: str
    visible_generation: int | None
    _fields = frozenset(["id", "name", "status", "visibleGeneration"])


class WhyReason(Record):
    """A reason for the absence of the document."""

    kind: Literal["ACCESS", "FILTER", "HIDDEN", "RANK", "STATUS", "THRESHOLD"]
    detail: str
    _fields = frozenset(["detail", "kind"])
