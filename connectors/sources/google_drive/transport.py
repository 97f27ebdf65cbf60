"""Google Drive over HTTP: the SDK's requests sent through our own pool of connections, and what refusals mean.

The SDK's HTTP clients are not safe to share between threads (its own words, and measured), so each request borrows one.
They follow no redirect, and send nothing to another host than the configured one, least of all a bearer.

The links lead to docs.google.com, which takes the same bearer and may lead on to a download host, which gets none. By
developers.google.com/workspace/drive/api/reference/rest/v3/files (exportLinks) and …/files/export (10 MB).
"""

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
    """Google no longer accepts a page token or does not know its shared drive: list everything again."""


class Forbidden(Exception):
    """The account may not list this shared drive or folder, although Google names it."""


class NotFound(ItemMissing):
    """There is no such file, or not for this account."""


class TooLarge(Skippable):
    """More than Google exports in one piece, 10 MB."""


class Unsupported(Skippable):
    """The request cannot be served as it is: an export to a format that the document has not got, a spoilt token."""


_BUSY = frozenset({"userRateLimitExceeded", "rateLimitExceeded", "sharingRateLimitExceeded"})
_LATER = frozenset({"dailyLimitExceeded", "quotaExceeded"})
_FATAL: Mapping[str, str] = {
    "accessNotConfigured": "The Google Drive API is switched off for the app: enable it in its Google Cloud project.",
    "insufficientPermissions": "The connection may not read files: authorize it again and allow that.",
    "domainPolicy": "The Google Workspace does not let apps read its files: ask its administrator to allow this one.",
}
_SKIPPABLE: Mapping[str, str] = {
    "cannotDownloadFile": "The file's owner does not let it be downloaded.",
    "cannotExportFile": "The file's owner does not let it be downloaded.",
    "fileNotDownloadable": "Google Drive has no content of this file that could be downloaded.",
    "insufficientFilePermissions": "The connected account may not read the file.",
    "appNotAuthorizedToFile": "The connected account has not given this file to the app.",
    "cannotDownloadAbusiveFile": "Google Drive holds the file for harmful and does not hand it out.",
    "downloadQuotaExceeded": "The file was downloaded too often today: ingest again tomorrow.",
}
_TOO_LARGE = "exportSizeLimitExceeded"
_LATER_SECONDS = 3600.0


def explain_refusal(status: int, content: bytes, headers: Mapping[str, str]) -> Exception:
    """Error for a failed answer. A refusal that is not Google's own is transient."""
    reason = _reason(content)
    if status == 401:
        return Unauthorized()
    if status == 403 and reason in _BUSY:
        return RateLimited(retry_after(headers))
    if status in {403, 404} and reason in _LATER:
        return Retryable("The app's daily quota of requests at Google Drive is used up.", after=_LATER_SECONDS)
    if error := transient_error("Google Drive", status, headers):
        return error
    return unreadable_answer("Google Drive") if reason is None or status < 400 else _refusal(status, reason)


def senseless_answer() -> TransientError:
    return TransientError("Google Drive's answer was no listing.")


def incomplete_answer() -> TransientError:
    return TransientError("Google Drive searched only a part of what there is.")


def endless_listing() -> Retryable:
    return Retryable("Google Drive's listing repeats a page and would never end.")


def _refusal(status: int, reason: str) -> Exception:
    if status in {404, 410}:
        return NotFound("The file is not in Google Drive any more, or not for the connected account.")
    if reason == _TOO_LARGE:
        return TooLarge("Google exports at most 10 MB of a document: split it into smaller ones.")
    if reason in _FATAL:
        return Fatal(_FATAL[reason])
    if reason in _SKIPPABLE:
        return Skippable(_SKIPPABLE[reason])
    if status == 403:
        return Skippable("Google Drive does not let the connected account read the file.")
    return Unsupported("Google Drive cannot hand out the file in a format that can be read.")


