"""A boto3 client that dials through the fetch guard and knows nothing of this machine's own AWS account.

Profiles, AWS_* and proxy variables, instance metadata and the SDK's own retries are all left out: a namespace's
configuration is everything that decides where its files go.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.awsrequest import AWSHTTPConnection, AWSHTTPConnectionPool, AWSHTTPSConnection, AWSHTTPSConnectionPool
from botocore.config import Config
from botocore.httpsession import URLLib3Session
from botocore.session import Session
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from retrieval.metrics import catalog, counts
from retrieval.network.fetch_guard import Guard

CONNECT_SECONDS, READ_SECONDS = 5, 30
CONNECTIONS = 16
TRIES = 2
"""The second one is for a connection that the other side had closed; every other retry is the pipeline's."""


def make_client(
    storage: Mapping[str, Any], endpoint: str, *, addressing: str, guarded: Guard | None, ca_bundle: str | None
) -> Any:
    """A client for one `fileStorageConfig`; safe to share between threads. `guarded` None: the operator's endpoint."""
    session = boto3.Session(botocore_session=_bare())
    client = session.client(
        "s3",
        endpoint_url=endpoint,
        region_name=storage["region"],
        aws_access_key_id=storage["credentials"]["accessKeyId"],
        aws_secret_access_key=storage["credentials"]["secretAccessKey"],
        verify=ca_bundle or True,
        config=_config(addressing),
    )
    sender = _Sender(guarded, verify=ca_bundle or True)
    client.meta.events.register_first("before-send.s3", lambda request, **_: sender.send(request))
    client.meta.events.register_first("before-call.s3", _stay)
    client.meta.events.register("response-received.s3", _count)
    return client


def _count(parsed_response: Mapping[str, Any] | None = None, **_: Any) -> None:
    """Count each attempt by its result."""
    status = (parsed_response or {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    outcome = "rate_limited" if status == 429 else "failed" if not status or status >= 500 else "ok"
    counts.add_count(catalog.VENDOR, "S3", "refused" if 400 <= status < 500 and status not in {404, 429} else outcome)


def _stay(params: dict[str, Any], **_: Any) -> None:
    """Disable the search for the bucket's region: a storage that only ever redirects would loop without end."""
    params["context"].setdefault("s3_redirect", {})["redirected"] = True


def _config(addressing: str) -> Config:
    """Plain signed requests, which every store understands: checksums and chunked signatures only where required."""
    return Config(
        signature_version="s3v4",
        s3={"addressing_style": addressing},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        retries={"total_max_attempts": TRIES, "mode": "standard"},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        max_pool_connections=CONNECTIONS,
        proxies={},
        ignore_configured_endpoint_urls=True,
    )


def _bare() -> Session:
    """A session without configuration files and without any variable of the environment."""
    session_variables: Mapping[str, Any] = Session.SESSION_VARIABLES
    nothing = {name: (None, None, default, convert) for name, (_, _, default, convert) in session_variables.items()}
    nothing["config_file"] = nothing["credentials_file"] = (None, None, os.devnull, None)
    return Session(session_vars=nothing)


class _Sender(URLLib3Session):  # type: ignore[misc]
    """HTTP sender of the client: the guard dials each of its connections."""

    def __init__(self, guarded: Guard | None, *, verify: str | bool) -> None:
        super().__init__(
            verify=verify, timeout=(CONNECT_SECONDS, READ_SECONDS), max_pool_connections=CONNECTIONS, proxies={}
        )
        if guarded is not None:
            self._manager.pool_classes_by_scheme = _pools(guarded)


def _pools(guarded: Guard) -> dict[str, type[Any]]:
    class Plain(AWSHTTPConnection):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            return _dial(guarded, self)

    class Secure(AWSHTTPSConnection):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            return _dial(guarded, self)

    class PlainPool(AWSHTTPConnectionPool):  # type: ignore[misc]
        ConnectionCls = Plain

    class SecurePool(AWSHTTPSConnectionPool):  # type: ignore[misc]
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


def _dial(guarded: Guard, connection: Any) -> socket.socket:
    try:
        dialled = guarded.connect(connection.host, connection.port, connection.timeout)
    except TimeoutError as error:
        raise ConnectTimeoutError(connection, "The connection was not made in time.") from error
    except OSError as error:
        raise NewConnectionError(connection, "The connection was not made.") from error
    for option in connection.socket_options or ():
        dialled.setsockopt(*option)
    return dialled
