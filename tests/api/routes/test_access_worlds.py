"""Random worlds of users, groups and denials: every route agrees with the oracle."""

from __future__ import annotations

import os
import random
import string
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx
import pytest

from connectors import registry
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from tests.api.routes.test_files import upload
from tests.api.routes.test_mcp import rpc
from tests.api.support import client_of
from tests.library import Library
from tests.retrieval.access.worlds import USERS, World

WORLDS = int(os.environ.get("RETRIEVAL_WORLDS", "6"))
FIRST = int(os.environ.get("RETRIEVAL_FIRST_WORLD", "0"))
ALL, PARTS = 2_000, 8
DOCUMENTS = 9
STATIC = {"embeddingModelConfig": {"provider": "LOCAL", "model": "wordllama-l2-supercat-256"}}
TENANTS = ["", "acme"]
WEIGHTS = [(1.0, 0.0), (0.0, 1.0), (0.5, 0.5)]


@dataclass
class Place:
    """Namespace and tenant with files; `words` maps document ids to their unique words."""

    org: object
    space: str
    tenant: str
    # Base URL of links.
    base: str
    words: dict[str, str] = field(default_factory=dict)
    links: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Tenant-ID": self.tenant} if self.tenant else {}

    def tag(self, document: str) -> str:
        return "even" if list(self.words).index(document) % 2 == 0 else "odd"

    def fill(self, config) -> None:
        scope = Scope(self.org.id, self.space, self.tenant)
        vectors, embedder = registry.make_vector_store(config, self.org.db), registry.make_embedder(config)
        library = Library(self.org.db, scope, vectors)
        with client_of(self.org.base, self.org.api_key) as client:
            client.headers.update(self.headers)
            org = Client(client, self.org.db)
            for number in range(DOCUMENTS):
                word = "zq" + string.ascii_lowercase[number] * 3 + (self.tenant or "none")
                document = upload(org, self.space, f"{word}.txt", f"canary {word}".encode(), "text/plain", parsed=True)
                texts = [f"canary {word} {part}" for part in ("one", "two")]
                library.put(
                    texts,
                    [list(map(float, vector)) for vector in embedder.embed(texts, "document")],
                    document_id=document,
                )
                self.words[document] = word
                selection = {"namespaceId": self.space, "filterConfig": {"documentIds": [document]}}
                self.ask(
                    client, "PATCH", "/v1/documents", {**selection, "data": {"metadata": {"tag": self.tag(document)}}}
                )

    def write(self, world: World, rng: random.Random) -> None:
        """Write groups and access lists by API requests."""
        client = self.org.client

        def names(entries) -> list[str]:
            return list(entries)

        for group in ("g1", "g2", "g3", "g4"):
            at = f"/v1/groups/{quote(group)}"
            if group not in world.members:
                deletion = client.delete(at, params={"namespaceId": self.space}, headers=self.headers)
                assert deletion.status_code in {200, 404}, deletion.text
                continue
            names_by_kind = {
                kind: names(name for member_kind, name in world.members[group] if member_kind == kind) for kind in "ug"
            }
            members = {"users": names_by_kind["u"], "groups": names_by_kind["g"]}
            self.ask(client, "PUT", at, {"namespaceId": self.space, "members": members})
        for document, entries in world.said.items():
            access = entries and {
                "users": names(entries["users"]),
                "groups": names(entries["groups"]),
                "denied": {"users": names(entries["denied_users"]), "groups": names(entries["denied_groups"])},
                "public": entries["public"],
            }
            selection = {"namespaceId": self.space, "filterConfig": {"documentIds": [document]}}
            self.ask(client, "PATCH", "/v1/documents", {**selection, "data": {"access": access}})

    def ask(self, client, method: str, at: str, body) -> None:
        answer = client.request(method, at, json=body, headers=self.headers)
        assert answer.status_code == 200, answer.text


