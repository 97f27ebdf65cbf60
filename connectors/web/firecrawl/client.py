"""Firecrawl's API through the SDK, with responses reduced to known fields."""
# The SDK's sender retries, honours proxy variables and .netrc, and logs; defaults skip TLS checks and cache pages.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlsplit

from connectors.web.scraping_api import MAX_TRIES, ScrapeResponse, Service, site_error
from retrieval.errors import Retryable, Skippable

if TYPE_CHECKING:
    from firecrawl.v2.types import CrawlErrorsResponse, CrawlJob, Document  # type: ignore[import-untyped]

    from retrieval.ports import ScrapeOptions
    from retrieval.settings import Settings


_READ: Final = ("title", "description", "language", "robots", "url", "sourceURL", "canonical")
_STATES: Final = ("scraping", "completed", "failed", "cancelled")


class SanitizedResponse(ScrapeResponse):
    """Response reduced to known fields; an unknown value breaks the SDK's parser."""

    def json(self) -> Any:
        body = super().json()
        if not isinstance(body, dict):
            return body
        if isinstance(pages := body.get("data"), list):
            fields = {name: body[name] for name in ("success", "error") if name in body}
            following = body.get("next")
            status = body.get("status")
            return fields | {
                "status": status if status in _STATES else "scraping",
                "next": following if isinstance(following, str) else None,
                "data": [_page(page) for page in pages if isinstance(page, dict)],
            }
        if isinstance(body.get("errors"), list):
            blocked = body.get("robotsBlocked")
            return {
                "errors": [_error(error) for error in body["errors"] if isinstance(error, dict)],
                "robotsBlocked": [error for error in blocked if isinstance(error, str)]
                if isinstance(blocked, list)
                else [],
            }
        page = body.get("data")
        return body | {"data": _page(page)} if isinstance(page, dict) and "metadata" in page else body


def _page(page: dict[str, Any]) -> dict[str, Any]:
    raw_metadata = page.get("metadata")
    page_metadata = raw_metadata if isinstance(raw_metadata, dict) else {}
    metadata: dict[str, Any] = {name: value for name in _READ if isinstance(value := page_metadata.get(name), str)}
    if isinstance(page_metadata.get("statusCode"), int):
        metadata["statusCode"] = page_metadata["statusCode"]
    text, links = page.get("markdown"), page.get("links")
    return {
        "metadata": metadata,
        "markdown": text if isinstance(text, str) else None,
        "links": [link for link in links if isinstance(link, str)] if isinstance(links, list) else None,
    }


def _error(answer: dict[str, Any]) -> dict[str, Any]:
    url, code = answer.get("url"), answer.get("code")
    fields = {"url": url if isinstance(url, str) else "", "code": code if isinstance(code, str) else None}
    return fields | {"id": "", "error": ""}


ResultT = TypeVar("ResultT")
FIRECRAWL_TITLE: Final = "Firecrawl"
BASE_URL: Final = "https://api.firecrawl.dev"
# Time limit of Firecrawl for a page.
PAGE_SECONDS: Final = 60
# Messages by Firecrawl's error codes.
_REASONS: Final = {
    "SCRAPE_DNS_RESOLUTION_ERROR": "The host name of the address cannot be resolved.",
    "SCRAPE_SSL_ERROR": "The site's certificate is not valid.",
    "SCRAPE_TIMEOUT": "The site did not answer Firecrawl in time.",
    "SCRAPE_UNSUPPORTED_FILE_ERROR": "Firecrawl reads no files of this kind.",
    "SCRAPE_SITE_ERROR": "The site did not let Firecrawl open the page.",
}
_UNREAD: Final = "Firecrawl could not read the page."


class NoCrawl(Skippable):
    """Unknown or expired crawl."""


