"""Google's SDK on the wire: one HTTP client for each request that is under way, its errors as port errors.

The SDK's HTTP clients are not safe to share between threads (its own words, and measured), so each request borrows one.
They follow no redirect, and send nothing to another host than the configured one, least of all a bearer.
"""

from __future__ import annotations

import hashlib
import http.client
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
from googleapiclient.http import MediaIoBaseDownload

from connectors.http import responses, sessions
from connectors.http.responses import unreached
from connectors.http.retries import TransientError
from connectors.sources.google_drive import errors as drive_errors
from retrieval.setting_values import Endpoint

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


class Wires:
    """HTTP clients to one address. They live as long as this does. Fatal if its certificates cannot be read."""

    def __init__(self, endpoint: Endpoint | None) -> None:
        root = sessions.base_url(endpoint, BASE_URL)
        self.origin = root.removesuffix(SERVICE_PATH.rstrip("/"))
        self._base = self.origin + SERVICE_PATH
        self._endpoint = endpoint
        self._bundle = sessions.bundle_of(endpoint, "GOOGLE_DRIVE")
        self._idle: list[_Wire] = []
        weakref.finalize(self, _close, self._idle)

    def trust(self) -> ssl.SSLContext:
        """For other clients than the SDK's."""
        return sessions.trust(self._endpoint, "GOOGLE_DRIVE")

    def answer(self, token: str, ask: Ask) -> dict[str, Any]:
        """The JSON object that the request is answered with."""
        with self._speaking(token) as wire:
            answer = ask(_service(self._base)).execute(http=wire)
            if not isinstance(answer, dict):
                raise drive_errors.senseless()
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
                before = sink.size
                _, ended = download.next_chunk()
                if not ended and sink.size == before:
                    raise TransientError("Google Drive's download stands still.")

    @contextmanager
    def _speaking(self, token: str) -> Iterator[httplib2.Http]:
        """A client with this bearer. One that has met trouble is not used again."""
        wire = self._idle.pop() if self._idle else _Wire(self._base, str(self._bundle) if self._bundle else None)
        wire.token = token
        try:
            yield wire
        except errors.HttpError as error:
            wire.close()
            raise drive_errors.understand(
                error.resp.status, error.content, error.resp
            ) from None  # it quotes the vendor
        except (OSError, http.client.HTTPException, httplib2.HttpLib2Error, ValueError, LookupError) as error:
            wire.close()
            raise unreached("Google Drive") from error
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


class _Wire(httplib2.Http):  # type: ignore[misc]
    """Speaks with one bearer at a time, directly (no proxy of the environment) and with one host."""

    def __init__(self, base: str, bundle: str | None) -> None:
        super().__init__(timeout=SECONDS, proxy_info=None, ca_certs=bundle)
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
        """The SDK takes the next part of a download from where the answer to the last one says."""
        if not uri.startswith(self._base):
            raise TransientError("Google Drive's answer pointed to another host, which is not asked.")
        watch = Timer(ANSWER_SECONDS, self._cut)
        watch.daemon = True
        watch.start()
        try:
            return super().request(
                uri, method, body, {**(headers or {}), "authorization": f"Bearer {self.token}"}, **more
            )
        finally:
            watch.cancel()

    def _cut(self) -> None:
        """From a thread of its own: whoever reads finds the answer broken off. A timeout counts from byte to byte."""
        for connection in list(self.connections.values()):
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)


@lru_cache(maxsize=8)
def _service(base: str) -> Service:
    """The SDK's description of the service comes with its package."""
    logging.getLogger("googleapiclient").setLevel(logging.CRITICAL)  # it would log what the vendor says
    options = {"api_endpoint": base}
    made = discovery.build("drive", "v3", http=httplib2.Http(), client_options=options, cache_discovery=False)
    return Service(made.files(), made.changes(), made.drives(), made.permissions())


def _close(wires: list[_Wire]) -> None:
    while wires:
        wires.pop().close()
