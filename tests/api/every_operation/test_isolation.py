"""Isolation on every route of the OpenAPI document: foreign ids get the same bytes as unknown ids."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest

from api.app import ROUTE_HANDLERS
from retrieval import ids
from retrieval.access.queries.lists import set_lists
from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations, tenants
from retrieval.ports import Scope
from retrieval.principals import Access
from tests.api.description import DOCUMENT
from tests.api.support import Failures, Organization, client_of
from tests.library import Library

CANARY = "canarybird"
APP = {"clientId": "client", "clientSecret": "secret", "apiKey": "key"}

# Names of ids in requests with the kinds of object.
KINDS = {
    "namespace_id": "namespace",
    "knowledge_id": "namespace",
    "namespaceId": "namespace",
    "namespaceIds": "namespace",
    "ingest_job_run_id": "run",
    "ingestJobRunId": "run",
    "schedule_id": "schedule",
    "document_id": "document",
    "documentId": "document",
    "documentIds": "document",
    "documentExternalIds": "external",
    "connection_id": "connection",
    "connectionId": "connection",
    "documentConnectionIds": "connection",
    "documentArchiveIds": "archive",
    "evaluation_id": "evaluation",
    "evaluationId": "evaluation",
    "run_id": "evaluation run",
    "key_id": "key",
    "webhook_id": "webhook",
    "delivery_id": "delivery",
    "tenant_id": "tenant",
    "deletion_id": "deletion",
    "group_id": "group",
    "file_id": "upload",
    "resource_id": "directory user",
    "passage_id": "hidden passage",
}

# Names with the ending of an id, without reference to an existing object.
NO_REFERENCE = {"externalId", "tenantId", "clientId", "accessKeyId", "enterpriseId", "id", "parentId"}

# Path parameters without ids.
NO_ID = {"connector", "model", "page", "resource_type"}

FILES = "/v1/files/{document_id}/{kind}"
# Routes without an API key: the request carries a secret, a state or a signature.
OPEN = {"/v1/oauth/callback/{connector}", "/v1/push/{push_id}", FILES}

TENANT_OWNED = frozenset({"run", "document", "external", "archive", "connection", "deletion"}) | {
    "evaluation",
    "evaluation run",
    "group",
    "upload",
    "directory user",
    "hidden passage",
    "schedule",
}
EVERYTHING = frozenset(KINDS.values())
# Kinds hidden from a user.
HIDDEN = EVERYTHING - {"namespace", "tenant", "key"}
# Kinds of the owner's objects hidden from each stranger.
FORBIDDEN_TO = {
    "another organization": EVERYTHING,
    "another tenant": TENANT_OWNED | {"webhook", "delivery"},
    "no tenant": TENANT_OWNED,
    "another namespace": TENANT_OWNED - {"deletion", "upload"},  # neither is of a namespace
    "a key bound to another namespace": EVERYTHING,
    "another user": HIDDEN,
    "a key of another user": HIDDEN,
}


@dataclass(frozen=True)
class Place:
    """Position of an id in a request: `path`, `query`, `form`, or `body` with a dotted path."""

    where: str
    name: str

    @property
    def kind(self) -> str:
        return KINDS[self.name.rpartition(".")[2]]


@dataclass(frozen=True)
class Route:
    """Operation of the OpenAPI document."""

    method: str
    path: str
    operation: dict[str, Any] = field(repr=False, hash=False, compare=False)

    @property
    def parameters(self) -> list[dict[str, Any]]:
        return list(self.operation.get("parameters", []))

    @property
    def contents(self) -> dict[str, Any]:
        return dict(self.operation.get("requestBody", {}).get("content", {}))

    def places(self) -> list[Place]:
        parameters = [Place(p["in"], p["name"]) for p in self.parameters if looks_like_an_id(p["name"])]
        for media, content in self.contents.items():
            part = "form" if media.startswith("multipart") else "body"
            parameters += [Place(part, name) for name in named_ids(content["schema"])]
        return [parameter for parameter in parameters if parameter.name.rpartition(".")[2] not in NO_REFERENCE]


def looks_like_an_id(name: str) -> bool:
    return re.search(r"(?:^id|_id|Id|Ids|[iI]dentifiers?)$", name) is not None


def named_ids(schema: dict[str, Any], prefix: str = "", above: tuple[str, ...] = ()) -> list[str]:
    """Return the dotted paths of all id properties."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return [] if name in above else named_ids(DOCUMENT["components"]["schemas"][name], prefix, (*above, name))
    ids = [
        inner_id
        for part in ("anyOf", "oneOf", "allOf")
        for s in schema.get(part, [])
        for inner_id in named_ids(s, prefix, above)
    ]
    for name, inner in schema.get("properties", {}).items():
        ids += [prefix + name] if looks_like_an_id(name) else named_ids(inner, f"{prefix}{name}.", above)
    return list(dict.fromkeys(ids))


