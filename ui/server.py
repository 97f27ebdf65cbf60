"""What `streamlit run` serves: the admin app, with the headers that keep other sites and foreign code away from it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from streamlit.starlette import App

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


def content_security_policy() -> str:
    """Everything from the app's own address, and no frames.

    Streamlit needs styles in elements, pictures as data and blob addresses, and `unsafe-eval` for its charts (Vega
    compiles expressions); the scripts that stand in its own index page are allowed by their hashes.
    """
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text()
    inline = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in inline)
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' 'unsafe-eval' {hashes}",
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
    """Sets the headers on every HTTP answer, errors and static files too."""

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
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


app = App(Path(__file__).with_name("app.py"), middleware=[Middleware(SecurityHeaders)])
