"""Downloads of all documents of a filter, streamed during the API's listing."""

from __future__ import annotations

import csv
import io
import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from ui import sign_ins
from ui.client import Api, ApiError, Json, TimeoutGuard

EXPORT_PATH = "/export"
EXPORT_SECONDS = 3600.0
PAGE_SIZE = 100
COLUMNS = (
    *("id", "externalId", "name", "ingestionStatus", "ingestionError", "failureCause", "documentType"),
    *("ingestionSource", "metadata", "access", "accessStatus", "documentProperties", "createdAt", "updatedAt"),
)
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
EXPIRED_MESSAGE = "This download has expired. Reload the page of documents, and download again."


@dataclass(frozen=True, slots=True)
class Export:
    """Documents of a filter visible to a person, for the browser with this sign-in."""

    api: Api
    namespace: str
    config: Json
    browser: str | None
    expires_at: float


# In the process, so that no file holds a key.
_exports: dict[str, Export] = {}


def offer(api: Api, namespace: str, config: Json, browser: str | None) -> str:
    """Return the token of a download."""
    now = time.monotonic()
    for token in [token for token, export in list(_exports.items()) if export.expires_at < now]:
        _exports.pop(token, None)
    token = secrets.token_urlsafe(32)
    own = replace(api, notice=nullcontext, silence=TimeoutGuard(), recent={})  # of this download, not of the page
    _exports[token] = Export(own, namespace, config, browser, now + EXPORT_SECONDS)
    return token


def withdraw(token: str | None) -> None:
    """End a download's link."""
    _exports.pop(token or "", None)


async def send_export(request: Request) -> Response:
    """Stream the documents of a token as CSV."""
    export, browser = _exports.get(request.query_params.get("of", "")), request.cookies.get(sign_ins.COOKIE_NAME)
    is_open = export is not None and export.expires_at >= time.monotonic() and export.browser in {None, browser}
    if export is None or not is_open or (export.browser and sign_ins.read_sign_in(browser) is None):
        return PlainTextResponse(EXPIRED_MESSAGE, 404)
    parts = _list_parts(export)
    try:
        first = await run_in_threadpool(next, parts)
    except ApiError as error:
        return PlainTextResponse(error.message, error.status or 503)
    headers = {"Content-Disposition": 'attachment; filename="documents.csv"', "Cache-Control": "no-store"}
    return StreamingResponse(chain([first], parts), media_type="text/csv", headers=headers)


def _list_parts(export: Export) -> Iterator[bytes]:
    cursor, is_first = None, True
    while is_first or cursor:
        data = export.api.list_documents(export.namespace, export.config, size=PAGE_SIZE, cursor=cursor)
        rows = [{name: _export_value(value) for name, value in document.items()} for document in data["documents"]]
        yield csv_bytes(rows, COLUMNS, has_header=is_first)
        cursor, is_first = data["nextCursor"], False


def _export_value(value: Any) -> Any:
    return value.get("isoString") or json.dumps(value) if isinstance(value, dict) else value


def csv_bytes(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], *, has_header: bool = True) -> bytes:
    """Build a CSV file, or a part without header, with escaped formulas."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(columns), extrasaction="ignore")
    if has_header:
        writer.writeheader()
    for row in rows:
        writer.writerow({name: _csv_cell(row.get(name)) for name in columns})
    return buffer.getvalue().encode("utf-8-sig" if has_header else "utf-8")


def _csv_cell(value: Any) -> Any:
    text = "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "'" + text if text.lstrip(" ").startswith(FORMULA_STARTS) and not isinstance(value, int | float) else text
