"""Sign-in page for API keys: routes besides Streamlit's own.

A successful sign-in sets the cookie of `ui.sign_ins`. Pages without a sign-in redirect here and back.
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
from ui.exports import EXPORT_PATH, send_export
from ui.sign_ins import COOKIE_NAME, SignIn

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

SIGN_IN_PATH = "/sign-in"
# Also of the address opened after the sign-in.
MAX_FORM_BYTES = 4_096
PAGE_PATTERN = re.compile(r"/(?!/|_stcore|static/|media/|component/|oauth2callback|sign-in)[\w/-]*")
PAGE_TEMPLATE = Path(__file__).with_name("sign_in_page.html").read_text(encoding="utf-8")
KEY_FIELDS = """<label>API key <input name="key" type="password" autocomplete="current-password" autofocus></label>
<label>Tenant (optional) <input name="tenant" value="{tenant}" autocomplete="off"></label>
<input name="next" type="hidden" value="{next}">"""
LINK_FIELDS = '<input name="once" type="hidden" value="{link_id}">'
NO_KEY_MESSAGE = "Type an API key. `retrieval up` prints one; an administrator creates others under Keys and limits."
WRONG_KEY_MESSAGE = "This API key is wrong or was revoked. An administrator creates another under Keys and limits."
USED_LINK_MESSAGE = (
    "This link was used before, or has expired. Type an API key, or start the service again for a new link."
)


async def show_form(request: Request) -> Response:
    """Show the form, with a one-time link a button."""
    # Previews of links and scanners of mails send GET and HEAD: only the button uses the link up.
    if (link_id := request.query_params.get("once")) is not None:
        return _render_link(request, link_id)
    if sign_ins.read_sign_in(request.cookies.get(COOKIE_NAME)) is not None:
        return RedirectResponse(_next_address(request.query_params.get("next", "")), 303)
    return _render_form(request, "")


async def send_form(request: Request) -> Response:
    """Sign in with the typed key or a one-time link."""
    if not _is_same_origin(request):
        return _render_form(request, "The form was sent by another site.", 403)
    if int(request.headers.get("content-length") or MAX_FORM_BYTES + 1) > MAX_FORM_BYTES:
        return _render_form(request, "The form is too large.", 413)
    async with request.form() as form:
        typed = {name: value for name, value in form.items() if isinstance(value, str)}
    if "once" in typed:
        sign_in = sign_ins.take_link(typed["once"])
        if sign_in is None:
            return _render_form(request, USED_LINK_MESSAGE, 403)
        return await _finish_sign_in(request, sign_in, {})
    sign_in = SignIn(typed.get("key", "").strip(), typed.get("tenant", "").strip())
    return (
        await _finish_sign_in(request, sign_in, typed)
        if sign_in.key
        else _render_form(request, NO_KEY_MESSAGE, 400, typed)
    )


def _is_same_origin(request: Request) -> bool:
    """Check that this app's page sent the form."""
    # Browsers without Sec-Fetch-Site send the Origin.
    if (site := request.headers.get("sec-fetch-site")) is not None:
        return site in {"same-origin", "none"}
    origin = request.headers.get("origin", "null")
    return origin == "null" or urlsplit(origin).netloc == request.headers.get("host")


async def _finish_sign_in(request: Request, sign_in: SignIn, typed: dict[str, str]) -> Response:
    """Check the key with the API, set the cookie and redirect."""
    try:
        await run_in_threadpool(session.find_person, sign_in.key, sign_in.tenant)
    except ApiError as error:
        message = WRONG_KEY_MESSAGE if session.key_has_ended(error) else f"{error.message} ({error.code})"
        return _render_form(request, message, 403 if error.status else 503, typed)
    sign_ins.end_sign_in(request.cookies.get(COOKIE_NAME))
    response = RedirectResponse(_next_address(typed.get("next", "")), 303)
    response.set_cookie(
        COOKIE_NAME,
        sign_ins.create_sign_in(SignIn(sign_in.key, sign_in.tenant)),
        max_age=sign_ins.SIGN_IN_SECONDS,
        path=_base_path() or "/",
        httponly=True,
        samesite="lax",
    )
    return response


def _render_form(request: Request, message: str, status: int = 200, typed: dict[str, str] | None = None) -> Response:
    values = typed or dict(request.query_params)
    fields = KEY_FIELDS.format(tenant=html.escape(values.get("tenant", "")), next=html.escape(values.get("next", "")))
    return _render_page(fields, message, status)


def _render_link(request: Request, link_id: str) -> Response:
    if not sign_ins.is_link(link_id):
        return _render_form(request, USED_LINK_MESSAGE, 403, {"next": ""})
    return _render_page(LINK_FIELDS.format(link_id=html.escape(link_id)), "", 200)


def _render_page(fields: str, message: str, status: int) -> Response:
    page = PAGE_TEMPLATE.format(
        action=html.escape(_base_path() + SIGN_IN_PATH),
        message=f'<p role="alert">{html.escape(message)}</p>' if message else "",
        fields=fields,
        api=html.escape(session.api_address()),
    )
    return HTMLResponse(page, status, headers={"Cache-Control": "no-store"})


def _next_address(address: str) -> str:
    """Return the address of a page of this app; the first page for other addresses."""
    path = address.partition("?")[0]
    return _base_path() + (address if PAGE_PATTERN.fullmatch(path) and len(address) <= MAX_FORM_BYTES else "/")


def _base_path() -> str:
    """Return the app's path behind a proxy; "" at the root."""
    path = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{path}" if path else ""


def build_link(page: str, query: str) -> str:
    """Build the form's address with the page to return to."""
    address = "/" + page.removeprefix(_base_path()).lstrip("/") + (f"?{query}" if query else "")
    return f"{_base_path()}{SIGN_IN_PATH}?next={quote(address, safe='')}"


class RequireSignIn:
    """Redirect pages to the form without a sign-in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET" and not session.has_openid():
            request = Request(scope)
            page = "/" + request.url.path.removeprefix(_base_path()).lstrip("/")
            wants_page = "text/html" in request.headers.get("accept", "") and PAGE_PATTERN.fullmatch(page)
            if wants_page and sign_ins.read_sign_in(request.cookies.get(COOKIE_NAME)) is None:
                address = build_link(page, URL(scope=scope).query)
                await RedirectResponse(address, 303, headers={"Cache-Control": "no-store"})(scope, receive, send)
                return
        await self._app(scope, receive, send)


ENDPOINTS = (("GET", SIGN_IN_PATH, show_form), ("POST", SIGN_IN_PATH, send_form), ("GET", EXPORT_PATH, send_export))
SIGN_IN_ROUTES = [
    Route(base + path, endpoint, methods=[method])
    for base in sorted({"", _base_path()})
    for method, path, endpoint in ENDPOINTS
]
