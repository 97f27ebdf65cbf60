"""Tour of the admin app in a real browser: clicks and seconds of each task, then a look at every page.

`make tour` covers all widths and themes and writes the table of docs/admin-app.md.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser, Page, expect
from reportlab.pdfgen import canvas

from local.roles import PROJECT_ROOT
from retrieval.sources import APP_CONFIGS
from tests.e2e.browser import admin_app
from tests.e2e.browser.admin_app import open_page
from tests.e2e.browser.hands import Hands, table
from tests.e2e.test_connectors import APP_OF, TEXTS, connect
from tests.e2e.test_web import site  # noqa: F401

WRITES = bool(os.environ.get("TOUR_WRITE"))
GUIDE = PROJECT_ROOT / "docs" / "admin-app.md"
MARKS = ("<!-- tour -->\n", "<!-- /tour -->")
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
# Without TOUR_WRITE: the widest in light and the narrowest in dark.
LOOKS = [(width, scheme) for width in (1440, 1024, 390) for scheme in ("light", "dark")]
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture
def pile(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Twenty files: notes, a PDF with seals on its second page, and a scan."""
    folder = tmp_path_factory.mktemp("pile")
    for number in range(18):
        (folder / f"note {number:02}.txt").write_text(f"Note {number}: owls hunt mice at night and hear them.")
    sheet = canvas.Canvas(str(folder / "report.pdf"))
    sheet.drawString(72, 720, "The owl hunts mice at night and hears them under the snow.")
    sheet.showPage()
    sheet.drawString(72, 720, "The harbour seal dives for up to thirty minutes.")
    sheet.save()
    scan = Image.new("L", (1000, 300), 255)
    ImageDraw.Draw(scan).text((40, 100), "Otters sleep afloat", fill=0, font=ImageFont.load_default(size=80))
    scan.save(folder / "scan.pdf", "PDF", resolution=100)
    return sorted(folder.iterdir())


def test_the_tour(
    browser: Browser,
    service: Any,
    accounts: Any,
    site: str,  # noqa: F811
    pile: list[Path],
    album: Path,
) -> None:
    foreign: list[str] = []
    page = open_page(browser, 1440, color_scheme="light")
    page.on("request", lambda request: foreign.append(request.url) if _leaves(request.url) else None)
    hands = Hands(page)
    # A key of its own: the service's is that of other tests too, and keys are revoked here.
    scopes = service.ok(service.client.get("/v1/keys/current"))["key"]["scopes"]
    key = service.ok(service.client.post("/v1/keys", json={"name": "Tour", "scopes": scopes}))
    info = service.info | {"apiKey": key["apiKey"]}
    with hands.task("Sign in with a key"):
        _sign_in(page, info)
        hands.clicks += 1
    namespace = _content(hands, pile)
    _documents(hands, service, namespace, site)
    _search(hands, namespace)
    _connection(hands, service, accounts["BOX"], namespace)
    _operations(hands)
    _keys(hands)
    with hands.task("Open a colleague's link to a search"):
        second_page = open_page(browser, 1440)
        _sign_in(second_page, info, f"search?namespace={namespace}&q=seals")
        hands.clicks += 1
        expect(second_page.get_by_text("harbour seal").first).to_be_visible()
        second_page.close()
    _look(hands, album)
    page.close()
    service.ok(service.client.delete(f"/v1/keys/{key['key']['id']}"))
    assert not foreign
    (album / "tasks.md").write_text(table(hands.done))
    if WRITES:
        _write(hands)


def _leaves(url: str) -> bool:
    return url.startswith("http") and not url.startswith("http://127.0.0.1")


def _sign_in(page: Page, info: dict[str, Any], path: str = "") -> None:
    admin_app.sign_in(page, f"{info['ui']}/{path}", info["apiKey"])
    expect(page.get_by_role("button", name="Sign out")).to_be_attached()


