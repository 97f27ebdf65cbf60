"""Namespaces with their configs of storage, index and models. Secrets are opened only here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from retrieval import ids
from retrieval.database.compiling import columns_of, compile_statement, equals, parameters
from retrieval.database.database import Database
from retrieval.database.pagination import ListPosition, Page, PageRequest
from retrieval.database.rows import Executor
from retrieval.database.schema import content, identity
from retrieval.errors import ConfigChanged, ErrorCode, ServiceError
from retrieval.namespaces import queries
from retrieval.namespaces.queries import COLUMNS, NamespaceRow
from retrieval.security.secrets import KeyRing
from retrieval.setting_values import WrongSetting
from retrieval.settings import Settings
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


def default_configs(settings: Settings) -> dict[str, Config]:
    """Return the operator's configs of new namespaces by name; empty if unset. Raises WrongSetting."""
    if settings.default_namespace is None:
        return {}
    configs = json.loads(settings.default_namespace.get_secret_value())
    problems = [f"{name} is missing" for name in REQUIRED_CONFIGS if name not in configs]
    problems += [f"{name} is no config of a namespace" for name in configs if name not in CONFIG_NAMES]
    if problems:
        raise WrongSetting([("RETRIEVAL_DEFAULT_NAMESPACE", ", ".join(problems))])
    return dict(configs)


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


_table: Any = identity.Namespace
_organization: Any = identity.Organization
_partition: Any = identity.Partition
_document: Any = content.Document
_CONFIG_COLUMNS = frozenset({"config", "secrets"})
_WRITTEN_COLUMNS = ("name", "config", "secrets", "dimensions", "keyword_language")
_of_organization = equals(_table.organization_id)
_is_live = _table.deleted_at.is_(None)
_is_namespace = sa.and_(equals(_table.id), _of_organization, _is_live)


def _changes_part(name: str, *ignored: str) -> Any:
    """Return the condition that an update changes a config."""
    stored, sent = (config.op("->")(name) for config in (_table.config, sa.bindparam("config", type_=JSONB)))
    for field_name in ignored:
        stored, sent = stored.op("-")(field_name), sent.op("-")(field_name)
    return stored.is_distinct_from(sent)


# True for another model or vector store: work for the previous one becomes invalid.
_changes_model_or_store = sa.or_(_changes_part(EMBEDDING_MODEL, LEARNED_FIELD), _changes_part(VECTOR_STORAGE))
INSERT_NAMESPACE = compile_statement(
    sa.insert(_table).values(**parameters("id", "organization_id", *_WRITTEN_COLUMNS)).returning(*COLUMNS)
)
_UPDATE_NAMESPACE = compile_statement(
    sa.update(_table)
    .where(_is_namespace, equals(_table.updated_at, "read_at"))
    .values(
        **parameters(*_WRITTEN_COLUMNS),
        epoch=_table.epoch + sa.cast(_changes_model_or_store, sa.Integer),
        pending_run=sa.case((sa.not_(_changes_model_or_store), _table.pending_run)),
        updated_at=sa.func.greatest(sa.func.now(), _table.updated_at + sa.text("interval '1 microsecond'")),
    )
    .returning(*COLUMNS)
)
_GET_NAMESPACE = compile_statement(sa.select(*COLUMNS).where(_is_namespace))
_GET_POSITION = compile_statement(
    sa.select(*columns_of(_table, ListPosition)).where(equals(_table.id), _of_organization)
)
_LOAD_NAMESPACE = compile_statement(
    sa.select(*COLUMNS).where(equals(_table.id), sa.or_(_is_live, sa.bindparam("deleted", type_=sa.Boolean)))
)
_HAS_NAMESPACE = compile_statement(sa.select(_table.id).where(_is_namespace))
_LOCK_LIMIT = compile_statement(
    sa.select(sa.func.coalesce(_organization.namespace_limit, sa.bindparam("limit", type_=sa.Integer)))
    .where(equals(_organization.id, "organization_id"))
    .with_for_update(key_share=True)
)
_COUNT_NAMESPACES = compile_statement(sa.select(sa.func.count()).select_from(_table).where(_of_organization, _is_live))
_LOCK_EPOCH = compile_statement(sa.select(_table.epoch).where(equals(_table.id)).with_for_update(read=True))
_is_document = sa.and_(_document.partition_id == _partition.id, _document.deleted_at.is_(None))
_HAS_DOCUMENTS = compile_statement(sa.select(sa.exists().where(_is_document, equals(_partition.namespace_id, "id"))))


