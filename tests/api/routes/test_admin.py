"""Keys, tenants and usage over HTTP, only for administrators of the organization."""

from __future__ import annotations

from retrieval.accounts.api_keys import KEY_SCOPES
from retrieval.ports import Scope
from tests.api.support import EMBEDDED, assert_error, client_of
from tests.library import Library


def make(org, **settings):
    answer = org.client.post("/v1/keys", json={"name": "made", **settings})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_a_key_is_made_shown_once_used_and_revoked(org):
    created = make(org, scopes=["namespaces:read", "namespaces:read"])
    assert created["key"]["scopes"] == ["namespaces:read"]
    assert created["key"]["hint"] == created["apiKey"][-4:]
    listing = org.client.get("/v1/keys")
    assert created["apiKey"] not in listing.text
    assert listing.json()["data"]["keys"][0] == created["key"]
    assert len(listing.json()["data"]["keys"]) == 2
    with client_of(org.base, created["apiKey"]) as client:
        assert client.get("/v1/namespaces").status_code == 200
        assert_error(client.post("/v1/namespaces", json={"name": "x", **EMBEDDED}), 403, "FORBIDDEN")
        first = org.client.delete(f"/v1/keys/{created['key']['id']}").json()["data"]["key"]
        assert_error(client.get("/v1/namespaces"), 401, "UNAUTHORIZED")
    assert first["revokedAt"] is not None
    assert org.client.delete(f"/v1/keys/{created['key']['id']}").json()["data"]["key"] == first


def test_a_key_may_be_bound_and_is_no_administrator_unless_it_says_so(org):
    space = org.namespace()
    created = make(org, namespaceId=space, tenantId="alice")["key"]
    assert (created["namespaceId"], created["tenantId"]) == (space, "alice")
    none = {"admin", "namespaces:write", "webhooks:read", "webhooks:write"}
    assert created["scopes"] == [scope for scope in KEY_SCOPES if scope not in none]


def test_tenants_are_made_known_and_forgotten(org):
    space = org.namespace()
    path, alice = f"/v1/ingest-job-runs?namespaceId={space}", {"X-Tenant-ID": "alice"}
    assert org.client.get(path, headers=alice).status_code == 400
    tenant = org.client.post("/v1/tenants", json={"id": "alice"}).json()["data"]["tenant"]
    assert org.client.post("/v1/tenants", json={"id": "alice"}).json()["data"]["tenant"] == tenant
    assert org.client.get("/v1/tenants").json()["data"]["tenants"] == [tenant]
    assert org.client.get(path, headers=alice).status_code == 200
    assert org.client.delete("/v1/tenants/alice").json()["data"] == {"id": "alice"}
    assert org.client.get(path, headers=alice).status_code == 400
    assert_error(org.client.delete("/v1/tenants/alice"), 404, "NOT_FOUND")


def test_usage_counts_the_organization_alone(organization):
    org, stranger = organization(namespace_limit=7, requests_per_minute=500), organization()
    stranger.text(stranger.namespace())
    space = org.namespace()
    deleted_space = org.namespace()
    org.text(deleted_space)
    org.client.delete(f"/v1/namespaces/{deleted_space}")
    org.text(space, tenant="alice")
    Library(org.db, Scope(org.id, space, ""), None).put(["one", "two"])
    org.db.rows(
        """update documents set properties = '{"fileSize": 9}', accepted_bytes = 12 where partition_id in
           (select id from partitions where namespace_id = %(space)s)""",
        {"space": space},
    )
    answer = org.client.get("/v1/usage")
    data = answer.json()["data"]
    assert (data["documents"], data["chunks"], data["storageBytes"]) == (2, 2, 24)
    (group,) = org.client.get("/v1/usage", params={"by": "namespace"}).json()["data"]["usage"]
    assert group["storedBytes"] == 24
    assert data["namespaces"] == {"used": 1, "limit": 7}
    remaining = int(answer.headers["x-ratelimit-remaining"])
    assert data["requests"] == {"used": 500 - remaining, "limit": 500}


def test_any_key_may_ask_what_it_may_do(org):
    created = make(org, scopes=["search"], tenantId="alice")
    with client_of(org.base, created["apiKey"]) as client:
        answer = client.get("/v1/keys/current")
    assert answer.json()["data"]["key"] == created["key"]
    assert created["apiKey"] not in answer.text
