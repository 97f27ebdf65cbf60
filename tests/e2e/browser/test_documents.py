# ruff: noqa: F811
"""The Documents page in a real browser: search by part of a name, open a row, delete a site."""

from __future__ import annotations

import csv
import io
import re

import pytest
from playwright.sync_api import Browser, Page, expect

from retrieval.ports import Scope
from tests.api.conftest import api_db, api_settings, base, org, organization, ring  # noqa: F401
from tests.e2e.browser.admin_app import open_page, sign_in
from tests.library import Library

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="session")
def api_database(fresh_database) -> str:
    return str(fresh_database("documents_page"))


@pytest.fixture
def filled(org) -> str:
    """A namespace with pages of two sites and files."""
    namespace = str(org.namespace())
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    for number in range(12):
        site = "docs.example.org" if number % 3 else "shop.example.org"
        url = f"https://{site}/page-{number}"
        library.put([f"Page {number}."], name=f"Guide {number}", external_id=url, document_type="URL", source="WEBSITE")
    for name in ("annual report 2025.pdf", "harbour-seal.pdf", "notes.txt"):
        library.put([f"Text of {name}."], name=name, document_type="FILE", source="LOCAL_FILE")
    return namespace


def click_row(page: Page, row: int) -> None:
    # The table is a canvas with rows of 35 pixels below a header of 35. A canvas being redrawn takes no click: wait for
    # the page.
    expect(page.locator("[data-testid=stApp][data-test-script-state=notRunning]")).to_be_visible()
    table = page.get_by_test_id("stDataFrame").first
    table.click(position={"x": 132 + 40, "y": 35 + 35 * row + 17})


def test_a_document_is_found_and_opened_by_a_click_and_a_site_is_deleted(
    browser: Browser,
    base: str,
    admin_app,
    org,
    filled: str,
) -> None:
    page = open_page(browser)
    sign_in(page, f"{admin_app(base)}/documents?namespace={filled}", org.api_key)
    find = page.get_by_label("Find documents")
    find.fill("SEAL")
    find.press("Enter")
    expect(page.get_by_text("1 document:").first).to_be_visible()
    click_row(page, 0)
    expect(page.get_by_role("heading", name="harbour-seal.pdf").first).to_be_visible()
    expect(page).to_have_url(re.compile("document=doc_"))
    link = page.url

    page.get_by_role("button", name="All documents").click()
    expect(page.get_by_label("Find documents")).to_have_value("SEAL")
    for milliseconds in (0, 100, 20, 400) * 2:  # back before the document is complete, and after
        click_row(page, 0)
        page.wait_for_timeout(milliseconds)
        page.get_by_role("button", name="All documents").click()
        expect(page.get_by_label("Find documents")).to_have_value("SEAL")
        expect(page.get_by_text("1 document:").first).to_be_visible()
        expect(page.get_by_role("button", name="All documents")).to_have_count(0)
    page.get_by_label("Find documents").fill("")
    page.get_by_label("Find documents").press("Enter")
    expect(page.get_by_text("15 documents:").first).to_be_visible()
    site = page.get_by_label("Site", exact=True)
    site.click()
    site.press_sequentially("docs")
    site.press("Enter")
    expect(page.get_by_text("8 documents:").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="All 8 as CSV").click()
    exported = list(csv.DictReader(io.StringIO(download.value.path().read_text(encoding="utf-8-sig"))))
    assert {row["externalId"] for row in exported} == {
        f"https://docs.example.org/page-{number}" for number in range(12) if number % 3
    }
    assert {row["ingestionStatus"] for row in exported} == {"SUCCESS"}
    page.get_by_role("button", name="Delete 8 documents").click()
    expect(page.get_by_role("listitem").filter(has_text="Guide 11").first).to_be_visible()
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_text("8 documents deleted successfully").first).to_be_visible()

    page.goto(link)
    expect(page.get_by_role("heading", name="harbour-seal.pdf").first).to_be_visible()
