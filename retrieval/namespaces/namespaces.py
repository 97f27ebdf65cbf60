"""Namespaces with their configs of storage, index and models. Secrets are opened only here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, LiteralString

from retrieval import ids
from retrieval.database.database import Database
from retrieval.database.pagination import ListPosition, Page, PageRequest
from retrieval.database.rows import Executor
from retrieval.errors import ConfigChanged, ErrorCode, ServiceError
from retrieval.namespaces import queries
from retrieval.security.secrets import KeyRing
from retrieval.sources import APP_CONFIGS

Config = Mapping[str, Any]

FILE_STORAGE = "fileStorageConfig"
VECTOR_STORAGE = "vectorStorageConfig"
EMBEDDING_MODEL = "embeddingModelConfig"
WEB_SCRAPER = "webScraperConfig"
RERANKER_CONFIG = "rerankConfig"
PARSER_CONFIG = "parserConfig"
REQUIRED_CONFIGS = (FILE_STORAGE, VECTOR_STORAGE, EMBEDDING_MODEL)
CONNECTOR_CONFIGS = tuple(APP_CONFIGS.values())
CONFIG_NAMES = (*REQUIRED_CONFIGS, WEB_SCRAPER, RERANKER_CONFIG, PARSER_CONFIG, *CONNECTOR_CONFIGS)
# Sealed at rest, masked or absent in answers.
SECRET_FIELDS = frozenset({"accessKeyId", "secretAccessKey", "apiKey", "clientSecret"})
# Form and limits found by the check of a model server; not part of the model's identity.
LEARNED_FIELD = "learned"
_SENT_TO_KEY = "sentTo"

# Defaults without an account.
EMBEDDED_CONFIGS: Mapping[str, Config] = {
    FILE_STORAGE: {"type": "LOCAL"},
    VECTOR_STORAGE: {"provider": "PGVECTOR"},
    EMBEDDING_MODEL: {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
    WEB_SCRAPER: {"provider": "BUILTIN"},
}


@dataclass(frozen=True, slots=True)
class NamespaceConfig:
    """Namespace with opened secrets: never log or return it."""

    id: str
    organization_id: str
    name: str
    file_storage: Config = field(repr=False)
    vector_storage: Config = field(repr=False)
    embedding_model: Config = field(repr=False)
    web_scraper: Config | None = field(repr=False)
    # By config name, such as `googleDriveConfig`.
    connectors: Mapping[str, Config] = field(repr=False)
    dimensions: int | None
    created_at: datetime
    updated_at: datetime
    # Increments with each change of model or vector store.
    epoch: int = 0
    # A change of model or vector store is pending.
    changing: bool = False
    reranker: Config | None = field(default=None, repr=False)
    # External parser for other file types.
    parser: Config | None = field(default=None, repr=False)
    # Language of all documents for the keyword index; None: by document.
    keyword_language: str | None = None
    # Addresses of the secrets by config, see `retrieval.namespaces.destinations`.
    sent_to: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Counts of documents, chunks, bytes and searches, in listings with counts.
    use: Mapping[str, Any] | None = None

    def configs(self) -> dict[str, Any]:
        """Return the configured configs by contract name."""
        return {
            FILE_STORAGE: self.file_storage,
            VECTOR_STORAGE: self.vector_storage,
            EMBEDDING_MODEL: self.embedding_model,
            **({WEB_SCRAPER: self.web_scraper} if self.web_scraper else {}),
            **({RERANKER_CONFIG: self.reranker} if self.reranker else {}),
            **({PARSER_CONFIG: self.parser} if self.parser else {}),
            **self.connectors,
        }


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """Row of a namespace; `config` without secrets, `secrets` sealed."""

    id: str
    organization_id: str
    name: str
    config: dict[str, Any]
    secrets: bytes | None = field(repr=False)
    dimensions: int | None
    keyword_language: str | None
    epoch: int
    changing: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ListedRow(NamespaceRow):
    """Row with its counts, if requested."""

    use: dict[str, Any] | None


_CONFIG_COLUMNS = frozenset({"config", "secrets"})
NAMESPACE_COLUMNS: LiteralString = (
    "id, organization_id, name, config, secrets, dimensions, keyword_language, epoch, pending is not null as changing,"
    " created_at, updated_at"
)
INSERT_NAMESPACE: LiteralString = (
    "insert into namespaces (id, organization_id, name, config, secrets, dimensions, keyword_language)"
    " values (%(id)s, %(organization)s, %(name)s, %(config)s, %(secrets)s, %(dimensions)s, %(keyword_language)s)"
    " returning " + NAMESPACE_COLUMNS
)


# True for another model or vector store: work for the previous one becomes invalid.
_MODEL_OR_STORE_CHANGED: LiteralString = (
    "(config -> 'embeddingModelConfig') - 'learned'"
    " is distinct from (%(config)s::jsonb -> 'embeddingModelConfig') - 'learned'"
    " or config -> 'vectorStorageConfig' is distinct from %(config)s::jsonb -> 'vectorStorageConfig'"
)


async def get_namespace(db: Database, keys: KeyRing, organization: str, namespace_id: str) -> NamespaceConfig:
    """Return the organization's namespace. Raises NAMESPACE_NOT_FOUND for missing and foreign ones."""
    row = await db.async_fetch_one(
        NamespaceRow,
        "select " + NAMESPACE_COLUMNS + " from namespaces"
        " where id = %(id)s and organization_id = %(organization)s and deleted_at is null",
        {"id": namespace_id, "organization": organization},
        plan_once=True,
    )
    if row is None:
        raise not_found()
    return open_namespace(keys, row)


