"""Sign-in returns users to their page once, and never to another site."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from ui import session
from ui.server import ReturnMiddleware

PAGE = "http://app.example/documents"


def landing(browser: str | None, path: str = session.CALLBACK_PATH) -> str:
    """Return the redirect target for a path."""
    routes = [
        Route(callback_path, lambda _: RedirectResponse("/", 302))
        for callback_path in (session.CALLBACK_PATH, "/auth/logout")
    ]
    client = TestClient(Starlette(routes=routes, middleware=[Middleware(ReturnMiddleware)]))
    cookies = {} if browser is None else {"Cookie": f"other=1; {session.BROWSER_COOKIE}={browser}"}
    return client.get(path, headers=cookies, follow_redirects=False).headers["location"]


def test_each_browser_returns_to_its_own_page_once():
    session.remember_address("2|ada", PAGE, {"namespace": "ns_1", "q": "a & b"})
    session.remember_address("2|bob", "http://app.example/base/runs", {})
    assert landing("2|ada", "/auth/logout") == "/"
    assert landing(None) == "/"
    assert landing("2|mallory") == "/"
    assert landing("2|ada") == "/documents?namespace=ns_1&q=a+%26+b"
    assert landing("2|bob") == "/base/runs"
    assert landing("2|ada") == "/"


@pytest.mark.parametrize(
    ("browser", "url", "query"),
    [
        ("b", "http://app.example//evil.example/x", {}),
        ("b", "http://app.example/\\evil.example", {}),
        ("b", "http://app.example/x\r\nSet-Cookie: a=b", {}),
        ("b", PAGE, {"q": "x" * 5_000}),
        ("b", None, {}),
        (None, PAGE, {}),
        ("", PAGE, {}),
    ],
)
def test_what_is_no_page_of_the_app_is_not_kept(browser, url, query):
    session.remember_address(browser, url, query)
    assert landing(browser) == "/"
