"""Pictures of every page of the admin app, at double size, with the content of the demo.

    make pictures

Starts an instance of its own, ingests `local/corpus`, and writes docs/pictures/app/*.webp and, for README,
docs/pictures/search.webp. Needs Chromium. PAGES names some of the pages, as in `PAGES="overview search" make pictures`.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
if str(PROJECT) not in sys.path:
    sys.path.insert(0, str(PROJECT))

from PIL import Image  # noqa: E402
from playwright.sync_api import Page, expect, sync_playwright  # noqa: E402

from local.scratch import ScratchInstance, create_namespace, start_scratch  # noqa: E402
from retrieval.settings import load_settings  # noqa: E402
from retrieval_client.bodies import CreateConnection, Question, SourceIngestion  # noqa: E402

FOLDER = PROJECT / "docs" / "pictures" / "app"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUESTIONS = {
    "Who took delivery of the outdoor units?": "delivery-note-scan.pdf",
    "What does error E17 mean?": "heat-pump-manual.pdf",
    "May I return a unit that was installed?": "warranty.html",
}
ADDRESSES = {"search": "&q=Who+took+delivery+of+the+outdoor+units%3F"}
"""Parameters of a page's address besides the namespace."""
README_CLIP = {"x": 350, "y": 70, "width": 1040, "height": 1030}
"""README's part of the search lab, with one column of results."""
CORPUS = PROJECT / "local" / "corpus"
SECONDS = 120


def main() -> int:
    if CHROMIUM is None:
        print("No Chromium on this machine: apt-get install chromium", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.environ["RETRIEVAL_SOURCE_FOLDERS"] = str(CORPUS)
    with start_scratch(load_settings().home.resolve() / "pictures") as scratch:
        namespace = fill(scratch)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1440, "height": 900}, device_scale_factor=2)
            page.set_default_timeout(1000 * SECONDS)
            expect.set_options(timeout=1000 * SECONDS)
            sign_in(page, scratch)
            names = sorted(view.stem for view in (PROJECT / "ui" / "views").glob("[!_]*.py"))
            for name in os.environ.get("PAGES", "").split() or names:
                path = "" if name == "overview" else name
                address = f"{scratch.service['ui']}/{path}?namespace={namespace}{ADDRESSES.get(name, '')}"
                photograph(page, address, FOLDER / f"{name}.webp")
                if name == "search":
                    page.set_viewport_size({"width": 1440, "height": 1120})
                    photograph(page, f"{address}&columns=hybrid", FOLDER.parent / "search.webp", README_CLIP)
                    page.set_viewport_size({"width": 1440, "height": 900})
            browser.close()
    return 0


def fill(scratch: ScratchInstance) -> str:
    """Ingest the demo's files and judged questions into a new, only namespace."""
    with scratch.connect() as client:
        namespace = create_namespace(client, "Fjordline Home")
        client.namespaces.delete(scratch.service["namespaceId"])
        scratch.run_command("ingest", str(CORPUS), "--ocr", "--namespace", namespace)
        ids = {Path(document.name or "").name: document.id for document in client.documents.list(namespace)}
        judged: list[Question] = [
            {"query": text, "relevant": [{"documentId": ids[name]}]} for text, name in QUESTIONS.items()
        ]
        client.api.create_evaluation({"namespaceId": namespace, "name": "Service desk", "questions": judged})
        for question in QUESTIONS:
            client.search(namespace, question, hybrid=True)
        body: CreateConnection = {
            "namespaceId": namespace,
            "name": "Service handbook",
            "connector": "OBJECTS",
            "config": {"url": CORPUS.as_uri()},
        }
        connection = client.api.create_connection(body).connection
        source: SourceIngestion = {"source": "OBJECTS", "config": {"connectionId": connection.id}}
        receipt = client.api.ingest_source({"namespaceId": namespace, "ingestConfig": source})
        run = client.runs.wait(namespace, receipt.ingest_job_run_id)
        client.api.create_schedule({"namespaceId": namespace, "ingestJobRunId": run.id, "cron": "0 6 * * 1-5"})
    return namespace


def sign_in(page: Page, scratch: ScratchInstance) -> None:
    page.goto(scratch.service["ui"])
    page.get_by_label("API key").fill(scratch.service["apiKey"])
    page.get_by_role("button", name="Sign in").first.click()
    expect(page.get_by_role("button", name="Sign out")).to_be_attached()


def photograph(page: Page, address: str, file: Path, clip: Any = None) -> None:
    """Write a page's picture after all computations of the page."""
    page.goto(address)
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    time.sleep(2)
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0, timeout=1000 * SECONDS)
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
    time.sleep(1)
    expect(page.get_by_text("encountered an error")).to_have_count(0)
    picture = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")
    picture.save(file, quality=80, method=6)
    print(f"{file.stem}: {picture.width} x {picture.height}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