class FirecrawlSession:
    """Calls with one key; thread-safe."""

    def __init__(self, key: str, options: Settings, service: Service | None = None) -> None:
        headers = {"Accept": "application/json", "Authorization": f"Bearer {key}"}
        self.service = service or Service("FIRECRAWL", FIRECRAWL_TITLE, BASE_URL, headers, options)
        self._key = key

    def scrape(self, url: str, options: ScrapeOptions) -> Document:
        """Scrape a page. Skippable or Retryable for an error of the site."""
        page_options = self._page_options(options)
        return self._call(lambda sdk: _given(sdk.scrape(url, auto_resume=False, **page_options)))

    def start(self, url: str, options: ScrapeOptions, **limits: Any) -> str:
        """Start a crawl and return the id."""
        # No retry: a second crawl costs again.
        from firecrawl.v2.types import ScrapeOptions as Wanted

        page_options = Wanted(**self._page_options(options, links=True))
        crawl: str = self._call(lambda sdk: sdk.start_crawl(url, scrape_options=page_options, **limits), tries=1).id
        return crawl

    def pages(self, crawl: str, following: str = "") -> CrawlJob:
        """Return the status and pages of a crawl; `following` is the previous `next`. NoCrawl if unknown or expired."""
        from firecrawl.v2.types import PaginationConfig

        if following:
            return self._call(lambda sdk: sdk.get_crawl_status_page(following), NoCrawl)
        single_page = PaginationConfig(auto_paginate=False)
        return self._call(lambda sdk: sdk.get_crawl_status(quote(crawl, safe=""), single_page), NoCrawl)

    def errors(self, crawl: str) -> CrawlErrorsResponse:
        """Return the unreadable and forbidden pages of a crawl. NoCrawl if unknown or expired."""
        return self._call(lambda sdk: sdk.get_crawl_errors(quote(crawl, safe="")), NoCrawl)

    def cancel(self, crawl: str) -> None:
        """Cancel a crawl. NoCrawl if unknown or expired."""
        self._call(lambda sdk: sdk.cancel_crawl(quote(crawl, safe="")), NoCrawl)

    def credit(self) -> int:
        return int(self._call(lambda sdk: sdk.get_credit_usage()).remaining_credits)

    def _page_options(self, options: ScrapeOptions, *, links: bool = False) -> dict[str, Any]:
        formats = [{"type": "markdown"}, *([{"type": "links"}] if links else [])]
        return {
            "formats": formats,
            "include_tags": list(options.include) or None,
            "exclude_tags": list(options.exclude) or None,
            "only_main_content": not options.include,
            "skip_tls_verification": False,
            "max_age": 0,
            "store_in_cache": False,
            "timeout": PAGE_SECONDS * 1000,
        }

    def _call(
        self, request: Callable[[Any], ResultT], missing: type[Skippable] = Skippable, tries: int = MAX_TRIES
    ) -> ResultT:
        def once() -> ResultT:
            with self._explained(missing):
                return request(self._sdk)

        return self.service.ask(once, tries)

    @cached_property
    def _sdk(self) -> Any:
        from firecrawl.v2 import FirecrawlClient  # type: ignore[import-untyped]

        # A server of one's own may need no key, the SDK does; `_Sender` sends the headers of the service.
        sdk = FirecrawlClient(api_key=self._key or "none", api_url=self.service.base_url, max_retries=1)
        sdk.http_client = _Sender(self.service)
        return sdk

    @contextmanager
    def _explained(self, missing: type[Skippable]) -> Iterator[None]:
        """Translate errors of the SDK."""
        # Messages of the SDK may contain content of others.
        from firecrawl.v2.utils.error_handler import FirecrawlError  # type: ignore[import-untyped]

        try:
            yield
        except FirecrawlError as error:
            if error.status_code == 404 and missing is NoCrawl:
                raise NoCrawl(f"{FIRECRAWL_TITLE} no longer knows the crawl: ingest again.") from None
            raise self._meant(error.status_code or 0, str(error.code or ""), error.response) from None
        except (ValueError, TypeError, AttributeError, LookupError):
            raise self.service.unreadable() from None

    def _meant(self, status: int, code: str, response: Any) -> Exception:
        if code in _REASONS or code.startswith("SCRAPE_"):
            return Skippable(failure_reason(code))
        if status == 408:
            return Retryable(_REASONS["SCRAPE_TIMEOUT"])
        headers = response.headers if response is not None else {}
        return self.service.refusal(status, headers) or Skippable(_UNREAD)


def _given(page: Document) -> Document:
    status = page.metadata_typed.status_code
    if status and status >= 400:
        raise site_error(status)
    return page


def failure_reason(code: str | None) -> str:
    """Return the message for Firecrawl's error code."""
    return _REASONS.get(code or "", _UNREAD)


class _Sender:
    """Sender for the SDK, without retries."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def post(self, endpoint: str, data: Mapping[str, Any], **_own: Any) -> ScrapeResponse:
        return self._send("POST", endpoint, json={**data, "origin": "api"})

    def get(self, endpoint: str, **_own: Any) -> ScrapeResponse:
        return self._send("GET", endpoint)

    def delete(self, endpoint: str, **_own: Any) -> ScrapeResponse:
        return self._send("DELETE", endpoint)

    def _send(self, method: str, endpoint: str, **body: Any) -> ScrapeResponse:
        url = pinned_url(self._service.base_url, endpoint)
        answer = self._service.send(method, url, seconds=PAGE_SECONDS + 30, **body)
        return SanitizedResponse(answer.status_code, answer.headers, answer.content)


def pinned_url(base_url: str, endpoint: str) -> str:
    """Build the URL of an endpoint or `next` link below the base URL. ValueError for an invalid link."""
    # The key is sent along: a link decides the path and the query, never the host.
    parts = urlsplit(endpoint)
    path = parts.path.removeprefix(urlsplit(base_url).path) if parts.netloc else parts.path
    return f"{base_url}/{path.lstrip('/')}" + (f"?{parts.query}" if parts.query else "")
