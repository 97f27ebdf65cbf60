"""Documents over HTTP: shapes, filters, and protection against accidental changes."""

from __future__ import annotations

import pytest

from tests.api.support import assert_error


def ask(org, method, space, filters, **options):
    body = {"namespaceId": space, "filterConfig": filters, **options}
    return org.client.request(method, "/v1/documents", json=body)


def list_documents(org, space, filters=None, **options):
    answer = ask(org, "POST", space, filters or {}, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


@pytest.fixture
def space(org):
    """Namespace with three texts."""
    created = org.namespace()
    for number, color in enumerate(("red", "green", "blue")):
        org.text(created, f"Text {number}.", name=f"n{number}", metadata={"color": color, "number": number})
    return created


def test_a_document_with_all_that_is_known_of_it(org, space):
    data = list_documents(org, space)
    assert (data["itemsReturned"], data["hasNextPage"], data["nextCursor"]) == (3, False, None)
    newest = data["documents"][0]
    assert newest["name"] == newest["externalId"] == "n2"
    assert newest["metadata"] == {"color": "blue", "number": 2}
    assert newest["documentType"] == newest["ingestionSource"] == "TEXT"
    assert (newest["ingestionStatus"], newest["ingestionError"]) == ("QUEUED", None)
    assert newest["namespace"] == {"identifier": space}
    assert newest["organization"] == {"id": org.id}
    assert (newest["tenantId"], newest["connection"], newest["lastSyncedAt"]) == (None, None, None)
    assert newest["ingestJob"]["id"].startswith("job_")
    assert newest["ingestJobRun"]["id"].startswith("ijr_")
    assert newest["providers"] == {
        "fileStorage": "LOCAL",
        "vectorStorage": "PGVECTOR",
        "embeddingModel": "LOCAL",
        "webScraper": None,
    }


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, {"n0", "n1", "n2"}),
        ({"documentIds": [], "documentExternalIds": [], "documentTypes": []}, {"n0", "n1", "n2"}),
        ({"documentIds": None, "metadata": None}, {"n0", "n1", "n2"}),
        ({"documentExternalIds": ["n0", "n2"]}, {"n0", "n2"}),
        ({"documentExternalIds": ["n0"], "metadata": {"color": "red"}}, {"n0"}),
        ({"documentExternalIds": ["n0"], "metadata": {"color": "blue"}}, set()),
        ({"metadata": {"color": ["red", "blue"]}}, {"n0", "n2"}),
        ({"metadata": {"number": 1}}, {"n1"}),
        ({"metadata": {"number": "1"}}, set()),
        ({"documentTypes": ["TEXT"]}, {"n0", "n1", "n2"}),
        ({"documentTypes": ["URL", "FILE"]}, set()),
        ({"documentIngestionStatuses": ["QUEUED"]}, {"n0", "n1", "n2"}),
        ({"documentIngestionSources": ["LOCAL_FILE"]}, set()),
        ({"unknownField": [1]}, {"n0", "n1", "n2"}),
    ],
)
def test_filters(org, space, filters, names):
    assert {document["name"] for document in list_documents(org, space, filters)["documents"]} == names


def test_statistics_are_there_when_asked_for(org, space):
    assert "statsBySource" not in list_documents(org, space)
    data = list_documents(org, space, includeConfig={"documents": False, "statsBySource": True, "statsByStatus": True})
    assert "documents" not in data
    assert data["statsBySource"] == [{"source": "TEXT", "totalCount": 3}]
    assert data["statsByStatus"] == [{"status": "QUEUED", "totalCount": 3}]


