"""Pinecone: limits, faults with clear errors, wrong indexes."""

import math
import random
import time
import tracemalloc
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.vectors.pinecone.client import PineconeClient
from connectors.vectors.pinecone.store import PineconeStore, build_expression
from retrieval.conditions.rule import matches
from retrieval.documents import vector_metadata
from retrieval.errors import Fatal, Retryable
from retrieval.filters import DocumentFilter
from retrieval.network.fetch_guard import Guard
from retrieval.ports import Scope, Vector
from retrieval.setting_values import Endpoint
from tests.conditions import CONDITIONS, DOCS, condition_of
from tests.standins.faults import packed
from tests.standins.pinecone import API_KEY, cut, fits, html, reset, status
from tests.standins.pinecone_place import LOOPBACK, pinecone_store
from tests.standins.secure import in_front_of

pytestmark = pytest.mark.service
"""An index on loopback, and Pinecone's SDK."""

SCOPE = Scope("org_1", "ns_1")
TENANT = Scope("org_1", "ns_1", "t1")


def vectors(count, *, size=16, document="doc_1", marks=None):
    dice = random.Random(3)
    built = []
    for n in range(count):
        values = [dice.gauss(0, 1) for _ in range(size)]
        length = math.hypot(*values)
        built.append(Vector(f"{document}#1#{n}", document, [value / length for value in values], marks or {}))
    return built


@pytest.fixture
def index(pinecone_index):
    return pinecone_index()


@pytest.fixture
def store(index):
    return pinecone_store(index, "ns_1", 16)


def test_only_ids_vectors_and_labels_are_sent(index, store):
    marks = vector_metadata.document_labels("doc_1", "TEXT", "TEXT", {"team": "red"})
    store.upsert(SCOPE, vectors(1, marks=marks))
    (record,) = index.bodies("/vectors/upsert")[0]["vectors"]
    assert set(record) == {"id", "values", "metadata"}
    assert record["metadata"] == {"document": "doc_1", "type": "TEXT", "source": "TEXT", "marks": ['["team","red"]']}
    store.query(SCOPE, [1.0] * 16, 5)
    (query_body,) = index.bodies("/query")
    assert (query_body["includeMetadata"], query_body["includeValues"]) == (False, False)


def test_each_scope_has_a_namespace_of_its_own(index, store):
    store.upsert(SCOPE, vectors(1))
    store.upsert(TENANT, vectors(1, document="doc_2"))
    assert {name: list(space) for name, space in index.spaces.items()} == {
        "ns_1": ["doc_1#1#0"],
        "ns_1.t1": ["doc_2#1#0"],
    }
    with pytest.raises(Fatal, match="another namespace"):
        store.query(Scope("org_1", "ns_2"), [1.0] * 16, 1)
    store.drop(TENANT)
    assert list(index.spaces) == ["ns_1"]


@pytest.mark.parametrize("metric", ["cosine", "dotproduct", "euclidean"])
def test_every_metric_gives_the_cosine(pinecone_index, metric):
    index = pinecone_index(dimension=2, metric=metric)
    store = pinecone_store(index, "ns_1", 2)
    store.upsert(SCOPE, [Vector("a#1#0", "a", [3.0, 4.0]), Vector("b#1#0", "b", [-1.0, 0.0])])
    scores = {match.id: match.score for match in store.query(SCOPE, [10.0, 0.0], 5)}
    assert scores == pytest.approx({"a#1#0": 0.6, "b#1#0": -1.0}, abs=1e-6)


WRONG = [
    ({"dimension": 1536}, "The index has 1536 dimensions, the model makes 16", "indexHost"),
    ({"vector_type": "sparse", "dimension": None}, "sparse", "indexHost"),
    ({"vector_type": None, "dimension": None, "metric": None}, "documents, not vectors", "indexHost"),
    ({"metric": "hamming"}, "metric", "indexHost"),
]


