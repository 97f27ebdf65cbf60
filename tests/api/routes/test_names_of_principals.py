"""Names of users and groups over HTTP: no spelling makes a user another user."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.api.routes.test_access import names, put_group
from tests.api.support import assert_error

IMITATIONS = [
    "\u24d0da@example.com",
    "\xaada@example.com",
    "\uff41da@example.com",
    "ada@e\uff58ample.com",
    "ada\uff20example.com",
]


def ways_to_send(org, space, name):
    """Yield every request with a user name: position and answer."""
    text = {"source": "TEXT", "config": {"text": "a", "access": {"users": [name]}}}
    change = {"namespaceId": space, "filterConfig": {}, "data": {"access": {"denied": {"users": [name]}}}}
    members = {"namespaceId": space, "members": {"users": [name]}}
    key = {"name": "ada's", "scopes": ["search"], "principal": name}
    send = org.client
    yield "X-On-Behalf-Of", send.get("/v1/namespaces", headers={"X-On-Behalf-Of": quote(name)})
    yield (
        "ingestConfig.config.access.users",
        send.post("/v1/ingest/text", json={"namespaceId": space, "ingestConfig": text}),
    )
    yield "data.access.denied.users", send.patch("/v1/documents", json=change)
    yield "members.users", send.put("/v1/groups/staff", json=members)
    yield "principal", send.post("/v1/keys", json=key)


@pytest.mark.parametrize("name", IMITATIONS)
def test_an_imitated_name_gets_400_with_the_field(org, space, name):
    for field, answer in ways_to_send(org, space, name):
        assert answer.status_code == 400, (field, answer.text)
        error = answer.json()["error"]
        assert (error["details"]["field"], error["details"]["reason"]) == (field, "not_normalized")
        assert "NFKC" in error["message"]


@pytest.mark.parametrize("group", ["\uff53earch-admins", "caf\u0065\u0301", "\u2167"])
def test_a_group_that_nfkc_would_change_is_400(org, space, group):
    members = {"namespaceId": space, "members": {"users": []}}
    assert_error(org.client.put(f"/v1/groups/{quote(group)}", json=members), 400, "INVALID_REQUEST")
    holding = {"namespaceId": space, "members": {"groups": [group]}}
    assert_error(org.client.put("/v1/groups/staff", json=holding), 400, "INVALID_REQUEST")


def test_ids_of_users_and_groups_are_told_apart_byte_for_byte(org, space):
    for name in ("wei\xdf", "weiss", "Ada", "ada"):
        org.text(space, name, externalId=name, access={"users": [name]})
        assert names(org.client, space, quote(name)) == {name}
    for name in ("Staff", "staff"):
        put_group(org, space, name, users=[f"{name}-member"])
        org.text(space, name, externalId=name, access={"groups": [name]})
    assert names(org.client, space, "Staff-member") == {"Staff"}
    assert names(org.client, space, "staff-member") == {"staff"}


def test_an_address_is_one_in_any_case_and_composition(org, space):
    org.text(space, "for \xdcte", externalId="utes", access={"users": ["\xdcte@Example.com"]})
    for written in ("\xfcte@example.com", "\xdcTE@EXAMPLE.COM", "U\u0308te@example.com"):
        assert names(org.client, space, quote(written)) == {"utes"}
