"""The Python client and the command line on a running service."""

import json
import re
import subprocess

import pytest

from retrieval_client import RetrievalClient
from tests.e2e.conftest import COMMAND


@pytest.fixture
def client(service):
    with RetrievalClient(service.info["api"], service.info["apiKey"]) as opened:
        yield opened


def test_a_file_is_ingested_waited_for_and_found(client, service, tmp_path):
    path = tmp_path / "cover.md"
    path.write_text("# Cover\n\nTurn the small brass key to the left to open the cover.\n")
    states = []
    run = client.ingest.file(service.namespace, path, wait=True, timeout=180, progress=states.append)
    assert (run.status, run.outcome, states[-1].status) == ("COMPLETED", "SUCCEEDED", "COMPLETED")
    hits = client.search(service.namespace, "How is the cover opened?", hybrid=True, top_k=3, explain=True)
    assert "brass key" in hits[0].content
    assert hits[0].metadata["id"] == run.documents.completed[0].id
    assert client.why(service.namespace, "cover", hits[0].metadata["id"]).shown
    chunks = list(client.documents.chunks(service.namespace, hits[0].metadata["id"]))
    assert "brass key" in "".join(chunk.content for chunk in chunks)


def command(service, *arguments, folder, code=0, **environment):
    done = subprocess.run(
        [COMMAND, *arguments],
        env=service.environment | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_the_command_line_ingests_a_folder_and_finds_what_is_in_it(service, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "pump.txt").write_text("The pump is oiled every eighty hours.")
    (tmp_path / "notes" / "broken.pdf").write_bytes(b"%PDF-1.7 nothing follows")
    (tmp_path / "notes" / ".hidden").write_text("Not sent.")
    namespace_option = ("--namespace", service.namespace)
    ingest = ("ingest", "notes", *namespace_option, "--metadata", '{"from": "folder"}')
    *results, last = map(json.loads, command(service, *ingest, "--json", folder=tmp_path, code=1).splitlines())
    assert {entry["document"] for entry in results} == {"notes/pump.txt", "notes/broken.pdf"}
    assert last == {"what": "notes", "outcome": "COMPLETED_WITH_FAILURES", "completed": 1, "failed": 1}
    runs = [
        json.loads(line) for line in command(service, "runs", *namespace_option, "--json", folder=tmp_path).splitlines()
    ]
    assert [run["outcome"] for run in runs if run["name"] == "notes"] == ["COMPLETED_WITH_FAILURES"]
    documents = [
        json.loads(line)
        for line in command(service, "documents", *namespace_option, "--json", folder=tmp_path).splitlines()
    ]
    mine = [entry for entry in documents if entry["metadata"] == {"from": "folder"}]
    assert {entry["externalId"] for entry in mine} == {"notes/pump.txt", "notes/broken.pdf"}
    hits = command(service, "search", "how often is the pump oiled", "--top-k", "1", *namespace_option, folder=tmp_path)
    assert "pump.txt" in hits
    assert "every eighty hours" in hits


@pytest.mark.slow
def test_namespaces_are_created_and_deleted_and_documents_deleted_by_name(service, tmp_path):
    (tmp_path / "pump.txt").write_text("The pump is oiled every eighty hours.")
    created = json.loads(command(service, "namespaces", "create", "pumps", "--json", folder=tmp_path))
    assert f"{created['id']}  " in command(service, "namespaces", folder=tmp_path)
    namespace_option = ("--namespace", "pumps")
    command(service, "ingest", "pump.txt", *namespace_option, folder=tmp_path)
    command(service, "documents", "delete", "pump.txt", *namespace_option, folder=tmp_path, code=2)
    assert "pump.txt" in command(service, "documents", *namespace_option, folder=tmp_path), "nobody confirmed"
    command(service, "documents", *namespace_option, "delete", "pump.txt", "--yes", folder=tmp_path)
    assert "pump.txt" not in command(service, "documents", *namespace_option, folder=tmp_path)
    command(service, "ingest", "pump.txt", *namespace_option, folder=tmp_path)
    assert "eighty hours" in command(service, "search", "pump", *namespace_option, folder=tmp_path)
    command(service, "namespaces", "delete", "pumps", folder=tmp_path, code=2)
    assert command(service, "namespaces", "delete", "pumps", "--yes", folder=tmp_path) == "deleted  pumps\n"
    assert created["id"] not in command(service, "namespaces", folder=tmp_path)


@pytest.mark.slow
def test_keys_of_a_server_are_created_listed_and_revoked_over_its_api(service, tmp_path):
    """Another home than the server's, as on another machine."""
    home = {"RETRIEVAL_HOME": str(tmp_path / "elsewhere")}
    server = ("--url", service.info["api"], "--key", service.info["apiKey"])
    created = command(
        service, "key", "create", "--name", "remote", "--scopes", "search", *server, folder=tmp_path, **home
    )
    key_id, key = created.splitlines()[:2]
    with RetrievalClient(service.info["api"], key) as client:
        assert client.api.current_key().key.scopes == ["search"]
    assert re.search(
        rf"{key_id} +remote .*active .* search\n", command(service, "key", "list", *server, folder=tmp_path, **home)
    )
    command(service, "key", "revoke", key_id, *server, folder=tmp_path, **home)
    assert re.search(rf"{key_id} .*revoked", command(service, "key", "list", *server, folder=tmp_path, **home))
    command(service, "key", "list", "--key", key, folder=tmp_path, code=2, **home)
    command(service, "key", "list", "--url", service.info["api"], "--key", key, folder=tmp_path, code=1, **home)
