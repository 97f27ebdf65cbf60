"""Python client against the API, and retries against a faulty server."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import pytest

from retrieval_client import AsyncRetrievalClient, Retries, RetrievalClient, RetrievalError
from tests.standins.faults import Handler, served

QUICK = Retries(attempts=4, backoff=0.01)


@pytest.fixture
def client(base, org):
    with RetrievalClient(base, org.api_key) as opened:
        yield opened


def test_content_goes_in_and_is_listed_by_attributes_and_by_the_wires_names(client):
    space = client.namespaces.create("by a client")
    assert space.id in [namespace.id for namespace in client.namespaces.list()]
    accepted = client.ingest.text(space.id, "Turn the key.", name="key", metadata={"page": 7})
    run = client.runs.get(space.id, accepted.ingest_job_run_id)
    assert run.status == run["status"] == run.raw["status"]
    assert run.documents.queued[0].id == accepted.documents[0].id
    [document] = client.documents.list(space.id, metadata={"page": 7})
    assert (document.name, document.metadata) == ("key", {"page": 7})
    assert client.documents.facets(space.id, ["metadata.page"])["metadata.page"][0].count == 1
    with pytest.raises(AttributeError, match="has no field colour; it has"):
        _ = document.colour


def test_lists_are_read_page_by_page(client, org):
    space = org.namespace()
    for number in range(5):
        org.text(space, f"Text {number}.")
    assert len({document.id for document in client.documents.list(space, page_size=2)}) == 5
    assert len(list(client.runs.list(space))) == 5


def test_a_refusal_is_an_error_with_the_services_code_and_field(client, org):
    with pytest.raises(RetrievalError) as refused:
        client.search("ns_unknown", "anything")
    assert (refused.value.code, refused.value.status) == ("NAMESPACE_NOT_FOUND", 404)
    assert refused.value.request_id.startswith("req_")
    with pytest.raises(RetrievalError) as wrong:
        client.search(org.namespace(), "anything", top_k=1000)
    assert (wrong.value.code, wrong.value.details["field"]) == ("INVALID_SEARCH_REQUEST", "topK")
    assert "INVALID_SEARCH_REQUEST (topK): " in str(wrong.value)


def test_nothing_is_deleted_by_an_empty_list(client, org):
    space = org.namespace()
    org.text(space, "Stays.")
    for filters in ({}, {"document_ids": []}, {"document_ids": None}):
        with pytest.raises(ValueError, match=r"needs a filter|is empty"):
            client.documents.delete(space, **filters)
    assert len(list(client.documents.list(space))) == 1


def test_a_file_is_sent_by_its_path_its_bytes_or_opened(client, org, tmp_path):
    space = org.namespace()
    path = tmp_path / "umlaut ä.txt"
    path.write_text("From a path.")
    with path.open("rb") as opened:
        for file, options in ((path, {}), (b"From bytes.", {"name": "bytes.txt"}), (opened, {"name": "opened.txt"})):
            client.ingest.file(space, file, metadata={"kind": "file"}, **options)
    assert {document.name for document in client.documents.list(space)} == {"umlaut ä.txt", "bytes.txt", "opened.txt"}
    assert all(document.metadata == {"kind": "file"} for document in client.documents.list(space))


def test_the_asynchronous_client_ingests_and_lists(base, org, tmp_path):
    path = tmp_path / "b.txt"
    path.write_text("From a path.")

    async def go():
        async with AsyncRetrievalClient(base, org.api_key) as client:
            space = await client.namespaces.create("async")
            accepted = await client.ingest.file(space.id, b"Bytes.", name="a.txt")
            await client.ingest.file(space.id, path)
            ids = [document.id async for document in client.documents.list(space.id)]
            assert len(ids) == 2
            assert ids[-1] == accepted.documents[0].id
            await client.documents.delete(space.id, document_ids=ids)
            assert [document async for document in client.documents.list(space.id)] == []

    asyncio.run(go())


@contextmanager
def scripted(*answers):
    """Serve the given answers in turn: status with headers and body, or None for a connection reset."""
    pending, requests = list(answers), []

    class Scripted(Handler):
        def do_POST(self):  # noqa: N802 - the name that http.server calls
            requests.append((self.path, self.headers.get("Idempotency-Key"), self.read_body()))
            answer = pending.pop(0)
            if answer is None:
                self.close_connection = True
                self.connection.close()
                return
            status, headers, body = answer
            self.reply(status, body, headers)

        do_GET = do_POST  # noqa: N815

    with served(Scripted) as port, RetrievalClient(f"http://127.0.0.1:{port}", "key", retries=QUICK) as client:
        yield client, requests


TAKEN = (200, {}, {"success": True, "message": "", "data": {"ingestJobRunId": "ijr_1", "documents": []}})
LIMITED = (429, {"Retry-After": "0"}, {"error": {"code": "RATE_LIMIT_EXCEEDED", "message": "", "details": {}}})
BROKEN = (500, {}, {"error": {"code": "INTERNAL_ERROR", "message": "broken", "details": {"reason": "internal"}}})


def test_a_write_is_sent_again_under_one_key_until_it_is_taken():
    with scripted(LIMITED, None, BROKEN, TAKEN) as (client, requests):
        assert client.ingest.text("ns_1", "Once.").ingest_job_run_id == "ijr_1"
    assert len(requests) == 4
    assert len({(key, body) for _, key, body in requests}) == 1
    assert requests[0][1]


def test_a_retried_upload_sends_the_whole_file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"\x00content" * 1000)
    with scripted(LIMITED, None, TAKEN) as (client, requests):
        client.ingest.file("ns_1", path)
    assert [body.count(b"\x00content") for _, _, body in requests] == [1000] * 3


def test_requests_without_a_key_are_not_retried_after_a_server_error():
    with scripted(BROKEN) as (client, requests), pytest.raises(RetrievalError) as error:
        client.api.revoke_connection("con_1", {"namespaceId": "ns_1"})
    assert (error.value.code, error.value.attempts, len(requests)) == ("INTERNAL_ERROR", 1, 1)
