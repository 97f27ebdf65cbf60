"""Numbers and weights at and around their bounds; refusals have the code of the area."""

from __future__ import annotations

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from api import decode
from api.wire.ingest import ChunkConfig
from api.wire.search import HybridSearchRequest, SearchRequest
from retrieval.errors import ErrorCode, ServiceError

INVALID = ErrorCode.INVALID_SEARCH_REQUEST
read_search = decode.make_json_reader(SearchRequest, INVALID)
read_hybrid = decode.make_json_reader(HybridSearchRequest, INVALID)
read_chunks = decode.make_json_reader(ChunkConfig, ErrorCode.INVALID_CHUNK_CONFIG)
GOOD = {"query": "a", "namespaceId": "ns_1"}

NUMBERS = (
    st.integers(-3, 110)
    | st.integers()
    | st.floats(-0.5, 1.5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, 1, 100, 101, 0.0, 1.0, -0.0, 1 + 1e-9])
)
OTHERS = st.booleans() | st.text(max_size=3) | st.lists(st.integers(), max_size=1) | st.just({})
WEIGHTS = st.floats(0, 1) | st.sampled_from([0, 1, 0.5, 0.1, 0.3, 0.7, 1e-7, 1e-6, 2e-6])


def code_of(read, body):
    """Return the error code of a refusal, None if accepted."""
    try:
        request = read(json.dumps(body).encode())
        if isinstance(request, ChunkConfig):
            request.check_overlap("chunkConfig")
        else:
            request.to_values()
    except ServiceError as error:
        return error.code
    return None


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@settings(deadline=None)
@given(NUMBERS | OTHERS)
def test_top_k_is_a_whole_number_from_1_to_100(value):
    fits = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 100
    if isinstance(value, float) and value.is_integer() and 1 <= value <= 100:
        return  # 5.0 is the same number in JSON
    assert code_of(read_search, {**GOOD, "topK": value}) == (None if fits else INVALID)


@settings(deadline=None)
@given(NUMBERS | OTHERS)
def test_a_threshold_lies_between_0_and_1(value):
    fits = is_number(value) and 0 <= value <= 1
    assert code_of(read_search, {**GOOD, "scoreThreshold": value}) == (None if fits else INVALID)


@settings(deadline=None, max_examples=300)
@given(WEIGHTS, st.one_of(WEIGHTS, st.none(), st.floats(-3e-6, 3e-6)))
def test_weights_sum_to_one_within_a_millionth(semantic, second):
    # `second`: the second weight, or the distance from the weight completing a sum of 1.
    keyword = 1 - semantic + (0 if second is None else second) if second is None or abs(second) <= 3e-6 else second
    off = abs(semantic + keyword - 1)
    if math.isclose(off, 1e-6, rel_tol=1e-6):
        return
    fits = 0 <= keyword <= 1 and off < 1e-6
    config = {"semanticWeight": semantic, "keywordWeight": keyword}
    expected = None if fits else ErrorCode.INVALID_HYBRID_CONFIG
    assert code_of(read_hybrid, {**GOOD, "hybridConfig": config}) == expected


@settings(deadline=None)
@given(OTHERS, st.sampled_from(["semanticWeight", "keywordWeight"]))
def test_a_weight_is_a_number(value, name):
    config = {"semanticWeight": 0.5, "keywordWeight": 0.5, name: value}
    assert code_of(read_hybrid, {**GOOD, "hybridConfig": config}) == ErrorCode.INVALID_HYBRID_CONFIG


@settings(deadline=None, max_examples=300)
@given(st.integers(-2, 8200), st.integers(-2, 8200) | st.integers(-2, 2))
def test_an_overlap_is_smaller_than_its_chunk(size, overlap):
    fits = 1 <= size <= 8191 and 0 <= overlap < size
    error_code = code_of(read_chunks, {"chunkSize": size, "chunkOverlap": overlap})
    assert error_code == (None if fits else ErrorCode.INVALID_CHUNK_CONFIG)
