"""Sign-in to the admin app by OpenID Connect, by hands: the provider, a refresh, the end of a token, sign-out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from pydantic import SecretStr

from local import environment
from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from retrieval.setting_values import OidcRole
from tests.api.conftest import api_db, api_settings, ring  # noqa: F401
from tests.api.support import Organization, client_of, serve
from tests.e2e.browser.admin_app import choose_port, open_page, serve_app
from tests.standins import oidc_provider
from tests.standins.oidc_provider import Provider

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
PEOPLE = {
    "ada": {"name": "Ada Lovelace", "email": "ada@example.com", "email_verified": True, "groups": ["staff"]},
    "root": {"name": "Grace Hopper", "email": "grace@example.com", "email_verified": True, "groups": ["admins"]},
    "mallory": {"name": "Mallory", "email": "mallory@example.com", "email_verified": True, "groups": ["others"]},
}


@pytest.fixture(scope="session")
def api_database(fresh_database) -> str:
    return str(fresh_database("oidc"))


@pytest.fixture(scope="module")
def provider_app(api_settings, api_db, api_database, ring, tmp_path_factory) -> Iterator[SimpleNamespace]:  # noqa: F811
    """A provider, an API with its issuer, and the admin app, started as `retrieval up` starts them."""
    home: Path = tmp_path_factory.mktemp("oidc")
    owner = organizations.create_organization(api_db, "people")
    with oidc_provider.serving(Provider(people=PEOPLE)) as provider:
        port = choose_port()
        app = f"http://127.0.0.1:{port}"
        provider.redirect_uris = {f"{app}/oauth2callback"}
        overrides = {
            "home": home,
            "ui_port": port,
            "oidc_issuer": provider.issuer,
            "oidc_client_id": provider.client_id,
            "oidc_client_secret": SecretStr(provider.client_secret),
            "oidc_principal_claim": "email",
            "oidc_roles": [
                OidcRole(group="admins", role="admin", organization=owner.id),
                OidcRole(group="staff", role="viewer", organization=owner.id),
            ],
        }
        settings = api_settings.model_copy(update=overrides)
        with serve(settings, api_database, ring) as base:
            environment.write_sign_in(settings, app)
            with serve_app(home, base, port):
                client = client_of(base, api_keys.create_key(api_db, ring, owner.id, "app").api_key)
                organization = Organization(owner.id, client, "", api_db, ring, base)
                yield SimpleNamespace(app=app, provider=provider, home=home, space=organization.namespace())
                client.close()


@pytest.fixture
def page(browser: Browser) -> Page:
    return open_page(browser)


def sign_in(page: Page, service: SimpleNamespace, person: str, path: str = "") -> None:
    page.goto(service.app + path)
    page.get_by_role("button", name="Sign in with single sign-on").click()
    page.get_by_role("link", name=f"Continue as {person}").click()


@pytest.mark.slow
def test_a_person_signs_in_and_stays_so_over_a_refresh(page: Page, provider_app: SimpleNamespace) -> None:
    sign_in(page, provider_app, "ada")
    expect(page.get_by_text("Signed in as Ada Lovelace (viewer)").first).to_be_visible()
    expect(page.get_by_role("heading", name="Overview").first).to_be_visible()
    expect(page.get_by_role("link", name="Keys and limits")).to_have_count(0)
    page.get_by_role("link", name="Search lab").click()
    expect(page.get_by_role("heading", name="Search lab").first).to_be_visible()
    page.reload()
    expect(page.get_by_text("Signed in as Ada Lovelace (viewer)").first).to_be_visible()
    expect(page.get_by_role("heading", name="Search lab").first).to_be_visible()
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
    assert cookies["_streamlit_user_tokens"]["httpOnly"]
    assert "GET /keys" in provider_app.provider.requests


@pytest.mark.slow
def test_a_link_opens_what_it_names_after_the_sign_in(page: Page, provider_app: SimpleNamespace) -> None:
    link = f"/documents?namespace={provider_app.space}&q=caf%C3%A9+%26+bar"
    sign_in(page, provider_app, "ada", link)
    expect(page.get_by_role("heading", name="Documents", exact=True).first).to_be_visible()
    expect(page.get_by_text("Signed in as Ada Lovelace (viewer)").first).to_be_visible()
    assert f"/documents?namespace={provider_app.space}" in page.url
    assert parse_qs(urlsplit(page.url).query)["q"] == ["café & bar"]


@contextmanager
def _leave_app(page: Page, service: SimpleNamespace) -> Iterator[None]:
    """Wait until the app has gone through the provider's sign-out page."""
    with page.expect_navigation(url=f"{service.app}/**"):
        yield
    expect(page.get_by_role("button", name="Sign in with single sign-on").first).to_be_visible()


@pytest.mark.slow
def test_signing_out_ends_the_session_at_the_provider_too(page: Page, provider_app: SimpleNamespace) -> None:
    """A user without a role is refused and signs in as another user."""
    sign_in(page, provider_app, "mallory")
    expect(page.get_by_text("none of your groups may use this service").first).to_be_visible()
    with _leave_app(page, provider_app):
        page.get_by_role("button", name="Sign in as another person").click()
    sign_in(page, provider_app, "root")
    expect(page.get_by_text("Signed in as Grace Hopper (admin)").first).to_be_visible()
    expect(page.get_by_role("link", name="Keys and limits").first).to_be_visible()
    with _leave_app(page, provider_app):
        page.get_by_role("button", name="Sign out").click()
    assert provider_app.provider.requests.count("GET /logout") == 2
    assert not [cookie for cookie in page.context.cookies() if "user" in cookie["name"]]


@pytest.mark.slow
def test_an_ended_token_leads_back_to_the_sign_in(page: Page, provider_app: SimpleNamespace) -> None:
    provider_app.provider.seconds = -60
    try:
        sign_in(page, provider_app, "ada")
        expect(page.get_by_text("Your sign-in has ended. The token has expired.").first).to_be_visible()
    finally:
        provider_app.provider.seconds = 300
    page.get_by_role("button", name="Sign in with single sign-on").click()
    page.get_by_role("link", name="Continue as ada").click()
    expect(page.get_by_text("Signed in as Ada Lovelace (viewer)").first).to_be_visible()
    log = (provider_app.home / "ui.log").read_text()
    assert provider_app.provider.client_secret not in log
    assert "eyJ" not in log
    assert (provider_app.home / "ui" / "secrets.toml").stat().st_mode & 0o077 == 0
