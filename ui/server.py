"""Server of the admin app for `streamlit run`, with headers that block other sites and foreign code."""

from __future__ import annotations

import base64
import hashlib
import importlib
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from streamlit.starlette import App

from ui import accessibility, session, sign_in_page

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


def content_security_policy() -> str:
    """Everything from the app's own address, and no frames.

    Streamlit needs styles in elements, pictures as data and blob addresses, and `unsafe-eval` for its charts (Vega
    compiles expressions); the scripts that stand in its own index page are allowed by their hashes.
    """
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text()
    inline = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in inline
    )
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' 'unsafe-eval' {hashes} {accessibility.HASH}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-src 'none'",
            "frame-ancestors 'none'",
        )
    )


class SecurityHeaders:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = {
            "Content-Security-Policy": content_security_policy(),
            "X-Frame-Options": "DENY",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        secure = scope["type"] == "http" and _by_https(scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                if secure:
                    _only_by_https(headers)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


def _by_https(scope: Scope) -> bool:
    """Tell whether the browser connected by https, to this server or to the proxy before it."""
    protocols = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    return scope["scheme"] == "https" or protocols[:1] == [b"https"]


def _only_by_https(headers: MutableHeaders) -> None:
    """Cookies, which hold the person's token, are not sent in the clear then; Streamlit leaves that open."""
    cookies = headers.getlist("set-cookie")
    del headers["set-cookie"]
    for cookie in cookies:
        headers.append("set-cookie", cookie if "; secure" in cookie.lower() else f"{cookie}; Secure")


FOR_PAGES = ("httpx", "pandas", "altair")
"""What the first page with a table and a chart needs beyond Streamlit; to import it takes a second."""


def _prepare() -> None:
    """Beside the start of the server, which answers meanwhile."""
    for name in FOR_PAGES:
        importlib.import_module(name)


threading.Thread(target=_prepare, name="prepare", daemon=True).start()


class Return:
    """Middleware that redirects from the identity provider to the page that was opened before (`ui.session`)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def led_back(message: Message) -> None:
            leads = message["type"] == "http.response.start" and message["status"] == 302
            if leads and (address := session.take_address(session.browser_of(scope["headers"]))):
                MutableHeaders(scope=message)["Location"] = address
            await send(message)

        comes = scope["type"] == "http" and scope["path"].endswith(session.CALLBACK)
        await self._app(scope, receive, led_back if comes else send)


app = App(
    Path(__file__).with_name("app.py"),
    routes=sign_in_page.ROUTES,
    middleware=[Middleware(SecurityHeaders), Middleware(Return), Middleware(sign_in_page.RequireSignIn)],
)
