"""Client of Microsoft Graph, shared by the content services behind it.

Graph answers with absolute links. The token goes to Graph's own address alone: a link that leads elsewhere is refused,
and the pre-signed address of a download is requested without it.
"""

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

T = TypeVar("T")
BASE_URL: Final = "https://graph.microsoft.com/v1.0"
RATE: Final = {"per_minute": 600, "burst": 10}
"""Microsoft's limit is 3,000 requests in 5 minutes for each user of an app."""
SECONDS: Final = 30.0
"""Without a byte, after which an answer is given up."""
DOWNLOAD_SECONDS: Final = 900.0
"""For the whole of a download."""
HOPS: Final = 3
"""Addresses that one download may lead to, one after the other."""
VANISHED: Final = "The file is no longer there, or the account may not read it any more."
MALWARE: Final = "Microsoft found malware in the file and does not give it out: remove the file there."
MISSING: Final = frozenset({404, 410})
"""What Graph says of an item that does not exist, and at an address that Microsoft removed."""
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_FILE: Final = {"Accept": "*/*", "Accept-Encoding": "identity"}
"""What a download is asked with, so that its bytes can be counted."""


@dataclass(frozen=True, slots=True)
class GraphResponse:
    """Response of Graph. `status`: 200 or a refusal (4xx); `body`: its JSON object, empty if there is none; `location`:
    or ""."""

    status: int
    body: Mapping[str, Any]
    location: str = ""

    @property
    def code(self) -> str:
        """Graph's word for the error, or ""."""
        error = self.body.get("error")
        return str(error.get("code") or "") if isinstance(error, dict) else ""


