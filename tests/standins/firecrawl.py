"""Firecrawl's API v2 on loopback: scrape, crawl pages, errors, cancellation, credit."""
# A crawl follows the links of the stand-in's web breadth first and completes `step` pages per status request.

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

API_KEY = "canary-firecrawl-key"
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
    """A crawl: `found` pages in order, `shown` completed pages."""

    id: str
    given: dict[str, Any]
    found: list[str]
    shown: int = 0
    ended: str = ""


@dataclass
class Firecrawl(Vendor):
    """A Firecrawl server."""

    # `step`: pages completed between two status requests; `obedient`: keeps limits; `endless`: never completes;
    # `broken`: address to code; `blocked`: by robots.txt; `credits`: remaining; `most`: pages per answer.

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
        return sum(1 for method, path, _ in self.calls if (method, path) == ("POST", "/v2/crawl"))


def running(**options: Any) -> AbstractContextManager[Firecrawl]:
    return serving(Firecrawl(API_KEY, **options), _Handler)


class _Handler(Handler):
    standin: Firecrawl

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        self._take(json.loads(self.read_body()))

    def do_GET(self) -> None:  # noqa: N802
        self._take(None)

    def do_DELETE(self) -> None:  # noqa: N802
        self._take(None)

    def _take(self, body: Any) -> None:
        parts = urlsplit(self.path)
        self.standin.calls.append((self.command, parts.path, body))
        self.standin.headers.append({name.lower(): value for name, value in self.headers.items()})
        fault = self.standin.next_fault()
        if fault is not None and fault(self):
            return
        if self.headers.get("Authorization") != f"Bearer {API_KEY}":
            self._refuse(401, "Unauthorized: SECRET VENDOR WORDS")
        elif self.standin.credits <= 0 and self.command == "POST":
            self._refuse(402, "Payment required: SECRET VENDOR WORDS")
        else:
            with self.standin.lock:
                self._route(parts.path, parse_qs(parts.query), body)

    def _route(self, path: str, query: dict[str, list[str]], body: Any) -> None:
        crawl = self.standin.crawls.get((re.match(r"/v2/crawl/([^/]+)", path) or ["", ""])[1])
        if (self.command, path) == ("POST", "/v2/scrape"):
            self._scrape(body)
        elif (self.command, path) == ("POST", "/v2/crawl"):
            self._start(body)
        elif (self.command, path) == ("GET", "/v2/team/credit-usage"):
            self.reply(200, {"success": True, "data": {"remainingCredits": self.standin.credits}})
        elif crawl is None:
            self._refuse(404, "Job not found SECRET VENDOR WORDS")
        elif self.command == "DELETE":
            crawl.ended = crawl.ended or "cancelled"
            self.standin.given_up.append(crawl.id)
            self.reply(200, {"status": "cancelled"})
        elif path.endswith("/errors"):
            self._errors()
        else:
            self._status(crawl, int((query.get("skip") or ["0"])[0]))

    def _scrape(self, body: Any) -> None:
        self._judge(body, PAGE | {"url", "origin"})
        if code := self.standin.broken.get(body["url"]):
            self.reply(500, {"success": False, "code": code, "error": "SECRET VENDOR WORDS"})
            return
        page = self.standin.page(body["url"])
        self.reply(200, {"success": True, "data": self._document(page, body["url"], body)})

    def _start(self, body: Any) -> None:
        self._judge(body, CRAWL)
        self._judge(body["scrapeOptions"], PAGE)
        crawl = Crawl(f"crawl-{len(self.standin.crawls) + 1}", body, self._walk(body))
        self.standin.crawls[crawl.id] = crawl
        self.reply(200, {"success": True, "id": crawl.id, "url": f"https://api.firecrawl.dev/v2/crawl/{crawl.id}"})

    def _judge(self, body: dict[str, Any], allowed: set[str]) -> None:
        options = body.get("scrapeOptions", body)
        unsafe = options.get("skipTlsVerification") is not False or options.get("maxAge") != 0
        plain_formats = [entry for entry in options.get("formats", []) if not isinstance(entry, dict)]
        if set(body) - allowed or unsafe or plain_formats:
            self.standin.violations.append(
                f"unknown {sorted(set(body) - allowed)}, unsafe {unsafe}, formats {plain_formats}"
            )

    def _walk(self, crawl_request: dict[str, Any]) -> list[str]:
        if not self.standin.obedient:
            return list(self.standin.web)
        start, host = crawl_request["url"], urlsplit(crawl_request["url"]).netloc
        depths, queue = {start: 0}, [start]
        for url in queue:
            for link in links(self.standin.page(url), url):
                bare = link.partition("#")[0]
                deeper = depths[url] + 1 <= crawl_request["maxDiscoveryDepth"] and url not in self.standin.blocked
                if (
                    deeper
                    and bare not in depths
                    and urlsplit(bare).netloc == host
                    and self._matches(bare, crawl_request)
                ):
                    depths[bare] = depths[url] + 1
                    queue.append(bare)
        return [url for url in queue if url not in self.standin.blocked][: crawl_request["limit"]]

    @staticmethod
    def _matches(url: str, crawl_request: dict[str, Any]) -> bool:
        includes, excludes = crawl_request.get("includePaths") or [], crawl_request.get("excludePaths") or []
        return (not includes or any(re.search(pattern, url) for pattern in includes)) and not any(
            re.search(o, url) for o in excludes
        )

    def _status(self, crawl: Crawl, skip: int) -> None:
        standin = self.standin
        if not crawl.ended:
            crawl.shown = min(crawl.shown + standin.step, len(crawl.found))
            if crawl.shown == len(crawl.found) and not standin.endless:
                crawl.ended = "completed"
        urls = [url for url in crawl.found[: crawl.shown] if url not in standin.broken]
        data = [
            self._document(standin.page(url), url, crawl.given["scrapeOptions"]) for url in urls[skip:][: standin.most]
        ]
        next_skip = skip + len(data)
        answer = {
            "success": True,
            "status": crawl.ended or "scraping",
            "total": len(crawl.found),
            "completed": crawl.shown,
            "creditsUsed": crawl.shown,
            "expiresAt": "2030-01-01T00:00:00.000Z",
            "data": data,
        }
        if not crawl.ended or next_skip < len(urls):
            answer["next"] = f"https://api.firecrawl.dev/v2/crawl/{crawl.id}?skip={next_skip}"
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
            for url, code in self.standin.broken.items()
        ]
        self.reply(200, {"errors": errors, "robotsBlocked": self.standin.blocked})

    @staticmethod
    def _document(page: Seen, url: str, options: dict[str, Any]) -> dict[str, Any]:
        content = chosen(page, options.get("includeTags") or [], options.get("excludeTags") or [])
        metadata = about(page, url) | {"sourceURL": url, "statusCode": page.status, "proxyUsed": "a new word"}
        formats = {entry["type"] for entry in options["formats"]}
        fields = {"markdown": markdown(content), "links": links(page, url)}
        return {name: value for name, value in fields.items() if name in formats} | {"metadata": metadata}

    def _refuse(self, status: int, error: str) -> None:
        self.reply(status, {"success": False, "error": error})
