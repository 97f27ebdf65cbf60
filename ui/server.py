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
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
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
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                if "https" in (scope["scheme"], Headers(scope=scope).get("x-forwarded-proto")):
                    _only_by_https(headers)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


def _only_by_https(headers: MutableHeaders) -> None:
    """Cookies, which hold the person's token, are not sent in the clear then; Streamlit leaves that open."""
    cookies = headers.getlist("set-cookie")
    del headers["set-cookie"]
    for cookie in cookies:
        headers.append("set-cookie", cookie if "; secure" in cookie.lower() else f"{cookie}; Secure")


FOR_PAGES = ("httpx", "pandas", "altair")
"""What the first table and chart need; to import it takes a second, beside the start of the server."""
threading.Thread(target=lambda: [importlib.import_module(name) for name in FOR_PAGES], daemon=True).start()


class Return:
    """Middleware that redirects from the identity provider to the page that was opened before (`ui.session`)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def led_back(message: Message) -> None:
            leads = message["type"] == "http.response.start" and message["status"] == 302
            if leads and (address := session.take_address(Request(scope).cookies.get(session.COOKIE))):
                MutableHeaders(scope=message)["Location"] = address
            await send(message)

        comes = scope["type"] == "http" and scope["path"].endswith(session.CALLBACK)
        await self._app(scope, receive, led_back if comes else send)


app = App(
    Path(__file__).with_name("app.py"),
    routes=sign_in_page.ROUTES,
    middleware=[Middleware(SecurityHeaders), Middleware(Return), Middleware(sign_in_page.RequireSignIn)],
)
