"""`retrieval ingest` against the API: requests and reports of refusals."""

from __future__ import annotations

import argparse
import json

import pytest

from local import LocalError, client
from retrieval.settings import Settings


@pytest.fixture
def ingest(base, org, tmp_path, capsys):
    """Return a function for running the command without waiting; returns exit code and lines."""

    def run(space, *sources, ocr=False, dry_run=False, config=None, no_wait=True):
        options = argparse.Namespace(
            command="ingest",
            what=list(sources),
            kind=None,
            metadata=None,
            ocr=ocr,
            config=config,
            dry_run=dry_run,
            no_wait=no_wait,
            namespace=space,
            url=base,
            key=org.api_key,
            tenant=None,
            json=True,
            cwd=tmp_path,
        )
        code = client.run(options, Settings(home=tmp_path))
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_more_urls_than_a_request_may_name_are_sent_in_parts(ingest, org):
    space = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    code, lines = ingest(space, *(f"https://docs.example.com/{number}" for number in range(1001)))
    assert code == 0
    assert [line["what"] for line in lines] == ["1000 URLs", "https://docs.example.com/1000"]
    assert len({line["ingestJobRunId"] for line in lines}) == 2


def external_ids(org, space):
    body = {"namespaceId": space, "filterConfig": {}}
    return {
        document["externalId"] for document in org.client.post("/v1/documents", json=body).json()["data"]["documents"]
    }


def list_runs(org, space):
    return org.client.get("/v1/ingest-job-runs", params={"namespaceId": space}).json()["data"]["ingestJobRuns"]


def test_a_folder_is_one_job_run_under_its_name_without_the_files_that_are_refused(ingest, org, tmp_path):
    (tmp_path / "handbook" / "old").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "old/a.txt"):
        (tmp_path / "handbook" / name).write_text(f"Seals dive, says {name}.")
    (tmp_path / "handbook" / "empty.txt").touch()
    space = org.namespace()
    code, (refused, line) = ingest(space, "handbook", "handbook/a.txt")
    assert code == 1
    assert refused["what"] == "handbook/empty.txt"
    assert "The file is empty" in refused["error"]
    (run,) = list_runs(org, space)
    assert (run["id"], run["name"], run["progress"]["found"]) == (line["ingestJobRunId"], "handbook, a.txt", 3)
    assert external_ids(org, space) == {"handbook/a.txt", "handbook/b.txt", "handbook/old/a.txt"}
    code, (refused, line) = ingest(space, "handbook", dry_run=True)
    assert (code, line["what"]) == (1, "handbook")
    assert len(external_ids(org, space)) == 3


def test_a_bucket_is_connected_once_and_ingested_by_its_url_or_its_id(ingest, org, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "standin")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    space = org.namespace()
    code, (line,) = ingest(space, "s3://handbooks/2026")
    (connection,) = org.client.get("/v1/connections", params={"namespaceId": space}).json()["data"]["connections"]
    assert code == 0
    assert line["ingestJobRunId"]
    assert (connection["connector"], connection["status"]) == ("OBJECTS", "ACTIVE")
    for source in ("s3://handbooks/2026/", connection["id"]):
        assert ingest(space, source, dry_run=True)[0] == 0
    assert len(org.client.get("/v1/connections", params={"namespaceId": space}).json()["data"]["connections"]) == 1
    code, (line,) = ingest(space, "gopher://handbooks", config={"credentials": {"accessKeyId": "canary"}})
    assert code == 1
    assert "must begin with" in line["error"]
    assert "canary" not in line["error"]


def test_an_absent_service_gets_a_message_with_the_next_step(tmp_path, monkeypatch):
    monkeypatch.delenv("RETRIEVAL_API_URL", raising=False)
    (tmp_path / "service.last.json").write_text('{"api": "http://127.0.0.1:1", "apiKey": "k"}')
    arguments = argparse.Namespace(command="runs", namespace=None, url=None, key=None, tenant=None, json=False)
    with pytest.raises(LocalError, match="start it with `retrieval up`"):
        client.run(arguments, Settings(home=tmp_path))