ROUTES = [
    Route(method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    if path.startswith(("/v1/", "/metrics")) and path not in OPEN
    for method, operation in methods.items()
]
# Needs a model once a scope has content; the same search by words covers the route and the filters.
EMBEDS = {"/v1/search", "/v1/compat/dify/retrieval"}
PLACES = [
    (route, parameter)
    for route in ROUTES
    for parameter in route.places()
    if route.path not in EMBEDS or not parameter.name.startswith("filter.")
]
# Creates the named object in the scope of the caller.
MADE_BY_NAME = {("PUT", "/v1/groups/{group_id}")}
# Changes a namespace for all tenants; the evaluation of the gate may belong to any tenant.
OF_ALL_TENANTS = {("PATCH", "/v1/namespaces/{namespace_id}")}
CASES = [
    (stranger, route, parameter)
    for route, parameter in PLACES
    for stranger, kinds in FORBIDDEN_TO.items()
    if parameter.kind in kinds
    and not (parameter.where == "path" and (route.method, route.path) in MADE_BY_NAME)
    and not (stranger in {"another tenant", "no tenant"} and (route.method, route.path) in OF_ALL_TENANTS)
    # A key with a principal only reads, as a request with the header.
    and (stranger != "a key of another user" or route.method == "GET")
]


# Routes with an optional namespace id: an unbound key then reaches all namespaces.
BARE = [
    (stranger, route, parameter)
    for stranger, route, parameter in CASES
    if stranger != "another namespace"
    and parameter.where == "path"
    and any(
        described["in"] == "query" and described["name"] in KINDS and not described["required"]
        for described in route.parameters
    )
]


def case_name(value: Any) -> str:
    if isinstance(value, Route):
        return f"{value.method} {value.path}"
    return f"{value.where} {value.name}" if isinstance(value, Place) else str(value)


@dataclass
class World:
    """Client, tenant, and the id of an object of each kind."""

    client: httpx.Client
    tenant: str | None
    own: dict[str, str]
    # User named in X-On-Behalf-Of.
    user: str | None = None

    def send(self, route: Route, **changed: Any) -> httpx.Response:
        """Send the example request with own ids; `place` and `value` replace an id, `bare` omits optional query ids."""
        parameter, value = changed.get("place"), changed.get("value")
        path, query = route.path, {}
        for described in route.parameters:
            name = described["name"]
            usual = "Users" if name == "resource_type" else "NOTION"
            chosen = value if parameter == Place(described["in"], name) else self.own.get(KINDS.get(name, ""), usual)
            if described["in"] == "path":
                path = path.replace("{" + name + "}", chosen)
            elif described["in"] == "query" and (described["required"] or (name in KINDS and not changed.get("bare"))):
                query[name] = chosen
        headers = {} if self.tenant is None else {"X-Tenant-ID": self.tenant}
        headers |= {} if self.user is None else {"X-On-Behalf-Of": self.user}
        return self.client.request(
            route.method, path, params=query, headers=headers, **self._content(route, parameter, value)
        )

    def _content(self, route: Route, parameter: Place | None, value: str | None) -> dict[str, Any]:
        if "multipart/form-data" in route.contents:
            space = value if parameter == Place("form", "namespaceId") else self.own["namespace"]
            return {"data": {"namespaceId": space}, "files": {"file": ("a.txt", b"A file.", "text/plain")}}
        if "application/json" not in route.contents:
            return {}
        body = copy.deepcopy(route.contents["application/json"]["example"])
        if "namespaceId" in body:
            body["namespaceId"] = self.own["namespace"]
        if "knowledge_id" in body:
            body["knowledge_id"] = self.own["namespace"]
        if "max_num_results" in body:
            body |= {"ranking_options": {"hybrid_search": {"embedding_weight": 0, "text_weight": 1}}, "query": CANARY}
        if "filterConfig" in body:
            body["filterConfig"] = {"documentIds": [self.own["document"]]}
        if "hybridConfig" in body:
            body |= {"hybridConfig": {"semanticWeight": 0, "keywordWeight": 1}, "query": CANARY, "scoreThreshold": 0}
        if "url" in body:
            body["url"] = "https://1.1.1.1/hook"
        if "documentId" in body:
            body["documentId"] = self.own["document"]
        if "queries" in body:
            body["queries"] = [{"query": CANARY, "hybridConfig": {"semanticWeight": 0, "keywordWeight": 1}}]
        if parameter == Place("body", "gate.evaluationId"):
            body |= {"reembed": True, "gate": {"metric": "ndcgAt10", "minimum": 0.5}}
        if parameter is not None and parameter.where == "body":
            put(body, parameter.name.split("."), value)
        return {"json": body}


def put(body: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a nested member of `body`, in place."""
    # A filter is replaced as a whole to decide the answer by itself.
    *parents, last = path
    for name in parents:
        if name == "filterConfig":
            body[name] = {}
        body = body.setdefault(name, {})
    if last == "namespaceIds":
        body.pop("namespaceId", None)
    body[last] = [value] if last.endswith("Ids") else value


class Worlds:
    """Factory of organizations with content."""

    def __init__(self, base: str, db: Any, ring: Any) -> None:
        self.base, self.db, self.ring = base, db, ring
        self._clients: list[httpx.Client] = []

    def client(self, api_key: str) -> httpx.Client:
        self._clients.append(client_of(self.base, api_key))
        return self._clients[-1]

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def organization(self) -> Organization:
        owner = organizations.create_organization(self.db, "test", requests_per_minute=100_000)
        api_key = api_keys.create_key(self.db, self.ring, owner.id, "test").api_key
        return Organization(owner.id, self.client(api_key), api_key, self.db, self.ring, self.base)

    def fill(self, org: Organization, tenant: str | None, namespace: str | None = None) -> World:
        # Every scope has a document with the canary for foreign searches to find.
        space = namespace or org.namespace(googleDriveConfig=APP)
        marked = {"name": f"{CANARY} {ids.new_id('n_')}", "metadata": {"mark": CANARY}}
        run = org.text(space, f"A {CANARY}.", tenant=tenant, **marked)["data"]["ingestJobRunId"]
        external = f"{CANARY} {ids.new_id('e_')}"
        connection = self._connection(org, space, tenant)
        library = Library(self.db, Scope(org.id, space, tenant or ""), None)
        document = library.put(
            [f"A {CANARY} of {tenant} sings", "Old prices"], external_id=external, connection_id=connection
        )
        archive, member = library.put(), library.put([f"A {CANARY} packed"], name=f"{CANARY} packed")
        self.db.rows("update documents set archive_id = %(a)s where id = %(m)s", {"a": archive, "m": member})
        with self.db.transaction() as changing:
            set_lists(changing, dict.fromkeys((document, archive), Access(users=("owner",))))
        headers = {} if tenant is None else {"X-Tenant-ID": tenant}
        evaluation_body = {"namespaceId": space, "name": CANARY}
        evaluation_body |= {"questions": [{"query": CANARY, "relevant": [{"documentId": document}]}]}
        evaluation = org.client.post("/v1/evaluations", json=evaluation_body, headers=headers).json()["data"][
            "evaluation"
        ]["id"]
        settings = [{"name": "words", "semanticWeight": 0, "keywordWeight": 1}]
        started = org.client.post(
            f"/v1/evaluations/{evaluation}/runs", json={"namespaceId": space, "settings": settings}, headers=headers
        )
        group = ids.new_id("group_")
        group_body = {"namespaceId": space, "members": {"users": [CANARY]}}
        assert org.client.put(f"/v1/groups/{group}", json=group_body, headers=headers).status_code == 200
        upload = org.client.post("/v1/files", files={"file": ("a.txt", b"A file.", "text/plain")}, headers=headers)
        pushed = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": f"{CANARY}@{group}"}
        user = org.client.post(f"/v1/namespaces/{space}/scim/v2/Users", json=pushed, headers=headers).json()["id"]
        old = {"namespaceId": space, "chunkIndex": 1, "reason": f"{CANARY} old"}
        hidden = org.client.post(f"/v1/documents/{document}/hidden-passages", json=old, headers=headers).json()
        schedule = ids.schedule_id()
        self.db.rows(
            "insert into schedules (id, partition_id, job_id, source, config, minutes)"
            " select %(id)s, partition_id, 'job_0', 'WEBSITE', '{}', 60 from job_runs where id = %(run)s",
            {"id": schedule, "run": run},
        )
        self.db.rows(
            "insert into weak_searches (partition_id, query, searches, probability)"
            " select partition_id, %(query)s, 1, 0.1 from job_runs where id = %(run)s",
            {"query": f"{CANARY} {run}", "run": run},
        )
        own_ids = {
            "hidden passage": hidden["data"]["hiddenPassage"]["id"],
            "schedule": schedule,
            "upload": upload.json()["id"],
            "group": group,
            "directory user": user,
            "evaluation": evaluation,
            "evaluation run": started.json()["data"]["run"]["id"],
            "namespace": space,
            "run": run,
            "document": document,
            "external": external,
            "archive": archive,
            "connection": connection,
            "key": api_keys.create_key(self.db, self.ring, org.id, "spare").id,
            **self._webhook(org, space, tenant),
            "tenant": ids.new_id("t_")[:30],
            "deletion": self._deletion(org, library, space, tenant),
        }
        tenants.create_tenant(self.db, org.id, own_ids["tenant"])
        return World(org.client, tenant, own_ids)

    def _deletion(self, org: Organization, library: Library, space: str, tenant: str | None) -> str:
        answer = org.client.request(
            "DELETE",
            "/v1/documents",
            json={"namespaceId": space, "filterConfig": {"documentIds": [library.put()]}},
            headers={} if tenant is None else {"X-Tenant-ID": tenant},
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["deletionId"])

    def _webhook(self, org: Organization, space: str, tenant: str | None) -> dict[str, str]:
        headers = {} if tenant is None else {"X-Tenant-ID": tenant}
        body = {"namespaceId": space, "url": "https://1.1.1.1/hook", "events": ["*"], "description": CANARY}
        hook = org.client.post("/v1/webhooks", json=body, headers=headers).json()["data"]["webhook"]["id"]
        test = org.client.post(f"/v1/webhooks/{hook}/test", headers=headers).json()["data"]["delivery"]["id"]
        return {"webhook": hook, "delivery": test}

    def _connection(self, org: Organization, space: str, tenant: str | None) -> str:
        answer = org.client.post(
            "/v1/connections",
            json={"namespaceId": space, "name": CANARY, "connector": "GOOGLE_DRIVE"},
            headers={} if tenant is None else {"X-Tenant-ID": tenant},
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["data"]["connection"]["id"])


@pytest.fixture(scope="module")
def owner(worlds):
    return worlds.fill(worlds.organization(), "alice")


@pytest.fixture(scope="module")
def strangers(worlds, owner):
    """Return a client of each kind in `FORBIDDEN_TO`, with objects of their own."""
    org = Organization("", owner.client, "", worlds.db, worlds.ring, worlds.base)
    org.id = organization_of(worlds, owner)
    elsewhere = worlds.fill(org, "alice")
    bound = api_keys.create_key(worlds.db, worlds.ring, org.id, "bound", namespace=elsewhere.own["namespace"])
    strangers_key = api_keys.create_key(worlds.db, worlds.ring, org.id, "stranger", principal="stranger")
    return {
        "another organization": worlds.fill(worlds.organization(), "alice"),
        "another tenant": worlds.fill(org, "bob", owner.own["namespace"]),
        "no tenant": worlds.fill(org, None, owner.own["namespace"]),
        "another namespace": elsewhere,
        "a key bound to another namespace": replace(elsewhere, client=worlds.client(bound.api_key)),
        "another user": replace(owner, user="stranger"),
        "a key of another user": replace(owner, client=worlds.client(strangers_key.api_key)),
    }


def organization_of(worlds, world):
    row = worlds.db.row("select organization_id from namespaces where id = %(namespace)s", world.own)
    return row["organization_id"]


def missing(kind: str) -> str:
    """Return an unknown id of the same form."""
    prefixes = {
        "namespace": "ns_",
        "run": "ijr_",
        "document": "doc_",
        "connection": "conn_",
        "key": "key_",
        "webhook": "wh_",
        "delivery": "whd_",
        "deletion": "del_",
        "evaluation": "eval_",
        "evaluation run": "evr_",
        "directory user": "dir_",
    }
    return ids.new_id(prefixes.get(kind, "t_"))[: 30 if kind == "tenant" else None]


def stable_parts(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers without per-request values."""
    differs = {"x-request-id", "x-ratelimit-remaining", "x-ratelimit-reset", "date"}
    return answer.status_code, answer.content, {k: v for k, v in answer.headers.items() if k not in differs}


def holds(answer: httpx.Response, world: World, stranger: str = "another organization") -> list[str]:
    """Return the kinds of forbidden ids in an answer."""
    kinds = FORBIDDEN_TO[stranger] - {"namespace"}
    return [kind for kind, value in world.own.items() if kind in kinds and value in answer.text]


def test_the_tables_cover_every_route_and_id():
    parameters = {name for route in ROUTES for name in re.findall(r"{(\w+)}", route.path)}
    assert parameters - NO_ID <= set(KINDS), "a path parameter that this test does not know: say what it names in KINDS"
    for route, parameter in PLACES:
        assert parameter.name.rpartition(".")[2] in KINDS, (
            f"{case_name(route)}: say in KINDS what {parameter.name} names"
        )
    for route in ROUTES:
        content = route.contents.get("application/json", {})
        assert not content or "example" in content, f"{case_name(route)} shows no example that could be sent"
    handled = {handler.opt["operation"].path for handler in ROUTE_HANDLERS if "operation" in handler.opt}
    assert {re.sub(r":str", "", path) for path in handled} <= {route.path for route in ROUTES} | OPEN
    public = {
        path
        for path, methods in DOCUMENT["paths"].items()
        for operation in methods.values()
        if operation.get("security") == []
    }
    assert {path for path in public if path.startswith("/v1/")} <= OPEN, (
        "a route without a key that this test leaves out"
    )


@pytest.mark.parametrize("stranger", FORBIDDEN_TO)
def test_foreign_ids_get_the_answer_of_unknown_ids(owner, strangers, stranger):
    # With the namespace in the query, and without where optional.
    failures = Failures()
    for bare, cases in ((False, CASES), (True, BARE)):
        for kind, route, parameter in cases:
            if kind == stranger:
                with failures.of(case_name(route), case_name(parameter), "bare" if bare else ""):
                    compare(owner, strangers[kind], kind, route, parameter, bare=bare)
    failures.report()


def test_a_revoked_key_opens_no_route(worlds, owner):
    organization_id = organization_of(worlds, owner)
    revoked = api_keys.create_key(worlds.db, worlds.ring, organization_id, "revoked")
    api_keys.revoke_key(worlds.db, organization_id, revoked.id)
    former = replace(owner, client=worlds.client(revoked.api_key))
    assert {former.send(route).status_code for route in ROUTES} == {401}


def compare(owner, stranger, kind, route, parameter, *, bare):
    foreign = stranger.send(route, place=parameter, value=owner.own[parameter.kind], bare=bare)
    never = stranger.send(route, place=parameter, value=missing(parameter.kind), bare=bare)
    assert stable_parts(foreign) == stable_parts(never)
    assert foreign.status_code < 500, foreign.text
    assert holds(foreign, owner, kind) == []


# Listings shared by all unbound keys of an organization, of any tenant. Webhooks of a tenant are listed for this
# tenant and for requests without a tenant.
SHARED = {"/v1/keys", "/v1/tenants", "/v1/audit", "/v1/queue"}

# Returns ids of own requests, found or not; test_audit.py covers requests of other organizations.
ASKED_FOR = {"/v1/audit"}

LISTED = [
    (stranger, route)
    for route in ROUTES
    for stranger in FORBIDDEN_TO
    if route.method in {"GET", "POST"}
    and route.path not in EMBEDS | ASKED_FOR
    and (route.path not in SHARED or stranger == "another organization")
    and (route.path != "/v1/webhooks" or stranger not in {"no tenant", "another namespace"})
]


@pytest.mark.parametrize("stranger", FORBIDDEN_TO)
def test_own_listings_and_searches_show_no_foreign_ids(owner, strangers, stranger):
    # Listings and searches with own ids, also in the shared namespace.
    failures = Failures()
    for kind, route in LISTED:
        if kind == stranger:
            with failures.of(case_name(route)):
                answer = strangers[kind].send(route)
                assert answer.status_code < 500, answer.text
                assert holds(answer, owner, kind) == []
    failures.report()


@pytest.mark.parametrize("kind", ["raw", "parsed"])
def test_unsigned_links_get_identical_answers(owner, anonymous, kind):
    names = [
        parameter["name"] for parameter in DOCUMENT["paths"][FILES]["get"]["parameters"] if parameter["in"] == "query"
    ]
    assert names, "a signed link carries its authority in the query"
    for query in ({}, dict.fromkeys(names, "9999999999")):
        paths = [
            FILES.format(document_id=document, kind=kind) for document in (owner.own["document"], missing("document"))
        ]
        foreign, never = (anonymous.get(path, params=query) for path in paths)
        assert stable_parts(foreign) == stable_parts(never)
        assert 400 <= foreign.status_code < 500


def test_a_search_finds_own_documents(owner):
    # Guards the searches above against a canary nobody finds.
    route = next(route for route in ROUTES if route.path == "/v1/search/hybrid")
    assert holds(owner.send(route), owner) == ["document", "external"]


@pytest.mark.slow
@pytest.mark.parametrize(("route", "parameter"), PLACES, ids=case_name)
def test_owners_get_a_different_answer_than_strangers(worlds, route, parameter):
    # Guards the comparison above: identical answers for everybody prove no isolation.
    org = worlds.organization()
    world = worlds.fill(org, "alice")
    if route.path == "/v1/search":
        tenants.create_tenant(worlds.db, org.id, "empty")
        world = replace(world, tenant="empty")
    never = world.send(route, place=parameter, value=missing(parameter.kind))
    found_answer = world.send(route, place=parameter, value=world.own[parameter.kind])
    assert stable_parts(found_answer)[:2] != stable_parts(never)[:2], found_answer.text


def test_the_owner_keeps_all_objects(owner, strangers):
    # Runs after all requests above.
    for path in ("/v1/namespaces/{namespace_id}", "/v1/ingest-job-runs/{ingest_job_run_id}"):
        route = next(route for route in ROUTES if (route.method, route.path) == ("GET", path))
        assert owner.send(route).status_code == 200
    listing = next(route for route in ROUTES if (route.method, route.path) == ("POST", "/v1/documents"))
    documents = owner.send(listing).json()["data"]["documents"]
    assert [(document["id"], document["name"]) for document in documents] == [(owner.own["document"], "a name")]
    row = owner.client.get("/v1/keys").json()["data"]["keys"]
    assert {key["id"]: key["revokedAt"] for key in row}[owner.own["key"]] is None
