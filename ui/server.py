"""Server of the admin app for `streamlit run`, with security headers."""

from __future__ import annotations

import base64
import hashlib
import importlib
import ipaddress
import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import streamlit
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from streamlit.starlette import App

from ui import accessibility, session, sign_in_page

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


def content_security_policy() -> str:
    """Build the policy: everything from the app's own address, without frames."""
    # Streamlit needs styles in elements, pictures as data and blobs, and `unsafe-eval` for charts (Vega compiles
    # expressions). Hashes allow the inline scripts of its index page.
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text()
    inline = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in inline
    )
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' 'unsafe-eval' {hashes} {accessibility.SCRIPT_HASH}",
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
                    _add_secure(headers)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


def _add_secure(headers: MutableHeaders) -> None:
    """Add Secure to cookies."""
    # Cookies hold the person's token, and Streamlit does not mark them as secure.
    cookies = headers.getlist("set-cookie")
    del headers["set-cookie"]
    for cookie in cookies:
        headers.append("set-cookie", cookie if "; secure" in cookie.lower() else f"{cookie}; Secure")


# Host names of the app, comma-separated; any without this variable.
HOSTS_VARIABLE = "RETRIEVAL_UI_HOSTS"


class CheckHost:
    """Refuse requests by another name than the app's: DNS can point any name at this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._names = frozenset(filter(None, os.environ.get(HOSTS_VARIABLE, "").split(",")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"} and self._names:
            name = _read_host(Headers(scope=scope).get("host", ""))
            if name not in self._names and not _is_ip_address(name):
                message = f"The admin app has not the name {name}: set RETRIEVAL_UI_PUBLIC_URL to its address."
                await PlainTextResponse(message, 421)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _read_host(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_ip_address(name: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False


# For the first table and chart: their import takes a second.
PRELOADED_MODULES = ("httpx", "pandas", "altair")
threading.Thread(target=lambda: [importlib.import_module(name) for name in PRELOADED_MODULES], daemon=True).start()


class ReturnMiddleware:
    """Redirect from the identity provider to the page opened before."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_redirected(message: Message) -> None:
            is_redirect = message["type"] == "http.response.start" and message["status"] == 302
            if is_redirect and (address := session.take_address(Request(scope).cookies.get(session.BROWSER_COOKIE))):
                MutableHeaders(scope=message)["Location"] = address
            await send(message)

        is_callback = scope["type"] == "http" and scope["path"].endswith(session.CALLBACK_PATH)
        await self._app(scope, receive, send_redirected if is_callback else send)


app = App(
    Path(__file__).with_name("app.py"),
    routes=sign_in_page.SIGN_IN_ROUTES,
    middleware=[
        *(Middleware(layer) for layer in (SecurityHeaders, CheckHost, ReturnMiddleware)),
        Middleware(sign_in_page.RequireSignIn),
    ],
)
