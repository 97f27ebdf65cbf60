"""Random worlds of users, groups and denials, written and looked at by real requests: every route says what the oracle
says, and nothing that is answered to a user holds a word of what is hidden. The slow ones are 2,000 worlds; others than
these: RETRIEVAL_FIRST_WORLD=2000 RETRIEVAL_WORLDS=100.
"""

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
    """A namespace and tenant with files: by document id, the word that its name and its text alone hold."""

    org: object
    space: str
    tenant: str
    base: str
    """What links begin with."""
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
                    texts, [list(map(float, one)) for one in embedder.embed(texts, "document")], document_id=document
                )
                self.words[document] = word
                where = {"namespaceId": self.space, "filterConfig": {"documentIds": [document]}}
                self.ask(client, "PATCH", "/v1/documents", {**where, "data": {"metadata": {"tag": self.tag(document)}}})

    def write(self, world: World, rng: random.Random) -> None:
        """Groups and accesses, as an application says them."""
        client = self.org.client

        def names(said) -> list[str]:
            return list(said)

        for group in ("g1", "g2", "g3", "g4"):
            at = f"/v1/groups/{quote(group)}"
            if group not in world.members:
                gone = client.delete(at, params={"namespaceId": self.space}, headers=self.headers)
                assert gone.status_code in {200, 404}, gone.text
                continue
            held = {kind: names(name for one, name in world.members[group] if one == kind) for kind in "ug"}
            members = {"users": held["u"], "groups": held["g"]}
            self.ask(client, "PUT", at, {"namespaceId": self.space, "members": members})
        for document, said in world.said.items():
            access = said and {
                "users": names(said["users"]),
                "groups": names(said["groups"]),
                "denied": {"users": names(said["denied_users"]), "groups": names(said["denied_groups"])},
                "public": said["public"],
            }
            where = {"namespaceId": self.space, "filterConfig": {"documentIds": [document]}}
            self.ask(client, "PATCH", "/v1/documents", {**where, "data": {"access": access}})

    def ask(self, client, method: str, at: str, body) -> None:
        answer = client.request(method, at, json=body, headers=self.headers)
        assert answer.status_code == 200, answer.text


@dataclass
class Client:
    """What `upload` needs of an organization."""

    client: httpx.Client
    db: object


