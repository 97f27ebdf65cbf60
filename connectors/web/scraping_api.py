"""Client of scraping services: bounded HTTP, retries and errors."""

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
from retrieval.network.transport import Transport
from retrieval.ports import RawContent, ScrapeOptions

if TYPE_CHECKING:
    import httpx

    from retrieval.settings import Settings


ResultT = TypeVar("ResultT")
KEY_FIELD, URL_FIELD = "webScraperConfig.apiKey", "webScraperConfig.url"
# Longest wait of a page for an answer and for the rate limit, each.
PAGE_WAIT_SECONDS = 180.0
MAX_TRIES = 3
# Per process and key; a 429 reports the service's own limit.
REQUESTS_PER_MINUTE, REQUEST_BURST = 600.0, 20
_FILE_SUFFIXES = (
    ".pdf",
    ".doc",
    ".docx",
    ".ppt",
    ".pptx",
    ".xls",
    ".xlsx",
    ".odt",
    ".odp",
    ".ods",
    ".rtf",
    ".epub",
    ".csv",
)
_RETRY_STATUSES = frozenset({408, 421, 425, 429})


@dataclass(frozen=True, slots=True)
class ScrapeResponse:
    """Response of a service, with headers by lower-case name; compatible with responses of SDKs."""

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
        """Parse the content. ValueError for invalid JSON."""
        return json.loads(self.content)


class Service:
    """Scraping service with one key. Thread-safe, with shared pauses."""

    def __init__(
        self,
        name: str,
        title: str,
        base_url: str,
        headers: Mapping[str, str],
        options: Settings,
        *,
        is_own: bool = False,
    ) -> None:
        """Use the endpoint `name` of the settings, or else `base_url`; `is_own`: the user's server at `base_url`,
        reached through the fetch guard."""
        endpoint = None if is_own else options.endpoints.get(name)
        self.title = title
        self.base_url = sessions.base_url(endpoint, base_url)
        self.max_bytes = options.max_file_bytes
        self.guard = fetch_guard.make_guard(options)
        self._bucket = Bucket(REQUESTS_PER_MINUTE, REQUEST_BURST)
        self._throttle = Throttle(options.fetch_host_limit, options.fetch_host_delay)
        self._robots = robots_files.shared_robots() if options.fetch_robots else None
        self._is_own = is_own
        more: dict[str, Any] = {"transport": Transport(self.guard)} if is_own else {}
        self._client = sessions.httpx_client(
            sessions.trusted_certificates(endpoint, name),
            seconds=PAGE_WAIT_SECONDS,
            headers=dict(headers),
            **more,
        )
        self.close = self._client.close

    def __repr__(self) -> str:
        return f"<{self.title}>"

    def ask(self, request: Callable[[], ResultT], tries: int = MAX_TRIES) -> ResultT:
        """Repeat `request` after TransientError up to `tries` times, after RateLimited for PAGE_WAIT_SECONDS."""
        return Retries(self.title, self._bucket, PAGE_WAIT_SECONDS, tries).call(request)

    def turn(self, url: str) -> AbstractContextManager[float]:
        """Wait for the site's Crawl-delay and the limits per host."""
        delay = self._robots.delay(url) if self._robots else 0.0
        return self._throttle.turn(urls.site_of(url), delay)

    def send(self, method: str, url: str, *, seconds: float, **options: Any) -> ScrapeResponse:
        """Send one request. TransientError for a broken connection, Retryable after `seconds`, Skippable for too many
        bytes, Fatal for an invalid endpoint."""
        import httpx

        if self._is_own:
            sessions.require_private_without_tls(self.guard, self.base_url, title="scraping server", field=URL_FIELD)
        try:
            with (
                translate_failures(self.title, seconds),
                self._client.stream(method, url, timeout=seconds, **options) as answer,
            ):
                content = self._read(answer, seconds)
        except Timeout as error:
            raise Retryable(str(error)) from error
        except BlockedAddress as error:
            raise Fatal(str(error), field=URL_FIELD) from error
        except httpx.InvalidURL as error:
            raise Fatal(f"The endpoint of {self.title} cannot be read: check RETRIEVAL_ENDPOINTS.") from error
        headers = {key.lower(): value for key, value in answer.headers.items()}
        return ScrapeResponse(answer.status_code, headers, content)

    def _read(self, answer: httpx.Response, seconds: float) -> bytes:
        body = bytearray()
        for piece in responses.iter_within(answer.iter_bytes(), seconds, self.title):
            body += piece
            if len(body) > 2 * self.max_bytes + 2**20:
                raise too_large(self.max_bytes)
        return bytes(body)

    def refusal(self, status: int, headers: Mapping[str, str]) -> Exception | None:
        """Return the error for a status of the scraping service: refused key, no credit, rate limit, server error."""
        if error := transient_error(self.title, status, headers, passing={421}):
            return error
        if status in _REFUSAL_MESSAGES:
            return Fatal(_REFUSAL_MESSAGES[status].format(title=self.title, field=KEY_FIELD), field=KEY_FIELD)
        return None

    def refuse(self, status: int, headers: Mapping[str, str]) -> None:
        """Raise the error for a status of the scraping service."""
        if error := self.refusal(status, headers):
            raise error

    def unreadable(self) -> TransientError:
        """Return the error for an unreadable answer."""
        return unreadable_answer(self.title)