class Graph:
    """Client of Graph for one connector, called `title` in messages. Safe to use from several threads."""

    def __init__(self, connector: str, title: str, settings: Settings) -> None:
        endpoint = settings.endpoints.get(connector)
        self.title = title
        self._manners = ServicePolicy(title, **RATE)
        self.base = sessions.base_url(endpoint, BASE_URL)
        self._name, self._endpoint = connector, endpoint
        self._most = settings.max_file_bytes

    def get(self, tokens: TokenSource, path: str) -> GraphResponse:
        """Graph's answer to GET. `path` follows the base address. Retryable, or Fatal, if there is none."""
        return self.call(tokens, lambda here: here.get(path))

    def call(self, tokens: TokenSource, requests: Callable[[Session], T]) -> T:
        """Run `requests` as one turn at Graph; all of it is repeated after a transient error."""
        return self._manners.call(tokens, lambda token: requests(Session(self, token)))

    def path(self, link: Any) -> str:
        """Path of an absolute link below the base address. Fatal if it leads to another host."""
        if not isinstance(link, str) or not link.startswith(self.base + "/"):
            raise Fatal(
                f"{self.title}'s listing leads to another server than the one it came from, which gets no token: if"
                " Graph answers through a gateway of your own, let it rewrite the links, too."
            )
        return link[len(self.base) :]

    def ask(self, token: str, path: str) -> GraphResponse:
        with self._stream(self.base + path, _bearer(token)) as answer:
            _judge(self.title, answer)
            body = _object(self.title, answer)
            if answer.status_code != 200 and not 400 <= answer.status_code < 500:
                raise TransientError(
                    f"{self.title} answered with status {answer.status_code}, which makes no sense here."
                )
            if answer.status_code == 200 and body is None:
                raise unreadable_answer(self.title)
            return GraphResponse(answer.status_code, body or {}, answer.headers.get("location", ""))

    def bring(self, url: str, bearer: Mapping[str, str], to: Path, size: int | None) -> int:
        """Download the file at `url` into `to`. Redirect targets are requested without the bearer token."""
        if size is not None and size > self._most:
            raise responses.too_large(self._most)
        for _ in range(HOPS):
            with self._stream(url, {**_FILE, **bearer}) as answer:
                if answer.status_code not in _MOVED:
                    self._check(answer, signed=not bearer)
                    return self._write(answer, to, size)
                url, bearer = self.signed(urljoin(url, answer.headers.get("location", ""))), {}
        raise Skippable(f"{self.title} leads from one address to the next and gives no file.")

    def _check(self, answer: httpx.Response, *, signed: bool) -> None:
        """Raise unless the file follows. A signed address that is refused has expired: it is requested again."""
        if answer.status_code == 200:
            return
        if signed and answer.status_code in {401, 403, 404, 410}:
            raise TransientError(f"{self.title} did not give out the file at the address that it named for it.")
        _judge(self.title, answer)
        if answer.status_code < 400:
            raise TransientError(f"{self.title} answered with status {answer.status_code}, and without the file.")
        response = GraphResponse(answer.status_code, _object(self.title, answer) or {})
        if response.code == "malwareDetected":
            raise Skippable(MALWARE)
        raise refusal(answer.status_code, VANISHED)

    def signed(self, url: str) -> str:
        """An address that Graph names for a download. Skippable if it is neither https nor Graph's own place."""
        parts = urlsplit(url)
        own_host = urlsplit(self.base)
        if (parts.scheme, parts.netloc) == (own_host.scheme, own_host.netloc):
            return url
        if parts.scheme != "https" or not parts.hostname or "@" in parts.netloc:
            raise Skippable(f"{self.title} gives the file out at an address that is not https, which is not asked.")
        return url

    def _write(self, answer: httpx.Response, to: Path, size: int | None) -> int:
        written = responses.save_file(
            answer.iter_bytes(), to, most=self._most, seconds=DOWNLOAD_SECONDS, service=self.title
        )
        if size is not None and written < size:
            raise TransientError(f"{self.title}'s download broke off after {written:,} of {size:,} bytes.")
        return written

    @contextmanager
    def _stream(self, url: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        try:
            with (
                translate_failures(self.title, SECONDS),
                _client(self._endpoint, self._name).stream("GET", url, headers=headers) as answer,
            ):
                yield answer
        except httpx.InvalidURL as error:
            raise Retryable(f"{self.title} named an address that cannot be read.") from error


@dataclass(frozen=True, slots=True)
class Session:
    """Graph in the name of one access token, within one turn."""

    graph: Graph
    token: str = field(repr=False)

    def get(self, path: str) -> GraphResponse:
        return self.graph.ask(self.token, path)

    def download(self, path: str, to: Path, *, size: int | None, signed: str = "") -> int:
        """Download a file into `to`; its size in bytes.

        `size`: the expected size; a shorter download is incomplete. `signed`: the pre-signed URL of the content, if
        Graph has sent it already; saves one request.
        """
        if signed:
            return self.graph.bring(self.graph.signed(signed), {}, to, size)
        return self.graph.bring(self.graph.base + path, _bearer(self.token), to, size)


def refusal(status: int, message: str) -> Skippable:
    """Return the error for a refused item: ItemMissing where Graph says that it does not exist."""
    return (ItemMissing if status in MISSING else Skippable)(message)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _judge(title: str, answer: httpx.Response) -> None:
    """Raise for what means the same at every address: a refused token, a full rate, a service in trouble."""
    if answer.status_code == 401:
        raise Unauthorized
    if error := transient_error(
        title, answer.status_code, answer.headers, passing={423}, busy={509}, busy_if_asked={503}
    ):
        raise error


def _object(title: str, answer: httpx.Response) -> dict[str, Any] | None:
    """The answer's JSON object; None if it is none, or has no end."""
    try:
        body = responses.read_body(answer.iter_bytes(), service=title)
        decoded = msgspec.json.decode(body)
    except (TransientError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


@lru_cache(maxsize=4)
def _client(endpoint: Endpoint | None, name: str) -> httpx.Client:
    """Shared by the threads and steps of a process."""
    headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
    client = sessions.httpx_client(sessions.trusted_certificates(endpoint, name), seconds=SECONDS, headers=headers)
    atexit.register(client.close)
    return client
