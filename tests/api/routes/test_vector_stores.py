"""OpenAI's unmodified SDK on vector stores: every call, with real ingestion steps."""

from __future__ import annotations

import threading

import openai
import pytest
from openai.types.responses import ResponseFileSearchToolCall

from retrieval.documents.queries import uploads as file_uploads
from retrieval.maintenance import garbage
from retrieval_client import RetrievalClient
from tests.api.support import assert_error, process_ingestions

SEALS = b"Seals dive for thirty minutes. They sleep on ice."


@pytest.fixture
def client(org, base):
    with openai.OpenAI(base_url=f"{base}/v1", api_key=org.api_key, max_retries=0) as sdk:
        yield sdk


@pytest.fixture
def store(client):
    return client.vector_stores.create(name="Manuals")


@pytest.fixture
def work(org):
    """Return a function for processing accepted ingestions, as workers do."""
    org.db.rows("update job_runs set finished_at = now() where finished_at is null")
    org.db.rows("update batches set finished_at = now() where finished_at is null")

    return lambda: process_ingestions(org)


@pytest.fixture
def worker(work):
    """Process ingestions in the background until the test ends."""
    ended = threading.Event()

    def go_on():
        while not ended.wait(0.1):
            work()

    thread = threading.Thread(target=go_on)
    thread.start()
    yield
    ended.set()
    thread.join(60)


def upload(client, name="seals.txt", content=SEALS):
    return client.files.create(file=(name, content), purpose="assistants")


