"""Jira Cloud and Data Center on loopback: issues of a project, or of a site.

https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issue-search/ (search/jql: nextPageToken, null at
the end; bounded JQL; approximate-count) https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issue-fields/
https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issue-comments/
https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issue-attachments/ (redirect=false)
https://docs.atlassian.com/software/jira/docs/api/REST/9.17.0/#api/2/search (startAt, total)

Of permissions: https://developer.atlassian.com/cloud/jira/platform/rest/v2/api-group-user-search/ (users who may
browse an issue, its security level included; nobody without "Browse users and groups").
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.standins.described_base import START, DescribedService

if TYPE_CHECKING:
    from tests.standins.faults import Handler

INLINE_COMMENTS = 2
"""Comments of an issue that a search has."""


class Jira(DescribedService):
    """`has_comments`: each issue has three, of which one is for everybody. `readers`: addresses by issue; `fields`,
    `comments` and `files` by issue, too."""

    connector, config_url = "JIRA", "https://acme.atlassian.net/browse/HAND"
    names = ("user", "token")

    def __init__(self) -> None:
        super().__init__()
        self.has_comments = True
        self.readers: dict[str, list[str]] = {}
        self.hidden_addresses: set[str] = set()
        self.may_browse_users = True
        self.fields: dict[str, dict[str, Any]] = {}
        self.field_names: dict[str, str] = {}
        self.comments: dict[str, list[dict[str, Any]]] = {}
        self.files: dict[str, dict[str, tuple[str, str, bytes]]] = {}

    def show_to(self, key: str, *users: str) -> None:
        self.readers[key] = list(users)

    def make_key(self, number: int) -> str:
        return f"HAND-{number}"

    def locate(self, key: str) -> str:
        return f"https://acme.atlassian.net/browse/{key}"

    def set_fields(self, key: str, **fields: Any) -> None:
        self.fields.setdefault(key, {}).update(fields)
        self.items[key].updated = datetime.now(UTC)

    def put_comment(self, key: str, author: str, text: str, **fields: Any) -> None:
        """Add a comment; `fields`: such as `visibility`."""
        body = paragraph(text)
        comment = {"author": {"displayName": author}, "body": body, "created": "2026-05-14T10:32:00.000+0000", **fields}
        self.comments.setdefault(key, []).append(comment)
        self.items[key].updated = datetime.now(UTC)

    def attach(self, key: str, number: str, name: str, media_type: str, data: bytes) -> None:
        self.files.setdefault(key, {})[number] = (name, media_type, data)
        self.items[key].updated = datetime.now(UTC)

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        _, _, place = path.partition("/rest/api/")
        area, _, key = place[2:].partition("/")
        if area == "search":
            return self._answer_search(handler, key, query, body)
        if area == "issue" and key in self.items:
            return handler.reply(200, self._describe(key, comments=None))
        if area == "issue" and key.removesuffix("/comment") in self.items:
            comments = self._list_comments(key.removesuffix("/comment"))
            start = int(query.get("startAt", 0))
            part, _ = self.cut(comments, start, int(query["maxResults"]))
            return handler.reply(200, {"comments": part, "startAt": start, "total": len(comments)})
        if area == "attachment" or path.startswith("/secure/attachment/"):
            return self._answer_file(handler, path, query)
        return self._answer_site(handler, path, query)

    def _answer_site(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        if path.endswith("/field"):
            return handler.reply(200, [{"id": key, "name": name} for key, name in self.field_names.items()])
        if path == "/rest/api/2/user/viewissue/search":
            names = self.readers.get(query["issueKey"], []) if self.may_browse_users else []
            return handler.reply(200, [*map(self._user, names), {"accountId": "app", "accountType": "app"}])
        return handler.reply(404, {"errorMessages": ["Issue does not exist or you do not have permission to see it."]})

    def _answer_search(self, handler: Handler, kind: str, query: dict[str, str], body: bytes) -> None:
        if kind == "approximate-count" and not self.hosted:
            return handler.reply(200, {"count": len(self._select(json.loads(body)["jql"]))})
        if (kind == "jql") == self.hosted:
            return handler.reply(410, {"errorMessages": ["The requested API has been removed."]})
        return handler.reply(200, self._search(query))

    def _answer_file(self, handler: Handler, path: str, query: dict[str, str]) -> None:
        files = {number: file for files in self.files.values() for number, file in files.items()}
        number = path.split("/")[3 if self.hosted and path.startswith("/secure") else -1]
        is_content = "/content/" in path or path.startswith("/secure")
        if number not in files:
            return handler.reply(404, {"errorMessages": ["The attachment does not exist."]})
        if not is_content:
            return handler.reply(200, {"id": number, "filename": files[number][0]})
        assert self.hosted or query["redirect"] == "false"
        return handler.reply(200, files[number][2])

    def _user(self, name: str) -> dict[str, Any]:
        address = {} if name in self.hidden_addresses else {"emailAddress": name}
        return {"accountId": f"id-{name}", "accountType": "atlassian", "active": True, "displayName": "Ann", **address}

    def _select(self, jql: str) -> list[str]:
        assert "created >= " in jql or "created>=" in jql or "project" in jql or "updated" in jql, "unbounded"
        project = re.search(r'project ?= ?"(\w+)"', jql)
        minutes = re.search(r'updated >= "-(\d+)m"', jql)
        since = datetime.now(UTC) - timedelta(minutes=int(minutes[1])) if minutes else START
        return [
            key
            for key, item in self.items.items()
            if item.updated >= since and (project is None or key.startswith(f"{project[1]}-"))
        ]

    def _search(self, query: dict[str, str]) -> dict[str, Any]:
        keys = self._select(query["jql"])
        position = "startAt" if self.hosted else "nextPageToken"
        start = int(query.get(position, 0))
        part, following = self.cut(keys, start, int(query["maxResults"]))
        paging = {"startAt": start, "total": len(keys) + (self.circular and int(query["maxResults"]) and 10**6)}
        token = {"nextPageToken": None if following is None else str(following)}
        issues = [self._describe(key, comments=INLINE_COMMENTS) for key in part]
        return {"issues": issues, **(paging if self.hosted else token)}

    def _describe(self, key: str, *, comments: int | None) -> dict[str, Any]:
        item, listed = self.items[key], self._list_comments(key)
        files = [
            {"id": number, "filename": name, "mimeType": kind, "author": {"displayName": "Ada Berg"}}
            for number, (name, kind, _) in self.files.get(key, {}).items()
        ]
        about = {
            "summary": item.title,
            "created": item.created.strftime("%Y-%m-%dT%H:%M:%S.000+0000"),
            "updated": item.updated.isoformat(),
            "project": {"key": key.partition("-")[0], "name": "Handbook"},
            "description": None if self.hosted else paragraph(item.text),
            "attachment": files,
            "comment": {"comments": listed[:comments], "total": len(listed), "maxResults": len(listed[:comments])},
            **self.fields.get(key, {}),
        }
        rendered = {"renderedFields": {"description": f"<p>{item.text}</p>"}} if self.hosted else {}
        return {"key": key, "fields": about, **rendered}

    def _list_comments(self, key: str) -> list[dict[str, Any]]:
        """With limits as documented of a list of comments."""
        if not self.has_comments:
            return self.comments.get(key, [])
        author = {"author": {"displayName": "Bob"}, "created": "2026-05-14T10:32:00.000+0000"}
        text = {"body": paragraph("A comment."), "renderedBody": "<p>A comment.</p>"}
        secret = {"body": paragraph("SECRET"), "renderedBody": "SECRET"}
        restricted = {**secret, "visibility": {"type": "role", "value": "Administrators"}}
        comments = [
            author | restricted,
            author | secret | {"jsdPublic": False},
            author | text,
            *self.comments.get(key, []),
        ]
        return [
            {name: value for name, value in comment.items() if self.hosted or name != "renderedBody"}
            for comment in comments
        ]


class JiraSite(Jira):
    config_url = "https://acme.atlassian.net"


class JiraDataCenter(Jira):
    hosted, config_url, names = True, "{base}/browse/HAND", ("token",)

    def locate(self, key: str) -> str:
        return f"{self.base}/browse/{key}"


def paragraph(*nodes: Any) -> dict[str, Any]:
    """A document of Atlassian's format with one paragraph; texts are text nodes."""
    content = [{"type": "text", "text": node} if isinstance(node, str) else node for node in nodes]
    return {"version": 1, "type": "doc", "content": [{"type": "paragraph", "content": content}]}
