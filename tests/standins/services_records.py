"""Services of tasks and of records that are read by a description, on loopback."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.standins.described_base import DescribedService

if TYPE_CHECKING:
    from tests.standins.faults import Handler

TEAM, SPACE = "9001", "901"
COMMENTS = 25
BASE, TABLE = "appZoo", "tblTasks"


class ClickUp(DescribedService):
    """https://developer.clickup.com/reference/getfilteredteamtasks (page from 0, at most 100; date_updated_gt)
    https://developer.clickup.com/reference/gettask (attachments, markdown_description on request)
    https://developer.clickup.com/docs/task-comments-pagination (from the newest; start and start_id)
    https://developer.clickup.com/reference/getthreadedcomments
    https://developer.clickup.com/reference/searchdocspublic (limit 10 to 100, cursor)
    https://developer.clickup.com/reference/getdocpagespublic

    `about`: further fields of tasks, `comments`: theirs, the newest first; `replies`: of comments; `spaces`: names by
    id; `spaces_of`: spaces of moved tasks; `archived`: keys of tasks; `docs`, `pages`: by id of the doc.
    """

    connector, config_url = "CLICKUP", f"https://app.clickup.com/{TEAM}/v/o/s/{SPACE}"
    prefix = "/api"
    serves_files = True

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, dict[str, Any]] = {}
        self.comments: dict[str, list[dict[str, Any]]] = {}
        self.replies: dict[str, list[dict[str, Any]]] = {}
        self.spaces = {SPACE: "Zoo"}
        self.spaces_of: dict[str, str] = {}
        self.archived: set[str] = set()
        self.docs: dict[str, dict[str, Any]] = {}
        self.pages: dict[str, list[dict[str, Any]]] = {}

    def locate(self, key: str) -> str:
        return f"https://app.clickup.com/{TEAM}/v/s/{self.spaces_of.get(key, SPACE)}/t/{key}"

    def _bearer(self, handler: Handler) -> str:
        return handler.headers.get("authorization") or ""

    def is_open(self, path: str) -> bool:
        return path in self.downloads

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path in self.downloads:
            return handler.reply(200, self.downloads[path], {"Content-Type": "text/plain"})
        version, kind, key, *rest = [*path.removeprefix("/api/").split("/"), ""]
        if (version, kind) == ("v3", "workspaces"):
            assert (key, rest[0]) == (TEAM, "docs")
            return self._answer_docs(handler, query, rest[1:-1])
        if kind == "team":
            assert key in {"", TEAM}
            return self._answer_team(handler, query, "".join(rest))
        if kind == "comment":
            return handler.reply(200, {"comments": self.replies.get(key, [])})
        assert kind == "task"
        if rest[0] == "comment":
            return handler.reply(200, {"comments": self._cut_comments(self.comments.get(key, []), query)})
        task = self._describe(key, query) if key in self.items else {"err": "Task not found, deleted"}
        return handler.reply(200 if key in self.items else 404, task)

    def _answer_team(self, handler: Handler, query: dict[str, str], area: str) -> None:
        if area == "task":
            assert (query["subtasks"], query["include_closed"]) == ("true", "true")
            return self._list_tasks(handler, query)
        if area == "space":
            assert query["archived"] == "false"
            return handler.reply(200, {"spaces": [{"id": key, "name": name} for key, name in self.spaces.items()]})
        people = [{"user": {"id": 7, "username": "Ada Berg"}}, {"user": {"id": 8, "username": "Bob Lund"}}]
        return handler.reply(200, {"teams": [{"id": TEAM, "members": people}]})

    def _list_tasks(self, handler: Handler, query: dict[str, str]) -> None:
        since, space = int(query.get("date_updated_gt", 0)), query.get("space_ids[]")
        keys = [
            key
            for key, item in self.items.items()
            if (_milliseconds(item.updated) > since and key not in self.archived)
            and space in {None, self.spaces_of.get(key, SPACE)}
        ]
        # Requests that count tasks have no order.
        size = min(100, self.page) if "order_by" in query else 100
        page = 0 if self.circular else int(query["page"])
        shown = keys[page * size : (page + 1) * size]
        return handler.reply(200, {"tasks": [self._describe(key, {}) for key in shown]})

    def _cut_comments(self, comments: list[dict[str, Any]], query: dict[str, str]) -> list[dict[str, Any]]:
        places = [number for number, entry in enumerate(comments) if entry["id"] == query.get("start_id")]
        assert ("start" in query) == bool(places)
        start = places[0] + 1 if places else 0
        assert not places or comments[places[0]]["date"] == query["start"]
        return comments[start : start + COMMENTS]

    def _answer_docs(self, handler: Handler, query: dict[str, str], rest: list[str]) -> None:
        if not rest:
            assert 10 <= int(query["limit"]) <= 100
            shown = [doc for doc in self.docs.values() if not doc["deleted"] and not doc["archived"]]
            part, following = self.cut(shown, int(query.get("cursor", 0)), int(query["limit"]))
            return handler.reply(200, {"docs": part} | ({} if following is None else {"next_cursor": str(following)}))
        if rest[0] not in self.docs:
            return handler.reply(404, {"message": "Doc not found"})
        assert rest[1:] in ([], ["pages"])
        return handler.reply(200, self.pages.get(rest[0], []) if rest[1:] else self.docs[rest[0]])

    def put_doc(self, key: str, name: str, pages: list[dict[str, Any]], **more: Any) -> None:
        about = {"id": key, "name": name, "creator": 7, "date_created": 1778754720000, "date_updated": 1778754720000}
        self.docs[key] = {**about, "deleted": False, "archived": False, **more}
        self.pages[key] = pages

    def _describe(self, key: str, query: dict[str, str]) -> dict[str, Any]:
        item, about = self.items[key], self.about.get(key, {})
        own = {name: value for name, value in about.items() if name != "attachments"}
        requested = {"attachments": about.get("attachments", [])} if query else {}
        if query.get("include_markdown_description") == "true":
            requested["markdown_description"] = item.text
        return {
            "id": key,
            "name": item.title,
            "description": "",
            "status": {"status": "in progress"},
            "creator": {"id": 7, "username": "Ada Berg"},
            "date_created": str(_milliseconds(item.created)),
            "date_updated": str(_milliseconds(item.updated)),
            "archived": key in self.archived,
            "list": {"name": "Keepers"},
            "folder": {"name": "hidden", "hidden": True},
            "space": {"id": self.spaces_of.get(key, SPACE)},
            **own,
            **requested,
        }


class ClickUpWorkspace(ClickUp):
    """https://developer.clickup.com/reference/getspaces (archived)"""

    config_url = f"https://app.clickup.com/{TEAM}/v/li/12"


