"""A service with GraphQL: variables and cursors in the body, parents, names in JSON, errors in answers of 200."""

from __future__ import annotations

import json

import pytest

from connectors.sources.described import connector, description
from retrieval.errors import Fatal
from retrieval.ports import SourceItem
from retrieval.settings import Settings
from tests.standins.account import Served, serving

TRACKER = r"""
title: Tracker
account: A tracker
documents: Tasks of a tracker
example: https://tracker.example.com/acme
editions:
  - url: (?P<site>https?://[^/?#]+)/(?P<team>[^/?#]+)
    api: "{site}/api"
    headers: {Authorization: "Bearer {token}"}
errors: {field: errors.0.extensions.code, missing: [NOT_FOUND]}
remedies: {FORBIDDEN: Give the key the right to read tasks.}
parents:
  boards:
    list: |-
      /graphql
      {"query": "query($team: String!, $after: String) { boards(team: $team, after: $after) { nodes { id name } } }",
       "variables": {"team": "{team}", "after": null}}
    items: data.boards.nodes
    paging: {cursor: data.boards.pageInfo.endCursor, parameter: variables.after}
    fields: {board: id, board_name: name}
    path: "{board_name}"
streams:
  - name: tasks
    parents: boards
    list: &list |-
      /graphql
      {"query": "query($board: ID!, $after: String, $since: String) { tasks { nodes { id title } } }",
       "variables": {"board": "{board}", "after": null}}
    since_list: |-
      /graphql
      {"query": "query($board: ID!, $after: String, $since: String) { tasks { nodes { id title } } }",
       "variables": {"board": "{board}", "since": "{time}", "after": null}}
    items: data.tasks.nodes
    paging: {cursor: data.tasks.pageInfo.endCursor, parameter: variables.after}
    id: "{site}/{team}/{board}/{id}"
    fields: {id: id}
    item_name: title
    path: "{board_name}/{id}"
    version: updated
    content:
      get: |-
        /graphql
        {"query": "query($task: ID!) { task { id title text } }", "variables": {"task": "{id}"}}
      entry: data.task
      media_type: text/markdown
      title: title
      text: "# {{ title }}\n\n{{ text }}"
    exists:
      get: |-
        /graphql
        {"query": "query($task: ID!) { task { id } }", "variables": {"task": "{id}"}}
"""


class Tracker(Served):
    def __init__(self):
        super().__init__()
        self.boards = {"b1": "One", "b2": "Two"}
        self.tasks = {f"t{number}": ("b1" if number % 2 else "b2", f"Title {number}") for number in range(7)}
        self.variables = []

    def answer(self, handler, method, path, query, body):
        document = json.loads(body)
        variables, text = document["variables"], document["query"]
        self.variables.append(variables)
        assert (method, path, handler.headers["content-type"]) == ("POST", "/api/graphql", "application/json")
        start = int(variables.get("after") or 0)
        if "boards(" in text:
            assert variables["team"] == 'a "team"'
            nodes = [{"id": key, "name": name} for key, name in self.boards.items()]
            return self.reply(
                handler, "boards", nodes[start : start + 1], start + 1 if start + 1 < len(nodes) else None
            )
        if "tasks" in text:
            nodes = [
                {"id": key, "title": title, "updated": "2026-05-14T00:00:00Z"}
                for key, (board, title) in self.tasks.items()
                if board == variables["board"] and "since" not in variables
            ]
            return self.reply(handler, "tasks", nodes[start : start + 2], start + 2 if start + 2 < len(nodes) else None)
        key = variables["task"]
        if key not in self.tasks:
            return handler.reply(200, {"errors": [{"extensions": {"code": "NOT_FOUND"}}]})
        return handler.reply(200, {"data": {"task": {"id": key, "title": self.tasks[key][1], "text": "a text"}}})

    def reply(self, handler, name, nodes, cursor):
        page = {"nodes": nodes, "pageInfo": {"endCursor": None if cursor is None else str(cursor)}}
        handler.reply(200, {"data": {name: page}})


class Tokens:
    connection_id = "conn_tracker"

    def __init__(self, account):
        url = f'{account.base}/a "team"'
        self._token = json.dumps({"url": url, "credentials": {"token": account.token()}})

    def token(self):
        return self._token


@pytest.fixture
def tracker():
    account = Tracker()
    with serving(account):
        yield account


def opened(account):
    about = description.parse_description(TRACKER)
    settings = Settings(_env_file=None, fetch_allow="127.0.0.0/8")
    return connector.make_connector("TRACKER", about, settings), Tokens(account)


def test_lists_content_and_existence_are_read_by_post(tracker, tmp_path):
    made, tokens = opened(tracker)
    pages = list(made.iter_changes(tokens, None))
    items = {item.external_id: item for page in pages for item in page.items}
    assert {str(item.properties["path"]) for item in items.values()} == {
        *(f"One/t{number}" for number in (1, 3, 5)),
        *(f"Two/t{number}" for number in (0, 2, 4, 6)),
    }
    for page in pages[:-1]:
        rest = [item.external_id for later in made.iter_changes(tokens, page.cursor) for item in later.items]
        assert len(rest) < 7
    item = next(iter(items.values()))
    assert made.fetch(tokens, item, tmp_path / "a").path.read_text().endswith("\n\na text")
    key = item.external_id.rpartition("/")[2]
    assert not made.is_deleted(tokens, item.external_id)
    del tracker.tasks[key]
    assert made.is_deleted(tokens, item.external_id)
    tracker.variables.clear()
    list(made.iter_changes(tokens, pages[-1].cursor))
    assert [variables["since"][:2] for variables in tracker.variables if "since" in variables] == ["20", "20"]


def test_an_error_in_an_answer_of_200_names_the_remedy(tracker):
    made, tokens = opened(tracker)
    error = {"errors": [{"extensions": {"code": "FORBIDDEN"}}]}
    tracker.fault = lambda _request: lambda handler: handler.reply(200, error) or True
    with pytest.raises(Fatal, match=r"FORBIDDEN\. Give the key the right to read tasks"):
        list(made.iter_changes(tokens, None))
    with pytest.raises(Fatal, match="FORBIDDEN"):
        made.fetch(tokens, SourceItem(f"{tracker.base}/a%20%22team%22/b1/t1", "x"), None)
