"""The one definition of the schema: SQLModel tables. Alembic's history is made from them and tested against them.

A `partition` is one (namespace, tenant) pair, the unit of isolation; its small number keeps the bulk tables narrow.
A `generation` is the number of the job run that made it, so a newer one is always greater.
"""

from retrieval.database.schema.access import AccessGroup, GroupMember
from retrieval.database.schema.activity import SearchTime
from retrieval.database.schema.audit import AuditEntry
from retrieval.database.schema.breakers import Breaker
from retrieval.database.schema.connections import Connection, OAuthState
from retrieval.database.schema.content import Chunk, Document, Embedding, Posting, StoredVector, TermCount
from retrieval.database.schema.crawls import CrawlPage
from retrieval.database.schema.deletions import Deletion, DeletionStore
from retrieval.database.schema.departures import ConnectionDocument, Departure
from retrieval.database.schema.evaluations import Evaluation, EvaluationQuestion, EvaluationRun
from retrieval.database.schema.files import FilesFolder
from retrieval.database.schema.identity import (
    ApiKey,
    IdempotentAnswer,
    Namespace,
    Organization,
    Partition,
    RateWindow,
    ServerSecret,
    Tenant,
)
from retrieval.database.schema.loops import DispatcherLoop
from retrieval.database.schema.metrics import MetricCount
from retrieval.database.schema.usage import QuotaChange, TokenUsage
from retrieval.database.schema.webhooks import EventFeed, PrefectEvent, Webhook, WebhookDelivery, WebhookOutbox
from retrieval.database.schema.work import Batch, InboxText, Job, JobRun, RunDocument, Sweep

__all__ = [
    "AccessGroup",
    "ApiKey",
    "AuditEntry",
    "Batch",
    "Breaker",
    "Chunk",
    "Connection",
    "ConnectionDocument",
    "CrawlPage",
    "Deletion",
    "DeletionStore",
    "Departure",
    "DispatcherLoop",
    "Document",
    "Embedding",
    "Evaluation",
    "EvaluationQuestion",
    "EvaluationRun",
    "EventFeed",
    "FilesFolder",
    "GroupMember",
    "IdempotentAnswer",
    "InboxText",
    "Job",
    "JobRun",
    "MetricCount",
    "Namespace",
    "OAuthState",
    "Organization",
    "Partition",
    "Posting",
    "PrefectEvent",
    "QuotaChange",
    "RateWindow",
    "RunDocument",
    "SearchTime",
    "ServerSecret",
    "StoredVector",
    "Sweep",
    "Tenant",
    "TermCount",
    "TokenUsage",
    "Webhook",
    "WebhookDelivery",
    "WebhookOutbox",
]