async def find_place(db: Database, organization: str, namespace_id: str) -> ListPosition | None:
    """Return the list position of a namespace, deleted or not."""
    statement: LiteralString = (
        "select id, created_at from namespaces where id = %(id)s and organization_id = %(organization)s"
    )
    return await db.async_fetch_one(ListPosition, statement, {"id": namespace_id, "organization": organization})


def load_namespace(db: Database, keys: KeyRing, namespace_id: str, *, deleted: bool = False) -> NamespaceConfig:
    """Load a namespace of any organization, for flows. Raises NAMESPACE_NOT_FOUND, also for deleted ones unless
    `deleted`."""
    row = db.fetch_one(
        NamespaceRow,
        "select " + NAMESPACE_COLUMNS + " from namespaces where id = %(id)s and (deleted_at is null or %(deleted)s)",
        {"id": namespace_id, "deleted": deleted},
    )
    if row is None:
        raise not_found()
    return open_namespace(keys, row)


async def list_namespaces(
    db: Database,
    keys: KeyRing,
    organization: str,
    part: PageRequest | None = None,
    listing: queries.Listing = queries.NEWEST_FIRST,
) -> Page[NamespaceConfig]:
    """Return all namespaces of a listing, or one page with the next cursor."""
    rows = await queries.select_namespaces(db, ListedRow, NAMESPACE_COLUMNS, organization, part, listing)
    return listing.cut([open_namespace(keys, row) for row in rows], part)


async def create_namespace(db: Database, keys: KeyRing, draft: NamespaceConfig, *, limit: int) -> NamespaceConfig:
    """Create a namespace. Raises NAMESPACE_LIMIT_EXCEEDED, exact under concurrent requests."""
    async with db.async_transaction() as connection:
        allowed = await connection.async_fetch_one(
            int,
            "select coalesce(namespace_limit, %(limit)s) from organizations"
            " where id = %(organization)s for no key update",
            {"organization": draft.organization_id, "limit": limit},
        )
        existing = await connection.async_fetch_one(
            int,
            "select count(*) from namespaces where organization_id = %(organization)s and deleted_at is null",
            {"organization": draft.organization_id},
        )
        if allowed is None or existing is None or existing >= allowed:
            raise ServiceError(
                ErrorCode.NAMESPACE_LIMIT_EXCEEDED,
                "The organization has as many namespaces as it may have. Delete one, or have the limit raised.",
            )
        rows = await connection.async_fetch(NamespaceRow, INSERT_NAMESPACE, row_values(keys, draft))
    return open_namespace(keys, rows[0])


async def update_namespace(db: Database, keys: KeyRing, namespace: NamespaceConfig) -> NamespaceConfig:
    """Store the changed fields. Raises INVALID_NAMESPACE_CONFIG after a concurrent change."""
    row = await db.async_fetch_one(
        NamespaceRow,
        "update namespaces set name = %(name)s, config = %(config)s, secrets = %(secrets)s,"
        " dimensions = %(dimensions)s, keyword_language = %(keyword_language)s, epoch = epoch + ("
        + _MODEL_OR_STORE_CHANGED
        + ")::int,"
        " pending_run = case when not (" + _MODEL_OR_STORE_CHANGED + ") then pending_run end,"
        " updated_at = greatest(now(), updated_at + interval '1 microsecond')"
        " where id = %(id)s and organization_id = %(organization)s and deleted_at is null"
        " and updated_at = %(read_at)s returning " + NAMESPACE_COLUMNS,
        {**row_values(keys, namespace), "read_at": namespace.updated_at},
    )
    if row is None:
        await get_namespace(db, keys, namespace.organization_id, namespace.id)
        raise concurrent_change()
    return open_namespace(keys, row)


