"""Requests to Google Drive: the SDK's requests over a pool of connections, and errors of refusals."""

# The SDK's HTTP clients are not thread-safe (documented, and measured), so each request borrows one. They follow no
# redirect, and send a bearer token only to the configured host. Export links lead to docs.google.com, with the same
# bearer, and from there to a download host without one:
# developers.google.com/workspace/drive/api/reference/rest/v3/files (exportLinks) and …/files/export (10 MB).

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import socket
import ssl
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urljoin, urlsplit

import httplib2
import httpx
from googleapiclient import discovery, errors
from googleapiclient.http import MediaIoBaseDownload

from connectors.http import responses, sessions
from connectors.http.responses import connection_error, transient_error, unreadable_answer
from connectors.http.retries import RateLimited, TransientError, Unauthorized, retry_after
from retrieval.errors import Fatal, ItemMissing, Retryable, Skippable
from retrieval.network import fetch_guard
from retrieval.network.egress import Proxy
from retrieval.setting_values import Endpoint
from retrieval.settings import load_settings


class CursorExpired(Exception):
    """Google rejects a page token or does not know the shared drive: list everything again."""


class Forbidden(Exception):
    """The account may not list this shared drive or folder."""


class NotFound(ItemMissing):
    """The file is missing or invisible to the account."""


class TooLarge(Skippable):
    """Document beyond the 10 MB of a direct export."""


class AppsForbidden(Fatal):
    """Apps may not read the account's files."""


class Unsupported(Skippable):
    """The request cannot be served: an unavailable export format, or an invalid token."""


_RATE_LIMIT_REASONS = frozenset({"userRateLimitExceeded", "rateLimitExceeded", "sharingRateLimitExceeded"})
_QUOTA_REASONS = frozenset({"dailyLimitExceeded", "quotaExceeded"})
_FATAL_MESSAGES: Mapping[str, str] = {
    "accessNotConfigured": "The Google Drive API is switched off for the app: enable it in its Google Cloud project.",
    "insufficientPermissions": "The connection may not read files: authorize it again and allow that.",
    "domainPolicy": "The Google Workspace does not let apps read its files: ask its administrator to allow this one.",
}
_SKIPPABLE_MESSAGES: Mapping[str, str] = {
    "cannotDownloadFile": "The file's owner does not let it be downloaded.",
    "cannotExportFile": "The file's owner does not let it be downloaded.",
    "fileNotDownloadable": "Google Drive has no content of this file that could be downloaded.",
    "insufficientFilePermissions": "The connected account may not read the file.",
    "appNotAuthorizedToFile": "The connected account has not given this file to the app.",
    "cannotDownloadAbusiveFile": "Google Drive holds the file for harmful and does not hand it out.",
    "downloadQuotaExceeded": "The file was downloaded too often today: ingest again tomorrow.",
}
_TOO_LARGE_REASON = "exportSizeLimitExceeded"
_QUOTA_WAIT_SECONDS = 3600.0


def error_of_response(status: int, content: bytes, headers: Mapping[str, str]) -> Exception:
    """Return the error for a failed answer; a refusal by another server is transient."""
    reason = _error_reason(content)
    if status == 401:
        return Unauthorized()
    if status == 403 and reason in _RATE_LIMIT_REASONS:
        return RateLimited(retry_after(headers))
    if status in {403, 404} and reason in _QUOTA_REASONS:
        return Retryable("The app's daily quota of requests at Google Drive is used up.", after=_QUOTA_WAIT_SECONDS)
    if error := transient_error("Google Drive", status, headers):
        return error
    return unreadable_answer("Google Drive") if reason is None or status < 400 else _error_of_reason(status, reason)


def senseless_answer() -> TransientError:
    return TransientError("Google Drive's answer was no listing.")


def incomplete_answer() -> TransientError:
    return TransientError("Google Drive searched only a part of what there is.")


def endless_listing() -> Retryable:
    return Retryable("Google Drive's listing repeats a page and would never end.")


