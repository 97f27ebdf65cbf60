"""Contract suite of the vendors' embedders through their real SDKs, with faults."""

from __future__ import annotations

import logging
import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import numpy as np
import pytest

from connectors.embedders import cohere, jina, openai
from connectors.embedders.vendor_embedder import VendorEmbedder
from connectors.http import retries
from retrieval.errors import Fatal, Retryable
from retrieval.setting_values import Endpoint
from retrieval.settings import Settings
from tests.standins import embedding_server, faults
from tests.standins.embedding_server import KEYS, MAX_TEXTS, Vendor, tokens

MAKERS = {"OPENAI": openai.make, "COHERE": cohere.make, "JINA": jina.make}
CANARY = "SECRET VENDOR WORDS"
pytestmark = pytest.mark.service
"""Loopback servers; the vendors' SDKs take seconds to import."""


@pytest.fixture(params=sorted(MAKERS))
def vendor(request: pytest.FixtureRequest) -> Iterator[Vendor]:
    with embedding_server.running(request.param) as server:
        yield server


@pytest.fixture
def openai_server() -> Iterator[Vendor]:
    with embedding_server.running("OPENAI") as server:
        yield server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(retries, "MAX_RETRY_SECONDS", retries.MAX_RETRY_SECONDS | {"document": 2.0, "query": 0.5})
    monkeypatch.setattr("connectors.embedders.vendor_embedder.MAX_RETRY_SECONDS", {"document": 2.0, "query": 0.5})


_OPEN: list[VendorEmbedder] = []


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("RETRIEVAL_HOME", str(tmp_path))
    yield
    while _OPEN:
        _OPEN.pop().close()


def make_embedder(vendor: Vendor, **config: str) -> VendorEmbedder:
    settings = Settings(endpoints={vendor.name: Endpoint(base_url=vendor.base_url)})
    embedder = MAKERS[vendor.name](vendor.config(**config), settings)
    assert isinstance(embedder, VendorEmbedder)
    _OPEN.append(embedder)
    return embedder


def test_one_unit_vector_a_text_in_order(vendor):
    texts = [f"text number {number} of wind" for number in range(MAX_TEXTS[vendor.name] + 5)]
    embedder = make_embedder(vendor)
    vectors = embedder.embed(texts, "document")
    assert vectors.shape == (len(texts), embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for number in (0, 7, len(texts) - 1):
        due = np.array(embedding_server.vector(texts[number], embedder.dimensions))
        assert float(vectors[number] @ (due / np.linalg.norm(due))) > 0.9999
    assert [len(request) for request in sorted(vendor.inputs, key=len)] == [5, MAX_TEXTS[vendor.name]]


def test_no_answer_fills_the_memory_with_little(vendor, impatient):
    # 40 MB of blanks are less than a kilobyte after two compressions.
    vendor.always = [faults.packed(b" " * 40_000_000)]
    embedder = make_embedder(vendor)
    tracemalloc.start()
    try:
        with pytest.raises(Retryable):
            embedder.embed(["a text"], "query")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 10_000_000


def test_queries_and_documents_are_sent_with_their_type(vendor):
    embedder = make_embedder(vendor)
    embedder.embed(["one"], "query")
    embedder.embed(["one"], "document")
    kinds = [body.get("input_type") or body.get("task") for body in vendor.seen]
    assert (
        kinds
        == {
            "OPENAI": [None, None],
            "COHERE": ["search_query", "search_document"],
            "JINA": ["retrieval.query", "retrieval.passage"],
        }[vendor.name]
    )


def test_a_refused_key_is_fatal_at_once_and_names_the_field(vendor):
    with pytest.raises(Fatal) as caught:
        make_embedder(vendor, apiKey="wrong-canary-key").check()
    assert caught.value.field == "embeddingModelConfig.apiKey"
    assert "wrong-canary-key" not in repr(caught.value)
    assert CANARY not in str(caught.value)
    assert len(vendor.times) == 1


def test_a_model_that_is_not_there_names_its_field(vendor):
    with pytest.raises(Fatal) as caught:
        make_embedder(vendor, model="text-embedding-9").check()
    assert caught.value.field == "embeddingModelConfig.model"
    assert len(vendor.times) == 1


@pytest.mark.parametrize("wait", ["0.3", "date", "milliseconds"])
def test_a_rate_limit_with_retry_after_is_waited_out(vendor, wait):
    header = {"Retry_After": wait}
    if wait == "date":
        header = {"Retry_After": format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)}
    if wait == "milliseconds":
        header = {"Retry_After_Ms": "300"}
    vendor.faults.append(faults.status(429, CANARY, **header))
    began = time.monotonic()
    assert make_embedder(vendor).embed(["one"], "document").shape[0] == 1
    assert time.monotonic() - began > (0.3 if wait != "date" else 0.9)


