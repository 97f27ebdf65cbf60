"""Sign in to the admin app with a key over HTTP."""

from __future__ import annotations

import re
import time

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from retrieval.accounts import api_keys
from ui import server, sign_in_page, sign_ins
from ui.sign_ins import COOKIE_NAME, SignIn

PAGE = {"Accept": "text/html"}


@pytest.fixture
def browse(base, tmp_path, monkeypatch):
    """Return a function that opens a browser at an app process with a shared folder."""
    monkeypatch.setenv("RETRIEVAL_API_URL", base)
    monkeypatch.setenv(sign_ins.FOLDER_VARIABLE, str(tmp_path / "sign-ins"))

    def start():
        page = Route("/{page:path}", lambda _: PlainTextResponse("a page"))
        app = Starlette(
            routes=[*sign_in_page.SIGN_IN_ROUTES, page], middleware=[Middleware(sign_in_page.RequireSignIn)]
        )
        return TestClient(app, follow_redirects=False)

    return start


def send(browser, key, **form):
    return browser.post("/sign-in", data={"key": key, **form})


def test_a_page_leads_to_the_form_and_back_and_stays_signed_in(browse, org, tmp_path):
    browser = browse()
    first = browser.get("/search?q=seals&namespace=ns_1", headers=PAGE)
    assert (first.status_code, first.headers["location"]) == (
        303,
        "/sign-in?next=%2Fsearch%3Fq%3Dseals%26namespace%3Dns_1",
    )
    form = browser.get(first.headers["location"])
    assert 'value="/search?q=seals&amp;namespace=ns_1"' in form.text
    answer = send(browser, org.api_key, next="/search?q=seals&namespace=ns_1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/search?q=seals&namespace=ns_1")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "max-age=43200" in cookie
    assert org.api_key not in str(answer.headers) + form.text
    assert browser.get("/search", headers=PAGE).text == "a page"
    another_process = browse()
    another_process.cookies.set(COOKIE_NAME, browser.cookies[COOKIE_NAME])
    assert another_process.get("/", headers=PAGE).text == "a page"
    assert sign_ins.read_sign_in(browser.cookies[COOKIE_NAME]) == SignIn(org.api_key)
    for file in (tmp_path / "sign-ins").iterdir():
        assert org.api_key.encode() not in file.read_bytes()
        assert browser.cookies[COOKIE_NAME] not in file.name


def test_what_is_no_key_is_refused_in_words_and_sets_no_cookie(browse, org):
    browser = browse()
    for key, words in (("rtr_wrong", "wrong or was revoked"), ("", "Type an API key"), ("schlüssel", "not an API key")):
        answer = send(browser, key)
        assert answer.status_code in {400, 403, 503}
        assert words in answer.text
        assert "set-cookie" not in answer.headers
    foreign = browser.post("/sign-in", data={"key": org.api_key}, headers={"Sec-Fetch-Site": "cross-site"})
    assert (foreign.status_code, "set-cookie" in foreign.headers) == (403, False)
    assert send(browser, org.api_key + "x" * 5000).status_code == 413


@pytest.mark.parametrize(
    "address", ["//example.com", "https://example.com", "/\\example.com", "/sign-in", "javascript:1"]
)
def test_the_form_leads_to_no_other_site(browse, org, address):
    assert send(browse(), org.api_key, next=address).headers["location"] == "/"


def test_the_id_of_before_the_sign_in_is_never_that_of_after(browse, org):
    browser = browse()
    answer = browser.post("/sign-in", data={"key": org.api_key}, headers={"Cookie": f"{COOKIE_NAME}=chosen-by-another"})
    assert answer.status_code == 303
    first = browser.cookies[COOKIE_NAME]
    assert first != "chosen-by-another"
    send(browser, org.api_key)
    assert browser.cookies[COOKIE_NAME] != first
    assert sign_ins.read_sign_in(first) is None


def test_a_sign_in_ends_after_twelve_hours(browse, org, monkeypatch):
    browser = browse()
    send(browser, org.api_key)
    current_time = time.time()
    monkeypatch.setattr(sign_ins.time, "time", lambda: current_time + sign_ins.SIGN_IN_SECONDS + 1)
    assert browser.get("/", headers=PAGE).status_code == 303


def test_a_link_signs_in_once(browse, org):
    link_id = sign_ins.create_sign_in(SignIn(org.api_key, once=True))
    browser = browse()
    browser.cookies.set(COOKIE_NAME, link_id)
    assert browser.get("/", headers=PAGE).status_code == 303  # a link is no sign-in of a browser
    browser.cookies.clear()
    for method in ("HEAD", "GET", "GET"):  # as scanners of mails and previews of links do
        answer = browser.request(method, f"/sign-in?once={link_id}")
        assert (answer.status_code, answer.headers.get("set-cookie")) == (200, None)
    assert link_id in answer.text
    assert "API key" not in answer.text.partition("<form")[2].partition("</form>")[0]
    answer = browser.post("/sign-in", data={"once": link_id})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert browser.get("/", headers=PAGE).text == "a page"
    for second_response in (
        browse().get(f"/sign-in?once={link_id}"),
        browse().post("/sign-in", data={"once": link_id}),
    ):
        assert second_response.status_code == 403
        assert re.search("used before, or has expired", second_response.text)


def test_a_revoked_key_ends_the_sign_in_of_every_browser(browse, org, app, monkeypatch):
    key = api_keys.create_key(org.db, org.ring, org.id, "Ada's")
    browser = browse()
    send(browser, key.api_key)
    view = app(org.api_key)
    monkeypatch.setattr("ui.session.cookie_id", lambda: browser.cookies[COOKIE_NAME])
    del view.session_state["who"]
    view.run()
    assert view.session_state["who"].key_name == "Ada's"
    assert org.client.delete(f"/v1/keys/{key.id}").status_code == 200
    del view.session_state["who"]
    view.run()
    assert "not valid any more" in "".join(warning.value for warning in view.warning)
    assert browser.get("/", headers=PAGE).status_code == 303


def test_the_app_answers_no_foreign_name(monkeypatch):
    monkeypatch.setenv(server.HOSTS_VARIABLE, "localhost,127.0.0.1,docs.example.com")
    app = Starlette(
        routes=[Route("/{page:path}", lambda _: PlainTextResponse("a page"))], middleware=[Middleware(server.CheckHost)]
    )
    client = TestClient(app)
    for host, status in (
        ("localhost:8501", 200),
        ("127.0.0.1:8501", 200),
        ("[::1]:8501", 200),
        ("docs.example.com", 200),
        ("attacker.example", 421),
        ("docs.example.com.attacker.example", 421),
        ("", 421),
    ):
        assert client.get("/", headers={"Host": host}).status_code == status, host
    assert "RETRIEVAL_UI_PUBLIC_URL" in client.get("/", headers={"Host": "attacker.example"}).text
