"""Jina's Reader on loopback: POST /, by the vendor's reference page and published source."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

from tests.standins.faults import Handler, serving
from tests.standins.scraped import Vendor, about, markdown

API_KEY = "canary-jina-reader-key"


def running(**options: Any) -> AbstractContextManager[Vendor]:
    return serving(Vendor(API_KEY, **options), _Handler)


class _Handler(Handler):
    standin: Vendor

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        body = json.loads(self.read_body())
        self.standin.calls.append(("POST", self.path, body))
        self.standin.headers.append({name.lower(): value for name, value in self.headers.items()})
        fault = self.standin.next_fault()
        if fault is None or not fault(self):
            self._answer(body)

    def _answer(self, body: Any) -> None:
        if self.headers.get("Authorization") != f"Bearer {API_KEY}":
            self.reply(401, {"code": 401, "name": "AuthenticationFailedError", "message": "SECRET VENDOR WORDS"})
            return
        if self.path != "/" or self.headers.get("Accept") != "application/json" or set(body) != {"url"}:
            self.standin.violations.append(f"{self.path} {body}")
        page = self.standin.page(body["url"])
        data = about(page, body["url"])
        if page.status >= 400:
            data["warning"] = f"Target URL returned error {page.status}: SECRET VENDOR WORDS"
        if self.headers.get("X-Return-Format") == "html":
            data["html"] = page.html
        else:
            data["content"] = markdown(page.html) if page.html else "Words of a file."
        self.reply(200, {"code": 200, "status": 20000, "data": data})
