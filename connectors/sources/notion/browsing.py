"""Notion for people who choose: pages at the top of what is shared, what lies in a page, the rows of a database.

A page is a document and may hold others: it is shown as a file that may have children, a database as a folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from connectors.sources.notion import files, pages
from connectors.sources.notion.paths import Paths, both
from connectors.sources.notion.transport import Answer, Closed, Missing, Request, Unfit
from retrieval.errors import Skippable
from retrieval.ports import Entry, Level

PAGE: Final = 100
NOT_THERE: Final = "There is no such page or database in Notion, or it is not shared with the integration."
_ID = re.compile("[0-9a-fA-F-]{32,36}")
Ask = Callable[[Request], Answer]


def level(ask: Ask, paths: Paths, parent: str | None, cursor: str | None) -> Level:
    """The cursor: Notion's own; of a database the number of the source, too."""
    if parent is not None and not _ID.fullmatch(parent):
        raise Skippable(NOT_THERE)
    try:
        if parent is None:
            return _top(ask, paths, cursor)
        try:
            database = ask(lambda client, token: client.databases.retrieve(parent, auth=token))
        except (Missing, Unfit):
            return _page(ask, paths, parent, cursor)
        return _rows(ask, paths, database, cursor)
    except (Missing, Unfit, Closed) as error:
        raise Skippable(NOT_THERE) from error


def _top(ask: Ask, paths: Paths, cursor: str | None) -> Level:
    """What lies in nothing else that is shared, and what no query of its parent names. Notion's search knows no levels:
    a page of it may hold none."""
    answer = ask(lambda client, token: client.search(auth=token, page_size=PAGE, start_cursor=cursor))
    found: dict[str, Entry] = {}
    for told in answer.get("results") or ():
        if not isinstance(told, Mapping) or pages.is_out(told):
            continue
        one = _database(ask, told) or told if told.get("object") == "data_source" else told
        is_among_rows = one.get("object") == "database" and bool((one.get("parent") or {}).get("database_id"))
        if one.get("object") in {"page", "database"} and (is_among_rows or not paths.lies_in(one, ask)):
            found[str(one["id"])] = _entry(one, ask, paths)
    return Level(list(found.values()), _next(answer))


def _database(ask: Ask, source: Answer) -> Answer | None:
    its = (source.get("parent") or {}).get("database_id")
    try:
        return ask(lambda client, token: client.databases.retrieve(its, auth=token)) if its else None
    except (Missing, Unfit, Closed):
        return None


def _page(ask: Ask, paths: Paths, parent: str, cursor: str | None) -> Level:
    page = ask(lambda client, token: client.pages.retrieve(parent, auth=token))
    path, above = paths.place(page, ask)
    above = (*both(str(page["id"])), *above)
    answer = ask(
        lambda client, token: client.blocks.children.list(parent, auth=token, page_size=PAGE, start_cursor=cursor)
    )
    entries = [
        entry
        for one in answer.get("results") or ()
        if isinstance(one, Mapping) and (entry := _block(one, str(page["id"]), path, above)) is not None
    ]
    return Level(entries, _next(answer))


def _rows(ask: Ask, paths: Paths, database: Answer, cursor: str | None) -> Level:
    sources = [str(one["id"]) for one in database.get("data_sources") or ()]
    number, at = json.loads(cursor) if cursor else (0, None)
    if number >= len(sources):
        return Level([])
    answer = ask(
        lambda client, token: client.data_sources.query(sources[number], auth=token, page_size=PAGE, start_cursor=at)
    )
    rows = [one for one in answer.get("results") or () if isinstance(one, Mapping) and not pages.is_out(one)]
    entries = [_entry(one, ask, paths) for one in rows if one.get("object") == "page"]
    following = _next(answer)
    place = [number, following] if following else [number + 1, None]
    return Level(entries, json.dumps(place) if following or number + 1 < len(sources) else None)


def _entry(thing: Answer, ask: Ask, paths: Paths) -> Entry:
    is_folder = thing.get("object") != "page"
    path, above = paths.place(thing, ask)
    return Entry(
        str(thing["id"]),
        pages.title(thing),
        is_folder=is_folder,
        path=path,
        media_type="" if is_folder else pages.MEDIA_TYPE,
        modified_at=thing.get("last_edited_time"),
        has_children=True,
        above=(*above, *both(str(thing["id"]))),
    )


def _block(block: Mapping[str, Any], page_id: str, path: str, above: tuple[str, ...]) -> Entry | None:
    """A page, a database or a file among the blocks of a page; None for text."""
    its, kind, changed = str(block.get("id")), block.get("type"), block.get("last_edited_time")
    if kind in {"child_page", "child_database"}:
        title = str((block.get(kind) or {}).get("title") or pages.UNTITLED)
        is_folder = kind == "child_database"
        media = "" if is_folder else pages.MEDIA_TYPE
        place = (*both(its), *above)
        return Entry(its, title, is_folder, f"{path}/{title}", media, None, changed, has_children=True, above=place)
    item = files.named(block, page_id)
    if item is None:
        return None
    return Entry(item[0], item[1], is_folder=False, path=f"{path}/{item[1]}", media_type=item[2], modified_at=changed,
                 above=above)  # fmt: skip


def _next(answer: Answer) -> str | None:
    return str(answer["next_cursor"]) if answer.get("has_more") and answer.get("next_cursor") else None
