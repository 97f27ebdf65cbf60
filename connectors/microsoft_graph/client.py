"""Client of Microsoft Graph."""

# Graph answers with absolute links. Only Graph's own address gets the token: links to other hosts are refused, and
# signed addresses of downloads are requested without it.

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx
import msgspec

from connectors.http import responses, sessions
from connectors.http.responses import transient_error, translate_failures, unreadable_answer
from connectors.http.retries import ServicePolicy, TransientError, Unauthorized
from retrieval.errors import Fatal, ItemMissing, Retryable, Skippable
from retrieval.ports import TokenSource
from retrieval.setting_values import Endpoint
from retrieval.settings import Settings

ResultT = TypeVar("ResultT")
BASE_URL: Final = "https://graph.microsoft.com/v1.0"
# Microsoft allows 3,000 requests in 5 minutes for each user of an app.
REQUEST_RATE: Final = {"per_minute": 600, "burst": 10}
# Longest pause between two bytes of an answer.
READ_SECONDS: Final = 30.0
DOWNLOAD_SECONDS: Final = 900.0
MAX_REDIRECTS: Final = 3
FILE_MISSING_MESSAGE: Final = "The file is no longer there, or the account may not read it any more."
MALWARE_MESSAGE: Final = "Microsoft found malware in the file and does not give it out: remove the file there."
# Answers for a missing item or a removed address.
MISSING_STATUSES: Final = frozenset({404, 410})
_REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
# Compressed bytes could not be compared with the size.
_DOWNLOAD_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class GraphResponse:
    """Response of Graph: status 200 or 4xx, JSON object or {}, `location` header or ""."""

    status: int
    body: Mapping[str, Any]
    location: str = ""

    @property
    def code(self) -> str:
        """Graph's error code, or ""."""
        error = self.body.get("error")
        return str(error.get("code") or "") if isinstance(error, dict) else ""


