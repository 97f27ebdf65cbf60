"""Namespaces over HTTP: shapes, secrets, limits, and concurrent changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from retrieval.ports import Scope
from tests.api.support import EMBEDDED, assert_error
from tests.library import Library

S3 = {
    "type": "S3_COMPATIBLE",
    "bucket": "papers",
    "region": "eu-central-1",
    "endpoint": "https://s3.example.com",
    "credentials": {"accessKeyId": "AKIACANARY000001", "secretAccessKey": "canary-secret-access-key"},
}
FULL = {
    "name": "everything",
    "fileStorageConfig": S3,
    "vectorStorageConfig": {
        "provider": "PINECONE",
        "apiKey": "canary-pinecone-key",
        "indexHost": "https://i.example.com",
    },
    "embeddingModelConfig": {"provider": "OPENAI", "model": "text-embedding-3-small", "apiKey": "canary-openai-key"},
    "webScraperConfig": {"provider": "FIRECRAWL", "apiKey": "canary-firecrawl-1234"},
    "notionConfig": {
        "clientId": "notion-id",
        "clientSecret": "canary-notion-5678",
        "authorizationUrl": "https://api.notion.com/v1/oauth/authorize?client_id=x",
    },
    "googleDriveConfig": {"clientId": "g-id", "clientSecret": "canary-google-9012", "apiKey": "canary-google-key-3456"},
    "dropboxConfig": {"clientId": "d-id", "clientSecret": "canary-dropbox-7890"},
    "onedriveConfig": {"clientId": "o-id", "clientSecret": "canary-onedrive-1122"},
    "sharepointConfig": {"clientId": "p-id", "clientSecret": "canary-sharepoint-3344", "tenantId": "contoso.com"},
    "boxConfig": {"clientId": "b-id", "clientSecret": "canary-box-3344"},
}
CONFIGS = [name for name in FULL if name != "name"]


def create(org, body, status=200):
    answer = org.client.post("/v1/namespaces", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()["data"]["namespace"] if status == 200 else answer


def test_a_namespace_on_the_embedded_defaults_lives_and_dies(org):
    answer = org.client.post("/v1/namespaces", json={"name": "manuals", **EMBEDDED})
    assert answer.status_code == 200
    body = answer.json()
    assert (set(body), body["success"]) == ({"success", "message", "data"}, True)
    namespace = body["data"]["namespace"]
    assert namespace["id"] == namespace["identifier"]
    assert namespace["id"].startswith("ns_")
    assert namespace["organization"] == {"id": org.id}
    assert {name: namespace[name] for name in EMBEDDED} == EMBEDDED
    path = f"/v1/namespaces/{namespace['id']}"
    assert org.client.get(path).json()["data"]["namespace"] == namespace
    assert org.client.get("/v1/namespaces").json()["data"]["namespaces"] == [namespace]
    deletion = org.client.delete(path)
    assert deletion.status_code == 200
    assert deletion.json()["data"] == {"id": namespace["id"], "identifier": namespace["id"]}
    for answer in (org.client.get(path), org.client.delete(path), org.client.patch(path, json={"name": "x"})):
        assert_error(answer, 404, "NAMESPACE_NOT_FOUND")
    assert org.client.get("/v1/namespaces").json()["data"]["namespaces"] == []


def test_secrets_are_absent_or_masked_and_sealed_at_rest(org):
    namespace = create(org, FULL)
    assert namespace["fileStorageConfig"] == {key: S3[key] for key in ("type", "bucket", "region", "endpoint")}
    assert namespace["vectorStorageConfig"] == {"provider": "PINECONE", "indexHost": "https://i.example.com"}
    assert namespace["embeddingModelConfig"] == {"provider": "OPENAI", "model": "text-embedding-3-small"}
    assert namespace["webScraperConfig"] == {"provider": "FIRECRAWL", "apiKey": "••••1234"}
    assert namespace["notionConfig"] == {
        "clientId": "notion-id",
        "clientSecret": "••••5678",
        "authorizationUrl": FULL["notionConfig"]["authorizationUrl"],
    }
    assert namespace["googleDriveConfig"] == {"clientId": "g-id", "clientSecret": "••••9012", "apiKey": "••••3456"}
    assert namespace["dropboxConfig"] == {"clientId": "d-id", "clientSecret": "••••7890"}
    assert namespace["onedriveConfig"] == {"clientId": "o-id", "clientSecret": "••••1122"}
    assert namespace["sharepointConfig"] == {
        "clientId": "p-id",
        "clientSecret": "••••3344",
        "tenantId": "contoso.com",
    }
    assert namespace["boxConfig"] == {"clientId": "b-id", "clientSecret": "••••3344"}
    for path in ("/v1/namespaces", f"/v1/namespaces/{namespace['id']}"):
        assert "canary" not in org.client.get(path).text
    row = org.db.row("select * from namespaces where id = %(id)s", {"id": namespace["id"]})
    assert "canary" not in str(row).lower()


def stored(org, namespace_id):
    from retrieval.namespaces import namespaces

    return namespaces.load_namespace(org.db, org.ring, namespace_id).configs()


def test_a_patch_changes_what_is_sent_and_keeps_the_rest(org):
    namespace = create(org, FULL)
    path = f"/v1/namespaces/{namespace['id']}"
    renamed = org.client.patch(path, json={"name": "new name"}).json()["data"]["namespace"]
    assert renamed == namespace | {"name": "new name", "updatedAt": renamed["updatedAt"]}
    assert renamed["updatedAt"]["isoString"] >= namespace["updatedAt"]["isoString"]
    assert stored(org, namespace["id"]) == {name: FULL[name] for name in CONFIGS}
    without = org.client.patch(path, json={"webScraperConfig": None}).json()["data"]["namespace"]
    assert without["webScraperConfig"] is None
    assert without["notionConfig"] == namespace["notionConfig"]
    assert org.client.patch(path, json={}).status_code == 200


def test_unknown_keys_are_ignored(org):
    body = {"name": "a", **EMBEDDED, "surprise": {"deep": [1]}}
    body["fileStorageConfig"] = {"type": "LOCAL", "bucket": 5}
    assert create(org, body)["fileStorageConfig"] == {"type": "LOCAL"}


def test_the_limit_is_exact_under_parallel_creates(organization):
    org = organization(namespace_limit=3)
    org.namespace()
    org.namespace()
    body = {"name": "last", **EMBEDDED}
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: org.client.post("/v1/namespaces", json=body), range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [403] * 19
    assert_error(next(a for a in answers if a.status_code == 403), 403, "NAMESPACE_LIMIT_EXCEEDED")
    last = next(a for a in answers if a.status_code == 200).json()["data"]["namespace"]["id"]
    org.client.delete(f"/v1/namespaces/{last}")
    assert org.client.post("/v1/namespaces", json=body).status_code == 200


def test_model_and_index_stay_while_there_are_documents(org):
    space = org.namespace()
    path = f"/v1/namespaces/{space}"
    change = {"embeddingModelConfig": {"provider": "OPENAI", "model": "text-embedding-3-small", "apiKey": "k"}}
    org.text(space)
    error = assert_error(org.client.patch(path, json=change), 400, "INVALID_NAMESPACE_CONFIG")
    assert error["error"]["details"]["reason"] == "reembed_required"
    same = {"embeddingModelConfig": EMBEDDED["embeddingModelConfig"]}
    assert org.client.patch(path, json=same).status_code == 200
    assert org.client.patch(f"/v1/namespaces/{org.namespace()}", json=change).status_code == 200


def test_documents_are_embedded_again_when_asked_for(org):
    space = org.namespace()
    path = f"/v1/namespaces/{space}"
    document = org.text(space)["data"]["documents"][0]["id"]
    change = {"embeddingModelConfig": {"provider": "LOCAL", "model": "wordllama-l2-supercat-256"}, "name": "renamed"}
    answer = org.client.patch(path, json={**change, "reembed": True})
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert data["namespace"]["name"] == "renamed"
    assert data["namespace"]["embeddingModelConfig"] == EMBEDDED["embeddingModelConfig"]
    run = data["ingestJobRunId"]
    runs = org.client.get("/v1/ingest-job-runs", params={"namespaceId": space}).json()["data"]["ingestJobRuns"]
    assert {"REEMBED", "TEXT"} == {job_run["source"] for job_run in runs}
    refused = assert_error(org.client.patch(path, json={**change, "reembed": True}), 400, "INVALID_NAMESPACE_CONFIG")
    assert refused["error"]["details"]["reason"] == "reembed_running"
    assert run in refused["error"]["message"]
    cancelled = org.client.post(f"/v1/ingest-job-runs/{run}/cancel", json={"namespaceId": space})
    assert cancelled.status_code == 200, cancelled.text
    namespace = org.client.get(path).json()["data"]["namespace"]
    assert namespace["embeddingModelConfig"] == EMBEDDED["embeddingModelConfig"]
    assert org.client.patch(path, json={**change, "reembed": True}).status_code == 200
    assert document


def test_files_stay_where_they_are_while_there_are_documents(org):
    bucket = {
        "type": "S3_COMPATIBLE",
        "bucket": "b",
        "region": "eu-west-1",
        "endpoint": "https://s3.example.com",
        "credentials": {"accessKeyId": "a", "secretAccessKey": "s"},
    }
    space = org.namespace(fileStorageConfig=bucket)
    path = f"/v1/namespaces/{space}"
    org.text(space)
    for change in ({"type": "LOCAL"}, {**bucket, "bucket": "c"}):
        refused = org.client.patch(path, json={"fileStorageConfig": change, "reembed": True})
        assert assert_error(refused, 400, "INVALID_NAMESPACE_CONFIG")["error"]["details"]["reason"] == "has_files"
    rotated = {**bucket, "credentials": {"accessKeyId": "b", "secretAccessKey": "t"}}
    assert org.client.patch(path, json={"fileStorageConfig": rotated}).status_code == 200


def test_two_changes_at_once_do_not_undo_each_other(org):
    space = org.namespace()
    path = f"/v1/namespaces/{space}"
    bodies = [{"name": f"name {number}"} for number in range(8)] + [
        {"dropboxConfig": {"clientId": f"id {number}", "clientSecret": "s"}} for number in range(8)
    ]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: org.client.patch(path, json=body), bodies))
    for answer in answers:
        assert answer.status_code in {200, 400}
        if answer.status_code == 400:
            assert answer.json()["error"]["details"]["reason"] == "changed_meanwhile"
    namespace = org.client.get(path).json()["data"]["namespace"]
    done = [body for body, answer in zip(bodies, answers, strict=True) if answer.status_code == 200]
    assert namespace["name"] in {body.get("name") for body in done} | {"space"}
    if any("dropboxConfig" in body for body in done):
        assert namespace["dropboxConfig"] is not None


def test_the_language_of_keywords_is_set_shown_and_taken_back(org):
    body = {"name": "german", **EMBEDDED, "keywordLanguage": "DE"}
    created = org.client.post("/v1/namespaces", json=body).json()["data"]["namespace"]
    assert created["keywordLanguage"] == "de"
    path = f"/v1/namespaces/{created['id']}"
    for value, expected in (("german", "german"), (None, None), ("ja", "ja")):
        changed = org.client.patch(path, json={"keywordLanguage": value}).json()["data"]["namespace"]
        assert changed.get("keywordLanguage") == expected
    assert org.client.patch(path, json={"name": "other"}).json()["data"]["namespace"]["keywordLanguage"] == "ja"
    for bad in ("klingon", "xx", "", 5):
        assert_error(org.client.patch(path, json={"keywordLanguage": bad}), 400, "INVALID_NAMESPACE_CONFIG")


def test_namespaces_are_found_by_name_and_ordered_by_documents(org):
    names = {name: org.namespace(name=name) for name in ("Manuals", "100% wool", "customer manuals", "Other")}
    library = Library(org.db, Scope(org.id, names["customer manuals"], "acme"), None)
    library.put(["Owls hunt."], name="owls")
    library.put(name="broken", status="FAILED")
    Library(org.db, Scope(org.id, names["Manuals"], ""), None).put(["Seals dive."], name="seals")

    def list_names(client=org.client, headers=None, **params):
        data = client.get("/v1/namespaces", params=params, headers=headers).json()["data"]
        return [space["name"] for space in data["namespaces"]], data

    assert list_names(name="MANUAL")[0] == ["customer manuals", "Manuals"]
    assert list_names(name="%")[0] == ["100% wool"]
    assert list_names(sort="name")[0] == ["100% wool", "customer manuals", "Manuals", "Other"]
    first, data = list_names(sort="documents", pageSize=1)
    assert (first, data["totalCount"]) == (["customer manuals"], 4)
    assert (data["namespaces"][0]["documentCount"], data["namespaces"][0]["failedCount"]) == (2, 1)
    use = data["namespaces"][0]
    assert (use["chunkCount"], use["storedBytes"], use["searchCount"]) == (1, 0, 0)
    assert use["lastDocumentChange"]["isoString"] > use["createdAt"]["isoString"]
    second, last_page = list_names(sort="documents", pageSize=1, cursor=data["nextCursor"])
    assert second == ["Manuals"]
    assert list_names(sort="documents", pageSize=5, cursor=last_page["nextCursor"])[0] == ["Other", "100% wool"]
    refused = org.client.get("/v1/namespaces", params={"sort": "name", "cursor": data["nextCursor"]})
    assert_error(refused, 400, "INVALID_REQUEST")
    behalf = list_names(sort="documents", headers={"X-On-Behalf-Of": "ada"})[1]["namespaces"]
    assert [set(space) for space in behalf] == [{"id", "identifier", "name"}] * 4