class Airtable(DescribedService):
    """https://airtable.com/developers/web/api/list-records (at most 100; offset, cellFormat, recordMetadata)
    https://airtable.com/developers/web/api/list-comments (the newest first)
    https://airtable.com/developers/web/api/list-bases https://airtable.com/developers/web/api/get-base-schema

    `about`: cells of records by key, texts, files or linked records; `comments`: of records, the newest first;
    `tables`: names by id; `tables_of`: tables of records. Addresses of files differ in each answer.
    """

    connector, config_url = "AIRTABLE", f"https://airtable.com/{BASE}"
    prefix = "/v0"
    serves_files = True

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, dict[str, Any]] = {}
        self.comments: dict[str, list[dict[str, Any]]] = {}
        self.tables = {TABLE: "Tasks"}
        self.tables_of: dict[str, str] = {}
        self._answers = 0

    def make_key(self, number: int) -> str:
        return f"rec{number}"

    def locate(self, key: str) -> str:
        return f"https://airtable.com/{BASE}/{self.tables_of.get(key, TABLE)}/{key}"

    def is_open(self, path: str) -> bool:
        return path in self.downloads

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path in self.downloads:
            return handler.reply(200, self.downloads[path], {"Content-Type": "text/plain"})
        parts = path.removeprefix("/v0/").split("/")
        if parts[0] == "meta":
            schema = [{"id": "fld2", "name": "Text"}, {"id": "fld1", "name": "Name"}]
            tables = [
                {"id": key, "name": name, "primaryFieldId": "fld1", "fields": schema}
                for key, name in self.tables.items()
            ]
            assert parts[1:] in (["bases"], ["bases", BASE, "tables"])
            listed = {"tables": tables} if parts[2:] else {"bases": [{"id": BASE, "name": "Zoo"}]}
            return handler.reply(200, listed)
        base, table, *rest = parts
        if base != BASE or table not in self.tables:
            return handler.reply(404, {"error": "NOT_FOUND"})
        if rest:
            shown = self.comments.get(rest[0], [])
            return self._page(handler, query, "comments", shown)
        return self._page(handler, query, "records", [self._describe(key, query) for key in self._find(table, query)])

    def _page(self, handler: Handler, query: dict[str, str], name: str, entries: list[Any]) -> None:
        part, following = self.cut(entries, int(query.get("offset", 0)), int(query.get("pageSize", 100)))
        return handler.reply(200, {name: part} | ({} if following is None else {"offset": str(following)}))

    def _find(self, table: str, query: dict[str, str]) -> list[str]:
        keys = [key for key in self.items if self.tables_of.get(key, TABLE) == table]
        formula = query.get("filterByFormula", "")
        if by_id := re.fullmatch(r'RECORD_ID\(\)="(\w+)"', formula):
            return [key for key in keys if key == by_id[1]]
        since = re.fullmatch(r'LAST_MODIFIED_TIME\(\)>=DATETIME_PARSE\("(\S+)"\)', formula)
        assert since or not formula
        return [key for key in keys if not since or self.items[key].updated >= datetime.fromisoformat(since[1])]

    def _describe(self, key: str, query: dict[str, str]) -> dict[str, Any]:
        item, is_text = self.items[key], query.get("cellFormat") == "string"
        assert not is_text or (query["timeZone"], query["userLocale"]) == ("UTC", "en-gb")
        self._answers += 1
        cells = {"Text": item.text, "Name": item.title, **self.about.get(key, {})}
        files = f"https://v5.airtableusercontent.com/v3/{self._answers}"
        for name, value in cells.items():
            if isinstance(value, list) and is_text:
                names = (
                    f"{part['filename']} ({files}/{part['id']})" if "filename" in part else part["name"]
                    for part in value
                )
                cells[name] = ", ".join(names)
            elif isinstance(value, list):
                cells[name] = [part if "filename" in part else part["id"] for part in value]
        record = {"id": key, "createdTime": item.created.isoformat(), "fields": cells}
        count = {"commentCount": len(self.comments.get(key, []))} if query.get("recordMetadata[]") else {}
        return record | count


class AirtableAccount(Airtable):
    """https://airtable.com/developers/web/api/list-bases"""

    config_url = "https://airtable.com/workspaces/wspZoo"


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


SERVICES = {
    "CLICKUP": ClickUp,
    "CLICKUP_WORKSPACE": ClickUpWorkspace,
    "AIRTABLE": Airtable,
    "AIRTABLE_ACCOUNT": AirtableAccount,
}