def _content(hands: Hands, pile: list[Path]) -> str:
    page = hands.page
    with hands.task("Create a namespace"):
        hands.go("Namespaces")
        hands.button("New namespace")
        hands.type("Name", "Reports")
        hands.button("Create namespace")
        expect(page.get_by_role("heading", name="Reports").first).to_be_visible()
    match = re.search(r"namespace=(ns_\w+)", page.url)
    assert match, page.url
    with hands.task("Add 20 files and see each of them indexed"):
        hands.go("Add content")
        hands.drop(pile)
        expect(page.get_by_text("report.pdf").first).to_be_visible()
        hands.button("Start")
        hands.sees("1 of 1 item finished")
    with hands.task("See why a file failed, retry it with OCR"):
        hands.sees("only pictures or blank pages")
        hands.button("Retry with OCR")
        expect(page.get_by_text(re.compile("^Failed: "))).to_have_count(0)
        hands.sees("2 of 2 items finished")
    return match.group(1)


def _documents(hands: Hands, service: Any, namespace: str, url: str) -> None:
    page = hands.page
    url_list = {"source": "URLS_LIST", "config": {"urls": [f"{url}/owls.html", f"{url}/tides.html"]}}
    body = {"namespaceId": namespace, "ingestConfig": url_list}
    service.wait(service.ok(service.client.post("/v1/ingest/urls", json=body))["ingestJobRunId"], namespace=namespace)
    with hands.task("Find a document by a piece of its name, and open it"):
        hands.go("Documents")
        hands.type("Find documents", "repor", enter=True)
        hands.sees(re.compile(r"^1 document"))
        hands.row()
        expect(page.get_by_role("heading", name="report.pdf").first).to_be_visible()
    hands.go("Overview")
    with hands.task("Delete all documents of a site"):
        hands.go("Documents")
        site_field = page.get_by_label("Site", exact=True)
        hands.click(site_field)
        site_field.press_sequentially("127")
        site_field.press("Enter")
        hands.clicks += 1
        hands.button("Delete 2 documents")
        expect(page.get_by_role("listitem").filter(has_text="tides").first).to_be_visible()
        hands.button("Delete for good")
        hands.sees("2 documents deleted successfully")


def _search(hands: Hands, namespace: str) -> None:
    page = hands.page
    with hands.task("Search, side by side in two modes"):
        hands.go("Search lab")
        hands.type("Query", "how long do seals dive", enter=True)
        expect(page.get_by_role("heading", name="Semantic").first).to_be_visible()
        expect(page.get_by_role("heading", name="Hybrid").first).to_be_visible()
        hands.sees("harbour seal")
    assert namespace in page.url
    with hands.task("Open a result's chunk in its text and on its page"):
        hands.click(page.get_by_role("link", name=re.compile("chunk \\d+")).first)
        expect(page.get_by_test_id("stMarkdown").get_by_text("harbour seal").first).to_be_visible()
        expect(page.get_by_role("img").first).to_be_visible()
    with hands.task("Mark a result as right"):
        hands.go("Search lab")
        hands.type("Query", "how long do seals dive", enter=True)
        question_set = page.get_by_label("Question set", exact=True)
        hands.click(question_set)
        question_set.press_sequentially("Seals")
        question_set.press("Enter")
        hands.clicks += 1
        hands.sees("is created with the first hit")
        hands.click(page.get_by_label("Thumbs up").first)
        hands.sees(re.compile("is now marked as right in “Seals”"))
    with hands.task("Ask why a document is not found"):
        hands.tab("Why not found?")
        hands.type("Document", "note 07", enter=True)
        expect(page.get_by_role("heading", name="note 07.txt").first).to_be_visible()
        hands.sees("Its best chunk in each list")
    with hands.task("Compare search settings over a question set"):
        hands.go("Evaluations")
        hands.row()
        hands.tab("Compare")
        hands.button("Compare settings")
        expect(page.get_by_role("heading", name="Wins and losses").first).to_be_visible()
    hands.go("Documents")
    with hands.task("See as another person"):
        hands.click(page.get_by_text("See as another person"))
        hands.type("User", "ada@example.com", enter=True)
        hands.sees("You see this page as")
    hands.button("Stop")