@pytest.mark.parametrize(("options", "words", "field"), WRONG)
def test_an_index_that_does_not_fit_is_named_so(pinecone_index, options, words, field):
    with pytest.raises(Fatal, match=words) as caught:
        pinecone_store(pinecone_index(**options), "ns_1", 16).check()
    assert caught.value.field == field


def test_wrong_keys_wrong_hosts_and_unreachable_hosts_have_own_errors(index):
    with pytest.raises(Fatal, match="refuses the API key") as caught:
        pinecone_store(index, "ns_1", 16, key="canary-other-key").check()
    assert caught.value.field == "apiKey"
    index.faults += [("", status(404)), ("", html), ("", status(403))]
    with pytest.raises(Fatal, match="No Pinecone index answers") as caught:
        pinecone_store(index, "ns_1", 16).check()
    assert caught.value.field == "indexHost"
    with pytest.raises(Retryable, match="does not answer as a Pinecone index"):
        pinecone_store(index, "ns_1", 16).check()
    with pytest.raises(Fatal, match="does not let this API key"):
        pinecone_store(index, "ns_1", 16).check()
    unreachable = SimpleNamespace(host="http://127.0.0.1:1")
    with pytest.raises(Fatal, match="port"):
        pinecone_store(unreachable, "ns_1", 16).check()
    unreachable.host = "http://127.0.0.1:19999"
    with pytest.raises(Retryable, match="cannot be reached"):
        pinecone_store(unreachable, "ns_1", 16).check()
    with pytest.raises(Fatal, match="does not exist, or is not on the public internet"):
        PineconeStore(PineconeClient("index.invalid", API_KEY, LOOPBACK), "ns_1", 16).check()


@pytest.mark.parametrize(
    "host", ["http://canary@127.0.0.1", "ftp://127.0.0.1", "http://", "https://a b", "http://[::1"]
)
def test_a_host_that_cannot_be_one_is_the_fields_fault(host):
    with pytest.raises(Fatal) as caught:
        PineconeStore(PineconeClient(host, API_KEY, LOOPBACK), "ns_1", 16).check()
    assert caught.value.field == "indexHost"
    assert "canary" not in str(caught.value)


def test_nothing_is_dialled_past_the_guard(index):
    for host in (index.host, index.host.replace("http:", "https:")):
        with pytest.raises(Fatal, match="public internet"):
            PineconeStore(PineconeClient(host, API_KEY, Guard()), "ns_1", 16).check()


def test_each_connection_is_dialled_by_the_guard(index):
    """The index's name may lead elsewhere by the time of the next connection."""

    class Rebound(Guard):
        def resolve(self, host, port):
            return (LOOPBACK if not index.seen else Guard()).resolve(host, port)

    store = PineconeStore(PineconeClient(index.host, API_KEY, Rebound(LOOPBACK.allowed)), "ns_1", 16)
    index.faults.append(("", cut))  # a connection that is cut is not used again
    for error in (Retryable, Fatal):
        with pytest.raises(error):
            store.check()
    assert len(index.seen) == 1


def test_the_certificate_of_the_index_is_checked(index, tmp_path):
    with in_front_of(index.port, tmp_path) as (host, certificate):
        PineconeStore(PineconeClient(host, API_KEY, LOOPBACK, Endpoint(ca_bundle=certificate)), "ns_1", 16).check()
        for untrusted in (
            PineconeClient(host, API_KEY, LOOPBACK),
            PineconeClient(host.replace("127.0.0.1", "localhost"), API_KEY, LOOPBACK, Endpoint(ca_bundle=certificate)),
        ):
            with pytest.raises(Retryable, match="cannot be reached"):
                PineconeStore(untrusted, "ns_1", 16).check()
    assert len(index.seen) == 1


