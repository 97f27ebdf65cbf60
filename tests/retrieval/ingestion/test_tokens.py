"""Token counts and offsets in any script, without network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingestion.chunking.tokenizer import (
    E5_MODEL,
    MINILM_MODEL,
    WORDLLAMA_MODEL,
    tokenizer_for,
)

ANY_TEXT = st.text(max_size=200)
MODELS = [MINILM_MODEL, WORDLLAMA_MODEL, E5_MODEL]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello world", ["Hello", "world"]),
        ("😀 wind", ["😀", "wind"]),
        ("漢字", ["漢", "字"]),
        ("cafe\u0301 and wind", ["and", "wind"]),
    ],
)
def test_spans_cut_the_words_out_of_the_text(model: str, text: str, words: list[str]) -> None:
    [spans] = tokenizer_for("LOCAL", model).spans([text])
    assert set(words) <= {text[start:end].strip() for start, end in spans}


@pytest.mark.parametrize("model", MODELS)
@given(text=ANY_TEXT)
def test_spans_lie_in_the_text_and_in_order(model: str, text: str) -> None:
    [spans] = tokenizer_for("LOCAL", model).spans([text])
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert spans == sorted(spans)
