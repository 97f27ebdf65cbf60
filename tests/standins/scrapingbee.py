"""ScrapingBee's HTML API on loopback: GET / and GET /usage, by the vendor's documentation."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.standins.faults import Handler, serving
from tests.standins.scraped import Seen, Vendor

API_KEY = "canary-scrapingbee-key"
PARAMETERS = {"api_key", "url", "render_js"}


def running(**options: Any) -> AbstractContextManager[Vendor]:
    return serving(Vendor(API_KEY, **options), _Handler)


class _Handler(Handler):
    standin: Vendor

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.standin.calls.append(("GET", parts.path, query))
        self.standin.headers.append({name.lower(): value for name, value in self.headers.items()})
        fault = self.standin.next_fault()
        if fault is None or not fault(self):
            self._answer(parts.path, query)

    def _answer(self, path: str, query: dict[str, str]) -> None:
        if query.get("api_key") != API_KEY:
            self.reply(401, {"message": f"Invalid api key: {query.get('api_key')} SECRET VENDOR WORDS"})
        elif path == "/usage":
            self.reply(200, {"max_api_credit": 1000, "used_api_credit": 10, "max_concurrency": 5})
        elif path != "/" or set(query) != PARAMETERS:
            self.standin.violations.append(f"{path} {sorted(query)}")
            self.reply(400, {"errors": [{"params": ["Unknown field."]}]})
        else:
            self._page(self.standin.page(query["url"]), query)

    def _page(self, page: Seen, query: dict[str, str]) -> None:
        headers = {
            "Content-Type": page.media_type,
            "Spb-content-type": page.media_type,
            "Spb-cost": "5" if query["render_js"] == "true" else "1",
            "Spb-initial-status-code": str(page.status),
            "Spb-resolved-url": page.final or query["url"],
        }
        if page.data and query["render_js"] == "true":
            self.standin.violations.append("a file was asked for in a browser")
        if page.status == 404:
            self.reply(404, page.html.encode(), headers)
        elif page.status >= 300:
            words = {"error": "Server responded with SECRET VENDOR WORDS", "reason": "Server responded"}
            self.reply(500, words, headers | {"Content-Type": "application/json"})
        else:
            self.reply(200, page.data or page.html.encode(), headers)
