"""Firecrawl's API v2 on loopback: scrape, crawl with its pages, errors and end, credit; by the vendor's reference.

A crawl walks the stand-in's web by its links, breadth first, and shows `step` more of its pages with each look at it.
"""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.standins.faults import Handler, serving
from tests.standins.scraped import Seen, Vendor, about, chosen, links, markdown

KEY = "canary-firecrawl-key"
PAGE = {
    *("formats", "includeTags", "excludeTags", "onlyMainContent", "mobile", "skipTlsVerification", "timeout"),
    *("removeBase64Images", "fastMode", "blockAds", "maxAge", "storeInCache"),
}
CRAWL = {
    *("url", "origin", "scrapeOptions", "includePaths", "excludePaths", "maxDiscoveryDepth", "sitemap", "limit"),
    *("ignoreQueryParameters", "crawlEntireDomain", "allowExternalLinks", "allowSubdomains", "ignoreRobotsTxt"),
    *("regexOnFullURL", "deduplicateSimilarURLs", "zeroDataRetention"),
}


@dataclass
class Crawl:
    """`found`: its pages in order; `shown`: how many of them are done."""

    id: str
    given: dict[str, Any]
    found: list[str]
    shown: int = 0
    ended: str = ""


@dataclass
class Firecrawl(Vendor):
    """`step`: pages that get done between two looks; `obedient`: whether limits are kept; `endless`: never completed.

    `broken`: address to code; `blocked`: by robots.txt; `credits`: what is left; `most`: pages in one answer.
    """

    step: int = 2
    most: int = 2
    obedient: bool = True
    endless: bool = False
    broken: dict[str, str] = field(default_factory=dict)
    blocked: list[str] = field(default_factory=list)
    credits: int = 500
    crawls: dict[str, Crawl] = field(default_factory=dict)
    given_up: list[str] = field(default_factory=list)

    def starts(self) -> int:
        return sum(1 for method, path, _ in self.asked if (method, path) == ("POST", "/v2/crawl"))


def running(**options: Any) -> AbstractContextManager[Firecrawl]:
    return serving(Firecrawl(KEY, **options), _Handler)


