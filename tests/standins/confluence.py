"""Confluence Cloud and Data Center on loopback: pages of a space, or of a site."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlencode

from retrieval.settings import Settings
from tests.standins.described_base import DescribedService

if TYPE_CHECKING:
    from tests.standins.faults import Handler

RETIRED = "com.atlassian.confluence.api.service.exceptions.GoneException: This deprecated endpoint has been removed."
INLINE_COMMENTS = 25
"""Comments that an expanded page has."""


class Confluence(DescribedService):
    """https://developer.atlassian.com/cloud/confluence/rest/v2/api-group-page/ (body-format, spaceId, _links.webui),
    https://developer.atlassian.com/cloud/confluence/rest/v2/api-group-blog-post/,
    https://developer.atlassian.com/cloud/confluence/rest/v2/api-group-space/ (keys),
    https://developer.atlassian.com/cloud/confluence/rest/v1/api-group-content/ (CQL, which v2 has not; _links.next
    relative to the base) and https://docs.atlassian.com/ConfluenceServer/rest/8.9.0/#api/content-search

    Cloud answers 410 to `GET /rest/api/content/{id}`: https://developer.atlassian.com/cloud/confluence/changelog/#CHANGE-864
    and https://github.com/atlassian-api/atlassian-python-api/issues/1560 (the words).

    Of permissions: https://developer.atlassian.com/cloud/confluence/rest/v1/api-group-content-restrictions/,
    https://developer.atlassian.com/cloud/confluence/rest/v2/api-group-space-permissions/ and
    https://developer.atlassian.com/server/confluence/rest/v1010/api-group-space-permissions/

    `readers`: users and groups that read the space, `members`: of groups, `restrictions`: users and groups by page,
    `parents`: of pages; users by their addresses. `folders`: of `parents`, which only
    https://developer.atlassian.com/cloud/confluence/rest/v2/api-group-ancestors/ lists, and whose restrictions no
    answer has (https://jira.atlassian.com/browse/CONFCLOUD-82920). `posts`: of the blog.
    """

    connector, config_url = "CONFLUENCE", "https://acme.atlassian.net/wiki/spaces/HAND"
    prefix = "/wiki"
    names = ("user", "token")

    def __init__(self) -> None:
        super().__init__()
        self.readers: tuple[list[str], list[str]] = ([], ["everyone"])
        self.members: dict[str, list[str]] = {"everyone": []}
        self.restrictions: dict[str, tuple[list[str], list[str]]] = {}
        self.parents: dict[str, str] = {}
        self.folders: set[str] = set()
        self.posts: set[str] = set()
        self.hidden_addresses: set[str] = set()

        self.comments: dict[str, dict[str, dict[str, Any]]] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.spaces: dict[str, str] = {}
        self.bodies: dict[str, str] = {}
        self.labels: dict[str, list[str]] = {}

    def put_comment(self, key: str, number: str, author: str, text: str, selection: str = "") -> None:
        """Add or change a comment, which changes neither the page nor its version."""
        about = {"displayName": author}
        comment = {"id": number, "type": "comment", "history": {"createdBy": about, "createdDate": now()}}
        body = {"storage": {"value": f"<p>{text}</p>"}}
        inline = {"extensions": {"inlineProperties": {"originalSelection": selection}}} if selection else {}
        self.comments.setdefault(key, {})[number] = {**comment, "body": body, "version": {"when": now()}, **inline}

    def attach(self, key: str, number: str, name: str, media_type: str, data: bytes) -> None:
        file = {"page": key, "title": name, "type": media_type, "data": data, "when": now()}
        self.files[number] = {**file, "version": self.files.get(number, {"version": 0})["version"] + 1}

    @property
    def settings(self) -> Settings:
        """Downloads redirect to this machine, which the guard refuses otherwise."""
        return super().settings.model_copy(
            update={"fetch_allow": Settings(fetch_allow="127.0.0.0/8,::1/128").fetch_allow}
        )

    def _select(self, cql: str) -> list[dict[str, Any]]:
        """Pages, attachments and comments that a query finds, in the order in which they were made."""
        if single := re.fullmatch(r"id=(\d+)", cql):
            return [self._describe(single[1])] if single[1] in self.items else []
        space = re.search(r'space ?= ?"(\w+)"', cql)
        minutes = re.search(r'lastmodified >= now\("-(\d+)m"\)', cql)
        since = stamp(datetime.now(UTC) - timedelta(minutes=int(minutes[1]))) if minutes else ""
        types = re.search(r"type in \(([\w, ]+)\)", cql)[1]
        pages = [self._describe(key) for key in self.items]
        files = [self._describe_file(number) for number, file in self.files.items() if file["page"] in self.items]
        comments = [
            {**comment, "container": {"id": key, "type": self._type(key), "title": self.items[key].title}, "key": key}
            for key, comments in self.comments.items()
            for comment in comments.values()
            if key in self.items
        ]
        return [
            entry
            for entry in (*pages, *files, *comments)
            if entry["type"] in types
            and entry["version"]["when"] >= since
            and (space is None or self.spaces.get(entry.get("key", entry["id"]), "HAND") == space[1])
        ]

    def _describe_file(self, number: str) -> dict[str, Any]:
        file = self.files[number]
        about = {"id": number, "type": "attachment", "title": file["title"], "key": file["page"], "history": {}}
        container = {"id": file["page"], "type": self._type(file["page"])}
        version = {"number": file["version"], "when": file["when"]}
        space = {"key": self.spaces.get(file["page"], "HAND")}
        return {
            **about,
            "container": container,
            "version": version,
            "extensions": {"mediaType": file["type"]},
            "space": space,
        }

    def _answer_file(self, handler: Handler, path: str) -> None:
        """A file, at another address without credentials: Cloud redirects a download there."""
        if path.startswith("/media/"):
            assert "authorization" not in handler.headers
            return handler.reply(200, self.files[path.removeprefix("/media/")]["data"])
        parts = path.split("/")
        if self.hosted:
            number = next((key for key, file in self.files.items() if file["title"] == unquote(parts[-1])), "")
        else:
            number = parts[-2]
        if number not in self.files:
            return handler.reply(404, {"message": "No attachment"})
        if self.hosted:
            return handler.reply(200, self.files[number]["data"])
        address = f"http://localhost:{self.base.rpartition(':')[2]}{self.prefix}/media/{number}"
        return handler.reply(302, b"", {"Location": address})

    def is_open(self, path: str) -> bool:
        return "/media/" in path

    def show_to(self, key: str, *users: str) -> None:
        self.restrictions[key] = (list(users), [])
        self.members["everyone"] = [*self.members["everyone"], *users]

    def locate(self, key: str) -> str:
        post = "type=blogpost&" if key in self.posts else ""
        return f"https://acme.atlassian.net/wiki/pages/viewpage.action?{post}pageId={key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        place = path.removeprefix(self.prefix)
        key = place.removeprefix("/rest/api/content/")
        if not self.hosted and place.startswith("/api/v2/") and place.count("/") == 4:
            return self._answer_v2(handler, place, query)
        if place.startswith("/media/") or "/download" in place:
            return self._answer_file(handler, place)
        if key == "search" or place == "/rest/api/search":
            return self._answer_search(handler, place, query)
        if key.startswith("/") or "/" in key:
            return self._answer_access(handler, place, query)
        return self._answer_content(handler, key, query)

    def _answer_search(self, handler: Handler, place: str, query: dict[str, str]) -> None:
        entries = self._select(query["cql"])
        if place == "/rest/api/search":
            return handler.reply(200, {"results": [], "totalSize": len(entries)})
        part, following = self.cut(entries, int(query.get("start", 0)), int(query["limit"]))
        address = f"/rest/api/content/search?{urlencode({**query, 'start': following})}"
        links = {} if following is None else {"next": address}
        return handler.reply(200, {"results": part, "_links": links})

    def _answer_content(self, handler: Handler, key: str, query: dict[str, str]) -> None:
        if not self.hosted:
            return handler.reply(410, {"statusCode": 410, "message": RETIRED})
        if key in self.files:
            return handler.reply(200, {"id": key, "status": "current"})
        if key in self.items:
            expanded = self.describe_limits(key) if "restrictions" in query.get("expand", "") else {}
            return handler.reply(200, self._describe(key) | expanded)
        return handler.reply(404, {"message": "No content found with id"})

    def _answer_v2(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        area, _, key = path.removeprefix("/api/v2/").partition("/")
        if area == "attachments" and key in self.files:
            return handler.reply(200, {"id": key, "status": "current"})
        if key not in self.items or area != f"{self._type(key)}s":
            return handler.reply(404, {"errors": [{"status": 404, "code": "NOT_FOUND", "title": "Not Found"}]})
        about = self._describe(key)
        body = {}
        webui = f"/spaces/{about.pop('space')['key']}/{'blog' if key in self.posts else 'pages'}/{key}/Title"
        return handler.reply(200, {**about, "spaceId": "77", "body": body, "_links": {"webui": webui}})

    def _answer_access(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        if path == "/rest/api/user":
            return handler.reply(200, self._user(query["key" if self.hosted else "accountId"].removeprefix("id-")))
        if path.startswith("/api/v2/spaces") or path == "/rest/api/space/HAND/permissions":
            return self._answer_space(handler, path, query)
        if path.endswith("/restriction/byOperation/read"):
            limit = self.describe_limit(path.split("/")[4])
            return handler.reply(200, limit.get("restrictions", {}).get("read", {}))
        if path.endswith(("/footer-comments", "/child/comment")):
            return self._answer_comments(handler, path.split("/")[4])
        if path.startswith("/api/v2/pages/"):
            return self._answer_ancestors(handler, path)
        group = path.removeprefix("/rest/api/group/").partition("/")[0]
        part, following = self.cut(self.members.get(group, []), int(query.get("start", 0)), int(query["limit"]))
        links = {} if following is None else {"next": f"{path}?{urlencode({**query, 'start': following})}"}
        return handler.reply(200, {"results": [self._user(name) for name in part], "_links": links})

    def _answer_comments(self, handler: Handler, key: str) -> None:
        comments = [*self.comments.get(key, {}).values()]
        if not self.hosted:
            comments = [
                {"version": {"authorId": "id-ada", "createdAt": now()}, "body": comment["body"]} for comment in comments
            ]
        return handler.reply(200, {"results": comments, "_links": {}})

    def _answer_space(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        if path == "/api/v2/spaces":
            spaces = [{"id": "77", "key": "HAND"}] if query["keys"] == "HAND" else []
            return handler.reply(200, {"results": spaces, "_links": {"base": "https://acme.atlassian.net/wiki"}})
        users, groups = self.readers
        kinds = [*(("user", name) for name in users), *(("group", name) for name in groups)]
        permissions = [self._permission(kind, name, key) for kind, name in kinds for key in ("read", "export")]
        if self.hosted:
            return handler.reply(200, permissions)
        part, following = self.cut(permissions, int(query.get("cursor", 0)), int(query["limit"]))
        address = f"/wiki{path}?{urlencode({**query, 'cursor': following})}"
        links = {} if following is None else {"next": address}
        return handler.reply(200, {"results": part, "_links": links})

    def _answer_ancestors(self, handler: Handler, path: str) -> None:
        key = path.removeprefix("/api/v2/pages/").removesuffix("/ancestors")
        above = [{"id": name, "type": "folder" if name in self.folders else "page"} for name in self._above(key)]
        if key in self.posts:
            return handler.reply(404, {"errors": [{"status": 404, "title": "Not Found"}]})
        return handler.reply(200, {"results": above, "_links": {"base": "https://acme.atlassian.net/wiki"}})

    def _permission(self, kind: str, name: str, key: str) -> dict[str, Any]:
        if self.hosted:
            subject = {"type": kind, **({"userKey": f"id-{name}"} if kind == "user" else {"name": name})}
            return {"operation": {"targetType": "space", "operationKey": key}, "subject": subject, "spaceKey": "HAND"}
        principal = {"type": kind, "id": f"id-{name}" if kind == "user" else name}
        return {"id": "1", "principal": principal, "operation": {"key": key, "targetType": "space"}}

    def _user(self, name: str) -> dict[str, Any]:
        if self.hosted:
            return {"type": "known", "username": name, "userKey": f"id-{name}", "displayName": "Ada Berg"}
        return {
            "type": "known",
            "accountId": f"id-{name}",
            "displayName": "Ada Berg",
            "email": "" if name in self.hidden_addresses else name,
        }

    def describe_limits(self, key: str) -> dict[str, Any]:
        ancestors = [self.describe_limit(name) for name in self._above(key) if name not in self.folders]
        return {**self.describe_limit(key), "ancestors": ancestors}

    def _above(self, key: str) -> list[str]:
        above, names = self.parents.get(key), list[str]()
        while above:
            names, above = [above, *names], self.parents.get(above)
        return names

    def describe_limit(self, key: str) -> dict[str, Any]:
        users, groups = self.restrictions.get(key, ([], []))
        limits = {
            "user": {"results": [self._user(name) for name in users], "limit": 200},
            "group": {"results": [{"type": "group", "name": name, "id": name} for name in groups], "limit": 200},
        }
        return {"id": key, "restrictions": {"read": {"operation": "read", "restrictions": limits}}}

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        number = int(item.updated.timestamp() * 1000)
        about = {
            "id": key,
            "type": self._type(key),
            "title": item.title,
            "status": "current",
            "space": {"id": 77, "key": self.spaces.get(key, "HAND"), "name": "Handbook"},
            "ancestors": [{"title": self.items[name].title} for name in self._above(key) if name in self.items],
            "metadata": {"labels": {"results": [{"name": name} for name in self.labels.get(key, [])]}},
            "history": {"createdBy": {"displayName": "Ada Berg"}, "createdDate": stamp(item.created)},
        }
        comments = [*self.comments.get(key, {}).values()]
        more = {"next": f"/rest/api/content/{key}/child/comment?start=25"} if len(comments) > INLINE_COMMENTS else {}
        about["children"] = {"comment": {"results": comments[:INLINE_COMMENTS], "_links": more}}
        body = {"storage": {"value": self.bodies.get(key, f"<p>{item.text}</p>")}}
        version = {"number": number, "when": stamp(item.updated), "by": {"displayName": "Bob Lund"}}
        return about | {"version": version, "body": body}

    def _type(self, key: str) -> str:
        return "blogpost" if key in self.posts else "page"


class ConfluenceSite(Confluence):
    config_url = "https://acme.atlassian.net/wiki"


class ConfluenceGateway(Confluence):
    """https://support.atlassian.com/atlassian-account/docs/manage-api-tokens-for-your-atlassian-account/ (tokens with
    scopes): the same at api.atlassian.com, where the addresses of next pages are still those of the site."""

    config_url = "https://acme.atlassian.net/wiki/spaces/HAND?cloudId=8d1c3a52-9b0e"
    prefix = "/ex/confluence/8d1c3a52-9b0e/wiki"


class ConfluenceDataCenter(Confluence):
    hosted, config_url, names, prefix = True, "{base}/display/HAND", ("token",), ""

    def locate(self, key: str) -> str:
        return f"{self.base}/pages/viewpage.action?pageId={key}"


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def now() -> str:
    return stamp(datetime.now(UTC))
