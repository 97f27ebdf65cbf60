"""Programs for the hosted service work unchanged."""

from __future__ import annotations

import pytest

from tests.api.support import EMBEDDED, assert_error


@pytest.fixture
def space(org):
    created = org.namespace()
    org.text(created, "Owls see in the dark.", name="owls", metadata={"kind": "bird"})
    return created


def documents(org, method, space, **body):
    return org.client.request(method, "/v1/documents", json={"namespaceId": space, **body})


@pytest.mark.parametrize("accept", [None, "", "*/*", "text/html", "application/xml"])
def test_no_accept_header_is_needed(org, space, accept):
    request = org.client.build_request("GET", "/v1/namespaces")
    del request.headers["accept"]
    if accept is not None:
        request.headers["accept"] = accept
    answer = org.client.send(request)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert [namespace["id"] for namespace in answer.json()["data"]["namespaces"]] == [space]


def test_an_empty_list_of_allowed_values_matches_nothing(org, space):
    nobody = {"metadata": {"acl": []}}
    for document in ({"documentTypes": ["TEXT"], **nobody}, nobody):
        assert documents(org, "POST", space, filterConfig=document).json()["data"]["documents"] == []
        for method, path, extra in (
            ("PATCH", "/v1/documents", {"data": {"metadata": {"a": 1}}}),
            ("DELETE", "/v1/documents", {}),
            ("POST", "/v1/documents/resync", {}),
        ):
            answer = org.client.request(method, path, json={"namespaceId": space, "filterConfig": document, **extra})
            details = assert_error(answer, 400, "INVALID_FILTER_CONFIG")["error"]["details"]
            assert details == {"reason": "empty_list", "field": "filterConfig.metadata.acl"}
    for path, extra in (("", {}), ("/hybrid", {"hybridConfig": {"semanticWeight": 0, "keywordWeight": 1}})):
        body = {"namespaceId": space, "query": "owls", "filter": nobody, **extra}
        answer = org.client.post(f"/v1/search{path}", json=body)
        assert (answer.status_code, answer.json()["data"]["results"]) == (200, [])
    assert documents(org, "POST", space, filterConfig={}).json()["data"]["itemsReturned"] == 1


def test_an_unknown_config_is_named_in_the_message(org):
    body = {"name": "n", **EMBEDDED, "pigeonConfig": {"clientId": "c", "clientSecret": "canary"}, "other": 1}
    creation = org.client.post("/v1/namespaces", json=body)
    assert creation.json()["message"] == "Namespace created successfully; not known here and left out: pigeonConfig"
    assert "canary" not in creation.text
    path = f"/v1/namespaces/{creation.json()['data']['namespace']['id']}"
    changed = org.client.patch(path, json={"pigeonConfig": None, "name": "m"})
    assert changed.json()["message"] == "Namespace updated successfully; not known here and left out: pigeonConfig"
    assert org.client.patch(path, json={"name": "n", "x": 1}).json()["message"] == "Namespace updated successfully"


@pytest.mark.parametrize("path", ["/v1/namespaces/", "/v1/namespaces", "/v1/namespaces//", "/v1/namespaces/%20"])
def test_a_deletion_without_an_id_deletes_nothing(org, space, path):
    answer = org.client.delete(path)
    assert answer.status_code in {404, 405}
    assert answer.json()["success"] is False
    assert [namespace["id"] for namespace in org.client.get("/v1/namespaces").json()["data"]["namespaces"]] == [space]


@pytest.mark.parametrize("scheme", ["bearer", "Bearer", "BEARER", "bEaReR"])
def test_the_scheme_is_read_in_any_case(org, anonymous, scheme):
    answer = anonymous.get("/v1/namespaces", headers={"Authorization": f"{scheme} {org.api_key}"})
    assert answer.status_code == 200