async def delete_namespace(db: Database, organization: str, namespace_id: str) -> str:
    """Delete a namespace and end its runs; return the receipt id. Garbage collection deletes files and vectors."""
    deletion = ids.deletion_id()
    deleted_id = await db.async_fetch_one(
        str,
        """
        with gone as (
            update namespaces set deleted_at = now()
            where id = %(id)s and organization_id = %(organization)s and deleted_at is null returning id
        ),
        parts as (select p.id from partitions p join gone on gone.id = p.namespace_id),
        fenced as (
            update batches set fence = fence + 1, finished_at = now()
            from parts where partition_id = parts.id and finished_at is null
        ),
        ended as (
            update job_runs set cancel_requested = true, status = 'COMPLETED', finished_at = now()
            from parts where partition_id = parts.id and finished_at is null
        ),
        unheard as (delete from webhooks h using gone where h.namespace_id = gone.id),
        untold as (delete from webhook_deliveries d using gone where d.namespace_id = gone.id and d.status = 'PENDING'),
        swept as (
            insert into sweeps (partition_id, kind, due_at, deletion_id)
            select id, 'partition', now() + interval '30 seconds', %(deletion)s from parts
        ),
        receipt as (
            insert into deletions (id, organization_id, namespace_id, documents, confirmed_at)
            select %(deletion)s, %(organization)s, id, (
                select count(*) from documents d join parts p on p.id = d.partition_id where d.deleted_at is null
            ), case when not exists (select from parts) then now() end from gone
        )
        select id from gone
        """,
        {"id": namespace_id, "organization": organization, "deletion": deletion},
    )
    if deleted_id is None:
        raise not_found()
    return deletion


async def require_namespace(db: Database, organization: str, namespace_id: str) -> None:
    """Raise NAMESPACE_NOT_FOUND unless the organization has the namespace."""
    found_id = await db.async_fetch_one(
        str,
        "select id from namespaces where id = %(id)s and organization_id = %(organization)s and deleted_at is null",
        {"id": namespace_id, "organization": organization},
        plan_once=True,
    )
    if found_id is None:
        raise not_found()


def lock_epoch(connection: Executor, namespace_id: str, epoch: int) -> None:
    """Lock the namespace's model and store until the transaction ends. Raises ConfigChanged for another epoch."""
    statement: LiteralString = "select epoch from namespaces where id = %(id)s for share"
    if connection.fetch_one(int, statement, {"id": namespace_id}) != epoch:
        raise ConfigChanged("The namespace got another model or vector store meanwhile.")


async def has_documents(db: Database, namespace_id: str) -> bool:
    has_any = await db.async_fetch_one(
        bool,
        "select exists (select from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(id)s and d.deleted_at is null)",
        {"id": namespace_id},
    )
    return bool(has_any)


def concurrent_change() -> ServiceError:
    return ServiceError(
        ErrorCode.INVALID_NAMESPACE_CONFIG,
        "Another request changed this namespace at the same moment. Read it and send the change again.",
        reason="changed_meanwhile",
    )


def not_found() -> ServiceError:
    return ServiceError(ErrorCode.NAMESPACE_NOT_FOUND, "There is no such namespace.", field="namespaceId")


def row_values(keys: KeyRing, namespace: NamespaceConfig) -> dict[str, Any]:
    """Return the row of a namespace, with secrets sealed by dotted path."""
    public_configs = deepcopy(namespace.configs())
    secrets: dict[str, str] = {}
    for path, parent, key in list(secret_values(public_configs)):
        secrets[path] = parent.pop(key)
    return {
        "id": namespace.id,
        "organization": namespace.organization_id,
        "name": namespace.name,
        "config": json.dumps({**public_configs, _SENT_TO_KEY: namespace.sent_to}),
        "secrets": keys.seal(json.dumps(secrets).encode(), row=row_name(namespace.id)),
        "dimensions": namespace.dimensions,
        "keyword_language": namespace.keyword_language,
    }


def open_namespace(keys: KeyRing, row: NamespaceRow) -> NamespaceConfig:
    configs = row.config
    secrets = json.loads(keys.open(row.secrets, row=row_name(row.id))) if row.secrets else {}
    for path, value in secrets.items():
        *parents, key = path.split(".")
        config = configs
        for parent in parents:
            config = config.setdefault(parent, {})
        config[key] = value
    columns = {column.name: getattr(row, column.name) for column in fields(row) if column.name not in _CONFIG_COLUMNS}
    return NamespaceConfig(**columns, sent_to=configs.get(_SENT_TO_KEY) or {}, **split_configs(configs))


def split_configs(configs: Config) -> dict[str, Any]:
    """Map configs by contract name to fields of NamespaceConfig."""
    return {
        "file_storage": configs[FILE_STORAGE],
        "vector_storage": configs[VECTOR_STORAGE],
        "embedding_model": configs[EMBEDDING_MODEL],
        "web_scraper": configs.get(WEB_SCRAPER),
        "reranker": configs.get(RERANKER_CONFIG),
        "parser": configs.get(PARSER_CONFIG),
        "connectors": {name: configs[name] for name in CONNECTOR_CONFIGS if configs.get(name)},
    }


def row_name(namespace_id: str) -> str:
    """Return the seal name of a namespace's secrets."""
    return f"namespaces/{namespace_id}/secrets"


def secret_values(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the path, parent object and key of every secret in `config`."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from secret_values(value, f"{prefix}{key}.")
        elif key in SECRET_FIELDS and isinstance(value, str):
            yield f"{prefix}{key}", config, key
