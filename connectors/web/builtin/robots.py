"""Rules and delays of robots.txt (RFC 9309)."""

from __future__ import annotations

import io
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from connectors.charsets import decoding
from connectors.web.builtin import client as clients
from connectors.web.builtin.client import Bounds, FetchRequest, WebClient
from retrieval.errors import Retryable, Skippable, StepError
from retrieval.network import urls

if TYPE_CHECKING:
    from protego import Protego

# The RFC requires at least the first 500 KiB.
BOUNDS = Bounds(bytes=512 * 1024, seconds=20)
KEPT_SECONDS = 3600.0
FAILURE_SECONDS = 60.0
LONGEST_DELAY = 30.0
_SITES = 1000


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """Rules of a site; `delay` is at most 30 seconds."""

    name: str
    parsed: Protego | None = None
    delay: float = 0.0
    sitemaps: tuple[str, ...] = ()

    def allowed(self, url: str) -> bool:
        return self.parsed is None or self.parsed.can_fetch(url, self.name)


@dataclass
class _Site:
    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = 0.0
    known: RobotsRules | Retryable | None = None


class Robots:
    """Thread-safe cache of rules per site, for an hour; of failures for a minute."""

    def __init__(self, client: WebClient) -> None:
        self._client = client
        self._name = client.user_agent.partition("/")[0].strip()
        self._sites: OrderedDict[str, _Site] = OrderedDict()
        self._lock = threading.Lock()

    def rules(self, url: str) -> RobotsRules:
        """Return the rules of a site. Retryable while robots.txt cannot be fetched: no page is fetched then."""
        try:
            parts = urlsplit(url)
        except ValueError:  # no page can be fetched from there either
            return RobotsRules(self._name)
        origin = f"{parts.scheme}://{parts.netloc}"
        site = self._site(f"{parts.scheme}://{urls.site_of(url)}")
        with site.lock:
            if site.known is None or time.monotonic() > site.until:
                site.known = self._fetch_rules(origin)
                lifetime = FAILURE_SECONDS if isinstance(site.known, Retryable) else KEPT_SECONDS
                site.until = time.monotonic() + lifetime
            if isinstance(site.known, Retryable):
                raise Retryable(f"The site's robots.txt cannot be read: {site.known}", after=site.known.after)
            return site.known

    def delay(self, url: str) -> float:
        """Return the site's seconds between requests; 0 if unknown."""
        try:
            return self.rules(url).delay
        except (StepError, ValueError):
            return 0.0

    def _fetch_rules(self, origin: str) -> RobotsRules | Retryable:
        into = io.BytesIO()
        request = FetchRequest(headers={"Accept": "text/plain,*/*;q=0.5"}, bounds=BOUNDS, cut=True)
        try:
            answer = self._client.get(f"{origin}/robots.txt", into, request)
        except Skippable:  # there is none: 4xx, or an address that no page can be fetched from either
            return RobotsRules(self._name)
        except Retryable as error:  # 5xx, 429 or no answer
            return error
        return parse_rules(into.getvalue(), self._name, answer.media_type)

    def _site(self, origin: str) -> _Site:
        with self._lock:
            site = self._sites.pop(origin, None) or _Site()
            self._sites[origin] = site
            while len(self._sites) > _SITES:
                self._sites.popitem(last=False)
            return site


def parse_rules(data: bytes, name: str, media_type: str = "") -> RobotsRules:
    """Parse the rules of the crawler `name`; `media_type` may contain a charset."""
    from protego import Protego

    parsed = Protego.parse(decoding.decode_text(data, decoding.read_charset(media_type)))
    crawl_delay = parsed.crawl_delay(name) or 0.0
    rate = parsed.request_rate(name)
    if rate is not None and rate.requests > 0:
        crawl_delay = max(crawl_delay, rate.seconds / rate.requests)
    delay = min(crawl_delay, LONGEST_DELAY) if crawl_delay > 0 else 0.0
    return RobotsRules(name, parsed, delay, tuple(parsed.sitemaps))


@lru_cache(maxsize=1)
def shared_robots() -> Robots:
    """Return the cache of this process."""
    return Robots(clients.shared_client())
