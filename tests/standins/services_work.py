"""Services of teams' work on loopback, for the suite of described services."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.standins.described_base import DescribedService, Item

if TYPE_CHECKING:
    from tests.standins.faults import Handler


class Linear(DescribedService):
    """https://linear.app/developers/graphql https://linear.app/developers/pagination
    https://linear.app/developers/rate-limiting (400, RATELIMITED)
    https://github.com/linear/linear/blob/master/packages/sdk/src/schema.graphql

    `about`: further fields of issues by key, `comments`: their comments, `trash`: keys in the trash; `projects`,
    `documents` and `updates`: further nodes.
    """

    connector, config_url = "LINEAR", "https://linear.app/acme"

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, dict[str, Any]] = {}
        self.comments: dict[str, list[dict[str, Any]]] = {}
        self.trash: set[str] = set()
        self.projects: list[dict[str, Any]] = []
        self.documents: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []

    def locate(self, key: str) -> str:
        return f"https://linear.app/acme/issue/issue-{key}"

    def _bearer(self, handler: Handler) -> str:
        """The key itself: "Bearer" is for tokens of OAuth 2."""
        return handler.headers.get("authorization") or ""

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        assert (method, path) == ("POST", "/graphql")
        document = json.loads(body)
        operation = re.match(r"query (\w+)", document["query"])
        name, variables = operation[1] if operation else "", document["variables"]
        nodes, size = (
            self._find(name, variables["filter"]),
            int(re.findall(r"first: (\d+), after", document["query"])[0]),
        )
        part, following = self.cut(nodes, int(variables.get("after") or 0), size)
        page = {"hasNextPage": following is not None, "endCursor": None if following is None else str(following)}
        field = {"Trashed": "issues", "Updates": "projectUpdates"}.get(name, name.lower())
        return handler.reply(200, {"data": {field: {"nodes": part, "pageInfo": page}}})

    def _find(self, name: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        if name == "Comments":
            return self.comments[wanted["issue"]["id"]["eq"].removeprefix("issue-")][::-1]
        if name == "Updates":
            return self.updates[::-1]
        if name in {"Projects", "Documents"}:
            nodes = self.projects if name == "Projects" else self.documents
            return [node for node in nodes if not wanted or node["id"] == wanted["id"]["eq"]]
        assert wanted.get("team", {"key": {"eqIgnoreCase": "ENG"}}) == {"key": {"eqIgnoreCase": "ENG"}}
        if "id" in wanted:
            keys = [key for key in self.items if f"issue-{key}" == wanted["id"]["eq"]]
        else:
            since = wanted["or"][0]["updatedAt"]["gte"] if "or" in wanted else ""
            has_comments = any("comments" in part for part in wanted.get("or", ()))
            keys = [
                key
                for key, item in self.items.items()
                if _stamp(item) >= since or (has_comments and self._is_discussed(key, since))
            ]
        return [self._describe(key) for key in keys]

    def _is_discussed(self, key: str, since: str) -> bool:
        return any(comment["createdAt"] >= since for comment in self.comments.get(key, ()))

    def _describe(self, key: str) -> dict[str, Any]:
        item, comments = self.items[key], self.comments.get(key, [])[::-1]
        return {
            "id": f"issue-{key}",
            "identifier": f"ENG-{key}",
            "title": item.title,
            "description": item.text,
            "createdAt": item.created.isoformat(),
            "team": {"key": "ENG", "name": "Engineering"},
            "labels": {"nodes": []},
            "attachments": {"nodes": []},
            "comments": {"nodes": comments[:10], "pageInfo": {"hasNextPage": len(comments) > 10}},
            "trashed": True if key in self.trash else None,
            **self.about.get(key, {}),
        }


class LinearTeam(Linear):
    config_url = "https://linear.app/acme/team/ENG"


def _stamp(item: Item) -> str:
    return item.updated.strftime("%Y-%m-%dT%H:%M:%SZ")


SERVICES = {"LINEAR": Linear, "LINEAR_TEAM": LinearTeam}
