"""HTML pages for browsers: they load nothing from other hosts and repeat nothing of the request."""

from __future__ import annotations

from html import escape
from typing import Any

from litestar import Request, Response

from api.errors import STATUS
from retrieval.errors import ServiceError

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_RESULTS = {
    "ACTIVE": ("Connected", "The connection is authorized. You can close this window."),
    "FAILED": ("Not connected", "The connection was not authorized. Start again from the application."),
    "REVOKED": ("Revoked", "The connection was revoked in the meantime. Create another one in the application."),
}
_KEPT = ("Not changed", "The new authorization did not succeed. The connection goes on with the one that it has.")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 32rem; margin: 15vh auto; padding: 0 1.5rem; color: #1c1c1c }}
h1 {{ font-size: 1.5rem }}
</style></head><body><main><h1>{title}</h1><p>{text}</p></main></body></html>
"""


def wanted(request: Request[Any, Any, Any]) -> bool:
    """Whether a browser asks: programs do not name HTML, and get JSON."""
    return "text/html" in request.headers.get("accept", "").lower()


def result(status: str, *, done: bool) -> Response[bytes]:
    """What became of an authorization, by the status of its connection; a connection may outlive a failed new one."""
    return _page(*(_RESULTS[status] if done or status != "ACTIVE" else _KEPT))


def error(about: ServiceError) -> Response[bytes]:
    return _page("This did not work", about.message, STATUS[about.code], about.headers)


def redirect(url: str) -> Response[bytes]:
    """Once: a cached answer would send the browser there without asking."""
    headers = {"Location": url, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
    return Response(b"", status_code=302, headers=headers, media_type="text/plain")


def _page(title: str, text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(
        _PAGE.format(title=escape(title), text=escape(text)).encode(),
        status_code=status,
        media_type="text/html",
        headers={**_HEADERS, **(headers or {})},
    )