@dataclass
class Client:
    """Attributes of an organization used by `upload`."""

    client: httpx.Client
    db: object


@dataclass
class Look:
    """Requests of a user in a namespace; `said` collects all answers."""

    place: Place
    client: httpx.Client
    user: str
    headers: dict[str, str]
    said: list[str] = field(default_factory=list)

    def ask(self, method: str, at: str, body=None, **options):
        headers = {**self.place.headers, **self.headers}
        answer = self.client.request(method, at, json=body, headers=headers, **options)
        self.said.append(answer.text)
        return answer

    def data(self, method: str, at: str, body=None, **options):
        answer = self.ask(method, at, body, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def tool(self, name: str, **arguments):
        arguments = {"namespaceId": self.place.space, **arguments}
        headers = {**self.place.headers, **self.headers}
        answer = rpc(self.client, "tools/call", {"name": name, "arguments": arguments}, **headers)
        self.said.append(answer.text)
        return answer.json()["result"]

    def listings(self) -> dict[str, object]:
        """Return names, counts and facets of all listings."""
        space = {"namespaceId": self.place.space}
        include = {"statsByStatus": True, "statsBySource": True, "parsedTextFileUrl": True}
        body = {**space, "filterConfig": {}, "includeConfig": include, "facets": ["metadata.tag"]}
        first = self.data("POST", "/v1/documents", body)["data"]
        for document in first["documents"]:
            self.place.links[self.user, document["id"]] = document["parsedTextFileUrl"].removeprefix(self.place.base)
        paged, cursor = [], None
        while True:
            page = {"pageSize": 4, **({"cursor": cursor} if cursor else {})}
            part = self.data("POST", "/v1/documents", {**space, "filterConfig": {}, "pagination": page})["data"]
            paged += [document["id"] for document in part["documents"]]
            if not part["hasNextPage"]:
                break
            cursor = part["nextCursor"]
        tool = self.tool("list_documents", pageSize=100)["structuredContent"]["documents"]
        return {
            "list": {document["id"] for document in first["documents"]},
            "pages": set(paged),
            "number": first["itemsReturned"],
            "by status": sum(document["totalCount"] for document in first["statsByStatus"]),
            "by source": sum(document["totalCount"] for document in first["statsBySource"]),
            "facets": {document["value"]: document["count"] for document in first["facets"]["metadata.tag"]},
            "tool": {document["id"] for document in tool},
        }

    def searches(self, weights: tuple[float, float], rng: random.Random) -> dict[str, set[str]]:
        space, query = {"namespaceId": self.place.space}, {"query": "canary", "topK": 50}
        hybrid = {**query, "hybridConfig": dict(zip(("semanticWeight", "keywordWeight"), weights, strict=True))}
        shape = rng.choice([{}, {"perDocument": 1}, {"groupBy": "document"}, {"expand": {"unit": "DOCUMENT"}}])
        several = {"namespaceIds": [self.place.space], **hybrid}

        def ids(results):
            return {entry["document"]["id"] for entry in results}

        batch = self.data("POST", "/v1/search/batch", {**space, "queries": [query, hybrid]})["data"]["results"]
        dify = {"knowledge_id": self.place.space, "query": "canary", "retrieval_setting": {"top_k": 50}}
        records = self.data("POST", "/v1/compat/dify/retrieval", dify)["records"]
        by_name = {f"{word}.txt": document for document, word in self.place.words.items()}
        openai = {"query": ["canary", "one"], "max_num_results": 50}
        store = self.data("POST", f"/v1/vector_stores/{self.place.space}/search", openai)["data"]
        tool = self.tool("search", **query)["structuredContent"]["results"]
        return {
            "search": ids(self.data("POST", "/v1/search", {**space, **query, **shape})["data"]["results"]),
            "hybrid": ids(self.data("POST", "/v1/search/hybrid", {**space, **hybrid, **shape})["data"]["results"]),
            "several": ids(self.data("POST", "/v1/search/hybrid", several)["data"]["results"]),
            "batch": ids(batch[0]["results"]) & ids(batch[1]["results"]),
            "dify": {by_name[entry["title"]] for entry in records},
            "openai": {entry["file_id"] for entry in store},
            "tool": ids(tool),
        }

    def ways_to(self, document: str) -> dict[str, bool]:
        """Return success of each route to a document."""
        space, path = {"namespaceId": self.place.space}, f"/v1/documents/{document}"
        answers = {"chunks": self.ask("GET", f"{path}/chunks", params=space)}
        for route, answer in answers.items():
            assert answer.status_code == 200 or answer.json()["error"]["code"] == "DOCUMENTS_NOT_FOUND", (route, answer)
        drawn = self.ask("GET", f"{path}/pages/1", params=space).json()["error"]["code"]
        read = self.tool("read_document", documentId=document)
        ways = {
            **{route: answer.status_code == 200 for route, answer in answers.items()},
            "page": drawn == "NOT_FOUND",
            "tool": not read["isError"],
        }
        link = self.place.links.get((self.user, document))
        if link is not None:  # made when the user saw it, maybe in another world
            ways["link"] = self.client.get(link).status_code == 200
        return ways


@pytest.fixture
def places(organization, api_settings):
    org = organization(requests_per_minute=10**7)
    space = org.namespace(**STATIC)
    config = namespaces.load_namespace(org.db, org.ring, space)
    created = [Place(org, space, tenant, api_settings.base_url) for tenant in TENANTS]
    for filled_space in created:
        filled_space.fill(config)
    return created


@pytest.fixture
def keys(places):
    """Return a client per user, with a key acting as the user."""
    org = places[0].org
    clients = {}
    for user in USERS:
        body = {"name": user, "principal": user}
        api_key = org.client.post("/v1/keys", json=body).json()["data"]["apiKey"]
        clients[user] = client_of(org.base, api_key)
    yield clients
    for client in clients.values():
        client.close()


def test_every_route_agrees_with_the_oracle(places, keys):
    look_at(places, keys, range(FIRST, FIRST + WORLDS))


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_route_agrees_in_two_thousand_worlds(places, keys, part):
    worlds_per_part = ALL // PARTS
    look_at(places, keys, range(part * worlds_per_part, (part + 1) * worlds_per_part))


def look_at(places, keys, numbers) -> None:
    for number in numbers:
        rng = random.Random(number)
        space = rng.choice(places)
        world = World.random(rng, list(space.words))
        space.write(world, rng)
        user = rng.choice([*USERS, "eve"])
        if user in keys and rng.random() < 0.3:
            look = Look(space, keys[user], user, {})
        else:
            look = Look(space, space.org.client, user, {"X-On-Behalf-Of": quote(user)})
        compare(look, world.seen_by(user), rng, f"world {number}, {user}, tenant {space.tenant!r}")


def compare(look: Look, expected: set[str], rng: random.Random, about: str) -> None:
    space = look.place
    tags = [space.tag(document) for document in expected]
    listings = look.listings()
    assert listings == {
        **dict.fromkeys(("list", "pages", "tool"), expected),
        **dict.fromkeys(("number", "by status", "by source"), len(expected)),
        "facets": {tag: tags.count(tag) for tag in set(tags)},
    }, about
    weights = rng.choice(WEIGHTS)
    for route, hits in look.searches(weights, rng).items():
        assert hits == expected, f"{about}: {route} {weights}"
    for document in rng.sample(list(space.words), 2):
        for route, opens in look.ways_to(document).items():
            assert opens is (document in expected), f"{about}: {route}"
    whole = "\n".join(look.said)
    leaked = [
        word
        for document_id, word in space.words.items()
        if document_id not in expected and (word in whole or document_id in whole)
    ]
    assert not leaked, about
    assert '"access"' not in whole, about
