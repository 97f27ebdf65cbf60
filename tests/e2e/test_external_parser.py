"""A namespace with an external parser receives untrusted files and pages only."""

import json

import pytest

from retrieval.namespaces.namespaces import EMBEDDED_CONFIGS
from tests.e2e.test_page_quality import SENTENCE, SYMBOLS, scrambled, word  # noqa: F401 - a fixture
from tests.standins import docling_serve, faults

READ = "The harbour authority has read this page: its revenue rose by a tenth, and the ferries sail on time. "


@pytest.fixture
def docling():
    with docling_serve.running(texts={".png": READ + "\n\n<!-- image -->", ".docx": READ}) as server:
        yield server


@pytest.fixture
def space(service, docling):
    config = {"name": "with a parser", **EMBEDDED_CONFIGS, "parserConfig": docling.config()}
    for _ in range(6):  # the check of a config takes 5 seconds at most, which a busy machine may need
        response = service.client.post("/v1/namespaces", json=config)
        if "timeout" not in response.text:
            break
    service.info["namespaceId"] = service.ok(response)["namespace"]["id"]
    return service


def ingested(space, name, content, **fields):
    """Run and document of a file; None after a failure."""
    (run,) = space.wait(space.file(name, content, **fields)["ingestJobRunId"])
    documents = space.documents(where={"field": "document.name", "op": "eq", "value": name})
    return run, documents[0] if run["documents"]["completed"] else None


@pytest.mark.slow
def test_only_the_page_that_cannot_be_trusted_is_sent(space, docling, scrambled):  # noqa: F811
    run, document = ingested(space, "scrambled.pdf", scrambled.read_bytes())
    assert run["documents"]["failed"] == []
    assert [name for name, _ in docling.seen] == ["scrambled-2.png"]
    assert docling.seen[0][1].startswith(b"\x89PNG")
    assert document["documentProperties"]["notice"] is None
    assert document["documentProperties"]["textQuality"] > 0.8
    (hit,) = [hit for hit in space.search("who has read this page") if "has read this page" in hit["content"]]
    assert "image -->" not in hit["content"]

    sound = word(SENTENCE * 5)
    ingested(space, "sound.docx", sound)
    assert len(docling.seen) == 1
    ingested(space, "symbols.docx", word(SENTENCE, SYMBOLS))
    assert docling.seen[1][0] == "symbols.docx"


@pytest.mark.slow
def test_its_text_is_judged_too_and_its_failure_is_the_documents(space, docling, scrambled):  # noqa: F811
    docling.texts[".png"] = "\ufffd\ue000" * 200
    _, document = ingested(space, "again.pdf", scrambled.read_bytes())
    (page,) = document["documentProperties"]["pagesToCheck"]
    assert (page["page"], page["unread"]) == (2, True)
    docling.errors[".docx"] = "The backend does not know this file."
    run, _ = ingested(space, "broken.docx", word(SENTENCE, SYMBOLS))
    assert "The backend does not know this file." in run["documents"]["failed"][0]["error"]
    docling.key, docling.errors = "another", {}
    run, _ = ingested(space, "refused.docx", word(SENTENCE, SYMBOLS, "more"))
    assert "parserConfig.apiKey" in run["documents"]["failed"][0]["error"]
    docling.key = docling_serve.API_KEY
    docling.faults = [faults.status(503)] * 2
    run, _ = ingested(space, "later.docx", word(SENTENCE, SYMBOLS, "later"))
    assert run["documents"]["failed"] == []


def test_its_config_is_tried_masked_kept_and_taken_away(space, docling):
    path = f"/v1/namespaces/{space.namespace}"
    parser_config = space.ok(space.client.get(path))["namespace"]["parserConfig"]
    assert parser_config == {"provider": "ENDPOINT", "url": docling.url, "apiKey": parser_config["apiKey"]}
    assert docling_serve.API_KEY not in json.dumps(parser_config)
    space.ok(space.client.patch(path, json={"parserConfig": parser_config}))
    elsewhere = {**parser_config, "url": "http://127.0.0.1:9/elsewhere"}
    refused = space.client.patch(path, json={"parserConfig": elsewhere})
    assert refused.json()["error"]["details"]["reason"] == "secret_required"
    refused = space.client.patch(path, json={"parserConfig": {**docling.config(), "apiKey": "wrong"}})
    assert refused.status_code == 400
    assert refused.json()["error"]["details"]["field"] == "parserConfig.apiKey"
    refused = space.client.patch(path, json={"parserConfig": {"provider": "ENDPOINT", "url": "http://10.0.0.1"}})
    assert refused.json()["error"]["details"]["field"] == "parserConfig.url"
    assert "parserConfig" not in space.ok(space.client.patch(path, json={"parserConfig": None}))["namespace"]
