"""Users and groups by SCIM 2.0, with requests of Entra and Okta."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from retrieval.access.queries import directory
from tests.api.routes.test_access import list_documents

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
SCIM = {"Content-Type": "application/scim+json"}


@pytest.fixture
def push(org, space):
    """Return a function for sending a SCIM request."""

    def send(method, path, body=None, *, status=200, **params):
        address = f"/v1/namespaces/{space}/scim/v2/{path}"
        if body is None:
            answer = org.client.request(method, address, params=params)
        else:
            answer = org.client.request(method, address, json=body, headers=SCIM, params=params)
        assert answer.status_code == status, answer.text
        if status == 204:
            assert answer.content == b""
            return None
        if status < 300:
            assert answer.headers["content-type"].startswith("application/scim+json")
        return answer.json()

    return send


def entra_user(name, number="1"):
    return {
        "schemas": [USER, ENTERPRISE],
        "externalId": f"0a21f0f2-8d2a-4f8e-bf98-7363c4aed4e{number}",
        "userName": name,
        "active": True,
        "emails": [{"primary": True, "type": "work", "value": name}],
        "meta": {"resourceType": "User"},
        "name": {"formatted": "given family", "familyName": "family", "givenName": "given"},
        "roles": [],
        ENTERPRISE: {"department": "Finance"},
    }


def patch_of(*operations):
    return {"schemas": [PATCH], "Operations": list(operations)}


def sees(org, space, user):
    return bool(list_documents(org.client, space, user))


def test_entra_pushes_a_user_and_a_group_which_opens_a_document(org, space, push):
    org.text(space, "for finance", externalId="doc", access={"groups": ["Finance Team"]})
    assert push("GET", "Users", filter='userName eq "Test_User@example.com"')["totalResults"] == 0
    user = push("POST", "Users", entra_user("Test_User@example.com"), status=201)
    assert user["meta"]["location"].endswith(f"/scim/v2/Users/{user['id']}")
    assert user["userName"] == "Test_User@example.com"
    assert user[ENTERPRISE] == {"department": "Finance"}
    assert push("GET", "Users", filter='userName eq "test_user@example.com"')["Resources"][0]["id"] == user["id"]
    assert (
        push("GET", "Groups", filter='displayName eq "Finance Team"', excludedAttributes="members")["Resources"] == []
    )
    group_body = {"schemas": [GROUP, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"]}
    group = push("POST", "Groups", {**group_body, "externalId": "8aa1a0c0", "displayName": "Finance Team"}, status=201)
    assert not sees(org, space, "test_user@example.com")
    member = {"op": "Add", "path": "members", "value": [{"$ref": None, "value": user["id"]}]}
    push("PATCH", f"Groups/{group['id']}", patch_of(member))
    assert sees(org, space, "test_user@example.com")
    assert not sees(org, space, "another@example.com")
    read = push("GET", f"Groups/{group['id']}", excludedAttributes="members")
    assert "members" not in read
    assert read["displayName"] == "Finance Team"

    push("PATCH", f"Users/{user['id']}", patch_of({"op": "Replace", "path": "active", "value": "False"}))
    assert not sees(org, space, "test_user@example.com")
    assert push("GET", f"Users/{user['id']}")["active"] is False
    push("PATCH", f"Users/{user['id']}", patch_of({"op": "Replace", "path": "active", "value": "True"}))
    assert sees(org, space, "test_user@example.com")

    push("PATCH", f"Users/{user['id']}", patch_of({"op": "Replace", "path": "userName", "value": "New@example.com"}))
    assert sees(org, space, "new@example.com")
    assert not sees(org, space, "test_user@example.com")

    removal = {"op": "Remove", "path": "members", "value": [{"value": user["id"]}]}
    push("PATCH", f"Groups/{group['id']}", patch_of(removal))
    assert not sees(org, space, "new@example.com")
    push("DELETE", f"Groups/{group['id']}", status=204)
    push("DELETE", f"Users/{user['id']}", status=204)
    assert push("GET", f"Users/{user['id']}", status=404)["detail"]


def test_okta_pushes_users_by_put_and_groups_by_patches_without_a_path(org, space, push):
    org.text(space, "for writers", externalId="doc", access={"groups": ["Writers"]})
    okta = {
        "schemas": [USER],
        "userName": "isaac@example.com",
        "name": {"givenName": "Isaac", "familyName": "Brock"},
        "emails": [{"primary": True, "value": "isaac@example.com", "type": "work"}],
        "displayName": "Isaac Brock",
        "locale": "en-US",
        "externalId": "00ujl29u0le5T6Aj10h7",
        "groups": [],
        "password": "1mz050nq",
        "active": True,
    }
    assert push("GET", "Users", filter='userName eq "isaac@example.com"', startIndex=1, count=100)["Resources"] == []
    user = push("POST", "Users", okta, status=201)
    assert "password" not in str(push("GET", f"Users/{user['id']}")) + str(
        org.db.rows("select * from directory_resources")
    )
    group = push(
        "POST", "Groups", {"schemas": [GROUP], "displayName": "Authors", "members": [{"value": user["id"]}]}, status=201
    )
    renamed = {"op": "replace", "value": {"id": group["id"], "displayName": "Writers"}}
    push("PATCH", f"Groups/{group['id']}", patch_of(renamed))
    assert sees(org, space, "isaac@example.com")
    removed = {"op": "remove", "path": f'members[value eq "{user["id"]}"]'}
    push("PATCH", f"Groups/{group['id']}", patch_of(removed))
    assert not sees(org, space, "isaac@example.com")
    push("PATCH", f"Groups/{group['id']}", patch_of({"op": "add", "path": "members", "value": [{"value": user["id"]}]}))
    assert sees(org, space, "isaac@example.com")
    push("PUT", f"Users/{user['id']}", {**okta, "id": user["id"], "active": False})
    assert not sees(org, space, "isaac@example.com")
    push("DELETE", f"Users/{user['id']}", status=204)
    assert not push("GET", f"Groups/{group['id']}").get("members")


def test_groups_within_groups_follow_renames(org, space, push):
    org.text(space, "for all", externalId="doc", access={"groups": ["everyone"]})
    user = push("POST", "Users", {"schemas": [USER], "userName": "ada"}, status=201)
    inner = {"schemas": [GROUP], "displayName": "inner", "members": [{"value": user["id"]}]}
    inner = push("POST", "Groups", inner, status=201)
    outer = {"schemas": [GROUP], "displayName": "everyone", "members": [{"value": inner["id"], "type": "Group"}]}
    push("POST", "Groups", outer, status=201)
    assert sees(org, space, "ada")
    push("PATCH", f"Groups/{inner['id']}", patch_of({"op": "replace", "path": "displayName", "value": "core"}))
    assert sees(org, space, "ada")
    push("DELETE", f"Groups/{inner['id']}", status=204)
    assert not sees(org, space, "ada")


def test_a_name_that_exists_is_a_conflict_in_the_terms_of_scim(push):
    push("POST", "Users", entra_user("ada@example.com"), status=201)
    refused = push("POST", "Users", entra_user("ADA@example.com", "2"), status=409)
    assert (refused["status"], refused["scimType"]) == ("409", "uniqueness")
    assert refused["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    other_user = push("POST", "Users", entra_user("bob@example.com", "2"), status=201)
    rename = patch_of({"op": "replace", "path": "userName", "value": "ada@example.com"})
    push("PATCH", f"Users/{other_user['id']}", rename, status=409)


def test_the_service_describes_itself(push):
    assert push("GET", "ServiceProviderConfig")["patch"] == {"supported": True}
    assert {kind["id"] for kind in push("GET", "ResourceTypes")["Resources"]} == {"User", "Group"}
    assert {schema["id"] for schema in push("GET", "Schemas")["Resources"]} == {USER, ENTERPRISE, GROUP}


def test_members_that_are_added_at_the_same_time_are_all_kept(org, space, push):
    users = [push("POST", "Users", {"schemas": [USER], "userName": f"u{n}"}, status=201) for n in range(8)]
    group = push("POST", "Groups", {"schemas": [GROUP], "displayName": "all"}, status=201)

    def add(user):
        member = {"op": "add", "path": "members", "value": [{"value": user["id"]}]}
        push("PATCH", f"Groups/{group['id']}", patch_of(member))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, users))
    assert len(push("GET", f"Groups/{group['id']}")["members"]) == 8
    stored = org.client.get("/v1/groups/all", params={"namespaceId": space}).json()["data"]["group"]
    assert stored["members"]["users"] == [f"u{n}" for n in range(8)]


def members(org, space):
    statement = (
        "select member from group_members where partition_id in (select id from partitions where namespace_id = %(id)s)"
    )
    return org.db.rows(statement, {"id": space})


def meanwhile(monkeypatch, module, name, act):
    """Run `act` in a thread during the first call of `name`; return the thread and the list of answers."""
    real, answers = getattr(module, name), []
    thread = threading.Thread(target=lambda: answers.append(act()))

    async def slow(*args):
        if not thread.ident:
            thread.start()
            await asyncio.sleep(0.5)
        return await real(*args)

    monkeypatch.setattr(module, name, slow)
    return thread, answers


def test_a_user_that_is_deactivated_while_a_group_is_pushed_is_not_in_it(org, space, push, monkeypatch):
    user = push("POST", "Users", {"schemas": [USER], "userName": "ada"}, status=201)
    off = patch_of({"op": "replace", "path": "active", "value": False})
    thread, answers = meanwhile(
        monkeypatch, directory.groups, "put_group", lambda: push("PATCH", f"Users/{user['id']}", off)
    )
    push("POST", "Groups", {"schemas": [GROUP], "displayName": "eng", "members": [{"value": user["id"]}]}, status=201)
    thread.join(20)
    assert answers[0]["active"] is False
    assert not members(org, space)