def test_the_sdk_uploads_polls_searches_reads_and_deletes(client, store, worker):
    polled = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id,
        file=("seals.txt", SEALS),
        poll_interval_ms=100,
        attributes={"topic": "seals", "year": 2026},
    )
    assert (polled.status, polled.last_error, polled.vector_store_id) == ("completed", None, store.id)
    assert (polled.attributes, polled.usage_bytes) == ({"topic": "seals", "year": 2026}, len(SEALS))
    owls = upload(client, "owls.txt", b"Owls hunt at night.")
    static = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 10}}
    added = client.vector_stores.files.create_and_poll(
        owls.id, vector_store_id=store.id, attributes={"topic": "owls"}, chunking_strategy=static, poll_interval_ms=100
    )
    assert (added.id, added.status) == (owls.id, "completed")
    assert (added.chunking_strategy.static.max_chunk_size_tokens, added.chunking_strategy.type) == (100, "static")

    topic = {"type": "eq", "key": "topic", "value": "seals"}
    ranking = {"score_threshold": 0.1, "hybrid_search": {"embedding_weight": 0.2, "text_weight": 0.8}}
    page = client.vector_stores.search(
        store.id, query="how long do seals dive", filters=topic, rewrite_query=True, ranking_options=ranking
    )
    (hit,) = page.data
    assert (hit.file_id, hit.filename, hit.attributes) == (polled.id, "seals.txt", {"topic": "seals", "year": 2026})
    assert hit.content[0].text == SEALS.decode()

    (text,) = client.vector_stores.files.content(polled.id, vector_store_id=store.id)
    assert (text.type, text.text) == ("text", SEALS.decode())
    changed = client.vector_stores.files.update(
        polled.id, vector_store_id=store.id, attributes={"year": 2027.5, "old": False}
    )
    assert changed.attributes == {"year": 2027.5, "old": False}
    assert list(client.vector_stores.search(store.id, query="seals", filters=topic)) == []

    retrieved = client.vector_stores.retrieve(store.id)
    assert (retrieved.name, retrieved.status, retrieved.usage_bytes) == ("Manuals", "completed", len(SEALS) + 19)
    assert (retrieved.file_counts.completed, retrieved.file_counts.total) == (2, 2)
    assert client.vector_stores.files.delete(polled.id, vector_store_id=store.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.files.retrieve(polled.id, vector_store_id=store.id)
    assert client.files.retrieve(polled.id).filename == "seals.txt", "the upload stays"
    assert client.files.delete(owls.id).deleted
    assert list(client.vector_stores.files.list(store.id)) == [], "a deleted file is in no vector store"
    assert client.vector_stores.delete(store.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.retrieve(store.id)


def test_a_batch_is_one_job_run(client, store, worker):
    names = ["a.txt", "b.txt", "c.txt"]
    polled = client.vector_stores.file_batches.upload_and_poll(
        store.id, files=[(name, f"File {name}.".encode()) for name in names], poll_interval_ms=100
    )
    assert (polled.status, polled.file_counts.completed, polled.file_counts.total) == ("completed", 3, 3)
    files = client.vector_stores.file_batches.list_files(polled.id, vector_store_id=store.id, limit=2)
    assert len({file.id for file in files}) == 3
    broken = upload(client, "broken.pdf", b"%PDF-1.4 nothing")
    good = upload(client, "good.txt", b"Good.")
    entries = [{"file_id": broken.id, "attributes": {"n": 1}}, {"file_id": good.id, "attributes": {"n": 2}}]
    polled = client.vector_stores.file_batches.create_and_poll(store.id, files=entries, poll_interval_ms=100)
    assert (polled.status, polled.file_counts.failed, polled.file_counts.completed) == ("completed", 1, 1)
    (failed,) = client.vector_stores.file_batches.list_files(polled.id, vector_store_id=store.id, filter="failed")
    assert (failed.id, failed.status, failed.attributes) == (broken.id, "failed", {"n": 1})
    assert failed.last_error.message


def test_a_batch_is_cancelled(client, store, work):
    batch = client.vector_stores.file_batches.create(store.id, file_ids=[upload(client).id])
    assert (batch.status, batch.file_counts.in_progress) == ("in_progress", 1)
    assert client.vector_stores.retrieve(store.id).status == "in_progress"
    cancelled = client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    assert (cancelled.status, cancelled.file_counts.cancelled) == ("cancelled", 1)


def test_lists_are_read_in_both_directions(client, org):
    stores = [client.vector_stores.create(name=f"store {number}").id for number in range(5)]
    assert [store.id for store in client.vector_stores.list(limit=2)] == stores[::-1], "newest first, page by page"
    assert [store.id for store in client.vector_stores.list(limit=2, order="asc")] == stores
    for limit in (1, 2, 100):
        previous = client.vector_stores.list(limit=limit, before=stores[1])
        assert [store.id for store in previous] == [stores[4], stores[3], stores[2]], limit
        between = client.vector_stores.list(limit=limit, order="asc", after=stores[0], before=stores[4])
        assert [store.id for store in between] == stores[1:4], limit
    page = client.vector_stores.list(limit=3, before=stores[1])
    assert (len(page.data), page.has_more) == (3, False)
    uploads = [upload(client, f"{number}.txt").id for number in range(4)]
    client.vector_stores.file_batches.create(stores[0], file_ids=uploads)
    added = [file.id for file in client.vector_stores.files.list(stores[0], limit=1, order="asc")]
    assert sorted(added) == sorted(uploads)
    files = client.vector_stores.files
    for limit in (1, 100):
        assert [file.id for file in files.list(stores[0], before=added[3], order="asc", limit=limit)] == added[:3]
        assert [file.id for file in files.list(stores[0], before=added[0], limit=limit)] == added[:0:-1]
        assert [file.id for file in files.list(stores[0], after=added[3], limit=limit)] == added[2::-1]
    assert list(files.list(stores[0], after=added[2], before=added[1], order="asc")) == []
    assert list(client.vector_stores.files.list(stores[0], filter="completed")) == []
    assert len(list(client.vector_stores.files.list(stores[0], filter="in_progress"))) == 4
    for wrong in ({"after": "ns_none"}, {"before": "ns_none"}, {"limit": 101}, {"order": "up"}):
        with pytest.raises(openai.BadRequestError):
            client.vector_stores.list(**wrong)


def test_models_are_the_embedding_models_of_the_service(client):
    models = list(client.models.list())
    assert "all-MiniLM-L6-v2" in [model.id for model in models]
    assert [client.models.retrieve(model.id) for model in models] == models
    with pytest.raises(openai.NotFoundError, match="all-MiniLM-L6-v2"):
        client.models.retrieve("gpt-9")


def test_a_store_is_created_with_files_renamed_and_is_a_namespace(client, org, worker):
    file = upload(client)
    store = client.vector_stores.create(file_ids=[file.id], metadata={"a": "b"})
    assert (store.object, store.file_counts.total) == ("vector_store", 1)
    assert (
        client.vector_stores.files.poll(file.id, vector_store_id=store.id, poll_interval_ms=100).status == "completed"
    )
    renamed = client.vector_stores.update(store.id, name="Renamed")
    assert renamed.name == org.client.get(f"/v1/namespaces/{store.id}").json()["data"]["namespace"]["name"] == "Renamed"
    second_store = client.vector_stores.create(name="Other", file_ids=[file.id])
    assert second_store.file_counts.total == 1, "an upload goes into as many stores as are wanted"


def test_documents_of_any_source_are_files(client, org, work):
    space = org.namespace()
    org.text(space, "A text.", name="note", metadata={"tag": "x", "list": [1]})
    work()
    (file,) = client.vector_stores.files.list(space)
    assert (file.id[:4], file.status, file.attributes) == ("doc_", "completed", {"tag": "x"})
    assert client.files.retrieve(file.id).filename == "note"
    assert client.files.content(file.id).read() == b"A text."
    (text,) = client.vector_stores.files.content(file.id, vector_store_id=space)
    assert text.text == "A text."


def test_uploads_are_read_back_and_expire(client, api_db, organization):
    content = bytes(range(256)) * 9000  # several pieces
    file = client.files.create(
        file=("a.bin", content), purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert (file.bytes, file.filename, file.purpose, file.status) == (len(content), "a.bin", "user_data", "processed")
    assert file.expires_at - file.created_at == 3600
    assert client.files.content(file.id).read() == content
    foreign = organization()
    assert_error(foreign.client.get(f"/v1/files/{file.id}"), 404, "NOT_FOUND")
    api_db.rows("update uploaded_files set expires_at = now() - interval '1 second' where id = %(id)s", {"id": file.id})
    with pytest.raises(openai.NotFoundError) as refused:
        client.files.retrieve(file.id)
    assert (refused.value.type, refused.value.code, refused.value.param) == (
        "invalid_request_error",
        "NOT_FOUND",
        "file_id",
    )
    garbage.delete_expired(api_db)
    assert api_db.rows("select from uploaded_pieces where file_id = %(id)s", {"id": file.id}) == []
    with pytest.raises(openai.BadRequestError):
        client.files.create(file=("a.bin", b""), purpose="user_data")


def test_uploads_of_an_organization_have_a_limit(client, monkeypatch):
    monkeypatch.setattr(file_uploads, "MAX_UPLOAD_BYTES", 100)
    upload(client)
    with pytest.raises(openai.APIStatusError) as refused:
        upload(client, content=b"a" * 90)
    assert refused.value.status_code == 413


def test_the_python_client_gives_results_as_a_tool_call_of_the_responses_api(client, org, store, worker, base):
    file = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("seals.txt", SEALS), attributes={"topic": "seals"}, poll_interval_ms=100
    )
    with RetrievalClient(base, org.api_key) as retrieval_client:
        call = retrieval_client.search(store.id, "seals dive").to_file_search_call("seals dive")
    parsed = ResponseFileSearchToolCall.model_validate(call)
    assert (parsed.status, parsed.queries) == ("completed", ["seals dive"])
    (result,) = parsed.results
    assert (result.file_id, result.filename, result.attributes) == (file.id, "seals.txt", {"topic": "seals"})
    assert (result.text, result.score > 0) == (SEALS.decode(), True)


def test_a_bound_key_uploads_for_its_namespace_alone(org, base, client):
    space = org.namespace()
    foreign = upload(client)
    with org.key(namespace=space) as bound:
        key = bound.headers["Authorization"].removeprefix("Bearer ")
        with openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0) as bound_client:
            assert [store.id for store in bound_client.vector_stores.list()] == [space]
            file = upload(bound_client)
            assert bound_client.vector_stores.files.create(space, file_id=file.id).id == file.id
            with pytest.raises(openai.NotFoundError):
                bound_client.vector_stores.files.create(space, file_id=foreign.id)
            with pytest.raises(openai.PermissionDeniedError):
                bound_client.vector_stores.create(name="new")