async def get_namespace(db: Database, keys: KeyRing, organization: str, namespace_id: str) -> NamespaceConfig:
    """Return the organization's namespace. Raises NAMESPACE_NOT_FOUND for missing and foreign ones."""
    row = await db.async_fetch_one(
        NamespaceRow, _GET_NAMESPACE, {"id": namespace_id, "organization_id": organization}, plan_once=True
    )
    if row is None:
        raise not_found()
    return open_namespace(keys, row)


async def find_place(db: Database, organization: str, namespace_id: str) -> ListPosition | None:
    """Return the list position of a namespace, deleted or not."""
    values = {"id": namespace_id, "organization_id": organization}
    return await db.async_fetch_one(ListPosition, _GET_POSITION, values)


def load_namespace(db: Database, keys: KeyRing, namespace_id: str, *, deleted: bool = False) -> NamespaceConfig:
    """Load a namespace of any organization, for flows. Raises NAMESPACE_NOT_FOUND, also for deleted ones unless
    `deleted`."""
    row = db.fetch_one(NamespaceRow, _LOAD_NAMESPACE, {"id": namespace_id, "deleted": deleted})
    if row is None:
        raise not_found()
    return open_namespace(keys, row)


def compile_loading() -> None:
    """Compile the statements of `load_namespace` and `lock_epoch` in advance."""
    for statement in (_LOAD_NAMESPACE, _LOCK_EPOCH):
        len(statement)


async def list_namespaces(
    db: Database,
    keys: KeyRing,
    organization: str,
    part: PageRequest | None = None,
    listing: queries.Listing = queries.NEWEST_FIRST,
) -> Page[NamespaceConfig]:
    """Return all namespaces of a listing, or one page with the next cursor."""
    rows = await queries.select_namespaces(db, organization, part, listing)
    return listing.cut([open_namespace(keys, row) for row in rows], part)


async def create_namespace(db: Database, keys: KeyRing, draft: NamespaceConfig, *, limit: int) -> NamespaceConfig:
    """Create a namespace. Raises NAMESPACE_LIMIT_EXCEEDED, exact under concurrent requests."""
    async with db.async_transaction() as connection:
        values = {"organization_id": draft.organization_id, "limit": limit}
        allowed = await connection.async_fetch_one(int, _LOCK_LIMIT, values)
        existing = await connection.async_fetch_one(int, _COUNT_NAMESPACES, values)
        if allowed is None or existing is None or existing >= allowed:
            raise ServiceError(
                ErrorCode.NAMESPACE_LIMIT_EXCEEDED,
                "The organization has as many namespaces as it may have. Delete one, or have the limit raised.",
            )
        rows = await connection.async_fetch(NamespaceRow, INSERT_NAMESPACE, row_values(keys, draft))
    return open_namespace(keys, rows[0])


async def update_namespace(db: Database, keys: KeyRing, namespace: NamespaceConfig) -> NamespaceConfig:
    """Store the changed fields. Raises INVALID_NAMESPACE_CONFIG after a concurrent change."""
    values = {**row_values(keys, namespace), "read_at": namespace.updated_at}
    row = await db.async_fetch_one(NamespaceRow, _UPDATE_NAMESPACE, values)
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
    values = {"id": namespace_id, "organization_id": organization}
    if await db.async_fetch_one(str, _HAS_NAMESPACE, values, plan_once=True) is None:
        raise not_found()


def lock_epoch(connection: Executor, namespace_id: str, epoch: int) -> None:
    """Lock the namespace's model and store until the transaction ends. Raises ConfigChanged for another epoch."""
    if connection.fetch_one(int, _LOCK_EPOCH, {"id": namespace_id}) != epoch:
        raise ConfigChanged("The namespace's model or vector store changed.")


async def has_documents(db: Database, namespace_id: str) -> bool:
    return bool(await db.async_fetch_one(bool, _HAS_DOCUMENTS, {"id": namespace_id}))


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
        "organization_id": namespace.organization_id,
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
