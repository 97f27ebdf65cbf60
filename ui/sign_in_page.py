"""The page on which people type an API key, and the way there: routes beside those of Streamlit.

The answer of a successful sign-in sets the cookie of `ui.sign_ins`. Pages that are opened without one lead here and
back.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ui import session, sign_ins
from ui.client import ApiError
from ui.sign_ins import COOKIE, SignIn

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/sign-in"
LONGEST = 4_096
"""Bytes of a form, and of the address that is opened after the sign-in."""
_PAGE = re.compile(r"/(?!/|_stcore|static/|media/|component/|oauth2callback|sign-in)[\w/-]*")
_TEMPLATE = Path(__file__).with_name("sign_in_page.html").read_text(encoding="utf-8")
_NO_KEY = "Type an API key. `retrieval up` prints one; an administrator creates others under Keys and limits."
_WRONG = "This API key is wrong or was revoked. An administrator creates another under Keys and limits."
_USED = "This link was used before, or has expired. Type an API key, or start the service again for a new link."


def has_openid() -> bool:
    """Tell whether people sign in at an identity provider; then the app itself offers both ways."""
    try:
        return "auth" in st.secrets
    except FileNotFoundError:
        return False


async def show_form(request: Request) -> Response:
    """Show the form, or sign in by the one-time link of `retrieval up`."""
    once = request.query_params.get("once")
    if once is None:
        if sign_ins.read_sign_in(request.cookies.get(COOKIE)) is not None:
            return RedirectResponse(_next(request.query_params.get("next", "")), 303)
        return _form(request, "")
    sign_in = sign_ins.take_link(once)
    return _form(request, _USED, 403) if sign_in is None else await _answer(request, sign_in, {})


async def send_form(request: Request) -> Response:
    """Sign in with the key that was typed."""
    if not _is_from_here(request):
        return _form(request, "The form was sent by another site.", 403)
    if int(request.headers.get("content-length") or LONGEST + 1) > LONGEST:
        return _form(request, "The form is too large.", 413)
    async with request.form() as form:
        typed = {name: value for name, value in form.items() if isinstance(value, str)}
    sign_in = SignIn(typed.get("key", "").strip(), typed.get("tenant", "").strip())
    return await _answer(request, sign_in, typed) if sign_in.key else _form(request, _NO_KEY, 400, typed)


def _is_from_here(request: Request) -> bool:
    """Tell whether this app's own page sent the form. Browsers without Sec-Fetch-Site name its origin."""
    if (site := request.headers.get("sec-fetch-site")) is not None:
        return site in {"same-origin", "none"}
    origin = request.headers.get("origin", "null")
    return origin == "null" or urlsplit(origin).netloc == request.headers.get("host")


async def _answer(request: Request, sign_in: SignIn, typed: dict[str, str]) -> Response:
    """Check the key with the API; set the cookie and lead to the linked page."""
    try:
        await run_in_threadpool(session.find_person, sign_in.key, sign_in.tenant)
    except ApiError as error:
        message = _WRONG if session.key_has_ended(error) else f"{error.message} ({error.code})"
        return _form(request, message, 403 if error.status else 503, typed)
    sign_ins.end_sign_in(request.cookies.get(COOKIE))
    response = RedirectResponse(_next(typed.get("next", "")), 303)
    response.set_cookie(
        COOKIE,
        sign_ins.create_sign_in(SignIn(sign_in.key, sign_in.tenant)),
        max_age=sign_ins.SECONDS,
        path=_base() or "/",
        httponly=True,
        samesite="lax",
    )
    return response


def _form(request: Request, message: str, status: int = 200, typed: dict[str, str] | None = None) -> Response:
    values = typed or dict(request.query_params)
    page = _TEMPLATE.format(
        action=html.escape(_base() + PATH),
        message=f'<p role="alert">{html.escape(message)}</p>' if message else "",
        tenant=html.escape(values.get("tenant", "")),
        next=html.escape(values.get("next", "")),
        api=html.escape(session.api_address()),
    )
    return HTMLResponse(page, status, headers={"Cache-Control": "no-store"})


def _next(address: str) -> str:
    """Return the address of a page of this app; the first page for anything else."""
    path = address.partition("?")[0]
    return _base() + (address if _PAGE.fullmatch(path) and len(address) <= LONGEST else "/")


def _base() -> str:
    """Path of the app behind its proxy; empty at the root."""
    path = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{path}" if path else ""


def build_link(page: str, query: str) -> str:
    """Return the address of the form, which leads back to a page."""
    address = "/" + page.removeprefix(_base()).lstrip("/") + (f"?{query}" if query else "")
    return f"{_base()}{PATH}?next={quote(address, safe='')}"


class RequireSignIn:
    """Middleware that leads pages of people who are not signed in to the form."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and not has_openid():
            request = Request(scope)
            page = "/" + request.url.path.removeprefix(_base()).lstrip("/")
            wants_page = "text/html" in request.headers.get("accept", "") and _PAGE.fullmatch(page)
            if wants_page and sign_ins.read_sign_in(request.cookies.get(COOKIE)) is None:
                address = build_link(page, URL(scope=scope).query)
                await RedirectResponse(address, 303, headers={"Cache-Control": "no-store"})(scope, receive, send)
                return
        await self._app(scope, receive, send)


ROUTES = [
    Route(path, endpoint, methods=[method])
    for path in sorted({PATH, _base() + PATH})
    for method, endpoint in (("GET", show_form), ("POST", send_form))
]
