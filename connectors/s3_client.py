"""boto3 client behind the fetch guard, isolated from the machine's AWS account."""
# Profiles, AWS_* and proxy variables, instance metadata and retries of the SDK are off.

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
    AWSPreparedRequest,
    AWSResponse,
)
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)
from botocore.session import Session
from urllib3 import PoolManager, Retry, Timeout
from urllib3 import exceptions as urllib3_errors

from connectors.http.sessions import trusted_certificates
from retrieval.metrics import catalog, counts
from retrieval.network.fetch_guard import Guard

CONNECT_SECONDS, READ_SECONDS = 5, 30
MAX_CONNECTIONS = 16
# The second try is for a closed connection; other retries are the pipeline's.
MAX_ATTEMPTS = 2


def make_client(
    storage: Mapping[str, Any], endpoint: str, *, addressing: str, guarded: Guard | None, ca_bundle: str | None
) -> Any:
    """Build a thread-safe client for a `fileStorageConfig`; without a guard for the operator's endpoint."""
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
    sender = _Sender(guarded, ca_bundle)
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
    """Disable the search for the bucket's region."""
    # A storage with endless redirects would loop.
    params["context"].setdefault("s3_redirect", {})["redirected"] = True


def _config(addressing: str) -> Config:
    """Build a config with plain signed requests, understood by all stores."""
    return Config(
        signature_version="s3v4",
        s3={"addressing_style": addressing},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        retries={"total_max_attempts": MAX_ATTEMPTS, "mode": "standard"},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        max_pool_connections=MAX_CONNECTIONS,
        proxies={},
        ignore_configured_endpoint_urls=True,
    )


def _bare() -> Session:
    """Build a session without configuration files and environment variables."""
    session_variables: Mapping[str, Any] = Session.SESSION_VARIABLES
    nothing = {name: (None, None, default, convert) for name, (_, _, default, convert) in session_variables.items()}
    nothing["config_file"] = nothing["credentials_file"] = (None, None, os.devnull, None)
    return Session(session_vars=nothing)


class _Sender:
    """HTTP sender of the client, with connections by the guard."""

    # botocore's own sender has no public way to replace its connection pools.
    def __init__(self, guarded: Guard | None, ca_bundle: str | None) -> None:
        trusted = ssl.create_default_context(cafile=ca_bundle) if ca_bundle else trusted_certificates(None, "S3")
        timeout = Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        self._pools = PoolManager(maxsize=MAX_CONNECTIONS, timeout=timeout, ssl_context=trusted)
        self._pools.pool_classes_by_scheme = _pool_classes(guarded or Guard(trusting=True))

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """Send the request once. BotoCoreError for a failure."""
        url = urlsplit(request.url)
        # The path is sent as it was signed: `PoolManager.urlopen` would remove the dots of a key such as `a/../b`.
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        try:
            answer = self._pools.connection_from_url(request.url).urlopen(
                request.method,
                target,
                request.body,
                request.headers,
                retries=Retry(total=False),
                assert_same_host=False,
                preload_content=False,
                decode_content=False,
                enforce_content_length=False,
            )
            response = AWSResponse(request.url, answer.status, answer.headers, answer)
            if not request.stream_output:
                response.content  # noqa: B018 - reads the body, and frees the connection
        except Exception as error:
            raise _botocore_error(error, request) from error
        return response


def _botocore_error(error: Exception, request: AWSPreparedRequest) -> BotoCoreError:
    kinds: dict[type, type[BotoCoreError]] = {
        urllib3_errors.SSLError: SSLError,
        urllib3_errors.NewConnectionError: EndpointConnectionError,
        urllib3_errors.ConnectTimeoutError: ConnectTimeoutError,
        urllib3_errors.ReadTimeoutError: ReadTimeoutError,
        urllib3_errors.ProtocolError: ConnectionClosedError,
    }
    kind = next((kinds[each] for each in type(error).__mro__ if each in kinds), HTTPClientError)
    return kind(endpoint_url=request.url, error=error, request=request)


def _pool_classes(guarded: Guard) -> dict[str, type[Any]]:
    class Plain(AWSHTTPConnection):  # type: ignore[misc]
        def connect(self) -> None:
            self.sock = _dial(guarded, self)

    class Secure(AWSHTTPSConnection):  # type: ignore[misc]
        def connect(self) -> None:
            self.sock = self.ssl_context.wrap_socket(_dial(guarded, self), server_hostname=self.host)
            self.is_verified = True

    class PlainPool(AWSHTTPConnectionPool):  # type: ignore[misc]
        ConnectionCls = Plain

    class SecurePool(AWSHTTPSConnectionPool):  # type: ignore[misc]
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


def _dial(guarded: Guard, connection: Any) -> socket.socket:
    try:
        dialled = guarded.connect(connection.host, connection.port, connection.timeout)
    except TimeoutError as error:
        raise urllib3_errors.ConnectTimeoutError(connection, "The connection was not made in time.") from error
    except OSError as error:
        raise urllib3_errors.NewConnectionError(connection, "The connection was not made.") from error
    for option in connection.socket_options or ():
        dialled.setsockopt(*option)
    return dialled
