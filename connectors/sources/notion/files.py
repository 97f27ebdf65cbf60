"""Files that Notion keeps for a page, each a document of its own.

Their addresses are signed for an hour (developers.notion.com/docs/retrieving-files): one is asked for when the file is
fetched, and kept nowhere. Files that lie elsewhere are links alone.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from posixpath import basename
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from connectors.sources.notion import pages
from connectors.sources.notion.paths import Paths
from connectors.sources.notion.transport import Answer, Closed, Missing, Request, Unfit, Wire
from retrieval.errors import Skippable
from retrieval.ports import RawContent, SourceItem

KINDS: Final = frozenset({"file", "pdf", "image"})
GONE: Final = "The file is not in Notion any more, or its page is not shared with the integration any more."
Ask = Callable[[Request], Answer]


def is_file(external_id: str) -> bool:
    """Whether it is a file's id, "page/block", and no page's."""
    return "/" in external_id


def item(block: Mapping[str, Any], page_id: str, now: datetime) -> SourceItem | None:
    """A block as a file; None for what is none, or lies elsewhere."""
    address = _address(block)
    if not address or not isinstance(block.get("last_edited_time"), str):
        return None
    name = _name(block, address)
    said = {
        "url": f"https://www.notion.so/{page_id.replace('-', '')}#{str(block['id']).replace('-', '')}",
        "createdAt": str(block.get("created_time") or ""),
        "modifiedAt": str(block["last_edited_time"]),
    }
    known: dict[str, str | int] = {key: value for key, value in said.items() if value}
    version = pages.version(block, now)
    return SourceItem(f"{page_id}/{block['id']}", name, _media_type(name), version, properties=known)


def named(block: Mapping[str, Any], page_id: str) -> tuple[str, str, str] | None:
    """Id, name and media type of a file that Notion keeps; None for other blocks."""
    address = _address(block)
    if not address:
        return None
    name = _name(block, address)
    return f"{page_id}/{block['id']}", name, _media_type(name)


def fetch(wire: Wire, ask: Ask, paths: Paths, external_id: str, to: Path) -> RawContent:
    """Skippable if the file is gone, too large, or no file any more."""
    try:
        block = _block(ask, external_id)
    except (Missing, Unfit, Closed) as error:
        raise Skippable(GONE) from error
    address = "" if pages.is_out(block) else _address(block)
    if not address:
        raise Skippable(GONE)
    size = wire.download(address, to)
    name = _name(block, address)
    path = paths.of({"title": [{"plain_text": name}], "parent": block.get("parent")}, ask)
    return RawContent(to, name, _media_type(name), size, properties={"path": path})


def gone(ask: Ask, external_id: str) -> bool:
    """Whether the block or its page is. What may not be read may be there."""
    page_id = external_id.partition("/")[0]
    try:
        if pages.is_out(_block(ask, external_id)):
            return True
        return pages.is_out(ask(lambda client, token: client.pages.retrieve(page_id, auth=token)))
    except Missing:
        return True
    except (Unfit, Closed):
        return False


def _block(ask: Ask, external_id: str) -> Answer:
    block_id = external_id.partition("/")[2]
    return ask(lambda client, token: client.blocks.retrieve(block_id, auth=token))


def _address(block: Mapping[str, Any]) -> str:
    """Where Notion keeps the file, signed; "" for other blocks, and for files elsewhere."""
    kind = block.get("type")
    held = block.get(kind) if kind in KINDS else None
    kept = held.get("file") if isinstance(held, Mapping) and held.get("type") == "file" else None
    address = kept.get("url") if isinstance(kept, Mapping) else None
    return address if isinstance(address, str) else ""


def _name(block: Mapping[str, Any], address: str) -> str:
    told = block[block["type"]].get("name")
    return str(told or unquote(basename(urlsplit(address).path)) or block["type"])


def _media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or ""
