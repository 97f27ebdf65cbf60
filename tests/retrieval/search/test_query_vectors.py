"""Vectors of recent queries are cached by scope; errors are not."""

import pytest

from retrieval.errors import Retryable
from retrieval.ports import Scope
from retrieval.search.query_vectors import QueryVectors

OURS, THEIRS = Scope("org", "ns", "a"), Scope("org", "ns", "b")


class Model:
    """A vector by the text's length."""

    provider, model, dimensions, batch_size, calls, max_tokens = "TEST", "lengths", 1, 8, 1, 256
    passage_prefix = ""

    def __init__(self):
        self.embedded_texts = []

    def embed(self, texts, _kind):
        self.embedded_texts.append(list(texts))
        if "busy" in texts:
            raise Retryable("The model is busy.")
        return [[len(text) / 7] for text in texts]

    def check(self):
        pass


def test_a_query_asked_again_costs_nothing_and_only_in_its_own_scope():
    model, vectors = Model(), QueryVectors()
    for scope in (OURS, OURS, THEIRS, OURS, THEIRS):
        assert vectors.embed(model, scope, "owl") == [3 / 7]
    assert model.embedded_texts == [["owl"], ["owl"]]
    other_model = Model()
    assert vectors.embed(other_model, OURS, "owl") == [3 / 7]
    assert other_model.embedded_texts == [["owl"]]


def test_what_failed_is_asked_for_again():
    model, vectors = Model(), QueryVectors()
    for _ in range(2):
        with pytest.raises(Retryable):
            vectors.embed(model, OURS, "busy")
    assert len(model.embedded_texts) == 2
