"""Azure DevOps as its description reads it, on loopback."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tests.standins.described_base import DescribedService

if TYPE_CHECKING:
    from tests.standins.faults import Handler

ORGANIZATION, PROJECT, WIKI = "acme", "Zoo", "wiki-1"
BATCH = 200


class AzureDevOps(DescribedService):
    """https://learn.microsoft.com/en-us/rest/api/azure/devops/wit/reporting-work-item-revisions (nextLink is in the
    last batch, too; startDateTime; includeDeleted)
    https://learn.microsoft.com/en-us/rest/api/azure/devops/wit/work-items/get-work-item (404 for a deleted one)
    https://learn.microsoft.com/en-us/rest/api/azure/devops/wit/comments/get-comments (continuationToken)
    https://learn.microsoft.com/en-us/rest/api/azure/devops/git/items/list
    https://learn.microsoft.com/en-us/rest/api/azure/devops/wiki/pages/get-page

    `about`: further fields of work items by key; `relations`, `comments`: theirs; `projects_of`: projects of moved
    ones; `trash`: deleted items, which are still listed; `pages`: contents of the wiki by the path of their file.
    """

    connector, config_url = "AZURE_DEVOPS", f"https://dev.azure.com/{ORGANIZATION}/{PROJECT}"
    prefix = f"/{ORGANIZATION}"

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, dict[str, Any]] = {}
        self.relations: dict[str, list[dict[str, Any]]] = {}
        self.comments: dict[str, list[dict[str, Any]]] = {}
        self.projects = [PROJECT]
        self.projects_of: dict[str, str] = {}
        self.trash: dict[str, Any] = {}
        self.pages: dict[str, str] = {}

    def locate(self, key: str) -> str:
        return f"https://dev.azure.com/{ORGANIZATION}/{self.projects_of.get(key, PROJECT)}/_workitems/edit/{key}"

    def delete(self, key: str) -> None:
        self.trash[key] = self.items.pop(key)
        self.trash[key].updated = datetime.now().astimezone()

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path in self.downloads:
            return handler.reply(200, self.downloads[path], {"Content-Type": "text/plain"})
        assert query["api-version"].startswith("7.1")
        project, _, place = unquote(path.removeprefix(f"/{ORGANIZATION}/")).partition("_apis/")
        area, *rest = place.split("/")
        if area == "projects":
            return handler.reply(200, {"value": [{"name": name, "state": "wellFormed"} for name in self.projects]})
        if area == "wit" and rest[0] == "reporting":
            return self._list_revisions(handler, path, query, project.strip("/"))
        if area == "wit":
            return self._answer_item(handler, query, project.strip("/"), rest[1], is_of_comments=len(rest) == 3)
        if area == "git":
            assert (query["scopePath"], query["versionDescriptor.version"]) == ("/", "wikiMaster")
            return handler.reply(200, {"value": self._list_pages()})
        assert (area, rest[0]) == ("wiki", "wikis")
        return self._answer_wiki(handler, query, rest[1:])

    def _list_revisions(self, handler: Handler, path: str, query: dict[str, str], project: str) -> None:
        assert (query["includeLatestOnly"], query["includeDeleted"]) == ("true", "true")
        assert not {"startDateTime", "continuationToken"} <= query.keys()
        since, start = query.get("startDateTime") or query.get("since"), int(query.get("continuationToken", 0))
        every_item = {**self.items, **self.trash}
        keys = [
            key
            for key, item in every_item.items()
            if project in {"", self.projects_of.get(key, PROJECT)}
            and (not since or item.updated >= datetime.fromisoformat(since))
        ]
        part, following = self.cut(keys, start, BATCH)
        named = set(query.get("fields", "").split(",")) if "fields" in query else None
        values = [self._describe(key, named) for key in part]
        token = len(keys) if following is None else following
        kept = {name: value for name, value in query.items() if name != "startDateTime"}
        parameters = "&".join(f"{name}={value}" for name, value in {**kept, "continuationToken": str(token)}.items())
        link = f"{self.base}{path}?{parameters}" + (f"&since={since}" if since else "")
        return handler.reply(200, {"values": values, "nextLink": link, "isLastBatch": following is None})

    def _answer_item(
        self, handler: Handler, query: dict[str, str], project: str, key: str, *, is_of_comments: bool
    ) -> None:
        if key not in self.items:
            return handler.reply(404, {"message": "TF401232: Work item does not exist."})
        if is_of_comments:
            start, size = int(query.get("continuationToken", 0)), int(query["$top"])
            assert (query["order"], size <= 200) == ("asc", True)
            part, following = self.cut(self.comments.get(key, []), start, size)
            return handler.reply(
                200, {"comments": part} | ({"continuationToken": str(following)} if following is not None else {})
            )
        shown = self._describe(key, None if query.get("$expand") == "all" else set(query["fields"].split(",")))
        expanded = {"relations": self.relations.get(key, [])} if query.get("$expand") == "all" else {}
        return handler.reply(200, shown | expanded)

    def _list_pages(self) -> list[dict[str, Any]]:
        folder = {"path": "/", "gitObjectType": "tree", "objectId": "0", "isFolder": True}
        files = [
            {"path": path, "gitObjectType": "blob", "objectId": str(hash(text))} for path, text in self.pages.items()
        ]
        return [folder, {"path": "/.order", "gitObjectType": "blob", "objectId": "1"}, *files]

    def _answer_wiki(self, handler: Handler, query: dict[str, str], rest: list[str]) -> None:
        if not rest:
            versions = [{"version": "wikiMaster"}]
            wiki = {"id": WIKI, "name": "Zoo.wiki", "projectId": "p-1", "repositoryId": "r-1"}
            return handler.reply(200, {"value": [{**wiki, "mappedPath": "/", "versions": versions}]})
        assert rest == [WIKI, "pages"]
        file = query["path"].replace("-", "%2D").replace(" ", "-") + ".md"
        if file not in self.pages:
            return handler.reply(404, {"message": "Wiki page could not be found."})
        content = {"content": self.pages[file]} if query.get("includeContent") == "true" else {}
        return handler.reply(200, {"path": query["path"], **content})

    def _describe(self, key: str, named: set[str] | None) -> dict[str, Any]:
        item = {**self.items, **self.trash}[key]
        person = {"displayName": "Ada Berg"} if named is None else "Ada Berg <ada@example.com>"
        fields = {
            "System.Title": item.title,
            "System.WorkItemType": "Bug",
            "System.Description": item.text,
            "System.TeamProject": self.projects_of.get(key, PROJECT),
            "System.CreatedBy": person,
            "System.CreatedDate": item.created.isoformat(),
            "System.ChangedDate": item.updated.isoformat(),
            "System.CommentCount": len(self.comments.get(key, [])),
            "System.IsDeleted": key in self.trash,
            **self.about.get(key, {}),
        }
        shown = {name: value for name, value in fields.items() if named is None or name in named}
        return {"id": int(key), "rev": int(item.updated.timestamp() * 1000), "fields": shown}


class AzureDevOpsOrganization(AzureDevOps):
    """https://learn.microsoft.com/en-us/rest/api/azure/devops/core/projects/list"""

    config_url = f"https://dev.azure.com/{ORGANIZATION}"


SERVICES = {"AZURE_DEVOPS": AzureDevOps, "AZURE_DEVOPS_ORGANIZATION": AzureDevOpsOrganization}