def test_429_for_ever_ends_with_the_time_to_come_back(vendor, impatient):
    vendor.always.append(faults.status(429, CANARY, Retry_After="1"))
    began = time.monotonic()
    with pytest.raises(Retryable, match="rate limit") as caught:
        make_embedder(vendor).embed(["one"], "document")
    assert caught.value.after is not None
    assert CANARY not in str(caught.value)
    assert time.monotonic() - began < 10


def test_no_credit_left_fails_at_once(openai_server):
    def empty(handler):
        problem = {"message": CANARY, "type": "insufficient_quota", "code": "insufficient_quota", "param": None}
        handler.reply(429, {"error": problem})
        return True

    openai_server.always.append(empty)
    with pytest.raises(Fatal, match="no credit left") as caught:
        make_embedder(openai_server).embed(["one"], "document")
    assert caught.value.field == "embeddingModelConfig.apiKey"
    assert len(openai_server.times) == 1


@pytest.mark.parametrize("fault", [faults.status(500), faults.status(503), faults.reset, faults.cut, faults.html])
def test_what_passes_is_tried_again(vendor, impatient, fault):
    vendor.faults += [fault, fault]
    assert make_embedder(vendor).embed(["one"], "document").shape[0] == 1
    assert len(vendor.times) == 4, "the text and a known good word fail, then the word and the text are embedded"


@pytest.mark.parametrize("fault", [faults.status(500), faults.reset, faults.cut, faults.html])
def test_what_does_not_pass_ends_after_a_few_tries(vendor, impatient, fault):
    vendor.always.append(fault)
    with pytest.raises(Retryable) as caught:
        make_embedder(vendor).embed(["one"], "document")
    assert len(vendor.times) == retries.MAX_TRIES["document"]
    assert "Attempts: " in str(caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda vectors: vectors[:-1], Retryable, "were due"),
        (lambda vectors: [*vectors, vectors[0]], Retryable, "were due"),
        (lambda vectors: [vector[:-1] for vector in vectors], Fatal, "dimensions"),
        (lambda vectors: [[float("nan"), *vector[1:]] for vector in vectors], Retryable, "finite"),
        (lambda vectors: [vectors[0], [1.0], *vectors[2:]], (Retryable, Fatal), "different sizes"),
    ],
    ids=["too few", "too many", "too short", "not a number", "of two sizes"],
)
def test_wrong_vectors_are_refused(vendor, impatient, change, kind, words):
    vendor.change = change
    with pytest.raises(kind, match=words):
        make_embedder(vendor).embed(["one", "two", "three"], "document")


def test_a_text_above_the_limit_is_embedded_by_its_beginning_and_its_neighbours_whole(openai_server):
    long = "supercalifragilistic " * 12_000
    vectors = make_embedder(openai_server).embed(["before", long, "after"], "document")
    assert vectors.shape == (3, 1536)
    assert sorted(len(texts) for texts in openai_server.inputs) == [1, 1, 1, 1]
    assert max(tokens(text) for texts in openai_server.inputs for text in texts) <= 8192


def test_neither_environment_nor_logs_know_the_key(vendor, monkeypatch, caplog):
    for name in ("OPENAI_BASE_URL", "CO_API_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    monkeypatch.setenv("OPENAI_ORG_ID", "another")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "another")
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Another: another\nAuthorization: Bearer another")
    monkeypatch.setenv("OPENAI_LOG", "debug")
    embedder = make_embedder(vendor)
    with caplog.at_level(logging.DEBUG):
        embedder.check()
    assert "another" not in str(vendor.headers)
    assert not {"openai-organization", "openai-project"} & set(vendor.headers[0])
    assert KEYS[vendor.name] not in caplog.text
    assert KEYS[vendor.name] not in repr(embedder)
    assert KEYS[vendor.name] not in str(vars(embedder))