class _Handler(Handler):
    place: Firecrawl

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        self._take(json.loads(self.read_body()))

    def do_GET(self) -> None:  # noqa: N802
        self._take(None)

    def do_DELETE(self) -> None:  # noqa: N802
        self._take(None)

    def _take(self, body: Any) -> None:
        parts = urlsplit(self.path)
        self.place.asked.append((self.command, parts.path, body))
        self.place.headers.append({name.lower(): value for name, value in self.headers.items()})
        fault = self.place.next_fault()
        if fault is not None and fault(self):
            return
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            self._refuse(401, "Unauthorized: SECRET VENDOR WORDS")
        elif self.place.credits <= 0 and self.command == "POST":
            self._refuse(402, "Payment required: SECRET VENDOR WORDS")
        else:
            with self.place.lock:
                self._route(parts.path, parse_qs(parts.query), body)

    def _route(self, path: str, query: dict[str, list[str]], body: Any) -> None:
        crawl = self.place.crawls.get((re.match(r"/v2/crawl/([^/]+)", path) or ["", ""])[1])
        if (self.command, path) == ("POST", "/v2/scrape"):
            self._scrape(body)
        elif (self.command, path) == ("POST", "/v2/crawl"):
            self._start(body)
        elif (self.command, path) == ("GET", "/v2/team/credit-usage"):
            self.reply(200, {"success": True, "data": {"remainingCredits": self.place.credits}})
        elif crawl is None:
            self._refuse(404, "Job not found SECRET VENDOR WORDS")
        elif self.command == "DELETE":
            crawl.ended = crawl.ended or "cancelled"
            self.place.given_up.append(crawl.id)
            self.reply(200, {"status": "cancelled"})
        elif path.endswith("/errors"):
            self._errors()
        else:
            self._status(crawl, int((query.get("skip") or ["0"])[0]))

    def _scrape(self, body: Any) -> None:
        self._judge(body, PAGE | {"url", "origin"})
        if code := self.place.broken.get(body["url"]):
            self.reply(500, {"success": False, "code": code, "error": "SECRET VENDOR WORDS"})
            return
        page = self.place.page(body["url"])
        self.reply(200, {"success": True, "data": self._document(page, body["url"], body)})

    def _start(self, body: Any) -> None:
        self._judge(body, CRAWL)
        self._judge(body["scrapeOptions"], PAGE)
        crawl = Crawl(f"crawl-{len(self.place.crawls) + 1}", body, self._walk(body))
        self.place.crawls[crawl.id] = crawl
        self.reply(200, {"success": True, "id": crawl.id, "url": f"https://api.firecrawl.dev/v2/crawl/{crawl.id}"})

    def _judge(self, body: dict[str, Any], known: set[str]) -> None:
        options = body.get("scrapeOptions", body)
        unsafe = options.get("skipTlsVerification") is not False or options.get("maxAge") != 0
        named = [entry for entry in options.get("formats", []) if not isinstance(entry, dict)]
        if set(body) - known or unsafe or named:
            self.place.violations.append(f"unknown {sorted(set(body) - known)}, unsafe {unsafe}, formats {named}")

    def _walk(self, given: dict[str, Any]) -> list[str]:
        if not self.place.obedient:
            return list(self.place.web)
        start, host = given["url"], urlsplit(given["url"]).netloc
        found, queue = {start: 0}, [start]
        for url in queue:
            for link in links(self.place.page(url), url):
                bare = link.partition("#")[0]
                deeper = found[url] + 1 <= given["maxDiscoveryDepth"] and url not in self.place.blocked
                if deeper and bare not in found and urlsplit(bare).netloc == host and self._matches(bare, given):
                    found[bare] = found[url] + 1
                    queue.append(bare)
        return [url for url in queue if url not in self.place.blocked][: given["limit"]]

    @staticmethod
    def _matches(url: str, given: dict[str, Any]) -> bool:
        wanted, left = given.get("includePaths") or [], given.get("excludePaths") or []
        return (not wanted or any(re.search(one, url) for one in wanted)) and not any(re.search(o, url) for o in left)

    def _status(self, crawl: Crawl, skip: int) -> None:
        place = self.place
        if not crawl.ended:
            crawl.shown = min(crawl.shown + place.step, len(crawl.found))
            if crawl.shown == len(crawl.found) and not place.endless:
                crawl.ended = "completed"
        urls = [url for url in crawl.found[: crawl.shown] if url not in place.broken]
        data = [self._document(place.page(url), url, crawl.given["scrapeOptions"]) for url in urls[skip:][: place.most]]
        after = skip + len(data)
        answer = {
            "success": True,
            "status": crawl.ended or "scraping",
            "total": len(crawl.found),
            "completed": crawl.shown,
            "creditsUsed": crawl.shown,
            "expiresAt": "2030-01-01T00:00:00.000Z",
            "data": data,
        }
        if not crawl.ended or after < len(urls):
            answer["next"] = f"https://api.firecrawl.dev/v2/crawl/{crawl.id}?skip={after}"
        self.reply(200, answer)

    def _errors(self) -> None:
        numbers = count()
        errors = [
            {
                "id": f"error-{next(numbers)}",
                "timestamp": "2026-01-01T00:00:00.000Z",
                "url": url,
                "code": code,
                "error": "SECRET VENDOR WORDS",
            }
            for url, code in self.place.broken.items()
        ]
        self.reply(200, {"errors": errors, "robotsBlocked": self.place.blocked})

    @staticmethod
    def _document(page: Seen, url: str, options: dict[str, Any]) -> dict[str, Any]:
        kept = chosen(page, options.get("includeTags") or [], options.get("excludeTags") or [])
        said = about(page, url) | {"sourceURL": url, "statusCode": page.status, "proxyUsed": "a new word"}
        wanted = {entry["type"] for entry in options["formats"]}
        made = {"markdown": markdown(kept), "links": links(page, url)}
        return {name: value for name, value in made.items() if name in wanted} | {"metadata": said}

    def _refuse(self, status: int, error: str) -> None:
        self.reply(status, {"success": False, "error": error})