def _error_of_reason(status: int, reason: str) -> Exception:
    if status in {404, 410}:
        return NotFound("The file is not in Google Drive any more, or not for the connected account.")
    if reason == _TOO_LARGE_REASON:
        return TooLarge("Google exports at most 10 MB of a document: split it into smaller ones.")
    if reason in _FATAL_MESSAGES:
        return (AppsForbidden if reason == "domainPolicy" else Fatal)(_FATAL_MESSAGES[reason])
    if reason in _SKIPPABLE_MESSAGES:
        return Skippable(_SKIPPABLE_MESSAGES[reason])
    if status == 403:
        return Skippable("Google Drive does not let the connected account read the file.")
    return Unsupported("Google Drive cannot hand out the file in a format that can be read.")


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


BASE_URL: Final = "https://www.googleapis.com"
DIRECTORY_URL: Final = "https://admin.googleapis.com"
SERVICE_PATH: Final = "/drive/v3/"
# Longest pause between two bytes of an answer.
READ_SECONDS: Final = 60.0
# Limit for a whole answer, or one part of a download.
ANSWER_SECONDS = 300.0
# Bytes of one part of a download, held in memory.
DOWNLOAD_PART_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Service:
    """The SDK's resources; they only build requests and are thread-safe."""

    # Each takes 5 ms to create.

    files: Any
    changes: Any
    drives: Any
    permissions: Any


# Builder of one of the SDK's requests, from a Service or Directory.
RequestBuilder = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Directory:
    """The SDK's resources of a Google Workspace."""

    users: Any
    members: Any


class HttpPool:
    """Pool of HTTP clients to one address, of Drive or of the `directory`. Fatal for unreadable certificates."""

    def __init__(self, endpoint: Endpoint | None, *, directory: bool = False) -> None:
        root = sessions.base_url(endpoint, DIRECTORY_URL if directory else BASE_URL)
        self.origin = root.removesuffix(SERVICE_PATH.rstrip("/"))
        self._base = self.origin + ("/" if directory else SERVICE_PATH)
        self._build = _build_directory if directory else _build_service
        self._endpoint = endpoint
        self._bundle = sessions.bundle_of(endpoint, "GOOGLE_DRIVE")
        self._idle: list[_PooledConnection] = []
        weakref.finalize(self, _close_all, self._idle)

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS context for other clients than the SDK's."""
        return sessions.trusted_certificates(self._endpoint, "GOOGLE_DRIVE")

    def send(self, token: str, build_request: RequestBuilder) -> dict[str, Any]:
        """Send the request and return the JSON object."""
        with self._borrow(token) as connection:
            answer = build_request(self._build(self._base)).execute(http=connection)
            if not isinstance(answer, dict):
                raise senseless_answer()
            return answer

    def export(self, token: str, build_request: RequestBuilder, sink: Sink) -> None:
        """Write the content of an export to `sink`."""
        # Google exports 10 MB at most, and not in parts.
        with self._borrow(token) as connection:
            sink.write(build_request(_build_service(self._base)).execute(http=connection) or b"")

    def download(self, token: str, build_request: RequestBuilder, sink: Sink) -> None:
        """Download content to `sink` part by part."""
        with self._borrow(token) as connection:
            request = build_request(_build_service(self._base))
            request.http = connection
            download, ended = MediaIoBaseDownload(sink, request, chunksize=DOWNLOAD_PART_BYTES), False
            while not ended:
                size_before = sink.size
                _, ended = download.next_chunk()
                if not ended and sink.size == size_before:
                    raise TransientError("Google Drive's download has stalled.")

    @contextmanager
    def _borrow(self, token: str) -> Iterator[httplib2.Http]:
        """Borrow a client with this bearer; a failed client is closed."""
        connection = (
            self._idle.pop()
            if self._idle
            else _PooledConnection(self._base, str(self._bundle) if self._bundle else None)
        )
        connection.token = token
        try:
            yield connection
        except errors.HttpError as error:
            connection.close()
            raise error_of_response(error.resp.status, error.content, error.resp) from None  # it quotes the vendor
        except (OSError, http.client.HTTPException, httplib2.HttpLib2Error, ValueError, LookupError) as error:
            connection.close()
            raise connection_error("Google Drive") from error
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
    """HTTP client of one host, with one bearer at a time, and without proxies of the environment."""

    def __init__(self, base: str, bundle: str | None) -> None:
        super().__init__(timeout=READ_SECONDS, proxy_info=None, ca_certs=bundle)
        proxy = fetch_guard.find_route(load_settings(), base)
        self._connection_options = {"connection_type": _tunnel_class(proxy, bundle)} if proxy else {}
        self.follow_redirects = False
        self.token = ""
        self._base = base

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
            raise TransientError("Google Drive's answer pointed to another host, which is not asked.")
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


