"""Connections of `retrieval ingest`: of an id, or of a storage's URL, which is connected when it is first named."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from retrieval_client import RetrievalClient
from retrieval_client.models import Connection, IngestData

_SCHEME = re.compile(r"[a-z][a-z0-9+]*://")
_AWS = {
    "accessKeyId": "AWS_ACCESS_KEY_ID",
    "secretAccessKey": "AWS_SECRET_ACCESS_KEY",
    "sessionToken": "AWS_SESSION_TOKEN",
}


def is_page(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def is_storage(text: str) -> bool:
    """Tell whether this is the id of a connection, or the URL of a bucket, file server or folder."""
    return text.startswith("conn_") or (_SCHEME.match(text) is not None and not is_page(text))


def find_connection(
    client: RetrievalClient, namespace: str, storage: str, config: Mapping[str, Any] | None
) -> Connection:
    """The connection with this id, or of this URL; a `config` replaces what it has stored.

    A URL without a connection is connected under its own name, with the AWS_* variables where there is no `config`.
    """
    if storage.startswith("conn_"):
        return client.api.get_connection(storage, namespace_id=namespace).connection
    connections = client.api.list_connections(namespace_id=namespace, connector="OBJECTS").connections
    for connection in connections:
        is_same = storage.rstrip("/") in {connection.name.rstrip("/"), (connection.config.url or "").rstrip("/")}
        if is_same and connection.status != "REVOKED":
            if config is not None:
                changes: Any = {"namespaceId": namespace, "config": {**config, "url": storage}}
                client.api.update_connection(connection.id, changes)
            return connection
    body: Any = {
        "namespaceId": namespace,
        "name": storage[:200],
        "connector": "OBJECTS",
        "config": {**(_aws_config(storage) if config is None else config), "url": storage},
    }
    created = client.api.create_connection(body)
    return client.api.get_connection(created.connection.id, namespace_id=namespace).connection


def ingest_connection(
    client: RetrievalClient,
    namespace: str,
    connection: Connection,
    *,
    metadata: Mapping[str, Any] | None = None,
    dry_run: bool | None = None,
) -> IngestData:
    """Start the ingestion of a connection."""
    ingest = getattr(client.api, f"ingest_{connection.connector.lower()}", client.api.ingest_source)
    config = {"connectionId": connection.id} | ({"metadata": metadata} if metadata is not None else {})
    body: Any = {"namespaceId": namespace, "ingestConfig": {"source": connection.connector, "config": config}}
    accepted: IngestData = ingest(body | ({"dryRun": True} if dry_run else {}))
    return accepted


def _aws_config(url: str) -> dict[str, Any]:
    """What the variables of the AWS command line say of a bucket."""
    if not url.startswith("s3://"):
        return {}
    credentials = {name: os.environ[variable] for name, variable in _AWS.items() if os.environ.get(variable)}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    values = {"credentials": credentials, "region": region, "endpoint": endpoint}
    return {name: value for name, value in values.items() if value}
