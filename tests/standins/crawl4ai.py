"""crawl4ai's server on loopback: `/crawl` of one page, `/health`."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

from tests.standins.faults import Handler, serving
from tests.standins.scraped import Vendor

API_KEY = "canary-crawl4ai-key"


def running() -> AbstractContextManager[Vendor]:
    return serving(Vendor(API_KEY), _Handler)


class _Handler(Handler):
    standin: Vendor

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        self._take(json.loads(self.read_body()))

    def do_GET(self) -> None:  # noqa: N802
        self._take(None)

    def _take(self, body: Any) -> None:
        self.standin.calls.append((self.command, self.path, body))
        self.standin.headers.append({name.lower(): value for name, value in self.headers.items()})
        fault = self.standin.next_fault()
        if fault is not None and fault(self):
            return
        if self.headers.get("Authorization") != f"Bearer {API_KEY}":
            self.reply(401, {"detail": "SECRET VENDOR WORDS"})
            return
        if (self.command, self.path) == ("GET", "/health"):
            self.reply(200, {"status": "ok", "version": "0.7.0"})
        elif (self.command, self.path) == ("POST", "/crawl"):
            self._crawl(body)
        else:
            self.reply(404, {"detail": "Not Found"})

    def _crawl(self, body: dict[str, Any]) -> None:
        if unknown := set(body) - {"urls", "browser_config", "crawler_config"}:
            self.standin.violations.append(f"unknown {sorted(unknown)}")
        url = body["urls"][0]
        page = self.standin.page(url)
        result = {
            "url": url,
            "html": page.html,
            "success": page.status < 400,
            "status_code": page.status,
            "redirected_url": page.final or url,
            "error_message": "" if page.status < 400 else "SECRET VENDOR WORDS",
            "markdown": {"raw_markdown": "another text"},
        }
        self.reply(200, {"success": True, "results": [result], "server_processing_time_s": 0.1})
