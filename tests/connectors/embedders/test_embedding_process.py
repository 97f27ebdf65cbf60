"""The embedding process returns the model's vectors, restarts after a crash and passes errors on."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

from connectors import registry
from connectors.embedders import embedding_process
from retrieval.errors import Fatal, Retryable

TEXTS = ["Owls hunt mice at night.", "Bread rises because of yeast."]
MINILM = "all-MiniLM-L6-v2"


def embed(model, texts, _kind):
    """Return the lengths of the texts, or raise the named error."""
    if model in {"Fatal", "Retryable"}:
        raise {"Fatal": Fatal, "Retryable": Retryable}[model]("as the model says")
    return np.array([[len(text)] for text in texts], np.float32)


def serve(address):
    embedding_process.serve_vectors(address, embed)


@pytest.fixture
def running(monkeypatch):
    monkeypatch.setattr(embedding_process, "CONNECT_SECONDS", 120.0)
    with embedding_process.EmbeddingProcess(multiprocessing.get_context("forkserver"), serve) as process:
        registry.use_embedding_process(process.address())
        yield process
        registry.use_embedding_process(None)


def test_it_answers_and_is_started_again_when_it_died(running):
    assert embedding_process.request_vectors(MINILM, TEXTS, "passage").ravel().tolist() == [24.0, 29.0]
    os.kill(running.pid, signal.SIGKILL)
    running.join()
    running.keep_alive()
    assert embedding_process.request_vectors(MINILM, TEXTS, "passage").ravel().tolist() == [24.0, 29.0]


@pytest.mark.parametrize("error", [Fatal, Retryable])
def test_an_error_of_the_model_is_raised_by_who_asks(running, error):
    assert running.pid
    with pytest.raises(error, match="as the model says"):
        embedding_process.request_vectors(error.__name__, TEXTS, "query")


def test_a_missing_process_is_a_retryable_error(monkeypatch, tmp_path):
    monkeypatch.setattr(embedding_process, "CONNECT_SECONDS", 0.1)
    registry.use_embedding_process(str(tmp_path / "nobody"))
    with pytest.raises(Retryable, match="ended or was restarted"):
        embedding_process.request_vectors(MINILM, TEXTS, "query")
    registry.use_embedding_process(None)