@pytest.mark.parametrize("key", ["canary\nkey", "canary-k\u00e9y", " canary-key"])
def test_a_key_that_no_header_can_hold_is_the_fields_fault(index, key):
    with pytest.raises(Fatal, match="apiKey holds characters") as caught:
        pinecone_store(index, "ns_1", 16, key=key).check()
    assert caught.value.field == "apiKey"
    assert "canary" not in str(caught.value)
    assert index.seen == []


def test_plain_http_is_for_allowed_ranges_only(monkeypatch):
    public = [(2, ("93.184.216.34", 80))]
    monkeypatch.setattr(Guard, "resolve", lambda *_: public)
    with pytest.raises(Fatal, match="Without https") as caught:
        PineconeStore(PineconeClient("http://index.example", API_KEY, LOOPBACK), "ns_1", 16).check()
    assert caught.value.field == "indexHost"


FAULTS = {
    "500": (status(500), Retryable),
    "503 with seconds": (status(503, Retry_After="7"), Retryable),
    "reset": (reset, Retryable),
    "cut": (cut, Retryable),
    "HTML": (html, Retryable),
    "400": (status(400), Fatal),
    "401": (status(401), Fatal),
    "403": (status(403), Fatal),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_request_and_one_error_in_our_words(index, store, name):
    fault, kind = FAULTS[name]
    store.upsert(SCOPE, vectors(3))
    for path, call in {
        "/vectors/upsert": lambda: store.upsert(SCOPE, vectors(1)),
        "/query": lambda: store.query(SCOPE, [1.0] * 16, 3),
        "/vectors/list": lambda: list(store.ids(SCOPE, "")),
    }.items():
        requests_before = len(index.bodies(path))
        index.faults.append((path, fault))
        with pytest.raises(kind) as caught:
            call()
        assert len(index.bodies(path)) == requests_before + 1
        assert "SECRET" not in str(caught.value)
        call()
    assert len(store.query(SCOPE, [1.0] * 16, 3)) == 3


def test_how_long_to_wait_is_passed_on_as_seconds_or_as_a_date(index, store):
    store.upsert(SCOPE, vectors(1))
    store.query(SCOPE, [1.0] * 16, 1)
    later = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 30))
    for retry_after, least, max_seconds in (("12", 12, 12), (later, 25, 31), ("soon", None, None)):
        index.faults.append(("/query", status(429, Retry_After=retry_after)))
        with pytest.raises(Retryable, match="too much") as caught:
            store.query(SCOPE, [1.0] * 16, 1)
        assert caught.value.after is None if least is None else least <= caught.value.after <= max_seconds


def test_vectors_that_the_index_left_out_are_no_success(index, store):
    index.keep = 1
    with pytest.raises(Retryable, match="only 1 of 3"):
        store.upsert(SCOPE, vectors(3))


def filtered(store, document_filter):
    return {match.id.partition("#")[0] for match in store.query(SCOPE, [1.0] * 16, 100, document_filter)}


@pytest.fixture
def shelf(store):
    """Documents with labels, as ingestion writes them."""
    many = {f"k{n}": n for n in range(vector_metadata.MAX_MARKS + 1)}
    for name, kind, source, metadata in (
        ("red", "TEXT", "TEXT", {"team": "red", "n": 1, "tags": ["a", "b"], "deep": {"x": 1}}),
        ("blue", "URL", "SITEMAP", {"team": "blue", "n": 1.5, "yes": True, "none": None}),
        ("long", "FILE", "LOCAL_FILE", {"team": "x" * 2000, "n": "1"}),
        ("crowded", "FILE", "LOCAL_FILE", many),
    ):
        store.upsert(
            SCOPE, vectors(2, document=name, marks=vector_metadata.document_labels(name, kind, source, metadata))
        )
    return store