@lru_cache(maxsize=8)
def _build_service(base: str) -> Service:
    """Build the SDK's service from the description in its package."""
    service = _build_api("drive", "v3", base)
    return Service(service.files(), service.changes(), service.drives(), service.permissions())


@lru_cache(maxsize=8)
def _build_directory(base: str) -> Directory:
    service = _build_api("admin", "directory_v1", base)
    return Directory(service.users(), service.members())


def _build_api(name: str, version: str, base: str) -> Any:
    logging.getLogger("googleapiclient").setLevel(logging.CRITICAL)  # it would log what the vendor says
    options = {"api_endpoint": base}
    return discovery.build(name, version, http=httplib2.Http(), client_options=options, cache_discovery=False)


def _close_all(connections: list[_PooledConnection]) -> None:
    while connections:
        connections.pop().close()


EXPORT_HOST: Final = "docs.google.com"
DOWNLOAD_HOST_SUFFIX: Final = ".googleusercontent.com"
# Redirects of one link.
MAX_REDIRECTS: Final = 4
_REFUSAL_BYTES: Final = 64 * 1024


def load_export(connections: HttpPool, token: str, url: str, sink: Sink) -> None:
    """Write the content of an export link to `sink`. Unsupported for other hosts, and for a page instead of a
    document."""
    headers = {"Authorization": f"Bearer {token}"}
    with sessions.httpx_client(connections.tls_context(), seconds=READ_SECONDS) as client:
        for _ in range(MAX_REDIRECTS):
            headers = headers if _needs_bearer(connections, url) else {}
            try:
                with client.stream("GET", url, headers=headers) as answer:
                    if not answer.has_redirect_location:
                        _read_export(answer, sink)
                        return
                    url = urljoin(url, answer.headers["location"])
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise connection_error("Google Drive") from error
    raise Unsupported("Google Drive leads from one address to the next and gives no document.")


def _needs_bearer(connections: HttpPool, url: str) -> bool:
    """Return True for Google's own address, with the bearer token. Unsupported for other hosts."""
    parts = urlsplit(url)
    if url.startswith(connections.origin + "/") or (parts.scheme, parts.netloc) == ("https", EXPORT_HOST):
        return True
    if parts.scheme == "https" and (parts.hostname or "").endswith(DOWNLOAD_HOST_SUFFIX) and "@" not in parts.netloc:
        return False
    raise Unsupported("Google Drive's link points to another host, which is not asked.")


def _read_export(answer: httpx.Response, sink: Sink) -> None:
    ends = time.monotonic() + ANSWER_SECONDS
    if answer.status_code != 200:
        body = b""
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > _REFUSAL_BYTES or time.monotonic() > ends:
                break
        raise error_of_response(answer.status_code, body, answer.headers)
    if answer.headers.get("content-type", "").startswith("text/html"):
        raise Unsupported("Google Drive shows a page where the document should be.")
    for piece in answer.iter_bytes():
        sink.write(piece)
        if time.monotonic() > ends:
            raise TransientError("Google Drive did not send the document in time.")
