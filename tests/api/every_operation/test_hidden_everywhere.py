"""A hidden passage is in no answer of any operation that returns text, also after its document has changed."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import httpx
import pytest

from tests.api.every_operation.test_two_worlds import World
from tests.api.routes.test_mcp import rpc
from tests.connectors.parsers.test_parsers import pdf

ADA = {"X-On-Behalf-Of": "ada@x.org"}
SECRET = "The walrus contract of Svalbard pays nine hundred kroner per tusk until the ice returns."
FILLER = [f"Paragraph {number} says that seals number {number} dive near buoy {number}." for number in range(120)]


def write_text(introduction: int) -> str:
    new = [f"Introduction {number}: the harbour was dredged in year {1900 + number}." for number in range(introduction)]
    # An introduction leaves most chunks as they are: an edit next to the passage gives it another chunk.
    edited = [f"Paragraph 59 was rewritten {introduction} times."] if introduction else FILLER[59:60]
    return "\n\n".join([*new, *FILLER[:59], *edited, SECRET, *FILLER[60:]])


def find_document(world, name):
    body = {"namespaceId": world.space, "filterConfig": {"text": name}}
    (document,) = world.org.client.post("/v1/documents", json=body).json()["data"]["documents"]
    return document["id"]


def list_chunks(world, document, headers=None):
    params = {"namespaceId": world.space, "pageSize": 100}
    answer = world.org.client.get(f"/v1/documents/{document}/chunks", params=params, headers=headers or {})
    return answer.json()["data"]["chunks"]


def hide(world, document, **body):
    request = {"namespaceId": world.space, "reason": "confidential", **body}
    answer = world.org.client.post(f"/v1/documents/{document}/hidden-passages", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()["message"]


def hide_secret(world, name):
    document = find_document(world, name)
    indexes = [chunk["index"] for chunk in list_chunks(world, document) if "walrus" in chunk["content"]]
    assert indexes
    for index in indexes:
        hide(world, document, chunkIndex=index)
    return document


def list_answers(world, documents):
    """Return the body of each answer with text: of searches, lists, tools, and the files behind their links."""
    client, bodies = world.org.client, []
    queries = ["walrus contract of Svalbard", '"walrus contract"', "Paragraph 59"]
    words = {"hybridConfig": {"semanticWeight": 0.3, "keywordWeight": 0.7}}
    searches = [
        (path, {"namespaceId": world.space, "query": query, "topK": 50, **weights, **options})
        for query in queries
        for path, weights in (("/v1/search", {}), ("/v1/search/hybrid", words))
        for options in ({}, {"expand": {"unit": "SECTION"}}, {"expand": {"unit": "DOCUMENT"}})
    ]
    for path, body in searches:
        for headers in ({}, ADA):
            answer = client.post(path, json=body, headers=headers)
            assert answer.status_code == 200, answer.text
            bodies.append(answer.text)
    for _, method, path, body in world.requests("ada@x.org", documents):
        bodies.append(client.request(method, path, json=body, headers=ADA).text)
    for headers in ({}, ADA):
        for name, arguments in world.tools("ada@x.org", documents):
            bodies.append(rpc(client, "tools/call", {"name": name, "arguments": arguments}, **headers).text)
    for document in documents:
        path = f"/v1/vector_stores/{world.space}/files/{document}/content"
        bodies.append(client.get(path).text)
    # Staff's own links to raw files end with the file as it came.
    links = {link for body in bodies for link in re.findall(r"/v1/files/[^\"\\\s]+", body.replace("\\u0026", "&"))}
    links = {link for link in links if "/raw?" not in link or "principal=" in link}
    assert len(links) > len(documents)
    with httpx.Client(base_url=world.org.base, trust_env=False) as anonymous:
        bodies += [anonymous.get(link).text for link in sorted(links)]
    return bodies


@pytest.fixture
def world(org):
    org.db.rows("update job_runs set finished_at = now() where finished_at is null")
    org.db.rows("update batches set finished_at = now() where finished_at is null")
    created = World(org)
    created.filled_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return created


def test_a_hidden_passage_is_in_no_answer_before_and_after_its_text_has_moved(world):
    world.text("contract", write_text(0))
    world.text("other", "Seals dive for thirty minutes.")
    world.file("scan.pdf", pdf(SECRET))
    world.work()
    hide_secret(world, "contract")
    scan = find_document(world, "scan.pdf")
    hide(world, scan)
    documents = [find_document(world, name) for name in ("contract", "other", "scan.pdf")]
    for introduction in (0, 40):
        if introduction:
            world.text("contract", write_text(introduction))
            world.work()
        leaks = [body for body in list_answers(world, documents) if "nine hundred kroner" in body]
        assert not leaks, (introduction, leaks[0][:2000])
        marked = [chunk["hidden"] for chunk in list_chunks(world, documents[0]) if "walrus" in chunk["content"]]
        assert set(marked) == {True}, "staff see what is hidden"
        assert len(list_chunks(world, documents[0], ADA)) >= 2, "the rest stays readable"
        assert list_chunks(world, scan, ADA) == []


def test_a_part_that_a_neighbouring_chunk_repeats_is_in_no_answer(world):
    world.text("contract", write_text(0))
    world.work()
    document = find_document(world, "contract")
    before, passage, after = (chunk["content"] for chunk in list_chunks(world, document)[:3])
    first, *_, last = [part for part in FILLER if part in passage and (part in before or part in after)]
    assert first in before, "chunks overlap by default"
    assert last in after, "chunks overlap by default"
    hide(world, document, chunkIndex=1)
    texts = list_answers(world, [document])
    for part in (first, last):
        for headers in ({}, ADA):
            for options in ({}, {"expand": {"unit": "CHUNK"}}, {"expand": {"unit": "SECTION"}}):
                body = {"namespaceId": world.space, "query": part.replace(" says", ""), "topK": 50, **options}
                texts.append(world.org.client.post("/v1/search/hybrid", json=body, headers=headers).text)
        assert not [text for text in texts if part in text]
    shown = " ".join(chunk["content"] for chunk in list_chunks(world, document, ADA))
    assert [part for part in FILLER if part in shown] == [part for part in FILLER if part not in passage]
    assert passage in [chunk["content"] for chunk in list_chunks(world, document)], "staff see it"


def test_staff_see_that_a_hidden_passage_is_in_no_version_any_more(world):
    world.text("contract", write_text(0))
    world.work()
    document = hide_secret(world, "contract")
    params = {"namespaceId": world.space}

    def matched():
        passages = world.org.client.get("/v1/hidden-passages", params=params).json()["data"]["hiddenPassages"]
        return {passage["matched"] for passage in passages}

    world.text("contract", "The harbour was dredged.")
    world.work()
    assert matched() == {False}
    world.text("contract", write_text(3))
    world.work()
    assert matched() == {True}
    assert all(chunk["hidden"] for chunk in list_chunks(world, document) if "walrus" in chunk["content"])
