"""The Python client and the command line on a running service."""

import json
import socket
import subprocess
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from PIL import Image

from retrieval_client import RetrievalClient
from retrieval_client.cli import output as cli_output
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
    output = command(service, *ingest, folder=tmp_path, code=1)
    assert "ok  notes/pump.txt" in output
    assert "FAILED  notes/broken.pdf: The PDF file is damaged" in output
    assert output.endswith("COMPLETED_WITH_FAILURES  notes: 1 ingested, 1 failed\n")
    *results, last = map(json.loads, command(service, *ingest, "--json", folder=tmp_path, code=1).splitlines())
    assert {entry["document"] for entry in results} == {"notes/pump.txt", "notes/broken.pdf"}
    assert last == {"what": "notes", "outcome": "COMPLETED_WITH_FAILURES", "completed": 1, "failed": 1}
    runs = [
        json.loads(line) for line in command(service, "runs", *namespace_option, "--json", folder=tmp_path).splitlines()
    ]
    assert [run["outcome"] for run in runs if run["name"] == "notes"] == ["COMPLETED_WITH_FAILURES"] * 2
    documents = [
        json.loads(line)
        for line in command(service, "documents", *namespace_option, "--json", folder=tmp_path).splitlines()
    ]
    mine = [entry for entry in documents if entry["metadata"] == {"from": "folder"}]
    assert {entry["externalId"] for entry in mine} == {"notes/pump.txt", "notes/broken.pdf"}
    assert len(mine) == 2, "run twice, ingested once"

    found = command(
        service, "search", "how often is the pump oiled", "--top-k", "1", *namespace_option, folder=tmp_path
    )
    assert "pump.txt" in found
    assert "every eighty hours" in found
    rows = command(service, "runs", *namespace_option, folder=tmp_path).splitlines()
    assert rows[0].split() == ["id", "created", "status", "outcome", "name"]
    assert any("COMPLETED_WITH_FAILURES" in row for row in rows)


@pytest.mark.slow
def test_a_website_with_a_dead_link_tells_the_good_pages_and_the_dead_one(service, tmp_path):
    pages = {"/": "".join(f'<a href="/{name}">on</a> ' for name in ("a", "b", "dead")), "/a": "", "/b": ""}
    space = service.in_a_new_namespace("dead link", webScraperConfig={"provider": "BUILTIN"})
    with website(pages) as url:
        output = command(
            space, "ingest", url, "--as", "website", "--namespace", space.namespace, folder=tmp_path, code=1
        )
    lines = output.splitlines()
    dead = f"FAILED  {url}dead: The site answers 404: there is no such page."
    assert sorted(lines[:4]) == [dead, f"ok  {url}", f"ok  {url}a", f"ok  {url}b"]
    assert lines[4:] == [f"COMPLETED_WITH_FAILURES  {url}: 3 ingested, 1 failed"]


@contextmanager
def website(pages):
    """URL of a site with these paths and links."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path not in pages:
                self.send_error(404)
                return
            text = f"<p>The page {self.path} tells of the keeper number {len(self.path)}{self.path}.</p>"
            body = f"<html><body><main>{text}{pages[self.path]}</main></body></html>".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


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
def test_a_picture_that_failed_is_retried_by_the_option_that_the_reason_names(service, tmp_path):
    Image.new("RGB", (300, 80), "white").save(tmp_path / "scan.png")
    namespace_option = ("--namespace", service.namespace)
    output = command(service, "ingest", "scan.png", *namespace_option, folder=tmp_path, code=1)
    assert "with --ocr" in output
    assert "ocrConfig" not in output
    runs = [
        json.loads(line) for line in command(service, "runs", *namespace_option, "--json", folder=tmp_path).splitlines()
    ]
    (failed,) = [run["id"] for run in runs if run["name"] == "scan.png"]
    retry_output = command(service, "retry", failed, "--ocr", *namespace_option, folder=tmp_path, code=1)
    assert retry_output.startswith("FAILED  scan.png: ")
    assert "--ocr" not in retry_output, "it was read, and a white picture holds no text"


def test_progress_is_told_on_stderr_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(cli_output, "PROGRESS_SECONDS", 0.0)
    output = cli_output.Output(as_json=True)
    output.progress("done 3 of 10; manual.pdf: PROCESSING, 0 of 1 documents")
    output.result({"what": "manual.pdf"}, "ok  manual.pdf")
    captured = capsys.readouterr()
    assert captured.err == "done 3 of 10; manual.pdf: PROCESSING, 0 of 1 documents\n"
    assert captured.out == '{"what": "manual.pdf"}\n'


@pytest.mark.slow
def test_an_api_beside_a_running_instance_listens_where_it_is_told(service, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    other_port = service.environment | {"RETRIEVAL_API_PORT": str(port)}
    with subprocess.Popen(
        [COMMAND, "api"], env=other_port, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as api:
        try:
            assert service.until(partial(answers, f"http://127.0.0.1:{port}/ready"))
        finally:
            api.terminate()
    taken_port = service.environment | {"RETRIEVAL_API_PORT": service.info["api"].rpartition(":")[2]}
    refused = subprocess.run([COMMAND, "api"], env=taken_port, capture_output=True, text=True, timeout=240, check=False)
    assert refused.returncode == 1
    assert "set RETRIEVAL_API_PORT to another port" in refused.stderr


def answers(url):
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.slow
def test_the_command_line_says_what_is_missing(service, tmp_path):
    elsewhere = {"RETRIEVAL_HOME": str(tmp_path / "empty")}

    def refused(*arguments, code=1, **environment):
        done = subprocess.run(
            [COMMAND, *arguments],
            env=service.environment | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    assert "No instance runs here: start one by `retrieval up`, or name a server by --url" in refused(
        "search", "x", **elsewhere
    )
    assert "No key for http://127.0.0.1:1" in refused("search", "x", "--url", "http://127.0.0.1:1"), (
        "the key of this home goes to no other server"
    )
    assert "Check --key and RETRIEVAL_API_KEY" in refused(
        "search", "x", "--url", service.info["api"], "--key", "rtr_wrong"
    )
    assert "No namespace is called nowhere" in refused("search", "x", "--namespace", "nowhere")
    assert "missing.txt: no such file or folder" in refused("ingest", "missing.txt", "--namespace", service.namespace)
    assert "not a JSON object" in refused("ingest", "x", "--metadata", "[]", code=2)
