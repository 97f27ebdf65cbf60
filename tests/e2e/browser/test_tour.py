"""Tour of the admin app in a real browser: clicks and seconds of each task, then a look at every page.

`make tour` covers all widths and themes and writes the table of docs/admin-app.md.
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser, Page, expect
from reportlab.pdfgen import canvas

from local.roles import PROJECT_ROOT
from retrieval.sources import APP_CONFIGS
from tests.e2e.browser import admin_app, looks
from tests.e2e.browser.admin_app import open_page
from tests.e2e.browser.hands import MAX_CLICKS, Hands, table
from tests.e2e.test_connectors import APP_OF, TEXTS
from tests.e2e.test_web import site  # noqa: F401
from tests.standins import embedding_server

GUIDE = PROJECT_ROOT / "docs" / "admin-app.md"
MARKS = ("<!-- tour -->\n", "<!-- /tour -->")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture
def pile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of twenty files: notes, a PDF with seals on its second page, and a scan."""
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
    return folder


def test_the_tour(
    browser: Browser,
    service: Any,
    accounts: Any,
    site: str,  # noqa: F811
    pile: Path,
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
    namespace = _create_namespaces(hands)
    app = {APP_CONFIGS["BOX"]: APP_OF["BOX"]}
    service.ok(service.client.patch(f"/v1/namespaces/{namespace}", json=app))
    _add_content(hands, pile)
    _find_documents(hands, service, namespace, site)
    _search(hands, service, namespace)
    _compare(hands)
    connection = _connect(hands, service, accounts["BOX"], namespace)
    _run(hands, service, namespace)
    _operate(hands)
    _manage_keys(hands)
    with hands.task("Open a colleague's link to a search"):
        second_page = open_page(browser, 1440)
        _sign_in(second_page, info, f"search?namespace={namespace}&q=seals")
        hands.clicks += 1
        expect(second_page.get_by_text("harbour seal").first).to_be_visible()
        second_page.close()
    wrong = looks.look_at_pages(hands, album)
    wrong += looks.look_at_details(hands, service, namespace, connection)
    page.close()
    service.ok(service.client.delete(f"/v1/keys/{key['key']['id']}"))
    assert not foreign
    (album / "tasks.md").write_text(table(hands.done))
    if looks.WRITES:
        _write(hands)
    assert not wrong, "\n".join(wrong)
    assert not [task for task in hands.done if task.clicks > MAX_CLICKS]


def _leaves(url: str) -> bool:
    return url.startswith("http") and not url.startswith("http://127.0.0.1")


def _sign_in(page: Page, info: dict[str, Any], path: str = "") -> None:
    admin_app.sign_in(page, f"{info['ui']}/{path}", info["apiKey"])
    expect(page.get_by_role("button", name="Sign out")).to_be_attached()


def _create_namespaces(hands: Hands) -> str:
    """Create a namespace with a model of OpenAI, and the one in which the tour goes on."""
    page = hands.page
    with hands.task("Test a model before it is saved", "Namespaces"):
        hands.button("New namespace")
        hands.pill("OPENAI")
        hands.type("API key", embedding_server.KEYS["OPENAI"])
        hands.button("Test")
        hands.sees("Passed.")
    with hands.task("Create a namespace with a model of your own", "Namespaces"):
        hands.button("New namespace")
        hands.type("Name", "Contracts")
        hands.pill("OPENAI")
        hands.type("API key", embedding_server.KEYS["OPENAI"])
        hands.button("Create namespace")
        expect(page.get_by_role("heading", name="Contracts").first).to_be_visible()
    with hands.task("Create a namespace", "Namespaces"):
        hands.button("New namespace")
        hands.type("Name", "Reports")
        hands.button("Create namespace")
        expect(page.get_by_role("heading", name="Reports").first).to_be_visible()
    match = re.search(r"namespace=(ns_\w+)", page.url)
    assert match, page.url
    return match.group(1)


def _add_content(hands: Hands, pile: Path) -> None:
    page = hands.page
    with hands.task("Upload a folder of 20 files and see each of them indexed", "Add content"):
        hands.click(page.get_by_text("Choose a whole folder"))
        expect(page.get_by_text("Drop a folder here")).to_be_visible()
        hands.drop(pile)
        expect(page.get_by_text("report.pdf").first).to_be_visible()
        hands.button("Start")
        hands.sees("1 of 1 item finished")
    with hands.task("See why a file failed, retry it with OCR", "Add content", stays=True):
        hands.sees("only pictures or blank pages")
        hands.button("Retry with OCR")
        expect(page.get_by_text(re.compile("^Failed: "))).to_have_count(0)
        hands.sees("2 of 2 items finished")


def _find_documents(hands: Hands, service: Any, namespace: str, url: str) -> None:
    page = hands.page
    url_list = {"source": "URLS_LIST", "config": {"urls": [f"{url}/owls.html", f"{url}/tides.html"]}}
    body = {"namespaceId": namespace, "ingestConfig": url_list}
    service.wait(service.ok(service.client.post("/v1/ingest/urls", json=body))["ingestJobRunId"], namespace=namespace)
    with hands.task("Find a document by a piece of its name, and open it", "Documents"):
        hands.type("Find documents", "repor", enter=True)
        hands.sees(re.compile(r"^1 document"))
        hands.row()
        expect(page.get_by_role("heading", name="report.pdf").first).to_be_visible()
    with hands.task("See who may see a document", "Documents"):
        hands.row()
        hands.tab("Access")
        hands.sees("Everyone with a key")
    with hands.task("Set metadata of many documents", "Documents"):
        hands.pill("URL list (2)")
        hands.button("Metadata")
        hands.type("Key", "team")
        hands.type("Value", "docs")
        hands.button("Change metadata")
        hands.sees("2 documents changed")
    with hands.task("Export all documents", "Documents"), page.expect_download() as download:
        hands.click(page.get_by_role("link", name=re.compile("^All 22 as CSV")))
    assert download.value.path().read_text(encoding="utf-8-sig").count("\n") == 23
    with hands.task("Delete all documents of a site", "Documents"):
        hands.pill(re.compile(r"^127\.0\.0\.1"))
        hands.button("Delete 2 documents")
        expect(page.get_by_role("listitem").filter(has_text="tides").first).to_be_visible()
        hands.button("Delete for good")
        hands.sees("2 documents deleted successfully")
    with hands.task("See as another person", "Documents"):
        hands.click(page.get_by_text("See as another person"))
        hands.type("User", "ada@example.com", enter=True)
        hands.sees("You see this page as")
    hands.button("Stop")


def _search(hands: Hands, service: Any, namespace: str) -> None:
    page = hands.page
    for _ in range(3):
        body = {"namespaceId": namespace, "query": "who won the marathon of Boston"}
        service.ok(service.client.post("/v1/search", json=body))
    query = "how long do seals dive"
    with hands.task("Search in two modes side by side, and see why a hit ranks", "Search lab"):
        hands.type("Query", query, enter=True)
        expect(page.get_by_role("heading", name="Semantic").first).to_be_visible()
        expect(page.get_by_role("heading", name="Hybrid").first).to_be_visible()
        hands.sees("harbour seal")
        hands.sees(re.compile(r"semantic 0\.\d+ \(rank 1\)"))
    assert namespace in page.url
    with hands.task("Open a result's chunk in its text and on its page", "Search lab"):
        hands.type("Query", query, enter=True)
        hands.click(page.get_by_role("link", name=re.compile("chunk \\d+")).first)
        expect(page.get_by_test_id("stMarkdown").get_by_text("harbour seal").first).to_be_visible()
        expect(page.get_by_role("img").first).to_be_visible()
    with hands.task("Mark a result as right", "Search lab"):
        hands.type("Query", query, enter=True)
        hands.click(page.get_by_label("Thumbs up").first)
        hands.sees(re.compile("is now marked as right in “Search lab”"))
    with hands.task("Ask why a document is not found", "Search lab"):
        hands.type("Query", query, enter=True)
        hands.tab("Why not found?")
        hands.type("Document", "note 07", enter=True)
        expect(page.get_by_role("heading", name="note 07.txt").first).to_be_visible()
        hands.sees("Its best chunk in each list")
    with hands.task("Change the weights of a search", "Search lab"):
        hands.type("Query", query, enter=True)
        hands.sees("harbour seal")
        hands.click(page.locator("summary", has_text="Options"))
        box = page.get_by_test_id("stSlider").first.bounding_box()
        assert box
        page.mouse.click(box["x"] + 0.8 * box["width"], box["y"] + 0.6 * box["height"])
        hands.clicks += 1
        expect(page).to_have_url(re.compile("weight=0.[78]"))
    with hands.task("Hide a passage from search", "Search lab"):
        hands.type("Query", "Note 5: owls hunt mice at night", enter=True)
        hands.click(page.get_by_role("button", name="More").first)
        hands.type("Hide from search for this reason, which others see", "outdated")
        hands.button("Hide")
        hands.sees(re.compile("Documents lists hidden passages"))


def _compare(hands: Hands) -> None:
    page = hands.page
    with hands.task("Compare search settings over a question set", "Evaluations"):
        hands.row()
        hands.button("Compare settings")
        expect(page.get_by_role("heading", name="Wins and losses").first).to_be_visible()
    with hands.task("Create a question set", "Evaluations"):
        hands.button("New question set")
        hands.type("Name", "Owls")
        line = {"query": "Who hunts at night?", "relevant": [{"externalId": "note 07.txt"}]}
        hands.type("Or questions, a JSON object on each line", json.dumps(line))
        hands.button("Create question set")
        hands.sees("Created with 1 question")
    with hands.task("Add a search without good results to a question set", "Evaluations"):
        hands.sees("who won the marathon of Boston")
        hands.button("Add")
        hands.sees("Added without right documents")


def _connect(hands: Hands, service: Any, account: Any, namespace: str) -> str:
    """Connect Box, and GitHub with push; return the connection with push."""
    page = hands.page
    files = [account.put(path, text) for path, text in TEXTS.items()]
    try:
        with hands.task("Connect a content service", "Connections"):
            hands.pill("Box")
            hands.button("Connect")
            with page.context.expect_page() as opened:
                hands.click(page.get_by_role("link", name="Open the service"))
            expect(opened.value.get_by_text("Connected").first).to_be_visible()
            opened.value.close()
            hands.sees("Active")
        with hands.task("Pick a folder of a drive, see what it would add", "Add content"):
            hands.pill("Box")
            hands.only(page.locator("label", has_text="Take notes"))
            hands.sees("1 chosen")
            hands.button("Preview")
            hands.sees("nothing has been added yet")
            hands.sees("tokens to embed")
    finally:
        # The account is that of other tests too.
        for file in files:
            account.delete(file)
    with hands.task("Give a connection a schedule", "Connections"):
        hands.choose("Sync schedule", "Every day")
        hands.sees(re.compile("Next attempt|next attempt"))
    body = {"namespaceId": namespace, "name": "Handbook", "connector": "GITHUB"}
    config = {"url": "https://github.com/octo-org/handbook", "credentials": {"token": "canary-token"}}
    created = service.ok(service.client.post("/v1/connections", json={**body, "config": config}))["connection"]["id"]
    with hands.task("Turn push on, and copy its address and secret", "Connections"):
        hands.button("Push and details")
        hands.button("Turn push on")
        hands.sees("it is shown this once")
        hands.sees(re.compile("/v1/push/"))
    return str(created)


def _run(hands: Hands, service: Any, namespace: str) -> None:
    page = hands.page
    # A site that accepts connections and does not answer keeps its run active.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        urls = [f"http://127.0.0.1:{silent.getsockname()[1]}/slow"]
        body = {"namespaceId": namespace, "ingestConfig": {"source": "URLS_LIST", "config": {"urls": urls}}}
        service.ok(service.client.post("/v1/ingest/urls", json=body))
        with hands.task("Watch a run", "Runs"):
            hands.row()
            hands.sees(re.compile("documents? finished|Not begun yet|Discovering"))
        with hands.task("Cancel a run", "Runs"):
            hands.row()
            hands.button("Cancel this run")
            hands.sees(re.compile("1 cancelled"))
    with hands.task("Open a run in Prefect", "Runs"):
        hands.row(2)
        with page.context.expect_page() as opened:
            hands.click(page.get_by_role("link", name=re.compile("open (the flow run|its page)")))
        assert opened.value.url.startswith(service.info["prefect"])
        opened.value.close()


def _operate(hands: Hands) -> None:
    page = hands.page
    with hands.task("See whether something is stuck, and why"):
        hands.go("Queue and workers")
        hands.sees("Workers online")
        hands.sees("Nothing is stuck.")
    with hands.task("Pause a schedule", "Schedules"):
        hands.button("Pause")
        hands.sees("next run paused")
    with hands.task("Add a webhook", "Webhooks"):
        hands.click(page.get_by_text("Add webhook").first)
        hands.type("URL", "https://93.184.216.34/hook")
        hands.click(page.get_by_test_id("stFormSubmitButton").get_by_role("button", name="Add webhook"))
        hands.sees("it is shown this once")
        secret = page.get_by_text(re.compile("^whsec_")).first
        expect(secret).to_be_visible()
        first = secret.inner_text()
    with hands.task("Rotate a webhook's secret with an overlap", "Webhooks", stays=True):
        hands.tab("Rotate secret")
        hands.button("Rotate secret")
        expect(secret).not_to_have_text(first)
    with hands.task("Send an event to a webhook", "Webhooks", stays=True):
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


def _manage_keys(hands: Hands) -> None:
    page = hands.page
    with hands.task("Create an API key", "Keys and limits"):
        hands.type("Name", "Temporary")
        hands.button("Create API key")
        hands.sees("shown this once")
        expect(page.get_by_text(re.compile("^rtr_")).first).to_be_visible()
    card = page.locator("[class*=st-key-key-]", has_text="Temporary")
    with hands.task("Rotate an API key", "Keys and limits", stays=True):
        hands.button("Rotate", card)
        hands.sees("never shown again")
        expect(card.get_by_text(re.compile("^rtr_")).first).to_be_visible()
        hands.click(page.get_by_text("I copied the new key"))
        hands.button("Revoke the old key")
        hands.sees(re.compile("^Revoked: the key that ends in"))
        expect(card).to_have_count(1)
    with hands.task("Revoke an API key", "Keys and limits", stays=True):
        hands.button("Revoke", card)
        hands.button("Revoke for good")
        expect(card).to_have_count(0)


def _write(hands: Hands) -> None:
    text_before, _, text_after = GUIDE.read_text().partition(MARKS[0])
    GUIDE.write_text(f"{text_before}{MARKS[0]}{table(hands.done)}\n{MARKS[1]}{text_after.partition(MARKS[1])[2]}")
