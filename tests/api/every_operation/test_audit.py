"""Every write creates an audit entry, done or refused; reads create no entry."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from api.permissions import find_permission
from retrieval.accounts import api_keys, audit
from tests.api.every_operation.test_isolation import ROUTES, case_name, missing
from tests.api.support import Failures, assert_error

FIELDS = {
    "id",
    "at",
    "keyId",
    "keyName",
    "principal",
    "method",
    "route",
    "objectType",
    "objectId",
    "status",
    "requestId",
    "source",
}


def is_write(route):
    if (route.method, route.path) == ("POST", "/v1/evaluations/{evaluation_id}/runs"):
        return True  # whoever may search may start one
    if route.path in {"/v1/convert/file", "/v1/namespaces/test"}:
        return False  # nothing is stored
    scope = find_permission(route.method, route.path).scope or ""
    return route.method != "GET" and scope != "search" and not scope.endswith(":read")


WRITES = [route for route in ROUTES if is_write(route)]


def entries(client, **query):
    answer = client.get("/v1/audit", params={"pageSize": 100, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["entries"]


@pytest.fixture(scope="module")
def filled(worlds):
    # Shared: each operation is sent once, whatever earlier operations have deleted.
    org = worlds.organization()
    key = api_keys.create_key(worlds.db, worlds.ring, org.id, "auditor", scopes=["admin"])
    return org, worlds.fill(org, "alice"), worlds.client(key.api_key)


def test_a_write_makes_one_entry_and_a_read_none(filled):
    failures = Failures()
    for route in ROUTES:
        with failures.of(case_name(route)):
            check_entry(filled, route)
    failures.report()


def check_entry(filled, route):
    _, world, auditor = filled
    known_ids = {entry["id"] for entry in entries(auditor)}
    answer = world.send(route)
    assert answer.status_code < 500, answer.text
    new = [entry for entry in entries(auditor) if entry["id"] not in known_ids]
    if not is_write(route):
        assert new == []
        return
    [entry] = new
    assert set(entry) - {"objectIds", "objectCount", "changes"} == FIELDS
    assert (entry["method"], entry["route"], entry["source"]) == (route.method, route.path, "API")
    assert (entry["status"], entry["requestId"]) == (answer.status_code, answer.headers["x-request-id"])
    assert (entry["keyName"], entry["principal"]) == ("test", None)
    assert entry["keyId"] in {key["id"] for key in auditor.get("/v1/keys").json()["data"]["keys"]}
    assert entry["objectType"]
    if answer.status_code == 200:
        assert entry["objectId"] or entry["objectIds"], entry
    assert "canarybird" not in str({**entry, "objectId": None})


def test_a_refused_write_makes_one_entry(worlds, filled):
    org, failures = filled[0], Failures()
    reader = worlds.client(
        api_keys.create_key(worlds.db, worlds.ring, org.id, "reader", scopes=["connections:read"]).api_key
    )
    for route in WRITES:
        with failures.of(case_name(route)):
            check_refused(filled, reader, route)
    failures.report()


def check_refused(filled, reader, route):
    _, world, auditor = filled
    known_ids = {entry["id"] for entry in entries(auditor)}
    assert_error(replace(world, client=reader).send(route), 403, "FORBIDDEN")
    path = route.path
    for parameter in route.parameters:
        path = path.replace("{" + parameter["name"] + "}", missing("run"))
    headers = {"Content-Type": "application/json"}
    answer = world.client.request(route.method, path, content=b"{", headers=headers)
    new = [entry for entry in entries(auditor) if entry["id"] not in known_ids]
    assert [entry["status"] for entry in new] == [answer.status_code, 403]
    assert [entry["keyName"] for entry in new] == ["test", "reader"]
    assert {entry["route"] for entry in new} == {route.path}


def test_an_entry_names_the_object(org):
    space = org.namespace()
    run = org.text(space)["data"]["ingestJobRunId"]
    org.client.delete(f"/v1/namespaces/{space}")
    org.client.post("/v1/tenants", json={"id": "alice"})
    org.client.request("DELETE", "/v1/documents", json={"namespaceId": space, "filterConfig": {"documentIds": ["x"]}})
    recorded = [(entry["objectType"], entry["objectId"], entry["status"]) for entry in entries(org.client)]
    assert recorded == [
        ("document", None, 404),
        ("tenant", "alice", 200),
        ("namespace", space, 200),
        ("ingestJobRun", run, 200),
        ("namespace", space, 200),
    ]


def test_concurrent_writes_lose_no_entry(org):
    def make(number):
        return org.client.post("/v1/tenants", json={"id": f"t{number}"}).status_code

    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(make, range(90))) == {200}
    recorded = entries(org.client)
    assert sorted(entry["objectId"] for entry in recorded) == sorted(f"t{number}" for number in range(90))
    moments = [entry["at"]["isoString"] for entry in recorded]
    assert moments == sorted(moments, reverse=True)


def test_a_write_whose_entry_cannot_be_stored_is_not_acknowledged(org, api_db):
    api_db.rows(
        "create function refuse_entry() returns trigger language plpgsql as"
        " $$ begin raise exception 'full' using errcode = '53100'; end $$"
    )
    api_db.rows("create trigger full_log before insert on audit_entries execute function refuse_entry()")
    try:
        answer = org.client.post("/v1/tenants", json={"id": "alice"}, headers={"Idempotency-Key": "one"})
        assert assert_error(answer, 503, "SERVICE_UNAVAILABLE")["error"]["details"]["reason"] == "disk_full"
        assert org.client.get("/v1/tenants").status_code == 200
    finally:
        api_db.rows("drop function refuse_entry() cascade")
    answer = org.client.post("/v1/tenants", json={"id": "alice"}, headers={"Idempotency-Key": "one"})
    assert answer.status_code == 200
    assert [entry["status"] for entry in entries(org.client)] == [200]


def test_entries_are_deleted_after_the_retention(org, api_db):
    for name in ("old", "new"):
        org.client.post("/v1/tenants", json={"id": name})
    age = "update audit_entries set created_at = now() - make_interval(days => %(days)s) where object_id = 'old'"
    api_db.rows(age + " and organization_id = %(org)s", {"days": 399, "org": org.id})
    audit.delete_old_entries(api_db, 400)
    assert [entry["objectId"] for entry in entries(org.client)] == ["new", "old"]
    api_db.rows(age + " and organization_id = %(org)s", {"days": 401, "org": org.id})
    assert audit.delete_old_entries(api_db, 400) == 1
    assert [entry["objectId"] for entry in entries(org.client)] == ["new"]


def test_entries_name_changed_documents_and_members(worlds):
    org = worlds.organization()
    space = org.namespace()
    documents = [org.text(space, f"text {number}", externalId=f"e{number}") for number in range(150)]
    key = api_keys.create_key(worlds.db, worlds.ring, org.id, "auditor", scopes=["admin"])
    auditor = worlds.client(key.api_key)
    both = {"namespaceId": space, "filterConfig": {"documentExternalIds": ["e0", "e1"]}}
    access = {"users": ["ada@example.com"], "groups": [], "denied": {"users": [], "groups": []}, "public": False}
    assert org.client.patch("/v1/documents", json={**both, "data": {"access": access}}).status_code == 200
    [entry] = entries(auditor)[:1]
    assert (entry["objectId"], entry["objectCount"], len(entry["objectIds"])) == (None, 2, 2)
    assert {change["id"] for change in entry["changes"]} == set(entry["objectIds"])
    assert [(change["before"], change["after"]) for change in entry["changes"]] == [(None, access)] * 2
    assert [match["id"] for match in entries(auditor, object=entry["objectIds"][1])] == [entry["id"]]

    members = {"users": ["ada@example.com"], "groups": ["staff"]}
    headers = {"X-Request-Id": "mine-1"}
    for new_members in (members, {"users": [], "groups": ["staff"]}):
        body = {"namespaceId": space, "members": new_members}
        assert org.client.put("/v1/groups/team", json=body, headers=headers).status_code == 200
    [entry] = entries(auditor)[:1]
    final_members = {"users": [], "groups": ["staff"]}
    assert entry["changes"] == [{"id": "team", "before": members, "after": final_members}]
    assert entry["clientRequestId"] == "mine-1"
    assert entry["requestId"].startswith("req_"), "a client chose the service's own id"
    many = [f"user{number}" for number in range(200)]
    for users in (many, [*many, "eve"]):
        body = {"namespaceId": space, "members": {"users": users, "groups": []}}
        assert org.client.put("/v1/groups/large", json=body).status_code == 200
    [change] = entries(auditor)[0]["changes"]
    assert (change["before"]["users"], change["before"]["usersCount"]) == ([], 200)
    assert (change["after"]["users"], change["after"]["usersCount"]) == (["eve"], 201)

    assert org.client.delete("/v1/groups/team", params={"namespaceId": space}).status_code == 200
    assert entries(auditor)[0]["changes"] == [{"id": "team", "before": final_members, "after": None}]

    body = {"namespaceId": space, "filterConfig": {"documentExternalIds": [f"e{number}" for number in range(150)]}}
    assert org.client.request("DELETE", "/v1/documents", json=body).status_code == 200
    [entry] = entries(auditor)[:1]
    assert (entry["objectCount"], len(entry["objectIds"])) == (len(documents), 100)