def test_a_patch_keeps_keys_that_are_not_named(org, space):
    answer = ask(
        org, "PATCH", space, {"documentExternalIds": ["n0"]}, data={"metadata": {"color": "pink", "new": True}}
    )
    data = answer.json()["data"]
    assert data["itemsUpdated"] == 1
    assert data["documents"][0]["metadata"] == {"color": "pink", "number": 0, "new": True}
    operators = {"$set": {"tags": ["a"]}, "$append": {"tags": ["b"]}, "$remove": {"tags": ["a"]}}
    answer = ask(org, "PATCH", space, {"documentExternalIds": ["n0"]}, data={"$metadata": operators})
    assert answer.json()["data"]["documents"][0]["metadata"]["tags"] == ["b"]
    for empty in ({"metadata": {}}, {"$metadata": {}}, {"$metadata": {"$set": {}, "$append": {}, "$remove": {}}}):
        answer = ask(org, "PATCH", space, {"documentExternalIds": ["n1"]}, data=empty)
        assert answer.status_code == 200
        assert answer.json()["data"]["documents"][0]["metadata"] == {"color": "green", "number": 1}
    too_large = {"metadata": {"k": "v" * 3000}}
    assert_error(ask(org, "PATCH", space, {"documentTypes": ["TEXT"]}, data=too_large), 400, "INVALID_FILTER_CONFIG")


def test_a_condition_lists_changes_and_deletes_what_it_holds_for(org, space):
    def names(condition, **options):
        return sorted(
            document["name"] for document in list_documents(org, space, {"where": condition, **options})["documents"]
        )

    number = {"field": "metadata.number", "op": "gte", "value": 1}
    assert names(number) == ["n1", "n2"]
    assert names({"all": [number, {"field": "metadata.color", "op": "startsWith", "value": "b"}]}) == ["n2"]
    assert names({"not": number}) == ["n0"]
    assert names(number, metadata={"color": "green"}) == ["n1"]
    assert names({"field": "document.createdAt", "op": "gt", "value": "2020-01-01"}) == ["n0", "n1", "n2"]
    changed = ask(org, "PATCH", space, {"where": number}, data={"metadata": {"late": True}})
    assert changed.json()["data"]["itemsUpdated"] == 2
    late = {"field": "metadata.late", "op": "exists", "value": True}
    assert ask(org, "DELETE", space, {"where": late}).json()["message"] == "2 documents deleted successfully"
    assert names({"field": "metadata.late", "op": "exists", "value": False}) == ["n0"]
    assert_error(ask(org, "DELETE", space, {"where": {"not": late}}), 400, "INVALID_FILTER_CONFIG")
    assert_error(ask(org, "DELETE", space, {"where": late}), 404, "DOCUMENTS_NOT_FOUND")


def test_facets_count_all_that_match(org, space):
    for number in range(3):
        org.text(space, f"More {number}.", name=f"m{number}", metadata={"color": ["red", "red", 5], "deep": {"a": 1}})
    org.text(space, "Odd.", name="odd", metadata={"color": [["red"], None, {"red": 1}], "number": "1"})
    fields = [
        "metadata.color",
        "metadata.number",
        "metadata.deep",
        "document.type",
        "document.createdAt",
        "document.path",
    ]
    data = list_documents(org, space, facets=fields, pagination={"pageSize": 1}, includeConfig={"documents": False})
    counted = {name: [(facet["value"], facet["count"]) for facet in counts] for name, counts in data["facets"].items()}
    assert list(counted) == fields
    assert counted["metadata.color"] == [("red", 4), (5, 3), ("blue", 1), ("green", 1)]
    assert counted["metadata.number"] == [(0, 1), (1, 1), ("1", 1), (2, 1)]
    assert counted["document.type"] == [("TEXT", 7)]
    assert sum(count for _, count in counted["document.createdAt"]) == 7
    assert all(value.endswith("Z") and len(value) == 24 for value, _ in counted["document.createdAt"])
    assert counted["metadata.deep"] == counted["document.path"] == []
    assert "facets" not in list_documents(org, space)


