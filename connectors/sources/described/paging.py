"""Address of the next page of a list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from connectors.sources.described.fields import read_field, read_value
from connectors.sources.described.permission_layers import Paging

if TYPE_CHECKING:
    import httpx

_NEXT: Final = re.compile(r'<([^<>]*)>\s*;[^<]*\brel="?next"?')


def next_address(
    paging: Paging, base: str, answer: httpx.Response, entries: Sequence[Any], read: Callable[[httpx.Response], Any]
) -> str:
    """Return the address of the page behind an answer with these entries, "" behind the last one."""
    if paging.link or paging.last:
        return _read_link(answer) if paging.link else _follow_last(paging, answer, entries)
    document, url = read(answer), answer.url
    is_last = bool(paging.continues) and not read_value(document, paging.continues)
    if paging.address and not is_last:
        address = str(read_field(document, paging.address))
        if not paging.parameter:
            return base + address if address.startswith("/") else address
        cursor = answer.url.join(address).params.get(paging.parameter, "") if address else ""
        return _set_cursor(answer, paging.parameter, cursor) if cursor else ""
    if paging.cursor and not is_last:
        cursor = str(read_field(document, paging.cursor))
        return _set_cursor(answer, paging.parameter, cursor) if cursor else ""
    if is_last or not entries:
        return ""
    is_get = answer.request.method == "GET"
    page_number = (
        url.params.get(paging.parameter) if is_get else read_field(json.loads(answer.request.content), paging.parameter)
    )
    number = int(page_number or paging.first)
    total = read_field(document, paging.total) if paging.total else ""
    following = number + (len(entries) if paging.offset else 1)
    is_end = total != "" and following - paging.first >= int(total)
    return "" if is_end else _set_cursor(answer, paging.parameter, str(following) if is_get else following)


def _read_link(answer: httpx.Response) -> str:
    link = _NEXT.search(answer.headers.get("link", ""))
    return str(answer.url.join(link[1])) if link else ""


def _follow_last(paging: Paging, answer: httpx.Response, entries: Sequence[Any]) -> str:
    """Return the address of the page behind the last entry, "" behind a page that is not full."""
    if not entries or len(entries) < paging.size:
        return ""
    return str(answer.url.copy_merge_params({name: read_field(entries[-1], at) for name, at in paging.last.items()}))


def _set_cursor(answer: httpx.Response, name: str, value: str | int) -> str:
    """Return the answer's request with a cursor in the query, or for POST in the body at this dotted name."""
    if answer.request.method == "GET":
        return str(answer.url.copy_set_param(name, value))
    document = json.loads(answer.request.content)
    *path, last = name.split(".")
    part = document
    for key in path:
        part = part.setdefault(key, {})
    part[last] = value
    return f"{answer.url}\n{json.dumps(document)}"
