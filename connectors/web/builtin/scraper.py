"""Built-in scraper without a key and without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

from connectors.http import html
from connectors.web.builtin import client as clients
from connectors.web.builtin import robots as robots_files
from connectors.web.builtin.client import Fetched, FetchRequest, WebClient
from connectors.web.builtin.robots import Robots
from retrieval.errors import Skippable
from retrieval.ports import RawContent, ScrapeOptions
from retrieval.settings import Settings

# Limit of consecutive redirects by pages.
MAX_LEADS = 5
MAX_LEAD_BYTES = 64 * 1024
_HEAD = 2048
_FILES = ((b"%PDF-", "application/pdf"), (b"PK\x03\x04", ""), (b"\xd0\xcf\x11\xe0", ""), (b"{\\rtf", "application/rtf"))
_UNTOLD = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})


def make(config: Mapping[str, Any], options: Settings) -> Builtin:  # noqa: ARG001 - it has no options of its own
    """Build the scraper with the client of this process."""
    # One client, so that limits per host hold for all namespaces.
    return Builtin(clients.shared_client(), robots_files.shared_robots() if options.fetch_robots else None)


class Builtin:
    """Scraper with this service's client; `robots` is None with robots.txt disabled."""

    def __init__(self, client: WebClient, robots: Robots | None) -> None:
        self._client = client
        self._robots = robots

    def fetch(self, url: str, options: ScrapeOptions, to: Path, *, known_version: str = "") -> RawContent | None:
        """Fetch a page, see the port."""
        # A user chose the URLs of a list: robots.txt does not restrict them, but its Crawl-delay applies.
        delay = self._robots.delay(url) if self._robots else 0.0
        cookies = CookieJar() if options.cookies is None else options.cookies
        request = FetchRequest(condition_headers(known_version), delay=delay, check=options.check, cookies=cookies)
        version_url = version_address(known_version, url) if known_version else ""
        answer = self._get(url, to, request, version_url)
        leads = set[str]()
        while (lead := find_lead(answer, to)) and lead not in leads and len(leads) < MAX_LEADS:
            leads.add(lead)
            lead_file = to.with_name(f"{to.name}-lead")
            try:
                answer = self._get(lead, lead_file, request, version_url)
            except Skippable:  # the page itself is what can be had
                lead_file.unlink(missing_ok=True)
                break
            lead_file.replace(to)
        raw = make_content(answer, url, options, to, known=known_version)
        robots_tag = answer.headers.get("x-robots-tag", "")
        return (
            replace(raw, robots=html.read_robots(robots_tag, self._client.user_agent.partition("/")[0]))
            if raw and robots_tag
            else raw
        )

    def _get(self, url: str, to: Path, request: FetchRequest, version_url: str) -> Fetched:
        """Fetch an address, unconditionally if the known version is of another page."""
        with to.open("w+b") as into:
            answer = self._client.get(url, into, request)
            if answer.status == 304 and answer.url != version_url:
                answer = self._client.get(url, into, replace(request, headers={}))
        return answer

    def check(self) -> None:
        """Accept: the scraper is part of this service."""


def find_lead(found: Fetched, at: Path) -> str:
    """Return the redirect target of a page without content, or ""."""
    if not 0 < found.size <= MAX_LEAD_BYTES or not html.is_html(detect_media_type(at, found.media_type)):
        return ""
    return html.find_lead(html.parse_page(at.read_bytes(), found.media_type), found.url)


def make_content(found: Fetched, url: str, options: ScrapeOptions, at: Path, *, known: str = "") -> RawContent | None:
    """Return the content of the document `url`, or None if unchanged. Skippable for an empty answer."""
    if found.status == 304 and known:
        return None
    if found.size == 0:
        raise Skippable(f"The site answers {found.status} without a page.")
    media_type = detect_media_type(at, found.media_type)
    page = ScrapeOptions(options.include, options.exclude) if html.is_html(media_type) else None
    return RawContent(
        at,
        url,
        media_type,
        found.size,
        version=content_version(found, url),
        page=page,
        url=found.url,
        is_temporary=found.is_temporary,
    )


def detect_media_type(at: Path, named: str) -> str:
    """Return the site's content type, or the type of the bytes in a clear conflict."""
    with at.open("rb") as file:
        head = file.read(_HEAD)
    bare = named.partition(";")[0].strip().lower()
    if html.is_html(bare) or bare in _UNTOLD:
        for start, kind in _FILES:
            if head.startswith(start):
                return kind
    if bare in _UNTOLD and html.looks_like(head):
        return "text/html"
    return named


def content_version(found: Fetched, asked: str) -> str:
    """Return the ETag or modification time, with the redirect target; "" without both."""
    redirect_mark = f"@{found.url}" if found.url != asked else ""
    for kind, header in (("etag", "etag"), ("modified", "last-modified")):
        mark = found.headers.get(header, "")
        if 0 < len(mark) < 500:
            return f"{kind}{redirect_mark} {mark}"
    return ""


def version_address(known: str, asked: str) -> str:
    """Return the final address at which the known version was read; redirects may have changed since."""
    return known.partition(" ")[0].partition("@")[2] or asked


def condition_headers(known: str) -> dict[str, str]:
    """Build the headers of a conditional request."""
    kind, _, mark = known.partition(" ")
    header = {"etag": "If-None-Match", "modified": "If-Modified-Since"}.get(kind.partition("@")[0])
    return {header: mark} if header and mark.isascii() and mark.isprintable() else {}