def _reason(content: bytes) -> str | None:
    """The reason that Google names, "" if it names none; None if this is no error of Google's."""
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
SERVICE_PATH: Final = "/drive/v3/"
SECONDS: Final = 60.0
"""Without a byte, after which an answer is given up."""
ANSWER_SECONDS = 300.0
"""For the whole of an answer, or of one part of a download."""
PIECE: Final = 8 * 1024 * 1024
"""Bytes of one part of a download: what is in memory at a time."""


@dataclass(frozen=True, slots=True)
class Service:
    """The SDK's resources, which only make requests and may be shared. Each takes 5 ms to make, so they are kept."""

    files: Any
    changes: Any
    drives: Any
    permissions: Any


Ask = Callable[[Service], Any]
"""To one of the SDK's requests."""


class HttpPool:
    """HTTP clients to one address. They live as long as this does. Fatal if its certificates cannot be read."""

    def __init__(self, endpoint: Endpoint | None) -> None:
        root = sessions.base_url(endpoint, BASE_URL)
        self.origin = root.removesuffix(SERVICE_PATH.rstrip("/"))
        self._base = self.origin + SERVICE_PATH
        self._endpoint = endpoint
        self._bundle = sessions.bundle_of(endpoint, "GOOGLE_DRIVE")
        self._idle: list[_Connection] = []
        weakref.finalize(self, _close, self._idle)

    def trust(self) -> ssl.SSLContext:
        """For other clients than the SDK's."""
        return sessions.trusted_certificates(self._endpoint, "GOOGLE_DRIVE")

    def answer(self, token: str, ask: Ask) -> dict[str, Any]:
        """The JSON object that the request is answered with."""
        with self._speaking(token) as wire:
            answer = ask(_service(self._base)).execute(http=wire)
            if not isinstance(answer, dict):
                raise senseless_answer()
            return answer

    def export(self, token: str, ask: Ask, sink: Sink) -> None:
        """The content that the request is answered with, at once: Google exports 10 MB at most, and not in parts."""
        with self._speaking(token) as wire:
            sink.write(ask(_service(self._base)).execute(http=wire) or b"")

    def load(self, token: str, ask: Ask, sink: Sink) -> None:
        """The content that the request is answered with, part by part."""
        with self._speaking(token) as wire:
            request = ask(_service(self._base))
            request.http = wire
            download, ended = MediaIoBaseDownload(sink, request, chunksize=PIECE), False
            while not ended:
                size_before = sink.size
                _, ended = download.next_chunk()
                if not ended and sink.size == size_before:
                    raise TransientError("Google Drive's download has stalled.")

    @contextmanager
    def _speaking(self, token: str) -> Iterator[httplib2.Http]:
        """A client with this bearer. One that has met trouble is not used again."""
        wire = self._idle.pop() if self._idle else _Connection(self._base, str(self._bundle) if self._bundle else None)
        wire.token = token
        try:
            yield wire
        except errors.HttpError as error:
            wire.close()
            raise explain_refusal(error.resp.status, error.content, error.resp) from None  # it quotes the vendor
        except (OSError, http.client.HTTPException, httplib2.HttpLib2Error, ValueError, LookupError) as error:
            wire.close()
            raise connection_error("Google Drive") from error
        except BaseException:
            wire.close()
            raise
        self._idle.append(wire)


class Sink:
    """A file that content is written to: measured, hashed, and no larger than `most` bytes (Skippable)."""

    def __init__(self, to: Path, most: int) -> None:
        self._to, self._most = to, most
        self.size = 0
        self.md5 = hashlib.md5(usedforsecurity=False)

    def __enter__(self) -> Self:
        self._file = self._to.open("wb")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        self.size += len(data)
        if self.size > self._most:
            raise responses.too_large(self._most)
        self.md5.update(data)
        return self._file.write(data)


def _tunnelled(proxy: Proxy, bundle: str | None) -> type[http.client.HTTPSConnection]:
    """Connections through the proxy, which httplib2 itself speaks with only where another package is installed."""

    class Tunnelled(http.client.HTTPSConnection):
        def __init__(self, place: str, *, timeout: float, **_: Any) -> None:
            context = ssl.create_default_context(cafile=bundle or httplib2.CA_CERTS)
            super().__init__(proxy.host, proxy.port, timeout=timeout, context=context)
            host, port = fetch_guard.parse_host_port(f"https://{place}")
            self.set_tunnel(host, port, {"Proxy-Authorization": proxy.authorization} if proxy.authorization else None)

    return Tunnelled


