"""Keys, tenants and usage over HTTP, only for administrators of the organization."""

from __future__ import annotations

from tests.api.support import EMBEDDED, assert_error, client_of


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
