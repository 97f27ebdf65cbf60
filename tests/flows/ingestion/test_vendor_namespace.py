"""The whole main job on the user's own accounts: a bucket, an index at Pinecone, and each vendor's embeddings."""

import json

import pytest

from connectors.http import retries
from retrieval import settings
from retrieval.errors import Fatal, Retryable
from tests import registry_instances
from tests.connectors.parsers.test_parsers import pdf
from tests.flows.configured import Configured
from tests.nightly import nightly_except
from tests.standins import embedding_server, faults, pinecone, s3_server

WORDS = "SECRET VENDOR WORDS"


@pytest.fixture(scope="module")
def storage():
    with s3_server.running() as running:
        yield running


@pytest.fixture(params=nightly_except(sorted(embedding_server.KEYS), "OPENAI"))
def vendor(request):
    with embedding_server.running(request.param) as server:
        yield server


@pytest.fixture
def openai():
    with embedding_server.running("OPENAI") as server:
        yield server


@pytest.fixture
def allowed(monkeypatch, tmp_path):
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path))
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr("connectors.embedders.vendor_embedder.MAX_RETRY_SECONDS", {"document": 2.0, "query": 0.5})

    def at(vendor):
        monkeypatch.setenv("RETRIEVAL_ENDPOINTS", json.dumps({vendor.name: {"base_url": vendor.base_url}}))
        settings.load_settings.cache_clear()

    yield at
    registry_instances.close_instances()


@pytest.fixture
def space(db, openai, allowed):
    """OpenAI's embeddings, and the rest on this machine."""
    allowed(openai)
    return Configured(db, embeddingModelConfig=openai.config())


def test_text_and_pdf_are_found_replaced_and_deleted_on_accounts_alone(db, storage, vendor, allowed, caplog):
    allowed(vendor)
    storage.faults, storage.always = [], None
    dimensions = embedding_server.MODELS[vendor.name][embedding_server.MODEL[vendor.name]]
    with pinecone.running(dimension=dimensions) as index:
        space = Configured(
            db,
            fileStorageConfig=storage.config(s3_server.bucket(storage)),
            vectorStorageConfig=index.config(),
            embeddingModelConfig=vendor.config(),
        )
        owls = space.text("Owls hunt mice at night.", "owls")
        file = space.file("tides.pdf", pdf("The spring tide follows the full moon."))
        space.work()
        assert space.search("moon and tide", top_k=1) == ["tides.pdf"]
        assert space.search("owls hunt at night", top_k=1) == ["owls"]
        assert space.text("Bats hunt moths at night.", "owls").replaces
        space.work()
        space.sweep()
        assert len(index.space(space.scope.namespace)) == 2
        assert space.delete(owls.document_id, file.document_id) == 2
        assert space.search("moon and tide") == []
        space.sweep()
        assert index.space(space.scope.namespace) == {}
        keys = [embedding_server.KEYS[vendor.name], pinecone.API_KEY, *storage.config("b")["credentials"].values()]
        assert not [key for key in keys if key in caplog.text]
        for table in ("namespaces", "jobs", "job_runs", "documents", "run_documents", "batches"):
            plain = str(db.rows(f"select to_jsonb(t) - 'secrets' as row from {table} t"))
            assert not [key for key in keys if key in plain], table


def test_a_refused_key_fails_the_run_with_the_reason(space, openai):
    openai.always.append(faults.status(401, WORDS))
    space.text("Owls hunt mice at night.", "owls")
    with pytest.raises(Fatal, match=r"refuses the key in embeddingModelConfig\.apiKey") as caught:
        space.work()
    assert WORDS not in str(caught.value)
    assert len(openai.times) == 1, "a key that is refused is not tried again"


@pytest.mark.parametrize(
    "fault",
    nightly_except([faults.status(500), faults.reset, faults.cut, faults.html], faults.cut),
    ids=lambda fault: fault.__name__,
)
def test_trouble_that_passes_loses_and_doubles_nothing(space, openai, fault):
    openai.faults += [fault, fault]
    for number in range(20):
        space.text(f"The number {number} of a herd of owls.", f"owl {number}")
    space.work()
    chunks = space.db.row(
        "select count(*) as count from chunks c join documents d on d.id = c.document_id"
        " and d.active_generation = c.generation join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(id)s",
        {"id": space.scope.namespace},
    )
    assert chunks["count"] == 20
    assert space.search("number 7 of owls", top_k=1) == ["owl 7"]


def test_a_limit_that_stays_delays_and_goes_on_where_it_stopped(space, openai):
    openai.always.append(faults.status(429, WORDS, Retry_After="1"))
    space.text("Owls hunt mice at night.", "owls")
    lease = space.lease()
    with pytest.raises(Retryable, match="rate limit") as caught:
        space.take(lease)
    assert caught.value.after is not None
    openai.always.clear()
    space.take(lease)
    assert space.search("owls", top_k=1) == ["owls"]


def test_vectors_of_a_wrong_size_are_stored_nowhere(space, openai):
    openai.change = lambda vectors: [vector[:-1] for vector in vectors]
    space.text("Owls hunt mice at night.", "owls")
    with pytest.raises(Fatal, match="dimensions"):
        space.work()
    stored = space.db.row(
        "select count(*) as count from embeddings e join partitions p on p.id = e.partition_id"
        " where p.namespace_id = %(id)s",
        {"id": space.scope.namespace},
    )
    assert stored["count"] == 0
