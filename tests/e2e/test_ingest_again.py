"""The same content is ingested again after a deletion, other content, or a failure.

Clients: command line, Python client.
"""

import json
import subprocess

import pytest

from retrieval_client import RetrievalClient
from tests.e2e.conftest import COMMAND
from tests.standins.faults import Handler, served

FIRST, SECOND = "The lighthouse keeper winds the clock.", "The ferry leaves at dawn."


def by_command_line(service, folder, name, content):
    (folder / name).write_text(content)
    return outcome_of_command(service, folder, "ingest", name)


def page_by_command_line(service, folder, url):
    return outcome_of_command(service, folder, "ingest", url)


def outcome_of_command(service, folder, *arguments):
    command = [COMMAND, *arguments, "--namespace", service.namespace, "--json"]
    done = subprocess.run(
        command, env=service.environment, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines, done.stderr
    return "FAILED" if done.returncode else lines[-1]["outcome"]


def by_client(service, folder, name, content):
    (folder / name).write_text(content)
    with RetrievalClient(service.info["api"], service.info["apiKey"]) as client:
        return client.ingest.file(service.namespace, folder / name, wait=True).outcome


def page_by_client(service, folder, url):
    with RetrievalClient(service.info["api"], service.info["apiKey"]) as client:
        return client.ingest.urls(service.namespace, [url], wait=True).outcome


WAYS = {
    "command line": (by_command_line, page_by_command_line),
    "Python client": (by_client, page_by_client),
}


@pytest.fixture(
    params=[sender if sender == "Python client" else pytest.param(sender, marks=pytest.mark.slow) for sender in WAYS]
)
def ways(request, service):
    """Functions of each client and an empty namespace; in CI the Python client only."""
    ingest, ingest_page = WAYS[request.param]
    return ingest, ingest_page, service.in_a_new_namespace(request.param, webScraperConfig={"provider": "BUILTIN"})


def test_ingest_delete_ingest_leaves_the_document(ways, tmp_path):
    ingest, _, service = ways
    assert ingest(service, tmp_path, "note.txt", FIRST) == "SUCCEEDED"
    (document,) = service.documents()
    body = {"namespaceId": service.namespace, "filterConfig": {"documentIds": [document["id"]]}}
    service.ok(service.client.request("DELETE", "/v1/documents", json=body))
    assert service.documents() == []
    assert ingest(service, tmp_path, "note.txt", FIRST) == "SUCCEEDED"
    assert [hit["content"] for hit in service.search("lighthouse")] == [FIRST]


@pytest.mark.slow
def test_one_content_then_another_then_the_first_leaves_the_first(ways, tmp_path):
    ingest, _, service = ways
    for content in (FIRST, SECOND, FIRST):
        assert ingest(service, tmp_path, "note.txt", content) == "SUCCEEDED"
    assert [hit["content"] for hit in service.search("lighthouse")] == [FIRST]


@pytest.mark.slow
def test_what_failed_and_was_fixed_is_ingested_by_the_same_request(ways, tmp_path, site):
    _, ingest_page, service = ways
    url, pages = f"{site[0]}/keeper.html", site[1]
    assert ingest_page(service, tmp_path, url) == "FAILED"
    pages["/keeper.html"] = f"<html><body><main><p>{FIRST}</p></main></body></html>"
    assert ingest_page(service, tmp_path, url) == "SUCCEEDED"
    assert [hit["content"] for hit in service.search("lighthouse")] == [FIRST]


@pytest.fixture
def site():
    """Return the URL of a site and its pages by path."""
    pages = {}

    class Site(Handler):
        def do_GET(self):  # noqa: N802 - the name that http.server calls
            page = pages.get(self.path)
            self.reply(200 if page else 404, (page or "").encode(), {"Content-Type": "text/html"})

    with served(Site) as port:
        yield f"http://127.0.0.1:{port}", pages
