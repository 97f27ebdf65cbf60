"""Settings, database and keys of a flow process, created on first use and shared by all threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import structlog

from connectors import registry
from retrieval import settings
from retrieval.connections import connections, tokens
from retrieval.connections.queries_push import PushRow
from retrieval.database.database import Database
from retrieval.errors import StepError
from retrieval.ingestion import reembedding
from retrieval.maintenance.stores import Stores
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import Authorizer, Connector, VectorStore
from retrieval.security.secrets import KeyRing

log = structlog.get_logger()


@lru_cache(maxsize=1)
def open_database() -> Database:
    config = settings.load_settings()
    if config.database_url is None:
        raise SystemExit("RETRIEVAL_DATABASE_URL is not set: start this role with `retrieval up` or name a database.")
    return Database(config.database_url.get_secret_value(), size=config.database_pool, role="worker")


@lru_cache(maxsize=1)
def load_keys() -> KeyRing:
    secret = settings.load_settings().secret_key
    if secret is None:
        raise SystemExit("RETRIEVAL_SECRET_KEY is not set: this role must open the stored secrets.")
    return KeyRing.parse(secret.get_secret_value())


def open_stores(namespace_id: str, *, db: Database | None = None) -> Stores:
    """Open the vector store, file store and authorizations of a namespace, also of a deleted one."""
    db = db or open_database()
    config = namespaces.load_namespace(db, load_keys(), namespace_id, deleted=True)

    def authorizer(connector: str) -> Authorizer:
        return registry.make_authorizer(
            connector, connections.get_usable_app(config, connector, settings.load_settings()), settings.load_settings()
        )

    def end_authorizations(partition_id: int) -> None:
        tokens.revoke_all(db, load_keys(), partition_id, authorizer)

    other_stores = tuple(_other_stores(db, config))
    return Stores(
        registry.make_vector_store(config, db), registry.make_file_store(config), end_authorizations, other_stores
    )


def open_push_connector(row: PushRow) -> Connector:
    """Return the connector of a push."""
    options = settings.load_settings()
    config = namespaces.load_namespace(open_database(), load_keys(), row.namespace_id)
    app = connections.get_usable_app(config, row.connector, options)
    return registry.make_connector(row.connector, app, registry.narrow_settings(options, config.organization_id))


def _other_stores(db: Database, config: NamespaceConfig) -> Iterator[VectorStore]:
    # An unreachable store must not block the garbage collection of the others.
    for config_of_store in reembedding.other_stores(db, load_keys(), config):
        try:
            yield registry.make_vector_store(config_of_store, db)
        except StepError as error:
            log.warning("store.skipped", namespace=config.id, reason=str(error))
