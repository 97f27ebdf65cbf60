"""Authentication, rate limits and tenants."""

from __future__ import annotations

import time

import httpx
import pytest

from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations, tenants
from tests.api.support import assert_error

RATE = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Basic abc", "Bearer wrong", "Bearer " + "x" * 4000, "Bearer k\xe9y", "rtr_x"],
)
def test_no_or_a_wrong_key_is_401(anonymous, header):
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    answer = anonymous.get("/v1/namespaces", headers=headers)
    assert_error(answer, 401, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert all(name in answer.headers for name in RATE)


@pytest.mark.parametrize("path", ["/v1/keys/current", "/metrics", "/mcp"])
def test_two_authorization_headers_are_one_too_many(org, anonymous, path):
    # A proxy reading the other header would admit a different caller.
    header, second_header = (
        f"Bearer {key}" for key in (org.api_key, api_keys.create_key(org.db, org.ring, org.id, "b").api_key)
    )
    for pair in (
        (header, second_header),
        (header, header),
        (header, "Bearer wrong"),
        ("Basic abc", header),
        (header, ""),
    ):
        answer = anonymous.get(path, headers=[("Authorization", value) for value in pair])
        assert_error(answer, 401, "UNAUTHORIZED")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_key_is_stored_only_as_a_hash_and_revoked_at_once(org):
    key = api_keys.create_key(org.db, org.ring, org.id, "short-lived")
    assert key.api_key not in repr(key)
    row = org.db.row("select * from api_keys where id = %(id)s", {"id": key.id})
    assert key.api_key not in str(row)
    client = httpx.Client(base_url=org.base, headers={"Authorization": f"Bearer {key.api_key}"}, trust_env=False)
    with client:
        assert client.get("/v1/namespaces").status_code == 200
        assert api_keys.revoke_key(org.db, org.id, key.id)
        assert_error(client.get("/v1/namespaces"), 401, "UNAUTHORIZED")
    assert not api_keys.revoke_key(org.db, "org_other", key.id)


def run_of(org, namespace, run, tenant=None):
    headers = {} if tenant is None else {"X-Tenant-ID": tenant}
    return org.client.get(f"/v1/ingest-job-runs/{run}?namespaceId={namespace}", headers=headers)


def test_open_tenants_become_known_with_their_first_ingestion(org):
    space = org.namespace()
    answer = run_of(org, space, "x", "alice")
    assert answer.status_code == 400
    assert set(answer.json()) == {"error", "message"}
    assert answer.json()["error"] == "invalid_tenant_id"
    run = org.text(space, tenant="alice")["data"]["ingestJobRunId"]
    assert run_of(org, space, run, "alice").status_code == 200
    assert_error(run_of(org, space, run), 404, "INGEST_JOB_RUN_NOT_FOUND")
    org.text(space, tenant="bob")
    assert_error(run_of(org, space, run, "bob"), 404, "INGEST_JOB_RUN_NOT_FOUND")


def test_registered_tenants_are_made_by_an_administrator(organization):
    org = organization(tenants=organizations.TenantRule.REGISTERED)
    space = org.namespace()
    body = {"namespaceId": space, "ingestConfig": {"source": "TEXT", "config": {"text": "a"}}}
    refused = org.client.post("/v1/ingest/text", json=body, headers={"X-Tenant-ID": "alice"})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_tenant_id")
    tenants.create_tenant(org.db, org.id, "alice")
    org.text(space, tenant="alice")
    assert [tenant.id for tenant in tenants.list_tenants(org.db, org.id)] == ["alice"]
    assert tenants.delete_tenant(org.db, org.id, "alice")
    assert run_of(org, space, "x", "alice").json()["error"] == "invalid_tenant_id"


def test_a_required_tenant_that_is_absent(organization):
    org = organization(tenant_required=True)
    space = org.namespace()
    answer = run_of(org, space, "x")
    assert (answer.status_code, answer.json()["error"]) == (400, "missing_tenant_id")
    assert set(answer.json()) == {"error", "message"}
    assert all(name in answer.headers for name in RATE)


@pytest.mark.parametrize("tenant", ["", "a b", "x" * 65, "a/b", "ä", "a,b", "*"])
def test_a_malformed_tenant_is_refused_everywhere_but_on_namespaces(org, tenant):
    space = org.namespace()
    headers = {"X-Tenant-ID": tenant.encode("latin-1")}
    answer = org.client.post(
        "/v1/ingest/text",
        json={"namespaceId": space, "ingestConfig": {"source": "TEXT", "config": {"text": "a"}}},
        headers=headers,
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_tenant_id")
    assert org.client.get("/v1/namespaces", headers=headers).status_code == 200


def test_two_tenant_headers_are_one_too_many(org):
    headers = [("X-Tenant-ID", "a"), ("X-Tenant-ID", "a"), ("Authorization", f"Bearer {org.api_key}")]
    answer = httpx.post(f"{org.base}/v1/search", json={}, headers=headers, trust_env=False)
    assert answer.json()["error"] == "invalid_tenant_id"


def test_the_order_of_checks(organization):
    # 401, 429, tenant, 403, body, look-up: each request fails all later checks, too.
    org = organization(tenant_required=True)
    with org.key(scopes=["namespaces:read"]) as reader:
        bad = b"not json"
        assert reader.post("/v1/search", content=bad).json()["error"] == "missing_tenant_id"
        headers = {"X-Tenant-ID": "t"}
        tenants.create_tenant(org.db, org.id, "t")
        assert_error(reader.post("/v1/search", content=bad, headers=headers), 403, "FORBIDDEN")
        assert_error(org.client.post("/v1/search", content=bad, headers=headers), 400, "INVALID_SEARCH_REQUEST")
        wrong = {**headers, "Authorization": "Bearer wrong", "X-Tenant-ID": "!"}
        assert_error(org.client.post("/v1/search", content=bad, headers=wrong), 401, "UNAUTHORIZED")


@pytest.mark.parametrize(("plan", "limit"), [("pilot", 50), ("pro", 200), ("team", 500), ("custom", 10_000)])
def test_each_plan_has_its_limit(organization, plan, limit):
    org = organization(plan=organizations.Plan(plan))
    answer = org.client.get("/v1/namespaces")
    assert answer.headers["x-ratelimit-limit"] == str(limit)
    assert answer.headers["x-ratelimit-remaining"] == str(limit - 1)
    assert 0 < int(answer.headers["x-ratelimit-reset"]) - time.time() <= 60
