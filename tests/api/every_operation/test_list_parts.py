"""Lists of namespaces, connections, keys and tenants: complete, and in pages on request."""

from __future__ import annotations

import pytest

from retrieval.accounts.queries import tenants
from retrieval.ports import Scope
from tests.library import Library

LISTS = ("namespaces", "connections", "keys", "tenants", "webhooks")
COUNT = 5


@pytest.fixture
def filled(org):
    """Return the query of each list; every list has five entries."""
    spaces = [org.namespace() for _ in range(COUNT)]
    library = Library(org.db, Scope(org.id, spaces[0], ""), None)
    with org.db.transaction() as connection:
        for number in range(COUNT):
            connection.execute(
                "insert into connections (id, partition_id, name, connector) values (%s, %s, 'drive', 'DROPBOX')",
                (f"conn_{org.id}_{number}", library.partition),
            )
    for number in range(COUNT):
        tenants.create_tenant(org.db, org.id, f"t{number}")
        webhook = {"url": "https://1.1.1.1/", "events": ["*"]}
        assert org.client.post("/v1/webhooks", json=webhook).status_code == 200
    for _ in range(COUNT - 1):
        assert org.client.post("/v1/keys", json={"name": "made"}).status_code == 200
    return {name: {"namespaceId": spaces[0]} if name == "connections" else {} for name in LISTS}


def read(org, name, query):
    answer = org.client.get(f"/v1/{name}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


@pytest.mark.parametrize("name", LISTS)
def test_pages_add_up_to_the_complete_list(org, filled, name):
    whole = read(org, name, filled[name])
    assert set(whole) == {name}
    assert len(whole[name]) == COUNT
    items, cursor = [], {}
    for size in (2, 2, 1):
        part = read(org, name, filled[name] | {"pageSize": 2} | cursor)
        assert len(part[name]) == size
        items += part[name]
        cursor = {"cursor": part["nextCursor"]}
        assert part["hasNextPage"] is (part["nextCursor"] is not None)
    assert items == whole[name]
    assert part["nextCursor"] is None


def test_a_bound_key_is_told_of_its_namespace_in_parts_too(org):
    mine = org.namespace()
    for _ in range(3):
        org.namespace()
    with org.key(namespace=mine, scopes=["namespaces:read"]) as bound:
        data = bound.get("/v1/namespaces", params={"pageSize": 2}).json()["data"]
    assert [space["id"] for space in data["namespaces"]] == [mine]
    assert data["hasNextPage"] is False
