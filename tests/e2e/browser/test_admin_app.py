"""The admin app against the real API in a real browser: typed secrets, a hung API, CSP."""

from __future__ import annotations

import socket

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from retrieval.accounts import api_keys
from retrieval.namespaces import namespaces
from tests.api.conftest import api_db, api_settings, base, org, organization, ring  # noqa: F401
from tests.e2e.browser.admin_app import open_page, sign_in

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="session")
def api_database(fresh_database) -> str:
    return str(fresh_database("admin_app"))


def typed(field: Locator, text: str) -> None:
    """Type key by key, then press Tab."""
    field.click()
    field.press_sequentially(text)
    field.press("Tab")


@pytest.mark.slow
def test_a_secret_that_is_left_with_tab_is_saved(browser: Browser, base: str, admin_app, org) -> None:  # noqa: F811
    # Tab leads to the field's "Show password" button.
    page = open_page(browser)
    sign_in(page, f"{admin_app(base)}/namespaces", org.api_key)
    page.get_by_role("button", name="New namespace").click()
    page.get_by_label("Web scraper", exact=True).click()
    page.get_by_role("option", name="FIRECRAWL").click()
    typed(page.get_by_label("Name", exact=True), "Secrets")
    typed(page.get_by_label("API key", exact=True).first, "fc-first-secret-1111")
    page.get_by_role("button", name="Create namespace").click()
    expect(page.get_by_role("heading", name="Secrets").first).to_be_visible()
    space = org.client.get("/v1/namespaces").json()["data"]["namespaces"][0]
    assert _scraper_key(org, space["id"]) == "fc-first-secret-1111"

    page.get_by_role("tab", name="Edit").click()
    typed(page.get_by_placeholder("stored; type a new one").first, "fc-second-secret-2222")
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_text("Saved.").first).to_be_visible()
    assert _scraper_key(org, space["id"]) == "fc-second-secret-2222"


def _scraper_key(org, namespace: str) -> str:  # noqa: F811
    return str(namespaces.load_namespace(org.db, org.ring, namespace).web_scraper["apiKey"])


@pytest.mark.slow
def test_a_key_that_ends_while_a_page_moves_by_itself_leads_back_to_that_page(
    browser: Browser,
    base: str,  # noqa: F811
    admin_app,
    org,  # noqa: F811
) -> None:
    namespace = org.namespace()
    org.text(namespace, "waits for a worker", name="waiting")
    extra = api_keys.create_key(org.db, org.ring, org.id, "leaving")
    page = open_page(browser)
    sign_in(page, f"{admin_app(base)}/runs?namespace={namespace}&q=wait", extra.api_key)
    expect(page.get_by_text("1 run on this page")).to_be_visible()
    api_keys.revoke_key(org.db, org.id, extra.id)
    expect(page.get_by_text("not valid any more")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
    page.get_by_role("link", name="Sign in with an API key").click()
    page.get_by_label("API key").fill(org.api_key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("1 run on this page")).to_be_visible()
    expect(page.get_by_role("textbox", name="Search", exact=True)).to_have_value("wait")


@pytest.mark.slow
def test_a_hung_api_is_told_on_the_page_of_sign_in(browser: Browser, admin_app) -> None:
    """The API accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hung:
        page = open_page(browser)
        sign_in(page, admin_app(f"http://127.0.0.1:{hung.getsockname()[1]}"), "rtr_key_of_nobody")
        page.get_by_text("TIMEOUT").first.wait_for()


def test_the_page_may_not_be_framed_and_runs_no_foreign_code(browser: Browser, base: str, admin_app, org) -> None:  # noqa: F811
    address = admin_app(base)
    for path in ("/", "/_stcore/health", "/static/nothing", "/runs"):
        headers = httpx.get(address + path, trust_env=False).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    violations: list[str] = []
    namespace = org.namespace()
    page = open_page(browser)
    page.on("console", lambda line: violations.append(line.text) if "Content Security Policy" in line.text else None)
    sign_in(page, f"{address}/search?q=seal&namespace={namespace}", org.api_key)
    expect(page.get_by_role("heading", name="Search lab").first).to_be_visible()
    for path, title in (("documents", "Documents"), ("namespaces", "Namespaces")):
        page.goto(f"{address}/{path}?namespace={namespace}")
        expect(page.get_by_role("heading", name=title).first).to_be_visible()
        page.wait_for_timeout(1000)
    assert not violations
