"""The tour: what a new member of staff does in the first ten minutes, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from reportlab.pdfgen import canvas

SECONDS = 60_000
PAGES = ("", "namespaces", "runs", "documents", "search?q=seal", "connections", "keys")
WIDTHS = (1280, 390)

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A PDF of two pages; the second one is about seals."""
    file = tmp_path / "report.pdf"
    sheet = canvas.Canvas(str(file))
    sheet.drawString(72, 720, "The owl hunts mice at night and hears them under the snow.")
    sheet.showPage()
    sheet.drawString(72, 720, "The harbour seal dives for up to thirty minutes.")
    sheet.save()
    return file


def test_the_tour(browser: Browser, service, report: Path, album: Path) -> None:
    expect.set_options(timeout=SECONDS)
    foreign: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(SECONDS)
    page.on("request", lambda request: foreign.append(request.url) if _leaves(request.url) else None)
    _sign_in(page, service)
    namespace = _create_namespace(page)
    _upload(page, report)
    _compare(page, namespace)
    _open_the_chunk(page)
    _revoke_a_key(page)
    page.close()
    _album(browser, service, namespace, album)
    assert not foreign


def _leaves(url: str) -> bool:
    return url.startswith("http") and not url.startswith("http://127.0.0.1")


def _sign_in(page: Page, service, path: str = "") -> None:
    page.goto(f"{service.info['ui']}/{path}")
    page.get_by_label("API key").fill(service.info["apiKey"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_attached()


def _go(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).first.click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()


def _create_namespace(page: Page) -> str:
    _go(page, "Namespaces")
    page.get_by_role("button", name="New namespace").click()
    page.get_by_label("Name", exact=True).fill("Reports")
    page.get_by_label("Name", exact=True).press("Tab")
    page.get_by_role("button", name="Test and save").click()
    expect(page.get_by_role("heading", name="Reports")).to_be_visible()
    found = re.search(r"namespace=(ns_\w+)", page.url)
    assert found, page.url
    return found.group(1)


def _upload(page: Page, report: Path) -> None:
    """From the file to a run that is seen to reach COMPLETED."""
    _go(page, "Runs")
    page.get_by_text("Start an ingestion", exact=True).click()
    page.get_by_label("From", exact=True).click()
    page.get_by_role("option", name="File", exact=True).click()
    page.locator("input[type=file]").set_input_files(report)
    expect(page.get_by_text("report.pdf").first).to_be_visible()
    page.get_by_role("button", name="Ingest", exact=True).click()
    expect(page.get_by_role("button", name="All runs")).to_be_visible()
    expect(page.get_by_text(re.compile("SUCCEEDED$")).first).to_be_visible(timeout=3 * SECONDS)
    expect(page.get_by_text("Documents (1)").first).to_be_visible()


def _compare(page: Page, namespace: str) -> None:
    _go(page, "Search lab")
    expect(page).to_have_url(re.compile(namespace))
    page.get_by_label("Query").fill("how long do seals dive")
    page.get_by_label("Query").press("Enter")
    expect(page.get_by_role("heading", name="Semantic")).to_be_visible()
    expect(page.get_by_role("heading", name="Hybrid")).to_be_visible()
    expect(page.get_by_text("harbour seal").first).to_be_visible()
    assert "q=how" in page.url
    page.get_by_role("tab", name="Ranks, scores and times").click()
    expect(page.locator("[data-testid=stVegaLiteChart]").first).to_be_visible()
    page.get_by_role("tab", name="Results").click()


def _open_the_chunk(page: Page) -> None:
    page.get_by_role("link", name=re.compile("chunk \\d+")).first.click()
    expect(page.locator(".chunk-text mark").first).to_contain_text("harbour seal")
    expect(page.get_by_role("img").first).to_be_visible()


def _revoke_a_key(page: Page) -> None:
    _go(page, "Keys and limits")
    page.get_by_role("tab", name="API keys").click()
    page.get_by_label("Name", exact=True).fill("Temporary")
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_text("shown this once")).to_be_visible()
    expect(page.get_by_text(re.compile("^rtr_"))).to_be_visible()
    page.get_by_role("button", name="Revoke").first.click()
    page.get_by_role("button", name="Revoke for good").click()
    expect(page.get_by_text("1 revoked")).to_be_visible()


def _album(browser: Browser, service, namespace: str, album: Path) -> None:
    """Every page at both widths, opened by its address as a colleague's link would be; the browser has been here."""
    for width in WIDTHS:
        context = browser.new_context(viewport={"width": width, "height": 900})
        for path in PAGES:
            page = context.new_page()
            page.set_default_timeout(SECONDS)
            joint = "&" if "?" in path else "?"
            _sign_in(page, service, f"{path}{joint}namespace={namespace}")
            expect(page.locator("h1").first).to_be_visible()
            expect(page.locator("[data-testid=stApp][data-test-script-state=notRunning]")).to_be_visible()
            expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
            page.wait_for_timeout(300)
            expect(page.get_by_text("encountered an error")).to_have_count(0)
            overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert overflow <= 0, f"{path} is {overflow} pixels too wide at {width}"
            page.screenshot(path=album / f"{path.partition('?')[0] or 'overview'}-{width}.png", full_page=True)
            page.close()
        context.close()
