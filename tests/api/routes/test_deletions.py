"""Deletion receipts over HTTP."""

import pytest

from retrieval.accounts.queries import tenants
from retrieval.ports import Scope
from tests.api.support import assert_error
from tests.library import Library


@pytest.fixture
def deleted(org, api_db):
    """Delete a document of a tenant; return the answer and a function for reading the receipt."""
    space = org.namespace()
    tenants.create_tenant(api_db, org.id, "alice")
    document = Library(api_db, Scope(org.id, space, "alice"), None).put(["A bird sings."])

    def read(client=None, tenant="alice"):
        headers = {} if tenant is None else {"X-Tenant-ID": tenant}
        return (client or org.client).get(f"/v1/deletions/{answer['deletionId']}", headers=headers)

    answer = org.client.request(
        "DELETE",
        "/v1/documents",
        json={"namespaceId": space, "filterConfig": {"documentIds": [document]}},
        headers={"X-Tenant-ID": "alice"},
    ).json()
    return answer, read


def test_a_deletion_is_answered_with_the_id_of_its_receipt(deleted):
    answer, read = deleted
    assert answer["data"] is None
    assert set(answer) == {"success", "message", "data", "deletionId"}
    receipt = read().json()["data"]["deletion"]
    signature, moment = receipt.pop("signature"), receipt.pop("requestedAt")
    assert receipt == {
        "id": answer["deletionId"],
        "status": "PENDING",
        "confirmedAt": None,
        "documents": 1,
        "chunks": 0,
        "vectors": 0,
        "files": 0,
        "stores": [],
    }
    assert len(signature) == 64
    assert moment["isoString"].endswith("Z")


def test_a_namespace_is_deleted_with_a_receipt_for_all_its_tenants(org, api_db):
    space = org.namespace()
    for tenant in ("alice", "bob"):
        tenants.create_tenant(api_db, org.id, tenant)
    Library(api_db, Scope(org.id, space, "alice"), None).put(["A bird sings."])
    answer = org.client.delete(f"/v1/namespaces/{space}").json()
    assert answer["data"]["id"] == space
    for tenant in ({}, {"X-Tenant-ID": "bob"}):
        deletion = org.client.get(f"/v1/deletions/{answer['deletionId']}", headers=tenant).json()["data"]["deletion"]
        assert (deletion["status"], deletion["documents"]) == ("PENDING", 1)
    bound = org.key(tenant="alice")
    assert_error(bound.get(f"/v1/deletions/{answer['deletionId']}"), 404, "NOT_FOUND")
    bound.close()


def test_only_an_unchanged_receipt_of_ones_own_is_genuine(deleted, org, organization):
    receipt = deleted[1]().json()["data"]["deletion"]

    def valid(client, receipt):
        answer = client.post("/v1/deletions/verify", json=receipt)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]["valid"]

    assert valid(org.client, {"deletion": receipt})
    assert valid(org.client, receipt)
    assert not valid(organization().client, {"deletion": receipt})
    for changed in ({"status": "CONFIRMED"}, {"chunks": 4}, {"more": 1}, {"signature": "0" * 64}, {"signature": "é"}):
        assert not valid(org.client, {"deletion": receipt | changed})
    assert not valid(org.client, {"deletion": {"signature": receipt["signature"]}})
    assert_error(org.client.post("/v1/deletions/verify", json={}), 400, "INVALID_REQUEST")