def test_a_key_that_starts_with_a_dollar_is_found_by_a_condition(org, space):
    key = "$or"
    org.text(space, "Dollar.", name="dollar", metadata={key: ["a", "b"]})
    filters = {"where": {"field": f"metadata.{key}", "op": "eq", "value": "b"}}
    assert [document["name"] for document in list_documents(org, space, filters)["documents"]] == ["dollar"]
    facets = list_documents(org, space, facets=[f"metadata.{key}"])["facets"]
    assert facets == {f"metadata.{key}": [{"value": "a", "count": 1}, {"value": "b", "count": 1}]}
    refused = ask(org, "POST", space, {"metadata": {key: "b"}})
    assert_error(refused, 400, "INVALID_FILTER_CONFIG")
    assert f"metadata.{key}" in refused.json()["error"]["message"]


def test_large_numbers_are_shown_as_they_are_written(org, space):
    # PostgreSQL stores numbers by digits: 1e308 came back with 309 digits.
    numbers = [1e308, -1.5e300, 1e22, 5e-324, 2**63 - 1, -(2**63), 0.1, 3]
    org.text(space, "Large.", name="large", metadata={"n": numbers})
    answer = ask(org, "POST", space, {"documentExternalIds": ["large"]}, facets=["metadata.n"])
    (document,) = answer.json()["data"]["documents"]
    assert [(type(entry), entry) for entry in document["metadata"]["n"]] == [(type(entry), entry) for entry in numbers]
    assert {entry["value"] for entry in answer.json()["data"]["facets"]["metadata.n"]} == set(numbers)
    assert "00000000000000000000000" not in answer.text
    for number in numbers:
        filters = {"where": {"field": "metadata.n", "op": "eq", "value": number}}
        assert [entry["name"] for entry in list_documents(org, space, filters)["documents"]] == ["large"]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_whole_numbers_beyond_64_bits_are_refused_by_field_and_range(org, space, number):
    config = {"text": "Large.", "name": "large", "metadata": {"n": number}}
    body = {"namespaceId": space, "ingestConfig": {"source": "TEXT", "config": config}}
    org.text(space, "Small.", name="small", metadata={"n": 1})
    refusals = [
        org.client.post("/v1/ingest/text", json=body),
        ask(org, "PATCH", space, {"documentExternalIds": ["small"]}, data={"metadata": {"n": number}}),
        ask(org, "POST", space, {"metadata": {"n": number}}),
    ]
    filters = {"where": {"field": "metadata.n", "op": "gte", "value": number}}
    refusals.append(ask(org, "POST", space, filters))
    for refusal in refusals:
        assert refusal.status_code == 400, refusal.text
        assert str(2**63 - 1) in refusal.json()["message"]
        field = refusal.json()["error"]["details"]["field"]
        assert field.endswith((".n", ".value")), field


def test_documents_are_deleted_by_post_once_for_each_key(org, space):
    org.text(space, "A.", externalId="a")
    org.text(space, "B.", externalId="b")
    body = {"namespaceId": space, "filterConfig": {"documentExternalIds": ["a"]}}
    answers = [
        org.client.post("/v1/documents/delete", json=body, headers={"Idempotency-Key": "delete-a"}) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["message"] == "1 document deleted successfully"
    assert answers[0].json()["data"] is None
    assert answers[0].json()["deletionId"].startswith("del_")
    assert_error(org.client.post("/v1/documents/delete", json=body), 404, "DOCUMENTS_NOT_FOUND")
    everything = {"namespaceId": space, "filterConfig": {}}
    assert_error(org.client.post("/v1/documents/delete", json=everything), 400, "INVALID_FILTER_CONFIG")
    remaining = org.client.post("/v1/documents", json=everything).json()["data"]["documents"]
    assert [document["externalId"] for document in remaining] == ["b", "n2", "n1", "n0"]
    entries = org.client.get("/v1/audit").json()["data"]["entries"]
    routes = [
        (entry["method"], entry["route"], entry["status"]) for entry in entries if entry["route"].endswith("/delete")
    ]
    assert routes == [("POST", "/v1/documents/delete", status) for status in (400, 404, 200, 200)]
    assert (
        len({entry["objectId"] for entry in entries if entry["route"].endswith("/delete") and entry["objectId"]}) == 1
    )
