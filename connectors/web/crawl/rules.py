"""Rules of a crawl for hosts and addresses. Depth and number of pages: `website.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from retrieval.errors import Skippable
from retrieval.network.page_identity import ascii_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connectors.web.builtin.robots import Robots

OTHER_HOST = "It lies on another host than the address that was given."
TOO_LONG = "Its address is longer than 2048 bytes."
EXCLUDED = "Its address is excluded by excludePaths."
NOT_INCLUDED = "Its address holds none of includePaths."
# Limit of a database index over addresses.
MAX_URL_BYTES = 2048
ROBOTS = "The site's robots.txt does not let machines fetch it."


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of a crawl; `hosts`: of the start address and its redirect, `robots`: None if robots.txt is ignored."""

    hosts: set[str]
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    robots: Robots | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any], robots: Robots | None) -> Rules:
        """Read the rules from an ingestion's config."""
        include, exclude = (tuple(config.get(name) or ()) for name in ("includePaths", "excludePaths"))
        return cls({host_of(config["url"])}, include, exclude, robots)

    def widen(self, url: str) -> str:
        """Add the host of `url` to the site; return a new host, else ""."""
        name = host_of(url)
        if not name or name in self.hosts:
            return ""
        self.hosts.add(name)
        return name

    def refusal(self, url: str) -> str:
        """Return the reason against an address, without robots.txt; "" if allowed."""
        return OTHER_HOST if host_of(url) not in self.hosts else self._refusal_on_any_host(url)

    def _refusal_on_any_host(self, url: str) -> str:
        if len(url.encode("utf-8", "replace")) > MAX_URL_BYTES:
            return TOO_LONG
        if any(part in url for part in self.exclude):
            return EXCLUDED
        return "" if self.included(url) else NOT_INCLUDED

    def included(self, url: str) -> bool:
        return not self.include or any(part in url for part in self.include)

    def allowed_by_robots(self, url: str) -> bool:
        """Check robots.txt. Retryable while robots.txt is unreadable."""
        return self.robots is None or self.robots.rules(url).allowed(url)

    def check_host(self, url: str) -> None:
        """Check only the host, for a sitemap. Raise Skippable for another host."""
        if host_of(url) not in self.hosts:
            raise Skippable(OTHER_HOST)

    def check(self, url: str) -> None:
        """Check an address or redirect before the request. Raise Skippable with the reason."""
        self._require(self.refusal(url), url)

    def check_start(self, url: str) -> None:
        """Check the start address or a redirect of it, on any host. Raise Skippable with the reason."""
        self._require(self._refusal_on_any_host(url), url)

    def _require(self, reason: str, url: str) -> None:
        # A page that is not included is fetched for its links.
        if reason not in ("", NOT_INCLUDED):
            raise Skippable(reason)
        if not self.allowed_by_robots(url):
            raise Skippable(ROBOTS)


def host_of(url: str) -> str:
    """Return host and port, normalized; "" for an unreadable address."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return ""
    standard = {80, 443}
    name = ascii_host(parts.hostname or "")
    return name if port in standard else f"{name}:{port}"
