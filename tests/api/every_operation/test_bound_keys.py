"""Keys bound to a namespace, a tenant or both, on every operation of the OpenAPI document."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from api.permissions import OPERATION_PERMISSIONS, BoundAccess, default_scopes, find_permission
from retrieval.accounts import api_keys
from retrieval.accounts.api_keys import KEY_SCOPES
from retrieval.ingestion import reembedding
from retrieval.ports import Scope
from tests.api.every_operation.test_isolation import ROUTES, TENANT_OWNED, Worlds, case_name, holds
from tests.api.support import Failures, assert_error
from tests.library import Library

# Kinds of key with their bounds.
BOUND_KINDS = {"organization": (), "namespace": ("namespace",), "tenant": ("tenant",), "both": ("namespace", "tenant")}

# Fields of a namespace shown to a bound key.
NAMED = {"id", "identifier", "name"}

FOREIGN = [
    (kind, outside, route)
    for kind, outsides in {
        "namespace": ("another namespace",),
        "tenant": ("another tenant",),
        "both": ("another namespace", "another tenant"),
    }.items()
    for outside in outsides
    for route in ROUTES
    if any(
        parameter.kind in TENANT_OWNED or (outside, parameter.kind) == ("another namespace", "namespace")
        for parameter in route.places()
    )
]


class Bounds:
    """Organization with a `World` within the bounds of its keys and a `World` outside."""

    def __init__(self, worlds: Worlds) -> None:
        org = worlds.organization()
        self.org = org
        self.inside = worlds.fill(org, "alice")
        self.outside = {
            "another namespace": worlds.fill(org, "alice"),
            "another tenant": worlds.fill(org, "bob", self.inside.own["namespace"]),
        }
        values = {"namespace": self.inside.own["namespace"], "tenant": "alice"}
        keys = {
            kind: api_keys.create_key(worlds.db, worlds.ring, org.id, kind, **{name: values[name] for name in bounds})
            for kind, bounds in BOUND_KINDS.items()
        }
        self.clients = {kind: worlds.client(key.api_key) for kind, key in keys.items()}

    def world(self, kind):
        """Return the inner world as sent by a key of this kind."""
        return replace(self.inside, client=self.clients[kind])


@pytest.fixture(scope="module")
def bounds(worlds):
    return Bounds(worlds)


@pytest.fixture(scope="module")
def spent(worlds):
    """Return the inner world for an unbound key, free to delete everything."""
    return Bounds(worlds)


def access_of(kind, route):
    permission = find_permission(route.method, route.path)
    return permission.find_access(
        namespace_bound="namespace" in BOUND_KINDS[kind], tenant_bound="tenant" in BOUND_KINDS[kind]
    )


def state(db, world):
    """Return the rows outside the bounds in all tables."""
    values = {**world.own, "tenant_name": world.tenant}
    parts = "(select id from partitions where namespace_id = %(namespace)s and tenant = %(tenant_name)s) order by id"
    queries = (
        "select name, config::text, deleted_at, epoch from namespaces where id = %(namespace)s",
        f"select id, metadata::text, deleted_at, job_run_id, status from documents where partition_id in {parts}",
        "select id, name, status from connections where id = %(connection)s",
        f"select id, status, cancel_requested from job_runs where partition_id in {parts}",
    )
    return [db.rows(query, values) for query in queries]


def test_every_operation_has_a_row_and_every_row_an_operation():
    assert {f"{route.method} {route.path}" for route in ROUTES} == set(OPERATION_PERMISSIONS)
    with pytest.raises(LookupError, match=r"api/permissions\.py"):
        find_permission("POST", "/v1/new")


@pytest.mark.parametrize("scope", KEY_SCOPES)
def test_a_key_with_every_scope_but_that_of_the_operation_is_refused(org, scope):
    failures = Failures()
    with org.key(scopes=sorted(set(KEY_SCOPES) - {scope})) as client:
        for operation in (name for name, permission in OPERATION_PERMISSIONS.items() if permission.scope == scope):
            method, path = operation.split(" ")
            with failures.of(operation):
                answer = client.request(method, re.sub(r"{\w+}", "1", path))
                assert assert_error(answer, 403, "FORBIDDEN")["error"]["details"]["reason"] == "missing_scope"
    failures.report()


@pytest.mark.parametrize("kind", BOUND_KINDS)
def test_within_its_bounds_a_key_gets_what_the_table_says(bounds, spent, kind):
    failures = Failures()
    for route in ROUTES:
        with failures.of(case_name(route)):
            check_within(bounds, spent, kind, route)
    failures.report()


def check_within(bounds, spent, kind, route):
    answer = (bounds if BOUND_KINDS[kind] else spent).world(kind).send(route)
    assert answer.status_code < 500, answer.text
    access = access_of(kind, route)
    if access is BoundAccess.REFUSED:
        assert assert_error(answer, 403, "FORBIDDEN")["error"]["details"]["reason"] == "bound_key"
        return
    assert answer.status_code != 403, answer.text
    if access is BoundAccess.NAMES_ONLY:
        data = answer.json()["data"]
        namespaces = data.get("namespaces") or [data["namespace"]]
        assert namespaces
        assert {frozenset(namespace) for namespace in namespaces} == {frozenset(NAMED)}
        own_id = bounds.inside.own["namespace"]
        assert own_id in {namespace["id"] for namespace in namespaces}
        assert "namespace" not in BOUND_KINDS[kind] or {namespace["id"] for namespace in namespaces} == {own_id}
    if access is BoundAccess.KEY_ITSELF:
        assert answer.json()["data"]["key"]["name"] == kind


@pytest.mark.parametrize("bound", ["namespace", "tenant", "both"])
def test_beyond_its_bounds_a_key_finds_and_changes_nothing(worlds, bounds, bound):
    failures = Failures()
    for kind, outside, route in FOREIGN:
        if kind == bound:
            with failures.of(outside, case_name(route)):
                check_beyond(worlds, bounds, kind, outside, route)
    failures.report()


def check_beyond(worlds, bounds, kind, outside, route):
    # Each outside id in turn, then all together; under the tenant's own name and the key's.
    beyond = bounds.outside[outside]
    state_before = state(worlds.db, beyond)
    inside = bounds.world(kind)
    for parameter in route.places():
        if parameter.kind in beyond.own and (parameter.kind != "namespace" or outside == "another namespace"):
            answer = inside.send(route, place=parameter, value=beyond.own[parameter.kind])
            assert answer.status_code < 500, answer.text
            assert access_of(kind, route) is not BoundAccess.REFUSED or answer.status_code == 403
            echoed_kinds = (
                TENANT_OWNED - {parameter.kind} if parameter.kind == "group" else TENANT_OWNED
            )  # a name that is echoed
            assert holds(answer, replace(beyond, own={k: v for k, v in beyond.own.items() if k in echoed_kinds})) == []
    whole = replace(beyond, client=bounds.clients[kind]).send(route)
    shared = outside == "another tenant" and access_of(kind, route) is BoundAccess.NAMES_ONLY
    assert shared or 400 <= whole.status_code < 500, whole.text
    assert state(worlds.db, beyond) == state_before


def test_the_default_scopes_of_a_key_follow_from_its_bounds(worlds, bounds):
    space = bounds.inside.own["namespace"]
    usual = [scope for scope in KEY_SCOPES if scope != "admin"]
    bound = [scope for scope in usual if scope != "namespaces:write"]
    of_a_tenant = [scope for scope in bound if not scope.startswith("webhooks:")]
    for bounds_of_key, expected in (
        ({}, usual),
        ({"namespaceId": space}, bound),
        ({"tenantId": "alice"}, of_a_tenant),
        ({"namespaceId": space, "tenantId": "alice"}, of_a_tenant),
    ):
        key = bounds.org.client.post("/v1/keys", json={"name": "made", **bounds_of_key}).json()["data"]["key"]
        assert key["scopes"] == expected
        assert expected == default_scopes(
            namespace_bound="namespaceId" in bounds_of_key, tenant_bound="tenantId" in bounds_of_key
        )


def test_a_bound_key_does_not_end_a_change_of_the_namespace(worlds):
    # A re-embedding belongs to the namespace; only keys with the right to change the namespace cancel the run.
    org = worlds.organization()
    space = org.namespace()
    Library(org.db, Scope(org.id, space, ""), None).put(["Owls hunt."])
    model = {"provider": "LOCAL", "model": "wordllama-l2-supercat-256"}
    changed = org.client.patch(f"/v1/namespaces/{space}", json={"embeddingModelConfig": model, "reembed": True})
    path = f"/v1/ingest-job-runs/{changed.json()['data']['ingestJobRunId']}"
    with org.key(namespace=space) as client:
        job_run = client.get(path, params={"namespaceId": space}).json()["data"]
        assert job_run["source"] == reembedding.REEMBED_SOURCE
        answer = client.post(f"{path}/cancel", json={"namespaceId": space})
        assert assert_error(answer, 403, "FORBIDDEN")["error"]["details"]["reason"] == "bound_key"
    assert org.client.post(f"{path}/cancel", json={"namespaceId": space}).status_code == 200
