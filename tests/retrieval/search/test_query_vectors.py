"""Concurrent queries share a call, recent vectors are cached, and errors stay with their query."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from retrieval.errors import Fatal, Retryable
from retrieval.ports import Scope
from retrieval.search.query_vectors import QueryVectors

OURS, THEIRS = Scope("org", "ns", "a"), Scope("org", "ns", "b")


class Model:
    """A vector by the text's length; each call takes as long as the test holds the gate."""

    provider, model, dimensions, batch_size, max_tokens = "TEST", "lengths", 1, 8, 256
    passage_prefix = ""

    def __init__(self, calls=1):
        self.calls, self.asked, self.gate = calls, [], threading.Event()
        self.gate.set()
        self.at_once = self.most = 0

    def embed(self, texts, kind):
        assert kind == "query"
        self.asked.append(list(texts))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.gate.wait(10)
        self.at_once -= 1
        if any("refused" in text for text in texts):
            raise Fatal("The model refuses this text.")
        if any("busy" in text for text in texts):
            raise Retryable("The model is busy.")
        return [[len(text) / 7] for text in texts]

    def check(self):
        pass


def until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def together(vectors, model, texts):
    """Embed all queries during the first call; return vectors or errors in order."""
    model.gate.clear()
    with ThreadPoolExecutor(len(texts) + 1) as pool:
        first = pool.submit(vectors.embed, model, OURS, "the first")
        until(lambda: model.asked)
        waiting = [pool.submit(vectors.embed, model, OURS, text) for text in texts]
        until(lambda: len(vectors._lanes[model].waiting) == len(texts))
        model.gate.set()
        assert first.result(10) == [9 / 7]
        return [future.exception(10) or future.result() for future in waiting]


def test_queries_that_wait_for_the_model_share_one_call():
    model = Model()
    texts = ["a", "bb", "ccc", "bb"]
    assert together(QueryVectors(), model, texts) == [[len(text) / 7] for text in texts]
    assert [sorted(call) for call in model.asked] == [["the first"], ["a", "bb", "ccc"]]
    assert model.most == 1


def test_more_than_a_call_takes_is_asked_for_in_several():
    model, texts = Model(), ["x" * (number + 1) for number in range(20)]
    assert together(QueryVectors(), model, texts) == [[len(text) / 7] for text in texts]
    assert [len(call) for call in model.asked] == [1, 8, 8, 4]


def test_a_query_asked_again_costs_nothing_and_only_in_its_own_scope():
    model, vectors = Model(), QueryVectors()
    for scope in (OURS, OURS, THEIRS, OURS, THEIRS):
        assert vectors.embed(model, scope, "owl") == [3 / 7]
    assert model.asked == [["owl"], ["owl"]]
    other_model = Model()
    assert vectors.embed(other_model, OURS, "owl") == [3 / 7]
    assert other_model.asked == [["owl"]]


def test_a_text_that_the_model_refuses_fails_no_other_query():
    model = Model()
    results = together(QueryVectors(), model, ["a", "refused", "ccc"])
    assert results[0] == [1 / 7]
    assert results[2] == [3 / 7]
    assert isinstance(results[1], Fatal)


def test_what_failed_is_asked_for_again():
    model, vectors = Model(), QueryVectors()
    for _ in range(2):
        with pytest.raises(Retryable):
            vectors.embed(model, OURS, "busy")
    assert len(model.asked) == 2
