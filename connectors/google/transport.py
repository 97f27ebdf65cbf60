"""Requests to APIs of Google: the SDK's requests over a pool of connections, and errors of refusals."""

# The SDK's HTTP clients are not thread-safe (documented, and measured), so each request borrows one. They follow no
# redirect, and send a bearer token only to the configured host.

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import socket
import ssl
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any, Final, Self

import httplib2
from googleapiclient import discovery, errors
from googleapiclient.http import BatchHttpRequest, MediaIoBaseDownload

from connectors.http import responses, sessions
from connectors.http.responses import Cursors, connection_error, transient_error, unreadable_answer
from connectors.http.retries import RateLimited, TransientError, Unauthorized, retry_after
from retrieval.errors import Fatal, ItemMissing, Retryable
from retrieval.network import fetch_guard
from retrieval.network.egress import Proxy
from retrieval.setting_values import Endpoint
from retrieval.settings import load_settings


class NotFound(ItemMissing):
    """The item is missing or invisible to the account."""


class AppsForbidden(Fatal):
    """Apps may not read the account's content."""


_RATE_LIMIT_REASONS = frozenset({"userRateLimitExceeded", "rateLimitExceeded", "sharingRateLimitExceeded"})
_QUOTA_REASONS = frozenset({"dailyLimitExceeded", "quotaExceeded"})
_QUOTA_WAIT_SECONDS = 3600.0
# Begin of the reasons that concern an address of push, such as push.webhookUrlUnauthorized.
PUSH_REASON_PREFIX: Final = "push"


@dataclass(frozen=True, slots=True, eq=False)
class GoogleApi:
    """API of the SDK. `make_error` returns the error for status and reason of a refusal."""

    title: str
    # Key in RETRIEVAL_ENDPOINTS.
    name: str
    url: str
    path: str
    # Name and version in the SDK.
    version: tuple[str, str]
    # Takes the used resources of the SDK's service; each takes 5 ms to create.
    select_resources: Callable[[Any], Any]
    make_error: Callable[[int, str], Exception]

    def error_of_response(self, status: int, content: bytes, headers: Mapping[str, str]) -> Exception:
        """Return the error for a failed answer; a refusal by another server is transient."""
        reason = _error_reason(content)
        # An address of push that Google does not accept is no refused token.
        if status == 401 and not (reason or "").startswith(PUSH_REASON_PREFIX):
            return Unauthorized()
        if status == 403 and reason in _RATE_LIMIT_REASONS:
            return RateLimited(retry_after(headers))
        if status in {403, 404} and reason in _QUOTA_REASONS:
            message = f"The app's daily quota of requests at {self.title} is used up."
            return Retryable(message, after=_QUOTA_WAIT_SECONDS)
        if error := transient_error(self.title, status, headers):
            return error
        return unreadable_answer(self.title) if reason is None or status < 400 else self.make_error(status, reason)

    def senseless_answer(self) -> TransientError:
        return TransientError(f"{self.title}'s answer was no listing.")


def _error_reason(content: bytes) -> str | None:
    """Return the reason of Google's error, "" without one; None for other answers."""
    try:
        error: Any = json.loads(content)["error"]
        reasons = [detail.get("reason") for detail in error.get("errors") or []]
        details = [detail.get("reason") for detail in error.get("details") or []]
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    if "ACCESS_TOKEN_SCOPE_INSUFFICIENT" in details:
        return "insufficientPermissions"
    return next((str(detail) for detail in reasons if detail), "")


# Longest pause between two bytes of an answer.
READ_SECONDS: Final = 60.0
# Limit for a whole answer, or one part of a download.
ANSWER_SECONDS = 300.0
# Bytes of one part of a download, held in memory.
DOWNLOAD_PART_BYTES: Final = 8 * 1024 * 1024


# Builder of one of the SDK's requests, from the resources of its API.
RequestBuilder = Callable[[Any], Any]


