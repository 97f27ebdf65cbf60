"""Base of the scraping services' stand-ins: web, server, faults, requests."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser

from tests.standins.faults import Fault


@dataclass
class Seen:
    """A page; `final`: redirect target; `data`: a file instead of HTML."""

    html: str = ""
    status: int = 200
    final: str = ""
    data: bytes = b""
    media_type: str = "text/html; charset=utf-8"


@dataclass
class Vendor:
    """A scraping service; `faults`: used once each; `always`: on every request; `asked`: method, path and body."""

    key: str
    web: dict[str, Seen] = field(default_factory=dict)
    port: int = 0
    faults: list[Fault] = field(default_factory=list)
    always: list[Fault] = field(default_factory=list)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def page(self, url: str) -> Seen:
        return self.web.get(url) or Seen("<html><title>Nothing</title><p>Nothing is here.</p></html>", 404)

    def next_fault(self) -> Fault | None:
        with self.lock:
            self.times.append(time.monotonic())
            return self.faults.pop(0) if self.faults else next(iter(self.always), None)


def chosen(page: Seen, include: list[str], exclude: list[str]) -> str:
    """Return the page's HTML after the selectors."""
    tree = LexborHTMLParser(page.html)
    for selector in exclude:
        for node in tree.css(selector):
            node.decompose()
    if include:
        return "".join(node.html or "" for selector in include for node in tree.css(selector))
    return tree.body.html or "" if tree.body else ""


def markdown(html: str) -> str:
    """Good enough: a line for each heading, paragraph and item, with links."""
    tree = LexborHTMLParser(html)
    lines = []
    for node in tree.css("h1, h2, p, li, a"):
        if node.tag == "a":
            lines.append(f"[{node.text().strip()}]({node.attributes.get('href')})")
        else:
            lines.append(("# " if node.tag in ("h1", "h2") else "") + " ".join(node.text().split()))
    return "\n\n".join(lines)


def about(page: Seen, url: str) -> dict[str, Any]:
    """Return title, description and language, as the services do."""
    tree = LexborHTMLParser(page.html)
    title, html = tree.css_first("title"), tree.css_first("html")
    description, robots = tree.css_first("meta[name=description]"), tree.css_first("meta[name=robots]")
    return {
        "title": title.text() if title else "",
        "description": description.attributes.get("content") if description else "",
        "robots": robots.attributes.get("content") if robots else "",
        "language": html.attributes.get("lang") if html else "",
        "url": page.final or url,
    }


def links(page: Seen, url: str) -> list[str]:
    base = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
    hrefs = [node.attributes.get("href") or "" for node in LexborHTMLParser(page.html).css("a")]
    return [base + href if href.startswith("/") else href for href in hrefs]