@dataclass
class Look:
    """One user's requests in one place. `said`: all that was answered."""

    place: Place
    client: httpx.Client
    user: str
    headers: dict[str, str]
    said: list[str] = field(default_factory=list)

    def ask(self, method: str, at: str, body=None, **more):
        headers = {**self.place.headers, **self.headers}
        answer = self.client.request(method, at, json=body, headers=headers, **more)
        self.said.append(answer.text)
        return answer

    def data(self, method: str, at: str, body=None, **more):
        answer = self.ask(method, at, body, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def tool(self, name: str, **given):
        given = {"namespaceId": self.place.space, **given}
        headers = {**self.place.headers, **self.headers}
        answer = rpc(self.client, "tools/call", {"name": name, "arguments": given}, **headers)
        self.said.append(answer.text)
        return answer.json()["result"]

    def listings(self) -> dict[str, object]:
        """What listings show and count."""
        space = {"namespaceId": self.place.space}
        include = {"statsByStatus": True, "statsBySource": True, "parsedTextFileUrl": True}
        body = {**space, "filterConfig": {}, "includeConfig": include, "facets": ["metadata.tag"]}
        first = self.data("POST", "/v1/documents", body)["data"]
        for one in first["documents"]:
            self.place.links[self.user, one["id"]] = one["parsedTextFileUrl"].removeprefix(self.place.base)
        paged, cursor = [], None
        while True:
            page = {"pageSize": 4, **({"cursor": cursor} if cursor else {})}
            part = self.data("POST", "/v1/documents", {**space, "filterConfig": {}, "pagination": page})["data"]
            paged += [one["id"] for one in part["documents"]]
            if not part["hasNextPage"]:
                break
            cursor = part["nextCursor"]
        tool = self.tool("list_documents", pageSize=100)["structuredContent"]["documents"]
        return {
            "list": {one["id"] for one in first["documents"]},
            "pages": set(paged),
            "number": first["itemsReturned"],
            "by status": sum(one["totalCount"] for one in first["statsByStatus"]),
            "by source": sum(one["totalCount"] for one in first["statsBySource"]),
            "facets": {one["value"]: one["count"] for one in first["facets"]["metadata.tag"]},
            "tool": {one["id"] for one in tool},
        }

    def searches(self, weights: tuple[float, float], rng: random.Random) -> dict[str, set[str]]:
        space, query = {"namespaceId": self.place.space}, {"query": "canary", "topK": 50}
        hybrid = {**query, "hybridConfig": dict(zip(("semanticWeight", "keywordWeight"), weights, strict=True))}
        shape = rng.choice([{}, {"perDocument": 1}, {"groupBy": "document"}, {"expand": {"unit": "DOCUMENT"}}])
        several = {"namespaceIds": [self.place.space], **hybrid}

        def ids(results):
            return {one["document"]["id"] for one in results}

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
            "dify": {by_name[one["title"]] for one in records},
            "openai": {one["file_id"] for one in store},
            "tool": ids(tool),
        }

    def ways_to(self, document: str) -> dict[str, bool]:
        """Which ways to one document open it."""
        space, where = {"namespaceId": self.place.space}, f"/v1/documents/{document}"
        answers = {"chunks": self.ask("GET", f"{where}/chunks", params=space)}
        for way, answer in answers.items():
            assert answer.status_code == 200 or answer.json()["error"]["code"] == "DOCUMENTS_NOT_FOUND", (way, answer)
        drawn = self.ask("GET", f"{where}/pages/1", params=space).json()["error"]["code"]
        read = self.tool("read_document", documentId=document)
        ways = {
            **{way: answer.status_code == 200 for way, answer in answers.items()},
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
    made = [Place(org, space, tenant, api_settings.base_url) for tenant in TENANTS]
    for one in made:
        one.fill(config)
    return made


@pytest.fixture
def keys(places):
    """A client of a key that acts as each user."""
    org = places[0].org
    found = {}
    for user in USERS:
        body = {"name": user, "principal": user}
        made = org.client.post("/v1/keys", json=body).json()["data"]["apiKey"]
        found[user] = client_of(org.base, made)
    yield found
    for client in found.values():
        client.close()


def test_every_route_says_what_the_oracle_says(places, keys):
    look_at(places, keys, range(FIRST, FIRST + WORLDS))


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_route_says_so_of_two_thousand_worlds(places, keys, part):
    each = ALL // PARTS
    look_at(places, keys, range(part * each, (part + 1) * each))


def look_at(places, keys, numbers) -> None:
    for number in numbers:
        rng = random.Random(number)
        place = rng.choice(places)
        world = World.random(rng, list(place.words))
        place.write(world, rng)
        user = rng.choice([*USERS, "eve"])
        if user in keys and rng.random() < 0.3:
            look = Look(place, keys[user], user, {})
        else:
            look = Look(place, place.org.client, user, {"X-On-Behalf-Of": quote(user)})
        compare(look, world.seen_by(user), rng, f"world {number}, {user}, tenant {place.tenant!r}")


def compare(look: Look, expected: set[str], rng: random.Random, about: str) -> None:
    place = look.place
    tags = [place.tag(document) for document in expected]
    found = look.listings()
    assert found == {
        **dict.fromkeys(("list", "pages", "tool"), expected),
        **dict.fromkeys(("number", "by status", "by source"), len(expected)),
        "facets": {tag: tags.count(tag) for tag in set(tags)},
    }, about
    weights = rng.choice(WEIGHTS)
    for way, shown in look.searches(weights, rng).items():
        assert shown == expected, f"{about}: {way} {weights}"
    for document in rng.sample(list(place.words), 2):
        for way, opens in look.ways_to(document).items():
            assert opens is (document in expected), f"{about}: {way}"
    whole = "\n".join(look.said)
    leaked = [word for one, word in place.words.items() if one not in expected and (word in whole or one in whole)]
    assert not leaked, about
    assert '"access"' not in whole, about
