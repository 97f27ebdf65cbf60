"""Answers to users are identical before and after hidden documents exist, on every reading route and tool."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from api.permissions import OPERATION_PERMISSIONS
from tests.api.routes.test_access import put_group, set_access
from tests.api.routes.test_mcp import rpc
from tests.api.support import process_ingestions
from tests.connectors.parsers.test_parsers import pdf
from tests.flows.ingestion.test_unpack import packed

USERS = ("ada@x.org", "cyd", "eve", "nobody-else")
VISIBLE_TEXTS = ["seals dive for thirty minutes", "owls hunt at night", "tides turn twice a day", "herons wait"]
READING = {name for name, permission in OPERATION_PERMISSIONS.items() if permission.allows_on_behalf}
CHANGING = re.compile(r"(?:(?<=[?&])(?:expires|signature|principal|key)=|(?:BEGIN|END) )[^&\"\\\\ ]*")
LEAST = 2_000


class World:
    """Namespace, requests, and recorded answers of users."""

    def __init__(self, org: Any) -> None:
        self.org, self.space = org, org.namespace()
        # Cursors of a user's first listing, used again after every change.
        self.cursors: dict[str, list[str]] = {}

    def work(self) -> None:
        """Process accepted ingestions as workers do."""
        process_ingestions(self.org)

    def text(self, name: str, text: str, access: Any = None, **options: Any) -> None:
        defaults = {"externalId": name, "name": name} | ({} if access is None else {"access": access})
        self.org.text(self.space, text, **defaults, **options)

    def file(self, name: str, data: bytes, access: Any = None) -> None:
        form = {"namespaceId": self.space} | ({} if access is None else {"access": json.dumps(access)})
        files = {"file": (name, data, "application/octet-stream")}
        assert self.org.client.post("/v1/ingest/file", data=form, files=files).status_code == 200

    def fill(self) -> None:
        """Ingest visible documents: open, by name, by group, packed, and an archive with a hidden member."""
        for number, words in enumerate(VISIBLE_TEXTS):
            self.text(f"open {number}", f"The {words}.", metadata={"topic": words.split()[0], "year": 2020 + number})
        self.text("for ada", "Ada reads that seals dive deep.", {"users": ["ada@x.org"]}, metadata={"topic": "seals"})
        self.text("for staff", "Staff know that owls hunt.", {"groups": ["staff"], "denied": {"users": ["eve"]}})
        self.file("a.zip", packed([("one.txt", b"One seal."), ("two.txt", b"Two owls.")]), {"public": True})
        self.file("seals.pdf", pdf("Seals dive for thirty minutes."))
        put_group(self.org, self.space, "staff", users=["cyd", "eve"])
        self.work()
        set_access(self.org, self.space, {"users": ["bob"]}, "a.zip/two.txt")
        self.filled_at = datetime.now(UTC).isoformat(timespec="milliseconds")

    def requests(self, user: str, ids: list[str]) -> Iterator[tuple[str, str, str, Any]]:
        """Yield operation, method, path and body."""
        space = {"namespaceId": self.space}
        for words in ("seals dive", "owls", "the", "herns hiddn", "nothing like it"):
            for name, weights in (("", None), ("/hybrid", (0.5, 0.5)), ("/hybrid", (0.0, 1.0))):
                shape = (
                    {}
                    if weights is None
                    else {"hybridConfig": dict(zip(("semanticWeight", "keywordWeight"), weights, strict=True))}
                )
                body = {**space, "query": words, "topK": 20, **shape}
                yield f"POST /v1/search{name}", "POST", f"/v1/search{name}", body
            filters = {"metadata": {"topic": "seals"}}
            yield "POST /v1/search", "POST", "/v1/search", {**space, "query": words, "filter": filters}
            for chosen in ({"documentIds": ids[:5]}, {"text": "open"}):
                body = {**space, "query": words, "filter": {"documents": chosen}}
                body["hybridConfig"] = {"semanticWeight": 0.0, "keywordWeight": 1.0}
                yield "POST /v1/search/hybrid", "POST", "/v1/search/hybrid", body
        batch = {**space, "queries": [{"query": "seals"}, {"query": "owls"}]}
        yield "POST /v1/search/batch", "POST", "/v1/search/batch", batch
        several = {"namespaceIds": [self.space], "query": "tides"}
        yield "POST /v1/search", "POST", "/v1/search", several
        dify = {"knowledge_id": self.space, "query": "seals", "retrieval_setting": {"top_k": 5, "score_threshold": 0.0}}
        yield "POST /v1/compat/dify/retrieval", "POST", "/v1/compat/dify/retrieval", dify
        path = f"/v1/vector_stores/{self.space}/search"
        yield "POST /v1/vector_stores/{namespace_id}/search", "POST", path, {"query": "owls"}
        stats = {"statsBySource": True, "statsByStatus": True, "statsBySite": True, "rawFileUrl": True}
        include = {**stats, "parsedTextFileUrl": True}
        for chosen in (
            {},
            {"text": "open"},
            {"metadata": {"topic": "seals"}},
            {"documentTypes": ["FILE"]},
            {"documentIngestionStatuses": ["FAILED", "CANCELLED", "QUEUED"]},
            {"where": {"field": "document.updatedAt", "op": "lt", "value": self.filled_at}},
            {"where": {"field": "metadata.year", "op": "gt", "value": 2021}},
        ):
            body = {**space, "filterConfig": chosen, "includeConfig": include, "facets": ["metadata.topic"]}
            yield "POST /v1/documents", "POST", "/v1/documents", body
        yield (
            "POST /v1/documents",
            "POST",
            "/v1/documents",
            {**space, "filterConfig": {}, "pagination": {"pageSize": 3}},
        )
        for document in ids:
            path = f"/v1/documents/{document}"
            query = f"?namespaceId={self.space}"
            yield "GET /v1/documents/{document_id}/chunks", "GET", f"{path}/chunks{query}", None
            yield "GET /v1/documents/{document_id}/pages/{page}", "GET", f"{path}/pages/1{query}", None
        yield "GET /v1/namespaces", "GET", "/v1/namespaces", None
        yield "GET /v1/namespaces/{namespace_id}", "GET", f"/v1/namespaces/{self.space}", None
        yield "GET /v1/keys/current", "GET", "/v1/keys/current", None

    def tools(self, user: str, ids: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        space = {"namespaceId": self.space}
        yield "search", {**space, "query": "seals dive"}
        yield "list_documents", space
        yield "list_namespaces", {}
        for document in ids:
            yield "read_document", {**space, "documentId": document}

    def answers(self, user: str, ids: list[str]) -> dict[str, Any]:
        """Return the answer of each request without per-request values."""
        headers, answers_by_request = {"X-On-Behalf-Of": user}, {}
        operations = set()
        for operation, method, path, body in self.requests(user, ids):
            answer = self.org.client.request(method, path, json=body, headers=headers)
            assert answer.status_code < 500, answer.text
            operations.add(operation)
            answers_by_request[f"{method} {path} {json.dumps(body)}"] = (answer.status_code, stable_answer(answer))
        assert operations == READING, "each route that reads for users is asked here"
        tools = rpc(self.org.client, "tools/list", **headers).json()["result"]["tools"]
        assert {tool["name"] for tool in tools} == {name for name, _ in self.tools(user, ids)}
        for name, arguments in self.tools(user, ids):
            answer = rpc(self.org.client, "tools/call", {"name": name, "arguments": arguments}, **headers)
            answers_by_request[f"tool {name} {json.dumps(arguments)}"] = (answer.status_code, stable_answer(answer))
        return answers_by_request | self.pages(headers) | self.files(headers)

    def pages(self, headers: dict[str, str]) -> dict[str, Any]:
        """Return the pages of a listing, by current cursors and by cursors of the first listing."""
        body = {"namespaceId": self.space, "filterConfig": {}}
        cursors, contents, cursor = self.cursors.setdefault(json.dumps(headers), []), {}, ""
        for number in range(10):
            page_body = {**body, "pagination": {"pageSize": 3, "cursor": cursor}}
            answer = self.org.client.post("/v1/documents", json=page_body, headers=headers)
            cursor = answer.json()["data"]["nextCursor"] or ""
            contents[f"page {number}"] = stable_answer(answer)
            cursors += [cursor] if len(cursors) == number else []
            if cursors[number]:
                page_body = {**body, "pagination": {"pageSize": 3, "cursor": cursors[number]}}
                contents[f"cursor {number}"] = stable_answer(
                    self.org.client.post("/v1/documents", json=page_body, headers=headers)
                )
            if not cursor:
                break
        return contents

    def files(self, headers: dict[str, str]) -> dict[str, Any]:
        """Return the files behind the links of a listing."""
        include = {"rawFileUrl": True, "parsedTextFileUrl": True}
        body = {"namespaceId": self.space, "filterConfig": {}, "includeConfig": include}
        documents = self.org.client.post("/v1/documents", json=body, headers=headers).json()["data"]["documents"]
        links = {(document["externalId"], name): document[name] for document in documents for name in include}
        opened = {key: self.org.client.get(link[link.index("/v1/") :]) for key, link in links.items() if link}
        assert all(answer.status_code == 200 for answer in opened.values())
        return {f"{name} of {key}": answer.content for (key, name), answer in opened.items()}


def stable_answer(answer: Any) -> Any:
    """Return an answer without signatures, request times and cursors."""
    if "json" not in answer.headers.get("content-type", ""):
        return answer.content
    text = CHANGING.sub("…", json.dumps(answer.json(), sort_keys=True))
    return re.sub(r'(\\*"nextCursor\\*": \\*)"[^"\\]*', r"\1…", re.sub(r'\\*"lastUsedAt\\*": \\*"[^"\\]*', "", text))


@pytest.fixture
def world(organization, api_db):
    """Processed world with visible content."""
    api_db.rows("update job_runs set finished_at = now() where finished_at is null")
    api_db.rows("update batches set finished_at = now() where finished_at is null")
    org = organization(requests_per_minute=10**7)
    created = World(org)
    created.fill()
    return created


def hidden_changes(world: World) -> Iterator[str]:
    """Yield after each change of hidden content."""
    bob = {"users": ["bob"]}
    for number, words in enumerate(VISIBLE_TEXTS):
        world.text(f"hidden {number}", f"Hidden: {words}. Seals dive.", bob, metadata={"topic": "hidden", "year": 1999})
    yield "accepted"
    world.work()
    yield "hidden texts"
    world.file("b.zip", packed([("one.txt", b"A hidden seal."), ("in.zip", packed([("deep.txt", b"Deep.")]))]), bob)
    world.work()
    yield "hidden archive"
    set_access(world.org, world.space, {}, "b.zip/one.txt")
    yield "hidden member with a list of its own"
    world.text("hidden 0", "A new hidden version of seals that dive.", {"users": ["bob", "ada@x.org"]})
    yield "version on its way that is for ada, too"
    run = world.org.text(world.space, "It comes later.", externalId="hidden 1")["data"]["ingestJobRunId"]
    body = {"namespaceId": world.space}
    assert world.org.client.post(f"/v1/ingest-job-runs/{run}/cancel", json=body).status_code == 200
    yield "cancelled version"
    set_access(world.org, world.space, bob, "hidden 0")
    world.work()
    yield "a list that took the place of the one on its way"
    put_group(world.org, world.space, "board", users=["bob"], groups=["others"])
    set_access(world.org, world.space, {"groups": ["board"], "denied": {"groups": ["staff"]}}, "hidden 2", "hidden 3")
    yield "hidden by groups"
    body = {"namespaceId": world.space, "filterConfig": {"documentExternalIds": ["hidden 3", "b.zip"]}}
    assert world.org.client.request("DELETE", "/v1/documents", json=body).status_code == 200
    yield "deleted hidden documents"


@pytest.mark.slow
def test_hidden_documents_change_no_answer_of_any_route_or_tool(world):
    listing = world.org.client.post("/v1/documents", json={"namespaceId": world.space, "filterConfig": {}}).json()
    ids = [document["id"] for document in listing["data"]["documents"]]
    expected = {user: world.answers(user, ids) for user in USERS}
    assert any(b"seals" in str(answer).encode() for answer in expected["ada@x.org"].values())
    pairs = 0
    for change in hidden_changes(world):
        for user in USERS:
            actual = world.answers(user, ids)
            pairs += len(actual)
            wrong = [request for request, answer in actual.items() if answer != expected[user][request]]
            assert not wrong, f"{change}: {user} is answered otherwise by {wrong[0]}:\n{actual[wrong[0]]}\n" + str(
                expected[user][wrong[0]]
            )
    assert pairs >= LEAST, pairs


@pytest.mark.slow
def test_a_version_for_others_that_fails_or_is_cancelled_changes_no_answer(world):
    # Includes status, error, job run and change time of the document, and counts by status.
    chosen = {"namespaceId": world.space, "filterConfig": {}}
    documents = world.org.client.post("/v1/documents", json=chosen).json()["data"]["documents"]
    ids = [document["id"] for document in documents]
    expected = {user: world.answers(user, ids) for user in USERS}
    world.file("a.zip", b"PK\3\4 this is no archive", {"users": ["bob"]})
    world.work()
    run = world.org.text(world.space, "For bob.", access={"users": ["bob"]}, externalId="open 0")
    cancelled = f"/v1/ingest-job-runs/{run['data']['ingestJobRunId']}/cancel"
    assert world.org.client.post(cancelled, json={"namespaceId": world.space}).status_code == 200
    world.work()
    ended = world.org.client.post("/v1/documents", json=chosen).json()["data"]["documents"]
    statuses = {document["externalId"]: document["ingestionStatus"] for document in ended}
    assert (statuses["a.zip"], statuses["open 0"]) == ("FAILED", "CANCELLED")
    for user in USERS:
        actual = world.answers(user, ids)
        wrong = [request for request, answer in actual.items() if answer != expected[user][request]]
        assert not wrong, f"{user}: {wrong[0]}:\n{actual[wrong[0]]}\n{expected[user][wrong[0]]}"


def test_headers_and_bound_keys_give_a_user_the_same_answers(world):
    # By header, by a key of the user, and by a key with a required user.
    client, key_route = world.org.client, "GET /v1/keys/current"
    listing = client.post("/v1/documents", json={"namespaceId": world.space, "filterConfig": {}}).json()
    ids = [document["id"] for document in listing["data"]["documents"]]
    scopes = ["documents:read", "search", "namespaces:read"]
    expected = {name: answer for name, answer in world.answers("ada@x.org", ids).items() if key_route not in name}
    for bound in ({"principal": "ada@x.org"}, {"principalRequired": True}):
        key = client.post("/v1/keys", json={"name": "bound", "scopes": scopes, **bound})
        client.headers["Authorization"] = f"Bearer {key.json()['data']['apiKey']}"
        try:
            actual = world.answers("ada@x.org", ids)
        finally:
            client.headers["Authorization"] = f"Bearer {world.org.api_key}"
        wrong = [name for name in expected if actual[name] != expected[name]]
        assert not wrong, f"{bound}: {wrong[0]}:\n{actual[wrong[0]]}\n{expected[wrong[0]]}"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_requests_without_access_never_show_a_user_more(world, seed):
    # Ingestions without a list, resyncs, retries, deletions and requests of the user, in random order.
    rng = random.Random(seed)
    body = {"namespaceId": world.space, "filterConfig": {}}

    def ask(method: str, path: str, body: Any, user: str | None = None) -> Any:
        headers = {} if user is None else {"X-On-Behalf-Of": user}
        return world.org.client.request(method, path, json=body, headers=headers)

    def contents(user: str) -> set[tuple[str, str]]:
        """Return documents with their visible texts for a user."""
        documents = ask("POST", "/v1/documents", body, user).json()["data"]["documents"]
        leaked = set()
        for document in documents:
            answer = ask("GET", f"/v1/documents/{document['id']}/chunks?namespaceId={world.space}", None, user)
            leaked |= {(document["externalId"], chunk["content"]) for chunk in answer.json()["data"]["chunks"]}
        return leaked

    set_access(world.org, world.space, {"users": ["bob"]}, "a.zip/one.txt", "open 0")
    world.file(
        "a.zip", packed([("one.txt", b"One new seal."), ("two.txt", b"Two new owls.")]), {"users": ["ada@x.org"]}
    )
    set_access(world.org, world.space, {"users": ["cyd"]}, "a.zip")
    hidden_from = {
        user: {document["externalId"] for document in ask("POST", "/v1/documents", body).json()["data"]["documents"]}
        - {document["externalId"] for document in ask("POST", "/v1/documents", body, user).json()["data"]["documents"]}
        for user in USERS
    }
    for _ in range(12):
        name, user = rng.choice(["a.zip", "a.zip/one.txt", "a.zip/two.txt", "open 0", "for ada"]), rng.choice(USERS)
        chosen = {"namespaceId": world.space, "filterConfig": {"documentExternalIds": [name]}}
        action = rng.choice(["resync", "resync by a user", "opened by a user", "deleted by a user", "archive", "text"])
        if action.startswith("resync"):
            ask("POST", "/v1/documents/resync", chosen, None if action == "resync" else user)
        elif action == "opened by a user":
            ask("PATCH", "/v1/documents", {**chosen, "data": {"access": None}}, user)
        elif action == "deleted by a user":
            ask("DELETE", "/v1/documents", chosen, user)
        elif action == "archive":
            world.file("a.zip", packed([("one.txt", b"One more seal."), ("two.txt", b"Two owls.")]))
        else:
            world.text("open 0", f"Other words {rng.random()}.")
        if rng.random() < 0.6:
            world.work()
        for reader in USERS:
            leaked = {name for name, _ in contents(reader)} & hidden_from[reader]
            assert not leaked, f"{reader} is shown {leaked} after {action} of {name}"


@pytest.mark.parametrize("member", ["a.zip/two.txt", "outer.zip/inner.zip"])
def test_an_archive_with_a_deleted_hidden_member_gives_users_no_file(world, member):
    # The file still contains the member.
    inner = packed([("two.txt", b"Two owls.")])
    world.file("outer.zip", packed([("inner.zip", inner), ("one.txt", b"One.")]), {"public": True})
    world.work()
    set_access(world.org, world.space, {"users": ["bob"]}, member)
    archive = member.partition("/")[0]
    body = {"namespaceId": world.space, "filterConfig": {"documentExternalIds": [archive]}}
    links_body = {**body, "includeConfig": {"rawFileUrl": True}}

    def raw_file(headers):
        (document,) = world.org.client.post("/v1/documents", json=links_body, headers=headers).json()["data"][
            "documents"
        ]
        return document.get("rawFileUrl")

    ada = {"X-On-Behalf-Of": "ada@x.org"}
    assert not raw_file(ada)
    deletion = {"namespaceId": world.space, "filterConfig": {"documentExternalIds": [member]}}
    assert world.org.client.request("DELETE", "/v1/documents", json=deletion).status_code == 200
    world.work()
    assert not raw_file(ada)
    assert raw_file({})
