"""Blocks of Notion's pages: files, and nested pages and databases."""

# Addresses of files are signed for an hour (developers.notion.com/docs/retrieving-files): each fetch requests a new
# one. Files stored elsewhere are only links. GET /v1/blocks/{id}/children names child pages and child databases by
# blocks with the same ids, and files by blocks of the kinds `file`, `pdf` and `image`
# (developers.notion.com/reference/block).

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from posixpath import basename
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from connectors.http.responses import Cursors
from connectors.sources.notion import pages
from connectors.sources.notion.pages import Paths
from connectors.sources.notion.transport import (
    Answer,
    BadRequest,
    Forbidden,
    NotFound,
    NotionClient,
    Request,
    RequestSender,
)
from retrieval.errors import Fatal, ItemMissing, Retryable, Skippable
from retrieval.ports import RawContent, SourceItem

FILE_BLOCK_TYPES: Final = frozenset({"file", "pdf", "image"})
FILE_GONE_MESSAGE: Final = (
    "The file is not in Notion any more, or its page is not shared with the integration any more."
)
RETIRED_MESSAGE: Final = (
    "Notion no longer answers for items that it lists: it calls a block of an existing page missing (404). Nothing was"
    " removed or hidden. Update the retrieval service."
)


def is_file(external_id: str) -> bool:
    """Return True for the id of a file, "page/block"."""
    return "/" in external_id


def file_item(block: Mapping[str, Any], page_id: str, now: datetime) -> SourceItem | None:
    """Return the source item of a file; None for other blocks and for files stored elsewhere."""
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
    """Return id, name and media type of a file stored by Notion; None for other blocks."""
    address = _address(block)
    if not address:
        return None
    name = _name(block, address)
    return f"{page_id}/{block['id']}", name, _media_type(name)


def fetch_file(wire: NotionClient, send: RequestSender, paths: Paths, external_id: str, target: Path) -> RawContent:
    """Download a file. Skippable if it is deleted, too large, or no file."""
    try:
        block = _block(send, external_id)
    except NotFound as error:
        raise ItemMissing(FILE_GONE_MESSAGE) from error
    except (BadRequest, Forbidden) as error:
        raise Skippable(FILE_GONE_MESSAGE) from error
    address = "" if pages.is_trashed(block) else _address(block)
    if not address:
        raise Skippable(FILE_GONE_MESSAGE)
    size = wire.download(address, target)
    name = _name(block, address)
    path = paths.read_path({"title": [{"plain_text": name}], "parent": block.get("parent")}, send)
    return RawContent(target, name, _media_type(name), size, properties={"path": path})


def is_file_gone(send: RequestSender, external_id: str) -> bool:
    """Return True if the block or its page is deleted."""
    # An unreadable block may still exist.
    page_id = external_id.partition("/")[0]
    try:
        if pages.is_trashed(_block(send, external_id)):
            return True
        return pages.is_trashed(send(lambda client, token: client.pages.retrieve(page_id, auth=token)))
    except NotFound:
        _require_blocks(send, page_id)
        return True
    except (BadRequest, Forbidden):
        return False


def _require_blocks(send: RequestSender, page_id: str) -> None:
    """Raise Fatal if Notion lists a block of the page, but answers 404 for the block."""
    try:
        answer = send(lambda client, token: client.blocks.children.list(page_id, auth=token, page_size=1))
    except (NotFound, BadRequest, Forbidden):
        return
    block_ids = [str(block["id"]) for block in answer.get("results") or () if isinstance(block, Mapping)]
    try:
        for block_id in block_ids[:1]:
            _block(send, f"{page_id}/{block_id}")
    except NotFound as error:
        raise Fatal(RETIRED_MESSAGE) from error
    except (BadRequest, Forbidden):
        return


def _block(send: RequestSender, external_id: str) -> Answer:
    block_id = external_id.partition("/")[2]
    return send(lambda client, token: client.blocks.retrieve(block_id, auth=token))


def _address(block: Mapping[str, Any]) -> str:
    """Return the signed address of a file at Notion; "" for other blocks and for files elsewhere."""
    kind = block.get("type")
    content = block.get(kind) if kind in FILE_BLOCK_TYPES else None
    stored_file = content.get("file") if isinstance(content, Mapping) and content.get("type") == "file" else None
    address = stored_file.get("url") if isinstance(stored_file, Mapping) else None
    return address if isinstance(address, str) else ""


def _name(block: Mapping[str, Any], address: str) -> str:
    name = block[block["type"]].get("name")
    return str(name or unquote(basename(urlsplit(address).path)) or block["type"])


def _media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or ""


# Limit for the blocks of a page, including columns and toggles.
MAX_PAGE_REQUESTS: Final = 50


@dataclass(slots=True)
class PageContents:
    """Ids of child pages and databases, and files of a page. `cut`: some blocks were not read."""

    pages: list[str] = field(default_factory=list)
    databases: list[str] = field(default_factory=list)
    files: list[SourceItem] = field(default_factory=list)
    cut: bool = False


def list_children(send: RequestSender, block_id: str) -> Iterator[Mapping[str, Any]]:
    """Yield the blocks directly below a page or a block."""
    at: str | None = None
    cursors = Cursors("Notion's listing of a page's blocks")
    while True:
        position = at
        answer = send(
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


def list_contents(page_id: str, send: RequestSender, now: datetime) -> PageContents:
    """List the contents of a page, without child pages; empty for a deleted or unreadable page."""
    contents, requests_left, waiting = PageContents(), MAX_PAGE_REQUESTS, [page_id]

    def send_bounded(request: Request) -> Answer:
        nonlocal requests_left
        requests_left -= 1
        if requests_left < 0:
            raise _RequestLimitReached
        return send(request)

    try:
        while waiting:
            waiting += _collect_children(waiting.pop(), page_id, send_bounded, contents, now)
    except _RequestLimitReached:
        contents.cut = True
    return contents


class _RequestLimitReached(Exception):
    """The limit of requests for a page was reached."""


def _collect_children(
    block_id: str, page_id: str, send: RequestSender, contents: PageContents, now: datetime
) -> list[str]:
    """Add the contents directly below a block to `contents`; return the blocks with children."""
    further_ids = []
    try:
        for block in list_children(send, block_id):
            child_id, kind = str(block["id"]), block.get("type")
            if kind == "child_page":
                contents.pages.append(child_id)
            elif kind == "child_database":
                contents.databases.append(child_id)
            elif (item := file_item(block, page_id, now)) is not None:
                contents.files.append(item)
            elif block.get("has_children") is True:
                further_ids.append(child_id)
    except (NotFound, BadRequest, Forbidden):
        return []
    return further_ids