class _Connection(httplib2.Http):  # type: ignore[misc]
    """Speaks with one bearer at a time, with one host, and by no proxy of the environment."""

    def __init__(self, base: str, bundle: str | None) -> None:
        super().__init__(timeout=SECONDS, proxy_info=None, ca_certs=bundle)
        proxy = fetch_guard.find_route(load_settings(), base)
        self._kind = {"connection_type": _tunnelled(proxy, bundle)} if proxy else {}
        self.follow_redirects = False
        self.token = ""
        self._base = base

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Any:
        """Send a request. The SDK continues a download at the offset that the last answer reports."""
        if not uri.startswith(self._base):
            raise TransientError("Google Drive's answer pointed to another host, which is not asked.")
        watch = Timer(ANSWER_SECONDS, self._cut)
        watch.daemon = True
        watch.start()
        try:
            return super().request(
                uri, method, body, {**(headers or {}), "authorization": f"Bearer {self.token}"}, **more, **self._kind
            )
        finally:
            watch.cancel()

    def _cut(self) -> None:
        """Close the connection from a timer thread, so that the reader fails: a timeout counts from byte to byte."""
        for connection in list(self.connections.values()):
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)


@lru_cache(maxsize=8)
def _service(base: str) -> Service:
    """Build the SDK's service from the description in its package."""
    logging.getLogger("googleapiclient").setLevel(logging.CRITICAL)  # it would log what the vendor says
    options = {"api_endpoint": base}
    service = discovery.build("drive", "v3", http=httplib2.Http(), client_options=options, cache_discovery=False)
    return Service(service.files(), service.changes(), service.drives(), service.permissions())


def _close(wires: list[_Connection]) -> None:
    while wires:
        wires.pop().close()


HOST: Final = "docs.google.com"
DOWNLOADS: Final = ".googleusercontent.com"
HOPS: Final = 4
"""Addresses that one link may lead to, one after the other."""
_REFUSAL_BYTES: Final = 64 * 1024


def load_export(wires: HttpPool, token: str, url: str, sink: Sink) -> None:
    """The content behind a link. Unsupported for a link to another host, and for a page instead of the document."""
    headers = {"Authorization": f"Bearer {token}"}
    with sessions.httpx_client(wires.trust(), seconds=SECONDS) as client:
        for _ in range(HOPS):
            headers = headers if _is_first(wires, url) else {}
            try:
                with client.stream("GET", url, headers=headers) as answer:
                    if not answer.has_redirect_location:
                        _read(answer, sink)
                        return
                    url = urljoin(url, answer.headers["location"])
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise connection_error("Google Drive") from error
    raise Unsupported("Google Drive leads from one address to the next and gives no document.")


def _is_first(wires: HttpPool, url: str) -> bool:
    """Tell whether the address is Google's own, which gets the bearer token. Unsupported for other hosts."""
    parts = urlsplit(url)
    if url.startswith(wires.origin + "/") or (parts.scheme, parts.netloc) == ("https", HOST):
        return True
    if parts.scheme == "https" and (parts.hostname or "").endswith(DOWNLOADS) and "@" not in parts.netloc:
        return False
    raise Unsupported("Google Drive's link points to another host, which is not asked.")


def _read(answer: httpx.Response, sink: Sink) -> None:
    ends = time.monotonic() + ANSWER_SECONDS
    if answer.status_code != 200:
        body = b""
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > _REFUSAL_BYTES or time.monotonic() > ends:
                break
        raise explain_refusal(answer.status_code, body, answer.headers)
    if answer.headers.get("content-type", "").startswith("text/html"):
        raise Unsupported("Google Drive shows a page where the document should be.")
    for piece in answer.iter_bytes():
        sink.write(piece)
        if time.monotonic() > ends:
            raise TransientError("Google Drive did not send the document in time.")
