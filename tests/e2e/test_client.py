"""The Python client and the command line as a client, on a running service, as people use them."""

import json
import subprocess

import pytest

from retrieval_client import RetrievalClient
from tests.e2e.conftest import COMMAND


@pytest.fixture
def client(service):
    with RetrievalClient(service.info["api"], service.info["apiKey"]) as opened:
        yield opened


@pytest.mark.decision("H250")
def test_a_file_is_ingested_waited_for_and_found(client, service, tmp_path):
    path = tmp_path / "cover.md"
    path.write_text("# Cover\n\nTurn the small brass key to the left to open the cover.\n")
    seen = []
    run = client.ingest.file(service.namespace, path, wait=True, timeout=60, progress=seen.append)
    assert (run.status, run.outcome, seen[-1].status) == ("COMPLETED", "SUCCEEDED", "COMPLETED")
    hits = client.search(service.namespace, "How is the cover opened?", hybrid=True, top_k=3, explain=True)
    assert "brass key" in hits[0].content
    assert hits[0].metadata["id"] == run.documents.completed[0].id
    assert client.why(service.namespace, "cover", hits[0].metadata["id"]).shown
    chunks = list(client.documents.chunks(service.namespace, hits[0].metadata["id"]))
    assert "brass key" in "".join(chunk.content for chunk in chunks)


def command(service, *arguments, where, code=0, **environment):
    done = subprocess.run(
        [COMMAND, *arguments],
        env=service.environment | environment,
        cwd=where,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_the_command_line_ingests_a_folder_and_finds_what_is_in_it(service, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "pump.txt").write_text("The pump is oiled every eighty hours.")
    (tmp_path / "notes" / "broken.pdf").write_bytes(b"%PDF-1.7 nothing follows")
    (tmp_path / "notes" / ".hidden").write_text("Not sent.")
    here = ("--namespace", service.namespace)
    ingest = ("ingest", "notes", *here, "--metadata", '{"from": "folder"}')
    told = command(service, *ingest, where=tmp_path, code=1)
    assert "ok  notes/pump.txt" in told
    assert "FAILED  notes/broken.pdf: " in told
    again = [json.loads(line) for line in command(service, *ingest, "--json", where=tmp_path, code=1).splitlines()]
    assert {one["what"] for one in again} == {"notes/pump.txt", "notes/broken.pdf"}
    listed = [json.loads(line) for line in command(service, "documents", *here, "--json", where=tmp_path).splitlines()]
    mine = [one for one in listed if one["metadata"] == {"from": "folder"}]
    assert {one["externalId"] for one in mine} == {"notes/pump.txt", "notes/broken.pdf"}
    assert len(mine) == 2, "run twice, ingested once"

    found = command(service, "search", "how often is the pump oiled", "--top-k", "1", *here, where=tmp_path)
    assert "pump.txt" in found
    assert "every eighty hours" in found
    rows = command(service, "runs", *here, where=tmp_path).splitlines()
    assert rows[0].split() == ["id", "created", "status", "outcome", "name"]
    assert any("FAILED" in row for row in rows)


def test_the_command_line_says_what_is_missing(service, tmp_path):
    elsewhere = {"RETRIEVAL_HOME": str(tmp_path / "empty")}

    def refused(*arguments, code=1, **environment):
        done = subprocess.run(
            [COMMAND, *arguments],
            env=service.environment | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    assert "Which server? Give --url" in refused("search", "x", **elsewhere)
    assert "No key for http://127.0.0.1:1" in refused("search", "x", "--url", "http://127.0.0.1:1"), (
        "the key of this home goes to no other server"
    )
    assert "UNAUTHORIZED" in refused("search", "x", "--url", service.info["api"], "--key", "rtr_wrong")
    assert "No namespace is called nowhere" in refused("search", "x", "--namespace", "nowhere")
    assert "missing.txt: no such file or folder" in refused("ingest", "missing.txt", "--namespace", service.namespace)
    assert "not a JSON object" in refused("ingest", "x", "--metadata", "[]", code=2)
