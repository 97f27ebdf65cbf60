"""A Notion workspace on loopback: pages, databases, trash, search, checked against Notion's API description."""
# A folder of `put` is a database with its pages as rows; a page without a folder is in the workspace.
# developers.notion.com/reference: a page's children name child pages and databases by blocks with their ids (block:
# child_page, child_database), including pages missing from search (post-search: results may be incomplete). An addition
# to a page changes `last_edited_time`. A file kept by Notion has an address signed for an hour, new in each answer,
# open without a token (docs/retrieving-files).

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
    """A workspace."""

    # `limit`: results of a search or query; `left_out`: block to text, None for unshared blocks; `refuses`: answers by
    # path; `time`: Notion's clock, in minutes.

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

    def add(self, title: str, text: str = "", parent: dict[str, Any] | None = None, **options: Any) -> str:
        """Add a page and return the id."""
        self.touch((parent or {}).get("page_id") or (parent or {}).get("block_id"))
        return self._new(Thing("page", title, parent or WORKSPACE, self._now(), self._now(), text, **options))

    def attach(self, parent: str, name: str, text: str, kind: str = "file") -> str:
        """Add a file in a block of a page or block; return the block's id."""
        self.attached[name] = text
        return self.put_block(
            parent, kind, {"type": "file", "caption": [], **({"name": name} if kind == "file" else {})}
        )

    def is_open(self, path: str) -> bool:
        return path.startswith(SIGNED)

    def put_block(self, parent: str, kind: str, content: dict[str, Any], **options: Any) -> str:
        """At the end of a page's or a block's content."""
        inside = {"type": "page_id" if self.things[parent].object == "page" else "block_id"}
        location = {**inside, inside["type"]: parent}
        block = {"type": kind, kind: content}
        self.touch(parent)
        return self._new(Thing("block", "", location, self._now(), self._now(), block=block, **options))

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
        request_body = json.loads(body) if body else {}
        self.bodies.append((f"{method} {path}", request_body))
        complaint, template = self._complaint(handler, method, path, query, request_body)
        if complaint:
            handler.reply(500, error(500, "internal_server_error", complaint))
            return
        status, answer = self._answered(template, method.lower(), path, {**query, **request_body})
        if status == 200 and (complaint := self._judge.complaint_on_answer(template, method.lower(), answer)):
            status, answer = 500, error(500, "internal_server_error", complaint)
        handler.reply(status, answer)

    def _complaint(
        self, handler: Handler, method: str, path: str, query: dict[str, str], request_body: Any
    ) -> tuple[str, str]:
        """Return the complaint of Notion's description and the matching path template."""
        if handler.headers.get("notion-version") != VERSION:
            return "no such version", ""
        for template, described in self._paths:
            if re.fullmatch(re.sub(r"\{\w+\}", "[0-9a-zA-Z-]+", template), path) and method.lower() in described:
                names = {parameter.get("name") for parameter in described[method.lower()]["parameters"]}
                if set(query) - names:
                    return f"unknown parameters {set(query) - names}", template
                return self._judge.complaint_on_request(template, method.lower(), request_body or {}), template
        return f"no such request: {method} {path}", ""

    def _answered(self, template: str, method: str, path: str, parameters: dict[str, Any]) -> tuple[int, Any]:
        if path in self.refuses:
            status, code = self.refuses[path]
            return status, error(status, code, "SECRET VENDOR WORDS")
        if int(parameters.get("page_size", 100)) > 100:
            return 400, error(400, "validation_error", "body.page_size should be ≤ 100")
        if template in {"/v1/users", "/v1/search"}:
            return self._users() if template == "/v1/users" else self._searched(parameters)
        kind, object_id, *suffix = path.removeprefix("/v1/").split("/")
        if kind == "pages" and suffix == ["markdown"] and object_id in self.left_out:
            return self._left_out(object_id)
        thing = self.things.get(object_id)
        object_type = {"pages": "page", "databases": "database", "data_sources": "data_source", "blocks": "block"}[kind]
        if thing is None or not thing.is_shared or (thing.object != object_type and suffix != ["children"]):
            return 404, error(404, "object_not_found", f"SECRET Could not find {object_type} with ID: {object_id}")
        return {
            "markdown": self._markdown,
            "query": self._queried,
            "children": self._children,
            "properties": self._related,
            "": lambda object_id, _asked: (200, self._object_json(object_id)),
        }[suffix[0] if suffix else ""](object_id, parameters)

    def _users(self) -> tuple[int, Any]:
        """Return all users of the workspace, or 403 without the capability."""
        if not self.people:
            return 403, error(403, "restricted_resource", "SECRET Insufficient permissions for this endpoint.")
        people = [
            {"object": "user", "id": str(uuid.uuid4()), "type": "person", "name": "x", "person": {"email": person}}
            for person in self.people
        ]
        bot = {"object": "user", "id": str(uuid.uuid4()), "type": "bot", "name": "x", "bot": {}}
        return 200, {"object": "list", "type": "user", "user": {}, "results": [*people, bot], "has_more": False,
                     "next_cursor": None}  # fmt: skip

    def _searched(self, parameters: dict[str, Any]) -> tuple[int, Any]:
        hits = [
            object_id for object_id, thing in self.things.items()
            if thing.object in {"page", "data_source"} and thing.is_searchable and thing.is_shared
            and not thing.is_out and not self.has_lost
        ]  # fmt: skip
        is_down = (parameters.get("sort") or {}).get("direction", "descending") == "descending"
        hits.sort(key=lambda object_id: self.things[object_id].edited, reverse=is_down)
        return self._list_response(hits, parameters, "page_or_data_source")

    def _queried(self, object_id: str, parameters: dict[str, Any]) -> tuple[int, Any]:
        since = parameters.get("filter", {}).get("created_time", {}).get("on_or_after", "")
        rows = [
            row for row, thing in self.things.items()
            if thing.parent.get("data_source_id") == object_id and not thing.is_out and thing.is_shared
            and thing.created >= since and not self.has_lost
        ]  # fmt: skip
        for sort in parameters.get("sorts", []):
            rows.sort(key=lambda row: self.things[row].created, reverse=sort["direction"] == "descending")
        return self._list_response(rows, parameters, "page_or_data_source")

    def _list_response(self, object_ids: list[str], parameters: dict[str, Any], kind: str) -> tuple[int, Any]:
        cursor = str(parameters.get("start_cursor") or f"{self._epoch}-0").split("-")
        if cursor[0] != str(self._epoch):
            return 400, error(400, "validation_error", "The start_cursor provided is invalid")
        start, is_cut = int(cursor[1]), len(object_ids) > self.limit
        object_ids = object_ids[: self.limit]
        end = start + min(self.page, int(parameters.get("page_size", 100)))
        answer = {
            "object": "list",
            "type": kind,
            kind: {},
            "results": [self._object_json(object_id, as_block=kind == "block") for object_id in object_ids[start:end]],
            "has_more": end < len(object_ids),
            "next_cursor": f"{self._epoch}-{end}" if end < len(object_ids) else None,
        }
        cut = {"request_status": {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}}
        return 200, {**answer, **(cut if is_cut else {})}

    def _markdown(self, object_id: str, _asked: dict[str, Any]) -> tuple[int, Any]:
        return self._rendered(object_id, self.things[object_id].text)

    def _left_out(self, object_id: str) -> tuple[int, Any]:
        text = self.left_out[object_id]
        if text is None:
            return 404, error(404, "object_not_found", f"SECRET Could not find block with ID: {object_id}")
        return self._rendered(object_id, text)

    def _rendered(self, object_id: str, text: str) -> tuple[int, Any]:
        unknown = [block for block in self.left_out if block.replace("-", "") in text]
        answer = {"object": "page_markdown", "id": object_id, "markdown": text}
        return 200, {**answer, "truncated": bool(unknown), "unknown_block_ids": unknown}

    def _children(self, object_id: str, parameters: dict[str, Any]) -> tuple[int, Any]:
        return self._list_response(self._below(object_id), parameters, "block")

    def _below(self, object_id: str) -> list[str]:
        candidates = self.things.items()
        return [
            name for name, thing in candidates
            if thing.object in {"block", "page", "database"} and not thing.is_out
            and object_id in (thing.parent.get("page_id"), thing.parent.get("block_id"))
        ]  # fmt: skip

    def _related(self, object_id: str, parameters: dict[str, Any]) -> tuple[int, Any]:
        status, answer = self._list_response([], parameters, "property_item")
        answer["results"] = [
            {"object": "property_item", "id": "rel", "type": "relation", "relation": {"id": related_id}}
            for related_id in self.related[object_id]
        ]
        return status, answer

    def _object_json(self, object_id: str, *, as_block: bool = False) -> dict[str, Any]:
        thing = self.things[object_id]
        if as_block and thing.object != "block":
            kind = f"child_{thing.object}"
            thing = replace(thing, object="block", block={"type": kind, kind: {"title": thing.title}})
        answer = {
            "object": thing.object,
            "id": object_id,
            "created_time": thing.created,
            "last_edited_time": thing.edited,
            "created_by": USER,
            "last_edited_by": USER,
            "in_trash": thing.is_out,
            "parent": thing.parent,
        }
        if thing.object == "block":
            return {**answer, **self.sign(thing.block), "has_children": bool(self._below(object_id))}
        answer |= {
            "is_archived": False,
            "is_locked": False,
            "icon": None,
            "cover": None,
            "public_url": None,
            "url": f"https://www.notion.so/{object_id.replace('-', '')}",
        }
        name = rich(thing.title)
        if thing.object == "page":
            title = {"id": "title", "type": "title", "title": name}
            return {**answer, "properties": {"Name": title, **thing.properties}}
        if thing.object == "database":
            return {
                **answer,
                "title": name,
                "data_sources": self._sources(object_id),
                "description": [],
                "is_inline": False,
            }
        return {**answer, "title": name, "properties": {}, "database_parent": WORKSPACE}

    def sign(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return a block with a fresh signed address of its file."""
        file = block[block["type"]]
        if file.get("type") != "file":
            return block
        self.signatures += 1
        name = file.get("name") or list(self.attached)[-1]
        address = f"{self.base}{SIGNED}{quote(name)}?X-Amz-Signature=canary-{self.signatures}"
        return {**block, block["type"]: {**file, "file": {"url": address, "expiry_time": "2026-01-01T00:00:00.000Z"}}}

    def _sources(self, database: str) -> list[dict[str, str]]:
        return [
            {"id": object_id, "name": thing.title} for object_id, thing in self.things.items()
            if thing.object == "data_source" and thing.parent.get("database_id") == database
        ]  # fmt: skip

    def _inside(self, folder: str) -> dict[str, Any]:
        """Return the parent of a folder's pages."""
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
            object_id = str(uuid.uuid4())
            self.things[object_id] = thing
        return object_id

    def touch(self, object_id: str | None) -> None:
        """Set the edit time of the enclosing page."""
        while object_id and self.things[object_id].object != "page":
            object_id = self.things[object_id].parent.get("page_id") or self.things[object_id].parent.get("block_id")
        if object_id:
            self.things[object_id].edited = self._now()

    def _edit(self, object_id: str) -> Thing:
        self.things[object_id].edited = self._now()
        return self.things[object_id]

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
