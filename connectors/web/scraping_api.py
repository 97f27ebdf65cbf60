"""Shared code of scraping services: one bounded HTTP client per key, retries, errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from connectors.http import responses, sessions
from connectors.http.responses import transient_error, translate_failures, unreadable_answer
from connectors.http.retries import Bucket, Retries, Timeout, TransientError
from connectors.web.builtin import robots as robots_files
from connectors.web.builtin.client import Throttle
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.failure_causes import GONE_PAGE, MISSING_PAGE
from retrieval.network import fetch_guard, urls
from retrieval.network.fetch_guard import BlockedAddress, Guard
from retrieval.ports import RawContent, ScrapeOptions

if TYPE_CHECKING:
    import httpx

    from retrieval.settings import Settings


T = TypeVar("T")
KEY_FIELD = "webScraperConfig.apiKey"
WAITING = 180.0
"""Seconds that one page may wait for its turn in all."""
TRIES = 3
PER_MINUTE, AT_ONCE = 600.0, 20
"""What this process starts at most under one key; the service's own limits are learnt from its 429."""
_FILES = (".pdf", ".doc", ".docx", ".ppt", ".pptx", ".xls", ".xlsx", ".odt", ".odp", ".ods", ".rtf", ".epub", ".csv")
_LATER = frozenset({408, 421, 425, 429})


@dataclass(frozen=True, slots=True)
class ScrapeResponse:
    """A service's answer. `headers` by lower-case name. Its shape is that of the SDK's own answers, too."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def ok(self) -> bool:
        return self.status_code < 400

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """ValueError for what is no JSON."""
        return json.loads(self.content)


class Service:
    """A scraping service under one key. Safe in many threads, which share its pauses."""

    def __init__(self, name: str, title: str, base_url: str, headers: Mapping[str, str], options: Settings) -> None:
        """`name`: of its endpoint in the settings; `base_url`: the service's own, if those name none."""
        endpoint = options.endpoints.get(name)
        self.title = title
        self.base_url = sessions.base_url(endpoint, base_url)
        self.most = options.max_file_bytes
        self.guard = fetch_guard.make_guard(options)
        self._bucket = Bucket(PER_MINUTE, AT_ONCE)
        self._manners = Throttle(options.fetch_host_limit, options.fetch_host_delay)
        self._robots = robots_files.shared_robots() if options.fetch_robots else None
        self._client = sessions.httpx_client(
            sessions.trusted_certificates(endpoint, name), seconds=WAITING, headers=dict(headers)
        )
        self.close = self._client.close

    def __repr__(self) -> str:
        return f"<{self.title}>"

    def ask(self, request: Callable[[], T], tries: int = TRIES) -> T:
        """Repeat `request`, which may raise RateLimited and TransientError, until it succeeds or no try is left."""
        return Retries(self.title, self._bucket, WAITING, tries).call(request)

    def turn(self, url: str) -> AbstractContextManager[float]:
        """Wait for a site's turn: its Crawl-delay and our limits per host apply, whichever service fetches."""
        delay = self._robots.delay(url) if self._robots else 0.0
        return self._manners.turn(urls.site_of(url), delay)

    def send(self, method: str, url: str, *, seconds: float, **given: Any) -> ScrapeResponse:
        """Send one request, whatever the answer. TransientError if it broke off; Retryable after `seconds`."""
        import httpx

        try:
            with (
                translate_failures(self.title, seconds),
                self._client.stream(method, url, timeout=seconds, **given) as got,
            ):
                content = self._read(got, seconds)
        except Timeout as error:
            raise Retryable(str(error)) from error
        except httpx.InvalidURL as error:
            raise Fatal(f"The endpoint of {self.title} cannot be read: check RETRIEVAL_ENDPOINTS.") from error
        return ScrapeResponse(got.status_code, {key.lower(): value for key, value in got.headers.items()}, content)

    def _read(self, answer: httpx.Response, seconds: float) -> bytes:
        body = bytearray()
        for piece in responses.iter_within(answer.iter_bytes(), seconds, self.title):
            body += piece
            if len(body) > 2 * self.most + 2**20:
                raise too_large(self.most)
        return bytes(body)

    def refusal(self, status: int, headers: Mapping[str, str]) -> Exception | None:
        """The error for a status of the scraping service itself: refused key, no credit, rate limit, server error."""
        if error := transient_error(self.title, status, headers, passing={421}):
            return error
        if status in _REFUSALS:
            return Fatal(_REFUSALS[status].format(title=self.title, field=KEY_FIELD), field=KEY_FIELD)
        return None

    def refuse(self, status: int, headers: Mapping[str, str]) -> None:
        """Raise that, if it is a refusal."""
        if error := self.refusal(status, headers):
            raise error

    def unreadable(self) -> TransientError:
        """The answer is not what this service answers with."""
        return unreadable_answer(self.title)


