"""Token counts and offsets in any script, without network."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.ingestion.chunking.tokenizer import (
    E5_MODEL,
    FALLBACK_MODEL,
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
@settings(max_examples=60, deadline=None)
def test_spans_lie_in_the_text_and_in_order(model: str, text: str) -> None:
    [spans] = tokenizer_for("LOCAL", model).spans([text])
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert spans == sorted(spans)


def test_a_batch_counts_as_its_texts_do() -> None:
    tokenizer = tokenizer_for("LOCAL", MINILM_MODEL)
    texts = ["one", "", "two words", "three more words " * 200]
    assert tokenizer.spans(texts) == [tokenizer.spans([text])[0] for text in texts]
    assert len(tokenizer.spans(texts)[3]) == 600


def test_special_words_in_a_text_are_plain_text() -> None:
    assert len(tokenizer_for("LOCAL", MINILM_MODEL).spans(["[SEP]"])[0]) > 1
    assert len(tokenizer_for("LOCAL", WORDLLAMA_MODEL).spans(["</s>"])[0]) > 1


def test_a_lone_surrogate_is_one_character() -> None:
    assert tokenizer_for("LOCAL", MINILM_MODEL).spans(["\ud800 wind"])[0][-1] == (2, 6)


def test_models_without_an_offline_tokenizer_get_the_named_fallback() -> None:
    for provider, model in (
        ("OPENAI", "text-embedding-3-small"),
        ("COHERE", "embed-v4.0"),
        ("JINA", "jina-embeddings-v3"),
    ):
        assert tokenizer_for(provider, model).name == FALLBACK_MODEL
    assert tokenizer_for("LOCAL", WORDLLAMA_MODEL).name == WORDLLAMA_MODEL


def test_a_forked_process_counts_on() -> None:
    code = (
        "import os, sys\n"
        "from retrieval.ingestion.chunking.tokenizer import tokenizer_for\n"
        "t = tokenizer_for('LOCAL', 'all-MiniLM-L6-v2')\n"
        "t.spans(['a b'] * 8)\n"
        "if (child := os.fork()) == 0: t.spans(['a b'] * 8); os._exit(7)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 7)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
