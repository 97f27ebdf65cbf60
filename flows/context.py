"""What a process of the flows holds: settings, database and keys, made on first use and shared by its threads."""

from __future__ import annotations

from functools import lru_cache

from connectors import registry
from retrieval import authorizations, connections, namespaces, reembedding, settings
from retrieval.database import Database
from retrieval.ports import Authorizer
from retrieval.secrets import KeyRing
from retrieval.sweep import Stores


@lru_cache(maxsize=1)
def database() -> Database:
    config = settings.load()
    if config.database_url is None:
        raise SystemExit("RETRIEVAL_DATABASE_URL is not set: start this role with `retrieval up` or name a database.")
    return Database(config.database_url.get_secret_value(), size=config.database_pool)


@lru_cache(maxsize=1)
def keys() -> KeyRing:
    secret = settings.load().secret_key
    if secret is None:
        raise SystemExit("RETRIEVAL_SECRET_KEY is not set: this role must open the stored secrets.")
    return KeyRing.parse(secret.get_secret_value())


def stores(namespace_id: str) -> Stores:
    """Where a namespace's vectors and files lie, also of a deleted one, and who ends its authorizations."""
    config = namespaces.load(database(), keys(), namespace_id, deleted=True)

    def authorizer(connector: str) -> Authorizer:
        return registry.authorizer(connector, connections.app(config, connector), settings.load())

    def end(partition_id: int) -> None:
        authorizations.end_all(database(), keys(), partition_id, authorizer)

    others = tuple(
        registry.vector_store(other, database()) for other in reembedding.other_stores(database(), keys(), config)
    )
    return Stores(registry.vector_store(config, database()), registry.file_store(config), end, others)
