"""Programs for the hosted service work unchanged."""

from __future__ import annotations

import httpx
import pytest

from tests.api.support import EMBEDDED, assert_error

CHUNKS = {"chunkSize": 100, "chunkOverlap": 10}


@pytest.fixture
def space(org):
    created = org.namespace()
    org.text(created, "Owls see in the dark.", name="owls", metadata={"kind": "bird"})
    return created


def documents(org, method, space, **body):
    return org.client.request(method, "/v1/documents", json={"namespaceId": space, **body})


def test_an_empty_connector_in_the_query_means_all(org, space):
    plain = org.client.get("/v1/connections", params={"namespaceId": space})
    empty = org.client.get(f"/v1/connections?namespaceId={space}&connector=")
    assert empty.status_code == 200, empty.text
    assert empty.json() == plain.json()
    assert_error(org.client.get(f"/v1/connections?namespaceId={space}&connector=X"), 400, "INVALID_REQUEST")


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


@pytest.mark.parametrize(
    "data",
    [
        {"$metadata": {}},
        {"$metadata": {"$set": {}, "$append": {}, "$remove": {}}},
        {"$metadata": {"$set": None}, "metadata": None},
        {"metadata": {}, "$metadata": {"$append": {}}},
    ],
)
def test_empty_operators_do_nothing(org, space, data):
    initial = documents(org, "POST", space, filterConfig={}).json()["data"]["documents"]
    answer = documents(org, "PATCH", space, filterConfig={"documentTypes": ["TEXT"]}, data=data)
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["documents"] == initial


def test_a_change_without_anything_to_change_is_not_called_an_update(org, space):
    filters = {"documentTypes": ["TEXT"]}
    for data in ({"metadata": {}}, {"$metadata": {"$set": {}}}):
        answer = documents(org, "PATCH", space, filterConfig=filters, data=data).json()
        assert (answer["data"]["itemsUpdated"], answer["message"]) == (0, "There was nothing to change")
        assert len(answer["data"]["documents"]) == 1


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
    body = {"name": "n", **EMBEDDED, "gmailConfig": {"clientId": "c", "clientSecret": "canary"}, "other": 1}
    creation = org.client.post("/v1/namespaces", json=body)
    assert creation.json()["message"] == "Namespace created successfully; not known here and left out: gmailConfig"
    assert "canary" not in creation.text
    path = f"/v1/namespaces/{creation.json()['data']['namespace']['id']}"
    changed = org.client.patch(path, json={"gmailConfig": None, "name": "m"})
    assert changed.json()["message"] == "Namespace updated successfully; not known here and left out: gmailConfig"
    assert org.client.patch(path, json={"name": "n", "x": 1}).json()["message"] == "Namespace updated successfully"


@pytest.mark.parametrize("fields", [{}, {"source": ""}, {"metadata": "", "chunkConfig": "", "ocrConfig": ""}])
def test_a_file_needs_no_source(org, space, fields):
    answer = org.client.post(
        "/v1/ingest/file", data={"namespaceId": space, **fields}, files={"file": ("a.txt", b"a", "text/plain")}
    )
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("path", "source", "config"),
    [
        ("text", "TEXT", {"text": "a"}),
        ("urls", "URLS_LIST", {"urls": ["https://example.org"]}),
        ("sitemap", "SITEMAP", {"url": "https://example.org/sitemap.xml"}),
        ("website", "WEBSITE", {"url": "https://example.org"}),
    ],
)
def test_a_chunk_config_in_the_config_is_honoured(org, path, source, config):
    space = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    ingest_config = {"source": source, "config": {**config, "chunkConfig": CHUNKS, "unknown": True}, "unknown": []}
    answer = org.client.post(
        f"/v1/ingest/{path}", json={"namespaceId": space, "ingestConfig": ingest_config, "unknown": 1}
    )
    assert answer.status_code == 200, answer.text
    run = answer.json()["data"]["ingestJobRunId"]
    job = org.db.row("select config from jobs j join job_runs r on r.job_id = j.id where r.id = %(run)s", {"run": run})
    assert (job["config"]["chunkSize"], job["config"]["chunkOverlap"]) == (100, 10)


def test_patch_and_delete_take_json_bodies(org, space):
    filters = {"documentExternalIds": ["owls"]}
    changed = documents(org, "PATCH", space, filterConfig=filters, data={"metadata": {"read": True}})
    assert changed.json()["data"]["documents"][0]["metadata"] == {"kind": "bird", "read": True}
    deletion = documents(org, "DELETE", space, filterConfig=filters)
    assert (deletion.status_code, deletion.json()["data"]) == (200, None)


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


@pytest.mark.parametrize("path", ["/v1/namespaces", "/v1/documents", "/v1/nothing", "/docs", "/nothing"])
def test_options_is_no_method_of_the_contract(org, path):
    assert_error(org.client.options(path), 405, "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize(("method", "path"), [("GET", "/nothing"), ("POST", "/v1"), ("GET", "/v2/namespaces")])
def test_unknown_paths_outside_are_counted_too(anonymous, method, path):
    resets = []
    for _ in range(2):
        answer = anonymous.request(method, path)
        assert_error(answer, 404, "NOT_FOUND")
        assert int(answer.headers["x-ratelimit-limit"]) > 0
        resets.append((int(answer.headers["x-ratelimit-reset"]), -int(answer.headers["x-ratelimit-remaining"])))
    assert resets == sorted(set(resets))


def test_probes_and_pages_need_no_counting(base):
    for path in ("/health", "/ready?for=requests", "/docs", "/", "/openapi.json"):
        answer = httpx.get(base + path, trust_env=False)
        assert answer.status_code == 200
        assert "x-ratelimit-limit" not in answer.headers
