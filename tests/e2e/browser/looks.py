"""Look at every page of the admin app: widths, and findings of axe."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.browser.hands import Hands

WRITES = bool(os.environ.get("TOUR_WRITE"))
PAGES = {
    "overview": "Overview",
    "add_content": "Add content",
    "documents": "Documents",
    "runs": "Runs",
    "search": "Search lab",
    "evaluations": "Evaluations",
    "sources": "Sources",
    "namespaces": "Namespaces",
    "connections": "Connections",
    "queue": "Queue and workers",
    "schedules": "Schedules",
    "webhooks": "Webhooks",
    "usage": "Usage",
    "audit": "Audit log",
    "keys": "Keys and limits",
}
# What a page shows of one object or in another tab, by a link on it.
DETAILS = {
    "a document": ("documents", "document={document}"),
    "access of a document": ("documents", "document={document}&tab=Access"),
    "properties of a document": ("documents", "document={document}&tab=Properties"),
    "versions of a document": ("documents", "document={document}&tab=Versions"),
    "edit of a document": ("documents", "document={document}&tab=Edit"),
    "failed documents": ("documents", "status=FAILED"),
    "a run": ("runs", "run={run}"),
    "why not found": ("search", "q=seals&tab=Why+not+found%3F&find=note+07"),
    "an API snippet": ("search", "q=seals&tab=API+snippet"),
    "a question set": ("evaluations", "evaluation={evaluation}"),
    "results of a question set": ("evaluations", "evaluation={evaluation}&tab=Results"),
    "questions of a set": ("evaluations", "evaluation={evaluation}&tab=Questions"),
    "a gate": ("evaluations", "evaluation={evaluation}&tab=Gate"),
    "a new question set": ("evaluations", "new=yes"),
    "a namespace": ("namespaces", "open=yes"),
    "a new namespace": ("namespaces", "new=yes"),
    "a connection with push": ("connections", "connection={connection}"),
    "files of a drive": ("add_content", "source=BOX"),
    "a website": ("add_content", "source=WEBSITE"),
    "usage by namespace": ("usage", "by=namespace"),
    "limits": ("keys", "tab=Limits"),
    "tenants": ("keys", "tab=Tenants"),
}
# Without TOUR_WRITE: the widest in light and the narrowest in dark.
LOOKS = [(width, scheme) for width in (1440, 1024, 390) for scheme in ("light", "dark")]


def look_at_pages(hands: Hands, album: Path) -> list[str]:
    """Open every page in one session; return what is wrong in its widths and for axe."""
    page, wrong = hands.page, list[str]()
    looks = LOOKS if WRITES else [LOOKS[0], LOOKS[-1]]
    for name, title in PAGES.items():
        page.set_viewport_size({"width": 1440, "height": 900})
        hands.go(title)
        if name == "search":
            hands.type("Query", "how long do seals dive", enter=True)
            hands.sees("harbour seal")
        for width, scheme in looks:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            wrong += [f"{name} {width} {scheme}: {fault}" for fault in _find_faults(page)]
            page.screenshot(path=album / f"{name}-{width}-{scheme}.png")
    return wrong


def look_at_details(hands: Hands, service: Any, namespace: str, connection: str) -> list[str]:
    """Open what lies below the pages by its address; return what is wrong for axe."""
    page, wrong = hands.page, list[str]()
    scope = {"namespaceId": namespace}
    listed = service.ok(service.client.post("/v1/documents", json={**scope, "filterConfig": {"text": "report.pdf"}}))
    runs = service.ok(service.client.get("/v1/ingest-job-runs", params=scope))["ingestJobRuns"]
    sets = service.ok(service.client.get("/v1/evaluations", params=scope))["evaluations"]
    ids = {"document": listed["documents"][0]["id"], "run": runs[-1]["id"], "connection": connection}
    ids["evaluation"] = next(item["id"] for item in sets if item["name"] == "Search lab")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    for name, (path, query) in DETAILS.items():
        page.goto(f"{service.info['ui']}/{path}?namespace={namespace}&{query.format(**ids)}")
        expect(page.get_by_role("heading", name=PAGES[path], exact=True, level=1)).to_be_visible()
        wrong += [f"{name}: {fault}" for fault in _find_faults(page)]
    return wrong


def _find_faults(page: Page) -> list[str]:
    """Return the page's width beyond the screen and its violations of axe."""
    page.wait_for_timeout(2000 if WRITES else 800)
    expect(page.get_by_text("encountered an error")).to_have_count(0)
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    page.evaluate(_axe())
    violations: list[str] = page.evaluate(_AXE)
    return ([f"{overflow} pixels too wide"] if overflow > 0 else []) + violations


def _axe() -> str:
    spec = find_spec("axe_playwright_python")
    assert spec, "axe comes with the development packages: run make setup"
    assert spec.origin
    return Path(spec.origin).with_name("axe.min.js").read_text()


_AXE = """async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  return found.violations.flatMap(one => one.nodes.map(
    node => `${one.id} at ${node.target}: ${node.failureSummary.split("\\n").slice(1, 2)}`));
}"""