class HttpPool:
    """Pool of HTTP clients to one API. Fatal for unreadable certificates."""

    def __init__(self, api: GoogleApi, endpoint: Endpoint | None) -> None:
        self.api = api
        self.origin = sessions.base_url(endpoint, api.url).removesuffix(api.path.rstrip("/"))
        self._base = self.origin + api.path
        self._endpoint = endpoint
        self._bundle = sessions.bundle_of(endpoint, api.name)
        self._idle: list[_PooledConnection] = []
        weakref.finalize(self, _close_all, self._idle)

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS context for other clients than the SDK's."""
        return sessions.trusted_certificates(self._endpoint, self.api.name)

    def send(self, token: str, build_request: RequestBuilder) -> dict[str, Any]:
        """Send the request and return the JSON object."""
        with self._borrow(token) as connection:
            answer = build_request(_build_resources(self.api, self._base)).execute(http=connection)
            answer = answer or {}  # 204
            if not isinstance(answer, dict):
                raise self.api.senseless_answer()
            return answer

    def send_batch(
        self, token: str, build_requests: Mapping[str, RequestBuilder]
    ) -> dict[str, dict[str, Any] | Exception]:
        """Send requests as one; return by key each JSON object, or the error of a refusal."""
        answers = dict[str, dict[str, Any] | Exception]()

        def keep(key: str, answer: Any, error: errors.HttpError | None) -> None:
            if error is not None:
                answers[key] = self.api.error_of_response(error.resp.status, error.content, error.resp)
            else:
                answers[key] = answer if isinstance(answer, dict) else self.api.senseless_answer()

        with self._borrow(token) as connection:
            batch = BatchHttpRequest(keep, f"{self.origin}/batch")
            for key, build_request in build_requests.items():
                batch.add(build_request(_build_resources(self.api, self._base)), request_id=key)
            batch.execute(http=connection)
        if answers.keys() != build_requests.keys():
            raise self.api.senseless_answer()
        return answers

    def export(self, token: str, build_request: RequestBuilder, sink: Sink) -> None:
        """Write the content of an export to `sink`."""
        # Google exports 10 MB at most, and not in parts.
        with self._borrow(token) as connection:
            sink.write(build_request(_build_resources(self.api, self._base)).execute(http=connection) or b"")

    def download(self, token: str, build_request: RequestBuilder, sink: Sink) -> None:
        """Download content to `sink` part by part."""
        with self._borrow(token) as connection:
            request = build_request(_build_resources(self.api, self._base))
            request.http = connection
            download, ended = MediaIoBaseDownload(sink, request, chunksize=DOWNLOAD_PART_BYTES), False
            while not ended:
                size_before = sink.size
                _, ended = download.next_chunk()
                if not ended and sink.size == size_before:
                    raise TransientError(f"{self.api.title}'s download has stalled.")

    @contextmanager
    def _borrow(self, token: str) -> Iterator[httplib2.Http]:
        """Borrow a client with this bearer; a failed client is closed."""
        connection = (
            self._idle.pop()
            if self._idle
            else _PooledConnection(self.origin + "/", str(self._bundle) if self._bundle else None, self.api.title)
        )
        connection.token = token
        try:
            yield connection
        except errors.HttpError as error:
            connection.close()
            raise self.api.error_of_response(
                error.resp.status, error.content, error.resp
            ) from None  # it quotes the vendor
        except (OSError, http.client.HTTPException, httplib2.HttpLib2Error, ValueError, LookupError) as error:
            connection.close()
            raise connection_error(self.api.title) from error
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)


class Sink:
    """Target file of a download: counts and hashes the content. Skippable beyond `max_bytes`."""

    def __init__(self, to: Path, max_bytes: int) -> None:
        self._to, self._max_bytes = to, max_bytes
        self.size = 0
        self.md5 = hashlib.md5(usedforsecurity=False)

    def __enter__(self) -> Self:
        self._file = self._to.open("wb")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        self.size += len(data)
        if self.size > self._max_bytes:
            raise responses.too_large(self._max_bytes)
        self.md5.update(data)
        return self._file.write(data)


def _tunnel_class(proxy: Proxy, bundle: str | None) -> type[http.client.HTTPSConnection]:
    """Return a connection class through the proxy."""
    # httplib2 needs another package for that.

    class TunnelledConnection(http.client.HTTPSConnection):
        def __init__(self, address: str, *, timeout: float, **_: Any) -> None:
            context = ssl.create_default_context(cafile=bundle or httplib2.CA_CERTS)
            super().__init__(proxy.host, proxy.port, timeout=timeout, context=context)
            host, port = fetch_guard.parse_host_port(f"https://{address}")
            self.set_tunnel(host, port, {"Proxy-Authorization": proxy.authorization} if proxy.authorization else None)

    return TunnelledConnection


class _PooledConnection(httplib2.Http):  # type: ignore[misc]
    """HTTP client of a single host with an exchangeable bearer token, without proxies of the environment."""

    def __init__(self, base: str, bundle: str | None, title: str = "Google") -> None:
        super().__init__(timeout=READ_SECONDS, proxy_info=None, ca_certs=bundle)
        proxy = fetch_guard.find_route(load_settings(), base)
        self._connection_options = {"connection_type": _tunnel_class(proxy, bundle)} if proxy else {}
        self.follow_redirects = False
        self.token = ""
        self._base = base
        self._title = title

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Any:
        """Send a request."""
        # The SDK continues a download at the offset of the last answer.
        if not uri.startswith(self._base):
            raise TransientError(f"{self._title}'s answer pointed to another host, which is not asked.")
        watch = Timer(ANSWER_SECONDS, self._close_sockets)
        watch.daemon = True
        watch.start()
        try:
            return super().request(
                uri,
                method,
                body,
                {**(headers or {}), "authorization": f"Bearer {self.token}"},
                **options,
                **self._connection_options,
            )
        finally:
            watch.cancel()

    def _close_sockets(self) -> None:
        """Close the connection from a timer thread, so that the reader fails."""
        # A timeout only limits the time between two bytes.
        for connection in list(self.connections.values()):
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)


@lru_cache(maxsize=16)
def _build_resources(api: GoogleApi, base: str) -> Any:
    """Build the SDK's resources from the description in its package; they only build requests and are thread-safe."""
    logging.getLogger("googleapiclient").setLevel(logging.CRITICAL)  # it would log what the vendor says
    options = {"api_endpoint": base}
    service = discovery.build(*api.version, http=httplib2.Http(), client_options=options, cache_discovery=False)
    return api.select_resources(service)


def _close_all(connections: list[_PooledConnection]) -> None:
    while connections:
        connections.pop().close()


def iterate_pages(title: str, read_page: Callable[[str | None], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield pages until the last one. Retryable for an endless listing."""
    page, cursors = None, Cursors(f"{title}'s listing")
    while True:
        answer = read_page(page)
        yield answer
        page = answer.get("nextPageToken")
        if not page:
            return
        cursors.follow(page, brought=any(isinstance(value, list) and value for value in answer.values()))