@pytest.mark.parametrize(
    ("document_filter", "expected_ids"),
    [
        (DocumentFilter(metadata={"team": "red"}), {"red"}),
        (DocumentFilter(metadata={"team": ["red", "blue"]}), {"red", "blue"}),
        (DocumentFilter(metadata={"n": 1}), {"red"}),
        (DocumentFilter(metadata={"n": 1.0}), {"red"}),
        (DocumentFilter(metadata={"n": "1"}), {"long"}),
        (DocumentFilter(metadata={"n": True}), set()),
        (DocumentFilter(metadata={"yes": True}), {"blue"}),
        (DocumentFilter(metadata={"none": None}), {"blue"}),
        (DocumentFilter(metadata={"tags": "b", "team": "red"}), {"red"}),
        (DocumentFilter(metadata={"tags": "b", "team": "blue"}), set()),
        (DocumentFilter(metadata={"team": "x" * 2000}), {"long"}),
        (DocumentFilter(types=("SITEMAP",)), {"blue"}),
        (DocumentFilter(types=("TEXT", "FILE")), {"red", "long", "crowded"}),
        (DocumentFilter(sources=("SITEMAP", "TEXT")), {"red", "blue"}),
        (DocumentFilter(document_ids=("red", "none")), {"red"}),
        (DocumentFilter(statuses=("FAILED",)), {"red", "blue", "long", "crowded"}),
    ],
)
def test_labels_let_through_what_matches(shelf, document_filter, expected_ids):
    """A document with too many values to label is let through by every filter on metadata: hits are filtered again."""
    through = expected_ids | ({"crowded"} if document_filter.metadata else set())
    assert filtered(shelf, document_filter) == through


@pytest.mark.parametrize("at_once", [True, False])
def test_new_labels_count_and_old_ones_do_not(index, shelf, at_once):
    index.updates_by_filter = at_once
    shelf.relabel(
        SCOPE, "red", ["red#1#0", "red#1#1"], vector_metadata.document_labels("red", "TEXT", "TEXT", {"team": "green"})
    )
    assert filtered(shelf, DocumentFilter(metadata={"team": "green"})) == {"red", "crowded"}
    assert filtered(shelf, DocumentFilter(metadata={"team": "red"})) == {"crowded"}
    assert len(index.bodies("/vectors/update")) == (1 if at_once else 3)
    shelf.relabel(TENANT, "red", ["red#1#0"], {"document": "red"})


@given(data=CONDITIONS, docs=st.lists(DOCS, min_size=1, max_size=8))
def test_what_a_condition_asks_of_the_index_lets_through_all_that_matches(data, docs):
    condition = condition_of(data)
    expression = build_expression(DocumentFilter(where=condition)) or {}
    for doc in docs:
        labels = vector_metadata.document_labels("doc_1", doc.document_type, doc.source, doc.metadata)
        assert fits(expression, labels) or not matches(condition, doc)


@pytest.mark.parametrize(
    ("data", "narrows"),
    [
        ({"field": "metadata.k", "op": "eq", "value": 1}, True),
        ({"not": {"field": "metadata.k", "op": "nin", "value": ["a"]}}, True),
        ({"field": "metadata.k", "op": "gt", "value": 1}, False),
        ({"not": {"field": "document.type", "op": "eq", "value": "TEXT"}}, True),
        ({"field": "document.source", "op": "in", "value": []}, True),
    ],
)
def test_a_filter_by_labels_is_sent_to_the_index(data, narrows):
    expression = build_expression(DocumentFilter(where=condition_of(data)))
    assert (expression is not None) is narrows
    assert not expression or not fits(expression, vector_metadata.document_labels("doc_1", "TEXT", "TEXT", {"k": 2}))


def test_a_host_of_the_users_cannot_fill_the_memory_with_little(index, store):
    store.upsert(SCOPE, vectors(1))
    index.always.append(("/query", packed(b" " * 150_000_000)))
    tracemalloc.start()
    try:
        with pytest.raises(Retryable):
            store.query(SCOPE, [1.0] + [0.0] * 15, 3)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20_000_000