def _connection(hands: Hands, service: Any, account: Any, namespace: str) -> None:
    page = hands.page
    app = {APP_CONFIGS["BOX"]: APP_OF["BOX"]}
    service.ok(service.client.patch(f"/v1/namespaces/{namespace}", json=app))
    files = [account.put(path, text) for path, text in TEXTS.items()]
    try:
        connect(service, namespace, "BOX")
        with hands.task("Browse a drive, choose a folder, see what it would add"):
            hands.go("Add content")
            hands.click(page.get_by_test_id("stButtonGroup").get_by_text("Box", exact=True))
            hands.click(page.get_by_text("Chosen folders and files"))
            hands.sees("Nothing is chosen yet.")
            hands.only(page.locator("label", has_text="Take notes"))
            hands.sees("1 chosen")
            hands.button("Preview")
            hands.sees("nothing has been added yet")
            hands.sees("tokens to embed")
    finally:
        # The account is that of other tests too.
        for file in files:
            account.delete(file)


def _operations(hands: Hands) -> None:
    page = hands.page
    with hands.task("See whether something is stuck, and why"):
        hands.go("Queue and workers")
        hands.sees("Workers online")
        hands.sees("Nothing is stuck.")
    with hands.task("See the next run of each schedule"):
        hands.go("Schedules")
        hands.sees("Nothing is scheduled in this namespace.")
    with hands.task("Add a webhook"):
        hands.go("Webhooks")
        hands.click(page.get_by_text("Add webhook").first)
        hands.type("URL", "https://93.184.216.34/hook")
        hands.click(page.get_by_test_id("stFormSubmitButton").get_by_role("button", name="Add webhook"))
        hands.sees("it is shown this once")
        secret = page.get_by_text(re.compile("^whsec_")).first
        expect(secret).to_be_visible()
        first = secret.inner_text()
    with hands.task("Rotate a webhook's secret with an overlap"):
        hands.tab("Rotate secret")
        hands.button("Rotate secret")
        expect(secret).not_to_have_text(first)
    with hands.task("Send an event to a webhook"):
        hands.tab("Deliveries")
        hands.button("Send a test")
        hands.sees("A test event is being sent.")
    hands.tab("Delete")
    hands.button("Delete webhook")
    hands.sees("No webhooks yet.")
    with hands.task("See tokens and cost by day"):
        hands.go("Usage")
        hands.sees("Tokens embedded")
    with hands.task("See who changed what"):
        hands.go("Audit log")
        expect(page.get_by_test_id("stDataFrame").first).to_be_visible()


def _keys(hands: Hands) -> None:
    page = hands.page
    with hands.task("Create an API key"):
        hands.go("Keys and limits")
        hands.tab("API keys")
        hands.type("Name", "Temporary")
        hands.button("Create API key")
        hands.sees("shown this once")
        expect(page.get_by_text(re.compile("^rtr_")).first).to_be_visible()
    card = page.locator("[class*=st-key-key-]", has_text="Temporary")
    with hands.task("Rotate an API key"):
        hands.button("Rotate", card)
        hands.sees("never shown again")
        expect(card.get_by_text(re.compile("^rtr_")).first).to_be_visible()
        hands.click(page.get_by_text("I copied the new key"))
        hands.button("Revoke the old key")
        hands.sees(re.compile("^Revoked: the key that ends in"))
        expect(card).to_have_count(1)
    with hands.task("Revoke an API key"):
        hands.button("Revoke", card)
        hands.button("Revoke for good")
        expect(card).to_have_count(0)


def _look(hands: Hands, album: Path) -> None:
    """Open every page in one session; check widths and run axe."""
    page, wrong = hands.page, []
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
            page.wait_for_timeout(2000 if WRITES else 800)
            expect(page.get_by_text("encountered an error")).to_have_count(0)
            overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            wrong += [f"{name} is {overflow} pixels too wide at {width}"] if overflow > 0 else []
            page.screenshot(path=album / f"{name}-{width}-{scheme}.png")
            page.evaluate(_axe())
            wrong += [f"{name} {width} {scheme}: {violation}" for violation in page.evaluate(_AXE)]
    assert not wrong, "\n".join(wrong)


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


def _write(hands: Hands) -> None:
    text_before, _, text_after = GUIDE.read_text().partition(MARKS[0])
    GUIDE.write_text(f"{text_before}{MARKS[0]}{table(hands.done)}\n{MARKS[1]}{text_after.partition(MARKS[1])[2]}")
