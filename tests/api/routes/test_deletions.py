"""Receipts of deletions over HTTP."""

import pytest

from retrieval.accounts import tenants
from retrieval.ports import Scope
from tests.api.routes.test_access import put_group, set_access
from tests.api.support import assert_error
from tests.library import Library


@pytest.fixture
def deleted(org, api_db):
    """A document of a tenant that was deleted: the answer and a function that reads its receipt."""
    space = org.namespace()
    tenants.create(api_db, org.id, "alice")
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
        tenants.create(api_db, org.id, tenant)
    Library(api_db, Scope(org.id, space, "alice"), None).put(["A bird sings."])
    answer = org.client.delete(f"/v1/namespaces/{space}").json()
    assert answer["data"]["id"] == space
    for tenant in ({}, {"X-Tenant-ID": "bob"}):
        shown = org.client.get(f"/v1/deletions/{answer['deletionId']}", headers=tenant).json()["data"]["deletion"]
        assert (shown["status"], shown["documents"]) == ("PENDING", 1)
    bound = org.key(tenant="alice")
    assert_error(bound.get(f"/v1/deletions/{answer['deletionId']}"), 404, "NOT_FOUND")
    bound.close()


def test_only_an_unchanged_receipt_of_ones_own_is_genuine(deleted, org, organization):
    receipt = deleted[1]().json()["data"]["deletion"]

    def valid(client, said):
        answer = client.post("/v1/deletions/verify", json=said)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]["valid"]

    assert valid(org.client, {"deletion": receipt})
    assert valid(org.client, receipt)
    assert not valid(organization().client, {"deletion": receipt})
    for changed in ({"status": "CONFIRMED"}, {"chunks": 4}, {"more": 1}, {"signature": "0" * 64}, {"signature": "é"}):
        assert not valid(org.client, {"deletion": receipt | changed})
    assert not valid(org.client, {"deletion": {"signature": receipt["signature"]}})
    assert_error(org.client.post("/v1/deletions/verify", json={}), 400, "INVALID_REQUEST")


@pytest.fixture
def gone(org, api_db):
    """A function that makes documents of these accesses, deletes them, for a user maybe, and answers the receipt's id;
    and one that reads a receipt."""
    space = org.namespace()
    library = Library(api_db, Scope(org.id, space), None)

    def delete(*accesses, user=None):
        made = [library.put(["A bird sings."], external_id=f"d{number}") for number, _ in enumerate(accesses)]
        for number, access in enumerate(accesses):
            set_access(org, space, access, f"d{number}")
        body = {"namespaceId": space, "filterConfig": {"documentIds": made}}
        headers = {} if user is None else {"X-On-Behalf-Of": user}
        answer = org.client.request("DELETE", "/v1/documents", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["deletionId"]

    def read(deletion, user=None):
        return org.client.get(f"/v1/deletions/{deletion}", headers={} if user is None else {"X-On-Behalf-Of": user})

    return space, delete, read


def test_a_receipt_of_what_is_hidden_from_a_user_is_as_if_it_were_not_there(gone):
    _, delete, read = gone

    def readers(deletion):
        answers = {name: read(deletion, name) for name in ("ada", "bob")}
        return {name for name, answer in answers.items() if answer.status_code == 200}

    adas = delete({"users": ["ada"]})
    missing = assert_error(read("del_" + "0" * 36, "bob"), 404, "NOT_FOUND")
    told = assert_error(read(adas, "bob"), 404, "NOT_FOUND")
    assert {**told, "requestId": 0} == {**missing, "requestId": 0}
    assert readers(adas) == {"ada"}
    assert readers(delete(None, {"users": ["ada"]})) == {"ada"}
    assert readers(delete({"users": ["ada"]}, {"users": ["bob"]})) == set()
    assert readers(delete({})) == set()
    assert readers(delete(None)) == {"ada", "bob"}
    assert readers(delete({"public": True, "denied": {"users": ["bob"]}})) == {"ada"}
    assert read(adas).status_code == 200


def test_who_had_documents_deleted_reads_the_receipt_and_groups_count_as_they_are(gone, org):
    space, delete, read = gone
    put_group(org, space, "staff", ["ada"])
    receipt = delete({"groups": ["staff"]}, user="ada")
    put_group(org, space, "staff", ["bob"])
    assert (read(receipt, "ada").status_code, read(receipt, "bob").status_code) == (200, 200)
    put_group(org, space, "staff")
    assert (read(receipt, "ada").status_code, read(receipt, "bob").status_code) == (200, 404)


def test_a_namespace_had_more_than_one_user_may_see(gone, org):
    space, _, read = gone
    whole = org.client.delete(f"/v1/namespaces/{space}").json()["deletionId"]
    assert (read(whole, "ada").status_code, read(whole).status_code) == (404, 200)


def test_a_receipt_keeps_no_names(gone, api_db):
    _, delete, _ = gone
    deletion = delete({"users": ["ada@example.com"], "denied": {"groups": ["interns"]}})
    kept = str(api_db.row("select * from deletions where id = %(id)s", {"id": deletion}))
    assert "ada@" not in kept
    assert "interns" not in kept
