"""Namespaces: where content goes and which storage, index and model serve it. Secrets are opened only here."""

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
from retrieval.sources import APPS

Config = Mapping[str, Any]

FILE_STORAGE = "fileStorageConfig"
VECTOR_STORAGE = "vectorStorageConfig"
EMBEDDING_MODEL = "embeddingModelConfig"
WEB_SCRAPER = "webScraperConfig"
RERANKER = "rerankConfig"
PARSER = "parserConfig"
REQUIRED = (FILE_STORAGE, VECTOR_STORAGE, EMBEDDING_MODEL)
CONNECTORS = tuple(APPS.values())
CONFIGS = (*REQUIRED, WEB_SCRAPER, RERANKER, PARSER, *CONNECTORS)
SECRET_FIELDS = frozenset({"accessKeyId", "secretAccessKey", "apiKey", "clientSecret"})
"""Fields of configs that are sealed at rest, and masked or absent in answers."""
LEARNED = "learned"
"""Field of a model server's config with the form and limits that its check found. Not part of the model's identity."""
_SENT_TO = "sentTo"

EMBEDDED: Mapping[str, Config] = {
    FILE_STORAGE: {"type": "LOCAL"},
    VECTOR_STORAGE: {"provider": "PGVECTOR"},
    EMBEDDING_MODEL: {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
    WEB_SCRAPER: {"provider": "BUILTIN"},
}
"""The defaults that need no account."""


@dataclass(frozen=True, slots=True)
class NamespaceConfig:
    """A namespace with its configs as the contract spells them, secrets opened: never for a log or an answer."""

    id: str
    organization_id: str
    name: str
    file_storage: Config = field(repr=False)
    vector_storage: Config = field(repr=False)
    embedding_model: Config = field(repr=False)
    web_scraper: Config | None = field(repr=False)
    connectors: Mapping[str, Config] = field(repr=False)
    """Of content services, by the contract's field names."""
    dimensions: int | None
    created_at: datetime
    updated_at: datetime
    epoch: int = 0
    """Grows whenever another model or vector store takes over."""
    changing: bool = False
    """Whether that may be about to happen."""
    reranker: Config | None = field(default=None, repr=False)
    parser: Config | None = field(default=None, repr=False)
    """Of an external parser, for what the service cannot read itself."""
    keyword_language: str | None = None
    """As the client named the one that all documents are read in for their keywords; None: each in its own."""
    sent_to: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By config: where its secrets were stored for, see `retrieval.namespaces.destinations`."""
    use: Mapping[str, Any] | None = None
    """Numbers of its documents, chunks, bytes and searches, in a listing that counts (`queries`)."""

    def configs(self) -> dict[str, Any]:
        """The configs that are set, by the contract's field names."""
        return {
            FILE_STORAGE: self.file_storage,
            VECTOR_STORAGE: self.vector_storage,
            EMBEDDING_MODEL: self.embedding_model,
            **({WEB_SCRAPER: self.web_scraper} if self.web_scraper else {}),
            **({RERANKER: self.reranker} if self.reranker else {}),
            **({PARSER: self.parser} if self.parser else {}),
            **self.connectors,
        }


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """The row of a namespace: `config` without its secrets, which `secrets` holds sealed."""

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
    """A row with its use, if that was counted."""

    use: dict[str, Any] | None


_CONFIG_COLUMNS = frozenset({"config", "secrets"})
COLUMNS: LiteralString = (
    "id, organization_id, name, config, secrets, dimensions, keyword_language, epoch, pending is not null as changing,"
    " created_at, updated_at"
)
INSERT: LiteralString = (
    "insert into namespaces (id, organization_id, name, config, secrets, dimensions, keyword_language)"
    " values (%(id)s, %(organization)s, %(name)s, %(config)s, %(secrets)s, %(dimensions)s, %(keyword_language)s)"
    " returning " + COLUMNS
)


_MOVED: LiteralString = (
    "(config -> 'embeddingModelConfig') - 'learned'"
    " is distinct from (%(config)s::jsonb -> 'embeddingModelConfig') - 'learned'"
    " or config -> 'vectorStorageConfig' is distinct from %(config)s::jsonb -> 'vectorStorageConfig'"
)
"""Another model or vector store: keys are not in the column. What is being made for the one before must not count."""


async def get(db: Database, keys: KeyRing, organization: str, namespace_id: str) -> NamespaceConfig:
    """The organization's namespace; NAMESPACE_NOT_FOUND for any other, missing or foreign alike."""
    row = await db.async_fetch_one(
        NamespaceRow,
        "select " + COLUMNS + " from namespaces"
        " where id = %(id)s and organization_id = %(organization)s and deleted_at is null",
        {"id": namespace_id, "organization": organization},
        plan_once=True,
    )
    if row is None:
        raise not_found()
    return open_namespace(keys, row)


async def find_place(db: Database, organization: str, namespace_id: str) -> ListPosition | None:
    """Return the place in lists of a namespace of the organization, deleted or not."""
    statement: LiteralString = (
        "select id, created_at from namespaces where id = %(id)s and organization_id = %(organization)s"
    )
    return await db.async_fetch_one(ListPosition, statement, {"id": namespace_id, "organization": organization})


def load(db: Database, keys: KeyRing, namespace_id: str, *, deleted: bool = False) -> NamespaceConfig:
    """For the flows, which act for any organization. A deleted one is NAMESPACE_NOT_FOUND, but for who cleans up."""
    row = db.fetch_one(
        NamespaceRow,
        "select " + COLUMNS + " from namespaces where id = %(id)s and (deleted_at is null or %(deleted)s)",
        {"id": namespace_id, "deleted": deleted},
    )
    if row is None:
        raise not_found()
    return open_namespace(keys, row)


async def list_part(
    db: Database,
    keys: KeyRing,
    organization: str,
    part: PageRequest | None = None,
    listing: queries.Listing = queries.NEWEST,
) -> Page[NamespaceConfig]:
    """Return all namespaces of a listing, or a part with the cursor of the next."""
    rows = await queries.list_namespaces(db, ListedRow, COLUMNS, organization, part, listing)
    return listing.cut([open_namespace(keys, row) for row in rows], part)


async def create(db: Database, keys: KeyRing, draft: NamespaceConfig, *, limit: int) -> NamespaceConfig:
    """Store a namespace; NAMESPACE_LIMIT_EXCEEDED, exact under parallel creates, at the organization's limit."""
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
        rows = await connection.async_fetch(NamespaceRow, INSERT, row_values(keys, draft))
    return open_namespace(keys, rows[0])


async def update(db: Database, keys: KeyRing, changed: NamespaceConfig) -> NamespaceConfig:
    """Store the fields of `changed`, unless the namespace was changed since it was read."""
    row = await db.async_fetch_one(
        NamespaceRow,
        "update namespaces set name = %(name)s, config = %(config)s, secrets = %(secrets)s,"
        " dimensions = %(dimensions)s, keyword_language = %(keyword_language)s, epoch = epoch + (" + _MOVED + ")::int,"
        " pending_run = case when not (" + _MOVED + ") then pending_run end,"
        " updated_at = greatest(now(), updated_at + interval '1 microsecond')"
        " where id = %(id)s and organization_id = %(organization)s and deleted_at is null"
        " and updated_at = %(seen)s returning " + COLUMNS,
        {**row_values(keys, changed), "seen": changed.updated_at},
    )
    if row is None:
        await get(db, keys, changed.organization_id, changed.id)
        raise changed_meanwhile()
    return open_namespace(keys, row)


async def delete(db: Database, organization: str, namespace_id: str) -> str:
    """Delete a namespace, at once for clients; the id of the receipt. Its runs end; garbage collection deletes files
    and vectors."""
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
    """NAMESPACE_NOT_FOUND unless the organization has it: for telling which of two things was not found."""
    found_id = await db.async_fetch_one(
        str,
        "select id from namespaces where id = %(id)s and organization_id = %(organization)s and deleted_at is null",
        {"id": namespace_id, "organization": organization},
        plan_once=True,
    )
    if found_id is None:
        raise not_found()


def hold_epoch(connection: Executor, namespace_id: str, epoch: int) -> None:
    """Hold the namespace's model and store until the transaction ends; ConfigChanged if they are others by now."""
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


def changed_meanwhile() -> ServiceError:
    return ServiceError(
        ErrorCode.INVALID_NAMESPACE_CONFIG,
        "Another request changed this namespace at the same moment. Read it and send the change again.",
        reason="changed_meanwhile",
    )


def not_found() -> ServiceError:
    return ServiceError(ErrorCode.NAMESPACE_NOT_FOUND, "There is no such namespace.", field="namespaceId")


def row_values(keys: KeyRing, namespace: NamespaceConfig) -> dict[str, Any]:
    """The row of a namespace: what may be shown, and the sealed rest by dotted path."""
    public_configs = deepcopy(namespace.configs())
    hidden: dict[str, str] = {}
    for path, parent, key in list(secret_values(public_configs)):
        hidden[path] = parent.pop(key)
    return {
        "id": namespace.id,
        "organization": namespace.organization_id,
        "name": namespace.name,
        "config": json.dumps({**public_configs, _SENT_TO: namespace.sent_to}),
        "secrets": keys.seal(json.dumps(hidden).encode(), row=row_name(namespace.id)),
        "dimensions": namespace.dimensions,
        "keyword_language": namespace.keyword_language,
    }


def open_namespace(keys: KeyRing, row: NamespaceRow) -> NamespaceConfig:
    configs = row.config
    hidden = json.loads(keys.open(row.secrets, row=row_name(row.id))) if row.secrets else {}
    for path, value in hidden.items():
        *parents, key = path.split(".")
        config = configs
        for parent in parents:
            config = config.setdefault(parent, {})
        config[key] = value
    columns = {column.name: getattr(row, column.name) for column in fields(row) if column.name not in _CONFIG_COLUMNS}
    return NamespaceConfig(**columns, sent_to=configs.get(_SENT_TO) or {}, **split_configs(configs))


def split_configs(configs: Config) -> dict[str, Any]:
    """Configs by the contract's names -> the fields of NamespaceConfig."""
    return {
        "file_storage": configs[FILE_STORAGE],
        "vector_storage": configs[VECTOR_STORAGE],
        "embedding_model": configs[EMBEDDING_MODEL],
        "web_scraper": configs.get(WEB_SCRAPER),
        "reranker": configs.get(RERANKER),
        "parser": configs.get(PARSER),
        "connectors": {name: configs[name] for name in CONNECTORS if configs.get(name)},
    }


def row_name(namespace_id: str) -> str:
    """Under which name its secrets are sealed."""
    return f"namespaces/{namespace_id}/secrets"


def secret_values(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield every secret below `config`: its dotted path, its containing object and its key."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from secret_values(value, f"{prefix}{key}.")
        elif key in SECRET_FIELDS and isinstance(value, str):
            yield f"{prefix}{key}", config, key