_REFUSALS = {
    401: "{title} refuses the key in {field}: check it.",
    402: "The account at {title} has no credit left: add some there, or use another key.",
}


def key_of(config: Mapping[str, Any]) -> str:
    """Key of a webScraperConfig, without surrounding white space."""
    key = str(config.get("apiKey") or "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise Fatal(f"The key in {KEY_FIELD} holds characters that no such key has: check it.", field=KEY_FIELD)
    return key


def require_allowed(url: str, guard: Guard, options: ScrapeOptions) -> str:
    """Normalize the address. Skippable where we would not fetch ourselves: no service fetches it for us either."""
    try:
        tidy = urls.tidy_url(url)
        guard.check_url(tidy)
    except ValueError as error:
        raise Skippable(f"The address {error}.") from error
    except BlockedAddress as error:
        raise Skippable(str(error)) from error
    if options.check:
        options.check(tidy)
    return tidy


def site_said(status: int) -> Retryable | Skippable:
    """The error for a status of the site itself, as reported by the scraping service, which has retried already."""
    if status in _LATER or status >= 500:
        return Retryable(f"The site answers {status}.")
    if status in (404, 410):
        return Skippable(MISSING_PAGE if status == 404 else GONE_PAGE)
    return Skippable(f"The site answers {status}; there is no page to ingest.")


def is_file(url: str) -> bool:
    """Tell whether the address looks like that of a PDF or an Office file, which browsers only download."""
    return urlsplit(url).path.lower().endswith(_FILES)


def too_large(most: int) -> Skippable:
    """Error for content of more than `most` bytes."""
    return responses.too_large(most, "The content at the address")


_LENGTHS = {"title": 300, "description": 300, "language": 35, "canonicalUrl": 2048}


def file_page(data: bytes, name: str, to: Path, most: int, media_type: str, url: str) -> RawContent:
    """Anything. `most`: bytes that are taken; `url`: where it came from in the end, or ""."""
    if not data:
        raise Skippable("The site gave no page.")
    if len(data) > most:
        raise too_large(most)
    to.write_bytes(data)
    return RawContent(to, name, media_type, len(data), url=url)


def html_page(made: RawContent, options: ScrapeOptions) -> RawContent:
    """Content as a page, parsed like one that this service fetched itself."""
    return replace(made, page=ScrapeOptions(options.include, options.exclude))


def markdown_page(text: str, name: str, to: Path, most: int, url: str, said: Mapping[str, Any]) -> RawContent:
    """Markdown that the service made of the page. `said`: its metadata, by the contract's names."""
    if not text.strip():
        raise Skippable("The page holds no text, or no element that includeSelectors name.")
    content = file_page(text.encode("utf-8", "replace"), name, to, most, "text/markdown", url)
    lines = {key: _one_line(said.get(key))[:length] for key, length in _LENGTHS.items()}
    return replace(content, properties={key: line for key, line in lines.items() if line})


def _one_line(said: object) -> str:
    """Without what a database refuses."""
    text = said if isinstance(said, str) else ""
    return " ".join(text.replace("\0", "").encode("utf-8", "replace").decode().split())
