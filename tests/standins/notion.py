"""A workspace of Notion: pages, databases and their rows, a trash, search; judged by the vendor's own description.

A folder of `put` is a database and its pages are rows; one without a folder lies in the workspace. By
developers.notion.com/reference a page's children name pages and databases in it by blocks of their ids (block:
child_page, child_database), also those that search leaves out (post-search: it may not return everything). What is put
into a page changes its `last_edited_time`. A file that Notion keeps has an address that is signed for an hour, another
one at each answer, and is asked without a token (docs/retrieving-files).
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote

from tests.standins import account
from tests.standins.account import Served
from tests.standins.described import Described

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.standins.faults import Handler

CONTRACT = Path(__file__).with_name("contracts") / "notion-2025-09-03.json"
VERSION = "2026-03-11"
USER = {"object": "user", "id": "6794760a-1f15-45cd-9c65-0dfe42f5135a"}
SIGNED = "/signed/"
WORKSPACE = {"type": "workspace", "workspace": True}


@dataclass
class Thing:
    """A page, a database, a data source or a block."""

    object: str
    title: str
    parent: dict[str, Any]
    created: str
    edited: str
    text: str = ""
    is_out: bool = False
    is_shared: bool = True
    is_searchable: bool = True
    properties: dict[str, Any] = field(default_factory=dict)
    block: dict[str, Any] = field(default_factory=dict)


class NotionAccount(Served):
    """`limit`: results that one search or query gives at most. `left_out`: block to text, None for what is not shared.

    `refuses`: answers given for a path instead. `time`: what Notion's clock shows, which knows no seconds.
    """

    connector = "NOTION"
    unauthorized: ClassVar[Any] = {
        "object": "error", "status": 401, "code": "unauthorized", "message": "SECRET: API token is invalid.",
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.things: dict[str, Thing] = {}
        self.folders: dict[str, tuple[str, str]] = {}
        self.left_out: dict[str, str | None] = {}
        self.related: dict[str, list[str]] = {}
        self.refuses: dict[str, tuple[int, str]] = {}
        self.bodies: list[tuple[str, Any]] = []
        self.limit = 10_000
        self.people = ["ada@example.com"]
        self.attached: dict[str, str] = {}
        self.signatures = 0
        self.has_lost = False
        self._epoch = 0
        self._clock = datetime.now(UTC) - timedelta(days=7)
        self.time: Callable[[], datetime] = self._tick
        self._judge = Described(CONTRACT)
        self._paths = list(json.loads(CONTRACT.read_text())["paths"].items())

    def put(self, path: str, text: str) -> str:
        folder, _, name = path.rpartition("/")
        return self.add(name, text, self._inside(folder))

    def add(self, title: str, text: str = "", parent: dict[str, Any] | None = None, **more: Any) -> str:
        """A page; its id."""
        self._touch((parent or {}).get("page_id") or (parent or {}).get("block_id"))
        return self._new(Thing("page", title, parent or WORKSPACE, self._now(), self._now(), text, **more))

    def add_database(self, title: str, parent: dict[str, Any]) -> tuple[str, str]:
        """A database in a page; its id, and what rows of it have as parent."""
        self._touch(parent.get("page_id"))
        database = self._new(Thing("database", title, parent, self._now(), self._now(), is_searchable=False))
        source = self.add_source(database, title)
        self.things[source].is_searchable = False
        return database, {"type": "data_source_id", "data_source_id": source, "database_id": database}

    def attach(self, parent: str, name: str, text: str, kind: str = "file") -> str:
        """A file that Notion keeps, in a block of a page or a block; the block's id."""
        self.attached[name] = text
        return self.put_block(
            parent, kind, {"type": "file", "caption": [], **({"name": name} if kind == "file" else {})}
        )

    def is_open(self, path: str) -> bool:
        return path.startswith(SIGNED)

    def put_block(self, parent: str, kind: str, held: dict[str, Any], **more: Any) -> str:
        """At the end of a page's or a block's content."""
        inside = {"type": "page_id" if self.things[parent].object == "page" else "block_id"}
        place = {**inside, inside["type"]: parent}
        block = {"type": kind, kind: held}
        self._touch(parent)
        return self._new(Thing("block", "", place, self._now(), self._now(), block=block, **more))

    def change(self, external_id: str, text: str) -> None:
        self._edit(external_id).text = text

    def rename(self, external_id: str, name: str) -> None:
        self._edit(external_id).title = name

    def move(self, external_id: str, folder: str) -> None:
        self._edit(external_id).parent = self._inside(folder)

    def delete(self, external_id: str) -> None:
        self._edit(external_id).is_out = True

    def lose(self) -> None:
        self.has_lost = True

    def forget_cursors(self) -> None:
        self._epoch += 1

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path.startswith(SIGNED):
            token = handler.headers.get("authorization")
            is_good = not token and query.get("X-Amz-Signature") == f"canary-{self.signatures}"
            text = self.attached[unquote(path.removeprefix(SIGNED))] if is_good else "SECRET"
            handler.reply(200 if is_good else 403, text.encode(), {"Content-Type": "application/octet-stream"})
            return
        sent = json.loads(body) if body else {}
        self.bodies.append((f"{method} {path}", sent))
        complaint, template = self._complaint(handler, method, path, query, sent)
        if complaint:
            handler.reply(500, error(500, "internal_server_error", complaint))
            return
        status, answer = self._answered(template, method.lower(), path, {**query, **sent})
        if status == 200 and (complaint := self._judge.complaint_on_answer(template, method.lower(), answer)):
            status, answer = 500, error(500, "internal_server_error", complaint)
        handler.reply(status, answer)

    def _complaint(self, handler: Handler, method: str, path: str, query: dict[str, str], sent: Any) -> tuple[str, str]:
        """What the vendor's description has against a request, and the path that describes it."""
        if handler.headers.get("notion-version") != VERSION:
            return "no such version", ""
        for template, described in self._paths:
            if re.fullmatch(re.sub(r"\{\w+\}", "[0-9a-zA-Z-]+", template), path) and method.lower() in described:
                known = {one.get("name") for one in described[method.lower()]["parameters"]}
                if set(query) - known:
                    return f"unknown parameters {set(query) - known}", template
                return self._judge.complaint_on_request(template, method.lower(), sent or {}), template
        return f"no such request: {method} {path}", ""

    def _answered(self, template: str, method: str, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
        if path in self.refuses:
            status, code = self.refuses[path]
            return status, error(status, code, "SECRET VENDOR WORDS")
        if int(asked.get("page_size", 100)) > 100:
            return 400, error(400, "validation_error", "body.page_size should be ≤ 100")
        if template in {"/v1/users", "/v1/search"}:
            return self._users() if template == "/v1/users" else self._searched(asked)
        kind, one, *rest = path.removeprefix("/v1/").split("/")
        if kind == "pages" and rest == ["markdown"] and one in self.left_out:
            return self._left_out(one)
        thing = self.things.get(one)
        wanted = {"pages": "page", "databases": "database", "data_sources": "data_source", "blocks": "block"}[kind]
        if thing is None or not thing.is_shared or (thing.object != wanted and rest != ["children"]):
            return 404, error(404, "object_not_found", f"SECRET Could not find {wanted} with ID: {one}")
        return {
            "markdown": self._markdown,
            "query": self._queried,
            "children": self._children,
            "properties": self._related,
            "": lambda one, _asked: (200, self._shown(one)),
        }[rest[0] if rest else ""](one, asked)

    def _users(self) -> tuple[int, Any]:
        """Everybody in the workspace; without the capability to read users it is 403."""
        if not self.people:
            return 403, error(403, "restricted_resource", "SECRET Insufficient permissions for this endpoint.")
        found = [
            {"object": "user", "id": str(uuid.uuid4()), "type": "person", "name": "x", "person": {"email": one}}
            for one in self.people
        ]
        bot = {"object": "user", "id": str(uuid.uuid4()), "type": "bot", "name": "x", "bot": {}}
        return 200, {"object": "list", "type": "user", "user": {}, "results": [*found, bot], "has_more": False,
                     "next_cursor": None}  # fmt: skip

    def _searched(self, asked: dict[str, Any]) -> tuple[int, Any]:
        found = [
            one for one, thing in self.things.items()
            if thing.object in {"page", "data_source"} and thing.is_searchable and thing.is_shared
            and not thing.is_out and not self.has_lost
        ]  # fmt: skip
        is_down = (asked.get("sort") or {}).get("direction", "descending") == "descending"
        found.sort(key=lambda one: self.things[one].edited, reverse=is_down)
        return self._listed(found, asked, "page_or_data_source")

    def _queried(self, one: str, asked: dict[str, Any]) -> tuple[int, Any]:
        since = asked.get("filter", {}).get("created_time", {}).get("on_or_after", "")
        found = [
            row for row, thing in self.things.items()
            if thing.parent.get("data_source_id") == one and not thing.is_out and thing.is_shared
            and thing.created >= since and not self.has_lost
        ]  # fmt: skip
        for sort in asked.get("sorts", []):
            found.sort(key=lambda row: self.things[row].created, reverse=sort["direction"] == "descending")
        return self._listed(found, asked, "page_or_data_source")

    def _listed(self, found: list[str], asked: dict[str, Any], kind: str) -> tuple[int, Any]:
        place = str(asked.get("start_cursor") or f"{self._epoch}-0").split("-")
        if place[0] != str(self._epoch):
            return 400, error(400, "validation_error", "The start_cursor provided is invalid")
        start, is_cut = int(place[1]), len(found) > self.limit
        found = found[: self.limit]
        end = start + min(self.page, int(asked.get("page_size", 100)))
        answer = {
            "object": "list",
            "type": kind,
            kind: {},
            "results": [self._shown(one, as_block=kind == "block") for one in found[start:end]],
            "has_more": end < len(found),
            "next_cursor": f"{self._epoch}-{end}" if end < len(found) else None,
        }
        cut = {"request_status": {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}}
        return 200, {**answer, **(cut if is_cut else {})}

    def _markdown(self, one: str, _asked: dict[str, Any]) -> tuple[int, Any]:
        return self._rendered(one, self.things[one].text)

    def _left_out(self, one: str) -> tuple[int, Any]:
        text = self.left_out[one]
        if text is None:
            return 404, error(404, "object_not_found", f"SECRET Could not find block with ID: {one}")
        return self._rendered(one, text)

    def _rendered(self, one: str, text: str) -> tuple[int, Any]:
        unknown = [block for block in self.left_out if block.replace("-", "") in text]
        answer = {"object": "page_markdown", "id": one, "markdown": text}
        return 200, {**answer, "truncated": bool(unknown), "unknown_block_ids": unknown}

    def _children(self, one: str, asked: dict[str, Any]) -> tuple[int, Any]:
        return self._listed(self._below(one), asked, "block")

    def _below(self, one: str) -> list[str]:
        found = self.things.items()
        return [
            name for name, thing in found
            if thing.object in {"block", "page", "database"} and not thing.is_out
            and one in (thing.parent.get("page_id"), thing.parent.get("block_id"))
        ]  # fmt: skip

    def _related(self, one: str, asked: dict[str, Any]) -> tuple[int, Any]:
        status, answer = self._listed([], asked, "property_item")
        answer["results"] = [
            {"object": "property_item", "id": "rel", "type": "relation", "relation": {"id": other}}
            for other in self.related[one]
        ]
        return status, answer

    def _shown(self, one: str, *, as_block: bool = False) -> dict[str, Any]:
        thing = self.things[one]
        if as_block and thing.object != "block":
            kind = f"child_{thing.object}"
            thing = replace(thing, object="block", block={"type": kind, kind: {"title": thing.title}})
        shown = {
            "object": thing.object,
            "id": one,
            "created_time": thing.created,
            "last_edited_time": thing.edited,
            "created_by": USER,
            "last_edited_by": USER,
            "in_trash": thing.is_out,
            "parent": thing.parent,
        }
        if thing.object == "block":
            return {**shown, **self._signed(thing.block), "has_children": bool(self._below(one))}
        shown |= {
            "is_archived": False,
            "is_locked": False,
            "icon": None,
            "cover": None,
            "public_url": None,
            "url": f"https://www.notion.so/{one.replace('-', '')}",
        }
        name = rich(thing.title)
        if thing.object == "page":
            title = {"id": "title", "type": "title", "title": name}
            return {**shown, "properties": {"Name": title, **thing.properties}}
        if thing.object == "database":
            return {**shown, "title": name, "data_sources": self._sources(one), "description": [], "is_inline": False}
        return {**shown, "title": name, "properties": {}, "database_parent": WORKSPACE}

    def _signed(self, block: dict[str, Any]) -> dict[str, Any]:
        """A block, the file that Notion keeps for it with an address of this answer alone."""
        held = block[block["type"]]
        if held.get("type") != "file":
            return block
        self.signatures += 1
        name = held.get("name") or list(self.attached)[-1]
        address = f"{self.base}{SIGNED}{quote(name)}?X-Amz-Signature=canary-{self.signatures}"
        return {**block, block["type"]: {**held, "file": {"url": address, "expiry_time": "2026-01-01T00:00:00.000Z"}}}

    def _sources(self, database: str) -> list[dict[str, str]]:
        return [
            {"id": one, "name": thing.title} for one, thing in self.things.items()
            if thing.object == "data_source" and thing.parent.get("database_id") == database
        ]  # fmt: skip

    def _inside(self, folder: str) -> dict[str, Any]:
        """The parent of what lies in a folder."""
        if not folder:
            return WORKSPACE
        if folder not in self.folders:
            above, _, name = folder.rpartition("/")
            parent = self._inside(above)
            if "database_id" in parent:
                parent = {"type": "database_id", "database_id": parent["database_id"]}
            database = self._new(Thing("database", name, parent, self._now(), self._now()))
            self.folders[folder] = database, self.add_source(database, name)
        database, source = self.folders[folder]
        return {"type": "data_source_id", "data_source_id": source, "database_id": database}

    def add_source(self, database: str, title: str) -> str:
        parent = {"type": "database_id", "database_id": database}
        return self._new(Thing("data_source", title, parent, self._now(), self._now()))

    def _new(self, thing: Thing) -> str:
        with self.lock:
            one = str(uuid.uuid4())
            self.things[one] = thing
        return one

    def _touch(self, one: str | None) -> None:
        """What changes in a page changes the page."""
        while one and self.things[one].object != "page":
            one = self.things[one].parent.get("page_id") or self.things[one].parent.get("block_id")
        if one:
            self.things[one].edited = self._now()

    def _edit(self, one: str) -> Thing:
        self.things[one].edited = self._now()
        return self.things[one]

    def _now(self) -> str:
        return self.time().strftime("%Y-%m-%dT%H:%M:00.000Z")

    def _tick(self) -> datetime:
        self._clock += timedelta(minutes=1)
        return self._clock


def rich(text: str) -> list[dict[str, Any]]:
    """Notion's rich text."""
    return [{"type": "text", "text": {"content": text, "link": None}, "plain_text": text, "href": None}]


def error(status: int, code: str, message: str) -> dict[str, Any]:
    return {"object": "error", "status": status, "code": code, "message": message, "request_id": "r"}


def serving() -> AbstractContextManager[Served]:
    return account.serving(NotionAccount())
