"""A page's blocks: their children page by page, and what lies among them beside text.

GET /v1/blocks/{id}/children names child pages and child databases by blocks that bear their ids, and files by blocks of
the kinds `file`, `pdf` and `image` (developers.notion.com/reference/block).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from connectors.http.responses import Cursors
from connectors.sources.notion import files as notion_files
from connectors.sources.notion.transport import Answer, Closed, Missing, Request, Unfit
from retrieval.errors import Retryable
from retrieval.ports import SourceItem

REQUESTS: Final = 50
"""For the blocks of one page, in its columns and toggles too."""
Ask = Callable[[Request], Answer]


@dataclass(slots=True)
class Inside:
    """What lies in a page: ids of pages and databases, and its files. `cut`: it has more blocks than were asked for."""

    pages: list[str] = field(default_factory=list)
    databases: list[str] = field(default_factory=list)
    files: list[SourceItem] = field(default_factory=list)
    cut: bool = False


def children(ask: Ask, block_id: str) -> Iterator[Mapping[str, Any]]:
    """The blocks right below a page or a block."""
    at: str | None = None
    cursors = Cursors("Notion's listing of a page's blocks")
    while True:
        place = at
        answer = ask(
            lambda client, token, place=place: client.blocks.children.list(  # type: ignore[misc]
                block_id, auth=token, page_size=100, start_cursor=place
            )
        )
        results = answer.get("results")
        if not isinstance(results, list):
            raise Retryable("Notion's answer holds no blocks.")
        yield from (one for one in results if isinstance(one, dict) and one.get("id"))
        at = answer.get("next_cursor") if answer.get("has_more") else None
        if not at:
            return
        cursors.follow(str(at), brought=bool(results))


def inside(page_id: str, ask: Ask, now: datetime) -> Inside:
    """Of one page, not of the pages below it. Nothing of a page that is gone or may not be read."""
    found, left, waiting = Inside(), REQUESTS, [page_id]

    def bounded(request: Request) -> Answer:
        nonlocal left
        left -= 1
        if left < 0:
            raise _Enough
        return ask(request)

    try:
        while waiting:
            waiting += _below(waiting.pop(), page_id, bounded, found, now)
    except _Enough:
        found.cut = True
    return found


class _Enough(Exception):
    """The page has more blocks than are asked for."""


def _below(block_id: str, page_id: str, ask: Ask, found: Inside, now: datetime) -> list[str]:
    """Notes what lies right below a block; the blocks that have others below them."""
    more = []
    try:
        for block in children(ask, block_id):
            one, kind = str(block["id"]), block.get("type")
            if kind == "child_page":
                found.pages.append(one)
            elif kind == "child_database":
                found.databases.append(one)
            elif (item := notion_files.item(block, page_id, now)) is not None:
                found.files.append(item)
            elif block.get("has_children") is True:
                more.append(one)
    except (Missing, Unfit, Closed):
        return []
    return more