_REFUSAL_MESSAGES = {
    401: "{title} refuses the key in {field}: check it.",
    402: "The account at {title} has no credit left: add credit, or use another key.",
}


def key_of(config: Mapping[str, Any]) -> str:
    """Return the key of a webScraperConfig without surrounding white space. Fatal for characters that no key has."""
    key = str(config.get("apiKey") or "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise Fatal(f"The key in {KEY_FIELD} holds characters that no such key has: check it.", field=KEY_FIELD)
    return key


def require_allowed(url: str, guard: Guard, options: ScrapeOptions) -> str:
    """Normalize the address. Skippable for an address forbidden to this service."""
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


def site_error(status: int) -> Retryable | Skippable:
    """Return the error for a status of the site, after the scraping service's retries."""
    if status in _RETRY_STATUSES or status >= 500:
        return Retryable(f"The site answers {status}.")
    if status in (404, 410):
        return Skippable(MISSING_PAGE if status == 404 else GONE_PAGE)
    return Skippable(f"The site answers {status}; there is no page to ingest.")


def is_file(url: str) -> bool:
    """Return True for an address of a PDF or Office file, a download in browsers."""
    return urlsplit(url).path.lower().endswith(_FILE_SUFFIXES)


def too_large(max_bytes: int) -> Skippable:
    """Return the error for content above the limit of bytes."""
    return responses.too_large(max_bytes, "The content at the address")


_PROPERTY_LENGTHS = {"title": 300, "description": 300, "language": 35, "canonicalUrl": 2048}


def file_page(data: bytes, name: str, to: Path, max_bytes: int, media_type: str, url: str) -> RawContent:
    """Write content to `to`; `url` is the final address, or "". Skippable without bytes or above `max_bytes`."""
    if not data:
        raise Skippable("The site gave no page.")
    if len(data) > max_bytes:
        raise too_large(max_bytes)
    to.write_bytes(data)
    return RawContent(to, name, media_type, len(data), url=url)


def html_page(made: RawContent, options: ScrapeOptions) -> RawContent:
    """Return the content as a page, parsed like pages of the built-in scraper."""
    return replace(made, page=ScrapeOptions(options.include, options.exclude))


def markdown_page(text: str, name: str, to: Path, max_bytes: int, url: str, metadata: Mapping[str, Any]) -> RawContent:
    """Write Markdown of a page, with metadata by the contract's names. Skippable without text or above `max_bytes`."""
    if not text.strip():
        raise Skippable("The page holds no text, or no element that includeSelectors name.")
    content = file_page(text.encode("utf-8", "replace"), name, to, max_bytes, "text/markdown", url)
    lines = {key: _one_line(metadata.get(key))[:length] for key, length in _PROPERTY_LENGTHS.items()}
    return replace(content, properties={key: line for key, line in lines.items() if line})


def _one_line(value: object) -> str:
    # PostgreSQL refuses NUL and lone surrogates.
    text = value if isinstance(value, str) else ""
    return " ".join(text.replace("\0", "").encode("utf-8", "replace").decode().split())
