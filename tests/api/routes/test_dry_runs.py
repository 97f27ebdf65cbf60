"""`dryRun` next to `ingestConfig`: a marked job run without documents."""

from __future__ import annotations

import pytest

from tests.api.support import assert_error

URL = "https://docs.example.com/start"
BODIES = {
    "text": {"source": "TEXT", "config": {"text": "A text.", "name": "notes"}},
    "urls": {"source": "URLS_LIST", "config": {"urls": [URL, URL]}},
    "sitemap": {"source": "SITEMAP", "config": {"url": URL}},
    "website": {"source": "WEBSITE", "config": {"url": URL}},
}
NAMES = {"text": "notes", "urls": "docs.example.com"}


@pytest.fixture
def space(org):
    return org.namespace(webScraperConfig={"provider": "BUILTIN"})


def is_a_dry_run(org, space, answer, source, name):
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    assert data["documents"] == []
    run = org.client.get(f"/v1/ingest-job-runs/{data['ingestJobRunId']}", params={"namespaceId": space}).json()["data"]
    assert (run["dryRun"], run["report"], run["status"], run["source"]) == (True, None, "QUEUED", source)
    assert run["name"] == name
    runs = org.client.get("/v1/ingest-job-runs", params={"namespaceId": space}).json()["data"]["ingestJobRuns"]
    assert [(listed_run["id"], listed_run["dryRun"], listed_run["source"]) for listed_run in runs] == [
        (run["id"], True, source)
    ]
    documents = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}})
    assert documents.json()["data"]["documents"] == []


@pytest.mark.parametrize("kind", BODIES)
def test_nothing_is_ingested_by_a_dry_run(org, space, kind):
    config = BODIES[kind]
    body = {"namespaceId": space, "ingestConfig": config, "dryRun": True}
    request = {"json": body, "headers": {"Idempotency-Key": f"dry {kind}"}}
    answer = org.client.post(f"/v1/ingest/{kind}", **request)
    is_a_dry_run(org, space, answer, config["source"], NAMES.get(kind, "docs.example.com/start"))
    assert org.client.post(f"/v1/ingest/{kind}", **request).content == answer.content
    real_request = {**request, "json": {**body, "dryRun": False}}
    assert_error(org.client.post(f"/v1/ingest/{kind}", **real_request), 409, "IDEMPOTENCY_CONFLICT")
    run = answer.json()["data"]["ingestJobRunId"]
    assert org.client.post(f"/v1/ingest-job-runs/{run}/cancel", json={"namespaceId": space}).status_code == 200
    ended = org.client.get(f"/v1/ingest-job-runs/{run}", params={"namespaceId": space}).json()["data"]
    assert (ended["status"], ended["outcome"], ended["report"]) == ("COMPLETED", "CANCELLED", None)


def test_a_file_is_tried_by_a_field_of_its_form(org, space):
    def send(**fields):
        file = {"file": ("a.txt", b"A file.", "text/plain")}
        return org.client.post("/v1/ingest/file", data={"namespaceId": space, **fields}, files=file)

    is_a_dry_run(org, space, send(dryRun="true"), "LOCAL_FILE", "a.txt")
    for absent in ("false", "undefined", "null", ""):
        data = send(dryRun=absent).json()["data"]
        assert len(data["documents"]) == 1
        run = data["ingestJobRunId"]
        job_run = org.client.get(f"/v1/ingest-job-runs/{run}", params={"namespaceId": space}).json()["data"]
        assert not {"dryRun", "report"} & set(job_run)
    wrong = assert_error(send(dryRun="yes"), 400, "INVALID_INGEST_CONFIG")
    assert wrong["error"]["details"]["field"] == "dryRun"
