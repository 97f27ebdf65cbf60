"""Documents removed at their content service: found by a filter, deleted by confirmation."""

from __future__ import annotations

import pytest

from retrieval import ids
from retrieval.ports import Scope
from tests.api.support import assert_error
from tests.library import Library


@pytest.fixture
def connection(org, space):
    """ACTIVE connection after authorization."""
    library = Library(org.db, Scope(org.id, space, ""), None)
    row = org.db.row(
        "insert into connections (id, partition_id, name, connector, status)"
        " values (%(id)s, %(partition)s, 'Drive', 'BOX', 'ACTIVE') returning id",
        {"id": ids.new_id("conn_"), "partition": library.partition},
    )
    return row["id"]


@pytest.fixture
def documents(org, space, connection):
    """Three documents of the connection: kept, held for confirmation, removed automatically."""
    library = Library(org.db, Scope(org.id, space, ""), None)
    created = [
        library.put([name], name=name, source="BOX", connection_id=connection) for name in ("stays", "held", "on")
    ]
    for document, is_held in ((created[1], True), (created[2], False)):
        org.db.rows(
            "insert into departures (document_id, connection_id, job_run_id, held)"
            " values (%(document)s, %(connection)s, 'ijr_1', %(held)s)",
            {"document": document, "connection": connection, "held": is_held},
        )
    return created


def awaiting_by_name(org, space, **filters):
    answer = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": filters})
    assert answer.status_code == 200, answer.text
    return {document["name"]: document["awaitingRemoval"] for document in answer.json()["data"]["documents"]}


def test_a_document_says_that_its_removal_awaits_a_person(org, space, documents):
    assert awaiting_by_name(org, space) == {"stays": False, "held": True, "on": False}
    assert awaiting_by_name(org, space, awaitingRemoval=True) == {"held": True}
    assert set(awaiting_by_name(org, space, awaitingRemoval=False)) == {"stays", "on"}
    assert set(awaiting_by_name(org, space, awaitingRemoval=None)) == {"stays", "held", "on"}


def test_the_filter_confirms_exactly_those_that_wait(org, space, documents, connection):
    body = {"namespaceId": space, "filterConfig": {"awaitingRemoval": True}, "confirmDeletions": True}
    answer = org.client.post("/v1/documents/resync", json=body)
    assert answer.status_code == 200, answer.text
    removed = answer.json()["data"]["documents"]
    assert removed == [{"id": documents[1], "status": "REMOVED", "error": None}]
    assert set(awaiting_by_name(org, space)) == {"stays", "on"}
    repeated = org.client.post("/v1/documents/resync", json=body)
    assert_error(repeated, 404, "DOCUMENTS_NOT_FOUND")


def test_a_change_of_all_not_awaiting_documents_is_refused(org, space, documents):
    body = {"namespaceId": space, "filterConfig": {"awaitingRemoval": False}}
    assert_error(org.client.request("DELETE", "/v1/documents", json=body), 400, "INVALID_FILTER_CONFIG")
    assert set(awaiting_by_name(org, space)) == {"stays", "held", "on"}
