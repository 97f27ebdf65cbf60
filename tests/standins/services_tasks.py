"""Services of tasks and projects that are read by a description, on loopback."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.standins.described_base import DescribedService

if TYPE_CHECKING:
    from tests.standins.faults import Handler

WORKSPACE, PROJECT = "1199", "1201"


class Asana(DescribedService):
    """https://developers.asana.com/reference/gettasks (project, modified_since; only gid, name and opt_fields)
    https://developers.asana.com/docs/pagination (limit: at most 100; next_page)
    https://developers.asana.com/reference/getstoriesfortask https://developers.asana.com/reference/getattachmentsforobject
    https://developers.asana.com/reference/gettaskcountsforproject (fields have to be requested)

    `fields`: further fields of tasks by key; `stories`, `subtasks`, `files`: lists of a task; `projects`: by gid.
    """

    connector, config_url = "ASANA", f"https://app.asana.com/1/{WORKSPACE}/project/{PROJECT}"
    prefix = "/api/1.0"
    serves_files = True

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, dict[str, Any]] = {}
        self.stories: dict[str, list[dict[str, Any]]] = {}
        self.subtasks: dict[str, list[dict[str, Any]]] = {}
        self.files: dict[str, list[dict[str, Any]]] = {}
        self.projects: dict[str, dict[str, Any]] = {PROJECT: {"name": "Zoo", "modified_at": "2026-05-14T10:00:00.000Z"}}
        self.updates: list[dict[str, Any]] = []

    def locate(self, key: str) -> str:
        return f"https://app.asana.com/1/{WORKSPACE}/project/{PROJECT}/task/{key}"

    def is_open(self, path: str) -> bool:
        return path.startswith("/signed/")

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path in self.downloads:
            return handler.reply(200, self.downloads[path], {"Content-Type": "text/plain"})
        kind, _, rest = path.removeprefix("/api/1.0/").partition("/")
        key, _, area = rest.partition("/")
        lists: dict[str, Any] = {
            "workspaces": [{"gid": gid, **project} for gid, project in self.projects.items()],
            "status_updates": self.updates if query.get("parent") == PROJECT else [],
            "attachments": self.files.get(query.get("parent", ""), []),
        }
        if kind == "workspaces":
            assert (key, area) == (WORKSPACE, "projects")
        if kind in lists:
            return self._page(handler, query, lists[kind])
        if kind == "projects":
            number = {"num_tasks": len(self.items) if key == PROJECT else 0}
            shown = number if area == "task_counts" else {"gid": key, **self.projects.get(key, {})}
            return self._show(handler, query, shown if key in self.projects else None)
        assert kind == "tasks"
        if area:
            return self._page(handler, query, {"stories": self.stories, "subtasks": self.subtasks}[area].get(key, []))
        if key:
            return self._show(handler, query, self._describe(key) if key in self.items else None)
        since = query.get("modified_since", "")
        keys = [key for key in self.items if self._describe(key)["modified_at"] >= since]
        return self._page(handler, query, [self._describe(key) for key in keys if query["project"] == PROJECT])

    def _page(self, handler: Handler, query: dict[str, str], entries: list[dict[str, Any]]) -> None:
        size = int(query["limit"])
        assert 1 <= size <= 100
        part, following = self.cut(entries, int(query.get("offset", 0)), size)
        page = None if following is None else {"offset": str(following), "path": "/x", "uri": f"{self.base}/x"}
        return handler.reply(200, {"data": [_select(entry, query) for entry in part], "next_page": page})

    def _show(self, handler: Handler, query: dict[str, str], entry: dict[str, Any] | None) -> None:
        if entry is None:
            return handler.reply(404, {"errors": [{"message": "task: Unknown object: 1"}]})
        return handler.reply(200, {"data": _select(entry, query)})

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        times = {"created_at": item.created.isoformat(), "modified_at": item.updated.isoformat()}
        about = {"gid": key, "name": item.title, "html_notes": f"<body>{item.text}</body>", "completed": False}
        return {**about, **times, "num_subtasks": len(self.subtasks.get(key, [])), **self.fields.get(key, {})}


class AsanaWorkspace(Asana):
    config_url = f"https://app.asana.com/1/{WORKSPACE}"


def _select(entry: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    """The fields that a request names, and the gid."""
    names = {re.split(r"\.", name)[0] for name in query.get("opt_fields", "name").split(",")}
    return {name: value for name, value in entry.items() if name in names | {"gid"}}


SERVICES = {"ASANA": Asana, "ASANA_WORKSPACE": AsanaWorkspace}
