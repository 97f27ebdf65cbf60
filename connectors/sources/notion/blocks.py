"""Blocks of Notion's pages: their files, and nested pages and databases.

Their addresses are signed for an hour (developers.notion.com/docs/retrieving-files): one is requested when the file is
fetched, and kept nowhere. Files stored elsewhere are links alone.

GET /v1/blocks/{id}/children names child pages and child databases by blocks that bear their ids, and files by blocks of
the kinds `file`, `pdf` and `image` (developers.notion.com/reference/block).
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from posixpath import basename
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from connectors.http.responses import Cursors
from connectors.sources.notion import pages
from connectors.sources.notion.pages import Paths
from connectors.sources.notion.transport import Answer, BadRequest, Forbidden, NotFound, Request, Wire
from retrieval.errors import Fatal, ItemMissing, Retryable, Skippable
from retrieval.ports import RawContent, SourceItem

KINDS: Final = frozenset({"file", "pdf", "image"})
GONE: Final = "The file is not in Notion any more, or its page is not shared with the integration any more."
RETIRED: Final = (
    "Notion no longer answers for items that it lists: it calls a block of an existing page missing (404). Nothing was"
    " removed or hidden. Update the retrieval service."
)
Ask = Callable[[Request], Answer]


def is_file(external_id: str) -> bool:
    """Tell whether the id is a file's, "page/block", not a page's."""
    return "/" in external_id


def file_item(block: Mapping[str, Any], page_id: str, now: datetime) -> SourceItem | None:
    """Source item of a block; None for a block without a file, or with one elsewhere."""
    address = _address(block)
    if not address or not isinstance(block.get("last_edited_time"), str):
        return None
    name = _name(block, address)
    fields = {
        "url": f"https://www.notion.so/{page_id.replace('-', '')}#{str(block['id']).replace('-', '')}",
        "createdAt": str(block.get("created_time") or ""),
        "modifiedAt": str(block["last_edited_time"]),
    }
    properties: dict[str, str | int] = {key: value for key, value in fields.items() if value}
    version = pages.page_version(block, now)
    return SourceItem(f"{page_id}/{block['id']}", name, _media_type(name), version, properties=properties)


def named_file(block: Mapping[str, Any], page_id: str) -> tuple[str, str, str] | None:
    """Id, name and media type of a file that Notion keeps; None for other blocks."""
    address = _address(block)
    if not address:
        return None
    name = _name(block, address)
    return f"{page_id}/{block['id']}", name, _media_type(name)


def fetch_file(wire: Wire, ask: Ask, paths: Paths, external_id: str, to: Path) -> RawContent:
    """Fetch a file. Skippable if it is deleted, too large, or not a file."""
    try:
        block = _block(ask, external_id)
    except NotFound as error:
        raise ItemMissing(GONE) from error
    except (BadRequest, Forbidden) as error:
        raise Skippable(GONE) from error
    address = "" if pages.is_out(block) else _address(block)
    if not address:
        raise Skippable(GONE)
    size = wire.download(address, to)
    name = _name(block, address)
    path = paths.of({"title": [{"plain_text": name}], "parent": block.get("parent")}, ask)
    return RawContent(to, name, _media_type(name), size, properties={"path": path})


def is_file_gone(ask: Ask, external_id: str) -> bool:
    """Tell whether the block or its page is deleted. One that may not be read may still exist."""
    page_id = external_id.partition("/")[0]
    try:
        if pages.is_out(_block(ask, external_id)):
            return True
        return pages.is_out(ask(lambda client, token: client.pages.retrieve(page_id, auth=token)))
    except NotFound:
        _require_blocks(ask, page_id)
        return True
    except (BadRequest, Forbidden):
        return False


def _require_blocks(ask: Ask, page_id: str) -> None:
    """Raise Fatal if Notion lists a block of the page, but answers for it as for a missing one."""
    try:
        answer = ask(lambda client, token: client.blocks.children.list(page_id, auth=token, page_size=1))
    except (NotFound, BadRequest, Forbidden):
        return
    block_ids = [str(block["id"]) for block in answer.get("results") or () if isinstance(block, Mapping)]
    try:
        for block_id in block_ids[:1]:
            _block(ask, f"{page_id}/{block_id}")
    except NotFound as error:
        raise Fatal(RETIRED) from error
    except (BadRequest, Forbidden):
        return


def _block(ask: Ask, external_id: str) -> Answer:
    block_id = external_id.partition("/")[2]
    return ask(lambda client, token: client.blocks.retrieve(block_id, auth=token))


def _address(block: Mapping[str, Any]) -> str:
    """Signed address of the file at Notion; "" for other blocks, and for files elsewhere."""
    kind = block.get("type")
    content = block.get(kind) if kind in KINDS else None
    stored_file = content.get("file") if isinstance(content, Mapping) and content.get("type") == "file" else None
    address = stored_file.get("url") if isinstance(stored_file, Mapping) else None
    return address if isinstance(address, str) else ""


def _name(block: Mapping[str, Any], address: str) -> str:
    name = block[block["type"]].get("name")
    return str(name or unquote(basename(urlsplit(address).path)) or block["type"])


def _media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or ""


REQUESTS: Final = 50
"""For the blocks of one page, in its columns and toggles too."""


@dataclass(slots=True)
class Inside:
    """Contents of a page: ids of pages and databases, and its files. `cut`: it has more blocks than were read."""

    pages: list[str] = field(default_factory=list)
    databases: list[str] = field(default_factory=list)
    files: list[SourceItem] = field(default_factory=list)
    cut: bool = False


def list_children(ask: Ask, block_id: str) -> Iterator[Mapping[str, Any]]:
    """The blocks right below a page or a block."""
    at: str | None = None
    cursors = Cursors("Notion's listing of a page's blocks")
    while True:
        position = at
        answer = ask(
            lambda client, token, position=position: client.blocks.children.list(  # type: ignore[misc]
                block_id, auth=token, page_size=100, start_cursor=position
            )
        )
        results = answer.get("results")
        if not isinstance(results, list):
            raise Retryable("Notion's answer holds no blocks.")
        yield from (block for block in results if isinstance(block, dict) and block.get("id"))
        at = answer.get("next_cursor") if answer.get("has_more") else None
        if not at:
            return
        cursors.follow(str(at), brought=bool(results))


def list_contents(page_id: str, ask: Ask, now: datetime) -> Inside:
    """List the contents of one page, not of the pages below it; nothing for a deleted or unreadable page."""
    contents, requests_left, waiting = Inside(), REQUESTS, [page_id]

    def bounded(request: Request) -> Answer:
        nonlocal requests_left
        requests_left -= 1
        if requests_left < 0:
            raise _Enough
        return ask(request)

    try:
        while waiting:
            waiting += _below(waiting.pop(), page_id, bounded, contents, now)
    except _Enough:
        contents.cut = True
    return contents


class _Enough(Exception):
    """Limit of blocks that are read of a page."""


def _below(block_id: str, page_id: str, ask: Ask, found: Inside, now: datetime) -> list[str]:
    """Record the contents directly below a block; returns the blocks that have children."""
    further_ids = []
    try:
        for block in list_children(ask, block_id):
            child_id, kind = str(block["id"]), block.get("type")
            if kind == "child_page":
                found.pages.append(child_id)
            elif kind == "child_database":
                found.databases.append(child_id)
            elif (item := file_item(block, page_id, now)) is not None:
                found.files.append(item)
            elif block.get("has_children") is True:
                further_ids.append(child_id)
    except (NotFound, BadRequest, Forbidden):
        return []
    return further_ids
