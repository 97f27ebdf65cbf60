"""OpenAI's unmodified SDK on vector stores: every call, with real ingestion steps."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from openai.types.responses import ResponseFileSearchToolCall

from api.routes import vector_store_files
from flows import steps
from retrieval.documents.queries import uploads as file_uploads
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ingestion.queries import results, run_documents
from retrieval.jobs.queries import batches
from retrieval.maintenance import garbage
from retrieval_client import RetrievalClient
from tests.api.support import assert_error
from tests.flows.configured import STEPS

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

    def run():
        db = org.db
        batches.form_batches(db, size=64, batches=8)
        for batch in batches.undispatched_batches(db):
            batches.record_flow_run(db, batch, "run")
            lease = batches.claim_lease(db, batch.id, batch.attempt, seconds=60)
            while windows := run_documents.list_windows(db, lease, documents=64, size=1 << 24):
                for window in windows:
                    for step in STEPS:
                        step(steps.Work(db, org.ring, lease, window))
                results.settle_runs(db, lease)
            results.settle_runs(db, lease)
            batches.finish_batch(db, lease)

    return run


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


def test_a_store_that_is_refused_leaves_no_copies_of_its_files(client, api_settings, monkeypatch):
    files = [upload(client).id, upload(client, "more.txt").id]
    folder = api_settings.home

    async def refuse(*_):
        raise ServiceError(ErrorCode.QUOTA_EXCEEDED, "The quota is used up.")

    files_before = {path for path in folder.rglob("*") if path.is_file()}
    monkeypatch.setattr(vector_store_files.runs, "accept_files", refuse)
    with pytest.raises(openai.APIStatusError):
        client.vector_stores.create(name="Manuals", file_ids=files)
    assert {path for path in folder.rglob("*") if path.is_file()} == files_before


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
    for limit in (1, 2, 3, 4, 100):
        previous = client.vector_stores.list(limit=limit, before=stores[1])
        assert [store.id for store in previous] == [stores[4], stores[3], stores[2]], limit
        between = client.vector_stores.list(limit=limit, order="asc", after=stores[0], before=stores[4])
        assert [store.id for store in between] == stores[1:4], limit
    page = client.vector_stores.list(limit=3, before=stores[1])
    assert (len(page.data), page.has_more) == (3, False)
    uploads = [upload(client, f"{number}.txt").id for number in range(4)]
    batch = client.vector_stores.file_batches.create(stores[0], file_ids=uploads)
    added = [file.id for file in client.vector_stores.files.list(stores[0], limit=1, order="asc")]
    assert sorted(added) == sorted(uploads)
    in_batch = client.vector_stores.file_batches.list_files(
        batch.id, vector_store_id=stores[0], before=added[0], limit=2
    )
    assert [file.id for file in in_batch] == added[:0:-1]
    files = client.vector_stores.files
    for limit in (1, 2, 3, 100):
        assert [file.id for file in files.list(stores[0], before=added[3], order="asc", limit=limit)] == added[:3]
        assert [file.id for file in files.list(stores[0], before=added[0], limit=limit)] == added[:0:-1]
        assert [file.id for file in files.list(stores[0], after=added[3], limit=limit)] == added[2::-1]
        listing = files.list(stores[0], before=added[0], filter="in_progress", limit=limit)
        assert [file.id for file in listing] == added[:0:-1]
    assert list(files.list(stores[0], after=added[2], before=added[1], order="asc")) == []
    assert list(client.vector_stores.files.list(stores[0], filter="completed")) == []
    assert len(list(client.vector_stores.files.list(stores[0], filter="in_progress"))) == 4
    for wrong in ({"after": "ns_none"}, {"before": "ns_none"}, {"limit": 101}, {"order": "up"}):
        with pytest.raises(openai.BadRequestError):
            client.vector_stores.list(**wrong)


def test_lists_are_read_by_the_asynchronous_client(client, base, org, store):
    uploads = [upload(client, f"{number}.txt").id for number in range(4)]
    client.vector_stores.file_batches.create(store.id, file_ids=uploads)
    added = [file.id for file in client.vector_stores.files.list(store.id)]

    async def read_lists():
        async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key=org.api_key, max_retries=0) as reader:
            files = reader.vector_stores.files
            assert [file.id async for file in files.list(store.id, before=added[3], limit=2)] == added[:3]
            assert [file.id async for file in files.list(store.id, after=added[0], limit=1)] == added[1:]
            assert [file.id async for file in reader.files.list(limit=3)] == uploads[::-1]
            assert [model.id async for model in reader.models.list()] == [model.id for model in client.models.list()]

    asyncio.run(read_lists())


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_entries_are_deleted_while_a_program_iterates(client, org, store, order):
    uploads = [upload(client, f"{number}.txt").id for number in range(6)]
    client.vector_stores.file_batches.create(store.id, file_ids=uploads)
    stores = [client.vector_stores.create().id for _ in range(4)] + [store.id]
    added = [file.id for file in client.vector_stores.files.list(store.id, order=order)]
    visited = []
    for number, file in enumerate(client.vector_stores.files.list(store.id, order=order, limit=2, before=added[5])):
        visited.append(file.id)
        if number != 2:
            client.vector_stores.files.delete(file.id, vector_store_id=store.id)
            org.db.rows("delete from documents where deleted_at is not null")  # as garbage collection does
    assert visited == added[:5]
    assert [file.id for file in client.vector_stores.files.list(store.id, order=order)] == [added[2], added[5]]
    visited = [client.files.delete(file.id).id for file in client.files.list(order=order, limit=2)]
    assert visited == uploads[:: 1 if order == "asc" else -1]
    visited = [client.vector_stores.delete(entry.id).id for entry in client.vector_stores.list(order=order, limit=2)]
    assert sorted(visited) == sorted(stores)
    assert client.vector_stores.list().data == client.files.list().data == []


def test_uploads_are_listed_page_by_page(client, organization):
    uploads = [upload(client, f"{number}.txt").id for number in range(5)]
    vision_file = client.files.create(file=("vision.png", b"picture"), purpose="vision").id
    assert [file.id for file in client.files.list()] == [vision_file, *uploads[::-1]]
    assert [file.id for file in client.files.list(limit=2, order="asc")] == [*uploads, vision_file]
    assert [file.id for file in client.files.list(limit=2, purpose="assistants")] == uploads[::-1]
    assert [file.id for file in client.files.list(after=uploads[2], limit=1)] == uploads[1::-1]
    for wrong in ({"after": "file-none"}, {"limit": 10_001}, {"order": "up"}):
        with pytest.raises(openai.BadRequestError):
            client.files.list(**wrong)
    assert organization().client.get("/v1/files").json()["data"] == []


def test_models_are_the_embedding_models_of_the_service(client):
    models = list(client.models.list())
    assert "all-MiniLM-L6-v2" in [model.id for model in models]
    assert [client.models.retrieve(model.id) for model in models] == models
    with pytest.raises(openai.NotFoundError, match="all-MiniLM-L6-v2"):
        client.models.retrieve("gpt-9")


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (
            lambda c: c.uploads.create(bytes=9, filename="a.txt", mime_type="text/plain", purpose="assistants"),
            "files.create",
        ),
        (lambda c: c.uploads.parts.create("upload_1", data=b"part"), "files.create"),
        (lambda c: c.uploads.complete("upload_1", part_ids=["part_1"]), "files.create"),
        (lambda c: c.uploads.cancel("upload_1"), "files.create"),
        (lambda c: c.models.delete("all-MiniLM-L6-v2"), "GET /v1/models"),
        (lambda c: c.embeddings.create(model="m", input="text"), "vector_stores.search"),
        (lambda c: c.responses.create(model="m", input="text"), "vector_stores.search"),
        (
            lambda c: c.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}]),
            "vector_stores.search",
        ),
    ],
)
def test_a_call_that_is_not_offered_names_what_to_use(client, call, remedy):
    with pytest.raises(openai.APIStatusError) as refused:
        call(client)
    assert refused.value.status_code in {404, 405}
    assert (refused.value.type, refused.value.body["param"]) == ("invalid_request_error", None)
    assert remedy in refused.value.message


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


def test_parallel_uploads_keep_the_limit(client, monkeypatch):
    monkeypatch.setattr(file_uploads, "MAX_UPLOAD_BYTES", 100)
    begun, add_pieces = threading.Barrier(2), file_uploads.add_pieces

    async def wait_for_both(*args):
        await asyncio.to_thread(begun.wait, 20)
        await add_pieces(*args)

    monkeypatch.setattr(file_uploads, "add_pieces", wait_for_both)
    with ThreadPoolExecutor(2) as threads:
        uploads = [threads.submit(upload, client, f"{number}.txt", b"a" * 60) for number in range(2)]
    errors = [error for future in uploads if (error := future.exception()) is not None]
    assert [error.status_code for error in errors] == [413]


def test_content_of_an_upload_deleted_meanwhile_breaks_off(client, monkeypatch):
    file = upload(client)
    monkeypatch.setattr(file_uploads, "read_pieces", lambda *_: iter([SEALS[:9]]))
    with pytest.raises((httpx.RemoteProtocolError, openai.APIConnectionError)):
        client.files.content(file.id)


def test_attributes_of_a_file_deleted_meanwhile_are_404(client, store, monkeypatch):
    file = upload(client)
    client.vector_stores.files.create(store.id, file_id=file.id)

    async def patch_none(*_):
        return []

    monkeypatch.setattr(vector_store_files.documents, "patch_metadata", patch_none)
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.files.update(file.id, vector_store_id=store.id, attributes={"a": 1})


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


def test_attributes_have_openais_limits(client, store):
    file = upload(client)
    for wrong in (
        {f"key {number}": 1 for number in range(17)},
        {"a": "b" * 513},
        {"k" * 65: 1},
        {"a": [1]},
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            client.vector_stores.files.create(store.id, file_id=file.id, attributes=wrong)
        assert refused.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.files.create(store.id, file_id="file-none")


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