class Graph:
    """Client of Graph for a connector; `title` appears in messages, `prefer` is a header. Thread-safe."""

    def __init__(self, connector: str, title: str, settings: Settings, *, prefer: str = "") -> None:
        endpoint = settings.endpoints.get(connector)
        self.title = title
        self._policy = ServicePolicy(title, **REQUEST_RATE)
        self.base = sessions.base_url(endpoint, BASE_URL)
        self._name, self._endpoint = connector, endpoint
        self._max_file_bytes = settings.max_file_bytes
        self.preferences = {"Prefer": prefer} if prefer else {}

    def get(self, tokens: TokenSource, path: str) -> GraphResponse:
        """Request a path below the base address. Retryable or Fatal without an answer."""
        return self.call(tokens, lambda session: session.get(path))

    def call(self, tokens: TokenSource, requests: Callable[[Session], ResultT]) -> ResultT:
        """Call `requests` with a session; repeat all of them after a transient error."""
        return self._policy.call(tokens, lambda token: requests(Session(self, token)))

    def path(self, link: Any) -> str:
        """Return the path of an absolute link below the base address. Fatal for another host."""
        if not isinstance(link, str) or not link.startswith(self.base + "/"):
            raise Fatal(
                f"{self.title}'s listing leads to another server than the one it came from, which gets no token: if"
                " Graph answers through a gateway of your own, let it rewrite the links, too."
            )
        return link[len(self.base) :]

    def change(self, tokens: TokenSource, method: str, path: str, content: Mapping[str, Any] | None) -> GraphResponse:
        """Send JSON to a path below the base address. Retryable or Fatal without an answer."""
        return self._policy.call(tokens, lambda token: self.send(token, path, method, content))

    def send(
        self, token: str, path: str, method: str = "GET", content: Mapping[str, Any] | None = None
    ) -> GraphResponse:
        headers = {**_bearer(token), **self.preferences}
        with self._stream(self.base + path, headers, method, content) as answer:
            _check_status(self.title, answer)
            body = _read_object(self.title, answer)
            if method != "GET" and answer.status_code in {201, 204}:
                return GraphResponse(answer.status_code, body or {})
            if answer.status_code != 200 and not 400 <= answer.status_code < 500:
                raise TransientError(
                    f"{self.title} answered with status {answer.status_code}, which makes no sense here."
                )
            if answer.status_code == 200 and body is None:
                raise unreadable_answer(self.title)
            return GraphResponse(answer.status_code, body or {}, answer.headers.get("location", ""))

    def download(self, url: str, bearer: Mapping[str, str], target: Path, size: int | None) -> int:
        """Download `url` to `target`; return the size in bytes."""
        # Targets of redirects get no token.
        if size is not None and size > self._max_file_bytes:
            raise responses.too_large(self._max_file_bytes)
        for _ in range(MAX_REDIRECTS):
            with self._stream(url, {**_DOWNLOAD_HEADERS, **bearer}) as answer:
                if answer.status_code not in _REDIRECT_STATUSES:
                    self._check_download(answer, is_signed=not bearer)
                    return self._save(answer, target, size)
                url, bearer = self.check_signed_url(urljoin(url, answer.headers.get("location", ""))), {}
        raise Skippable(f"{self.title} leads from one address to the next and gives no file.")

    def _check_download(self, answer: httpx.Response, *, is_signed: bool) -> None:
        if answer.status_code == 200:
            return
        # A refused signed address has expired: a retry requests a new one.
        if is_signed and answer.status_code in {401, 403, 404, 410}:
            raise TransientError(f"{self.title} did not give out the file at the address that it named for it.")
        _check_status(self.title, answer)
        if answer.status_code < 400:
            raise TransientError(f"{self.title} answered with status {answer.status_code}, and without the file.")
        response = GraphResponse(answer.status_code, _read_object(self.title, answer) or {})
        if response.code == "malwareDetected":
            raise Skippable(MALWARE_MESSAGE)
        raise refusal(answer.status_code, FILE_MISSING_MESSAGE)

    def check_signed_url(self, url: str) -> str:
        """Return the address of a download. Skippable unless https or Graph's own host."""
        parts = urlsplit(url)
        own_host = urlsplit(self.base)
        if (parts.scheme, parts.netloc) == (own_host.scheme, own_host.netloc):
            return url
        if parts.scheme != "https" or not parts.hostname or "@" in parts.netloc:
            raise Skippable(f"{self.title} gives the file out at an address that is not https, which is not asked.")
        return url

    def _save(self, answer: httpx.Response, target: Path, size: int | None) -> int:
        written = responses.save_file(
            answer.iter_bytes(), target, max_bytes=self._max_file_bytes, seconds=DOWNLOAD_SECONDS, service=self.title
        )
        if size is not None and written < size:
            raise TransientError(f"{self.title}'s download broke off after {written:,} of {size:,} bytes.")
        return written

    @contextmanager
    def _stream(
        self, url: str, headers: Mapping[str, str], method: str = "GET", content: Mapping[str, Any] | None = None
    ) -> Iterator[httpx.Response]:
        try:
            with (
                translate_failures(self.title, READ_SECONDS),
                _client(self._endpoint, self._name).stream(method, url, headers=headers, json=content) as answer,
            ):
                yield answer
        except httpx.InvalidURL as error:
            raise Retryable(f"{self.title} named an address that cannot be read.") from error


@dataclass(frozen=True, slots=True)
class Session:
    """Requests with one access token."""

    graph: Graph
    token: str = field(repr=False)

    def get(self, path: str) -> GraphResponse:
        return self.graph.send(self.token, path)

    def download(self, path: str, target: Path, *, size: int | None, signed_url: str = "") -> int:
        """Download a file of the expected `size`; return the size in bytes. TransientError for a shorter one."""
        # A signed address of the content saves a request.
        if signed_url:
            return self.graph.download(self.graph.check_signed_url(signed_url), {}, target, size)
        headers = {**_bearer(self.token), **self.graph.preferences}
        return self.graph.download(self.graph.base + path, headers, target, size)


def refusal(status: int, message: str) -> Skippable:
    """Return the error for a refused item: ItemMissing or Skippable."""
    return (ItemMissing if status in MISSING_STATUSES else Skippable)(message)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _check_status(title: str, answer: httpx.Response) -> None:
    """Raise errors common to all addresses: refused token, rate limit, outage."""
    if answer.status_code == 401:
        raise Unauthorized
    if error := transient_error(
        title, answer.status_code, answer.headers, passing={423}, busy={509}, busy_if_asked={503}
    ):
        raise error


def _read_object(title: str, answer: httpx.Response) -> dict[str, Any] | None:
    """Return the answer's JSON object; None for other or endless content."""
    try:
        body = responses.read_body(answer.iter_bytes(), service=title)
        decoded = msgspec.json.decode(body)
    except (TransientError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


@lru_cache(maxsize=4)
def _client(endpoint: Endpoint | None, name: str) -> httpx.Client:
    """Return the client of a process."""
    headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
    client = sessions.httpx_client(sessions.trusted_certificates(endpoint, name), seconds=READ_SECONDS, headers=headers)
    atexit.register(client.close)
    return client
