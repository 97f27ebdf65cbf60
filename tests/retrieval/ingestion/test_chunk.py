"""Chunking: token sizes, exact offsets, complete coverage and natural boundaries."""

from __future__ import annotations

from itertools import pairwise
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingestion.chunking.graphemes import is_cut
from retrieval.ingestion.chunking.splitter import effective_size, split_text
from retrieval.ingestion.chunking.tokenizer import E5_MODEL, MINILM_MODEL, WORDLLAMA_MODEL, tokenizer_for
from retrieval.ports import Chunk, Parsed

MODELS = st.sampled_from([MINILM_MODEL, WORDLLAMA_MODEL, E5_MODEL])
PIECES = [
    "# Head\n",
    "\n\n",
    "| a | b |\n",
    "Wind blows. ",
    "é",
    "👨\u200d👩\u200d👧",
    "🇩🇪🇫🇷",
    "각",
    "漢字。",
    "\r\n",
    "\u200b",
    "\t",
    "don't ",
    "́",
    "1.5 ",
    "한",
    "👍🏽",
    "\ud800",
    "`co_de` ",
]
PARTS = st.sampled_from([*PIECES, "x" * 130, " " * 300])
ANY_TEXT = st.one_of(st.text(max_size=120), st.lists(st.one_of(PARTS, st.text(max_size=8)), max_size=40).map("".join))


def chunks_of(text: str, size: int, overlap: int = 0, model: str = MINILM_MODEL) -> list[Chunk]:
    return split_text(Parsed(text), tokenizer_for("LOCAL", model), size, overlap)


@given(ANY_TEXT, st.integers(1, 40), st.integers(0, 39), MODELS)
def test_any_text_any_size(text: str, size: int, overlap: int, model: str) -> None:
    overlap = min(overlap, size - 1)
    chunks = chunks_of(text, size, overlap, model)
    covered = 0
    for number, chunk in enumerate(chunks):
        assert chunk.index == number
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip()
        assert chunk.tokens <= size or _one_character(chunk.text)
        assert not text[covered : chunk.start].strip(), "text between two chunks is lost"
        assert chunk.end > covered, "a chunk brings nothing new"
        assert not category(text[chunk.start]).startswith("M") or _nothing_to_lean_on(text, chunk.start)
        covered = chunk.end
    assert not text[covered:].strip(), "the end of the text is lost"


def _one_character(text: str) -> bool:
    return not any(is_cut(text, position, 0, keep_joined=False) for position in range(1, len(text)))


def _nothing_to_lean_on(text: str, start: int) -> bool:
    return start == 0 or text[start - 1].isspace()


@given(st.lists(st.sampled_from(["alpha", "beta.", "gamma\n\n", "delta,", "epsilon"]), min_size=1, max_size=300))
def test_overlap_is_at_most_what_was_asked_for(words: list[str]) -> None:
    text, tokenizer = " ".join(words), tokenizer_for("LOCAL", MINILM_MODEL)
    chunks = chunks_of(text, 30, 10)
    for previous_chunk, next_chunk in pairwise(chunks):
        shared = text[next_chunk.start : previous_chunk.end]
        assert len(tokenizer.spans([shared])[0]) <= 10
    assert all(len(tokenizer.spans([chunk.text])[0]) == chunk.tokens for chunk in chunks)


@pytest.mark.parametrize("overlap", [1, 20, 99])
def test_running_text_fills_the_size_and_overlaps_by_exactly_what_was_asked_for(overlap: int) -> None:
    chunks = chunks_of("wind and water " * 400, 100, overlap)
    assert {len(chunk.text.split()) for chunk in chunks[:-1]} == {100}
    shared = [
        previous_chunk.text.split()[-overlap:] == next_chunk.text.split()[:overlap]
        for previous_chunk, next_chunk in pairwise(chunks)
    ]
    assert all(shared)
    assert len(chunks) == -(-(1200 - overlap) // (100 - overlap))


def test_a_short_text_is_one_chunk_and_a_blank_one_none() -> None:
    assert [c.text for c in chunks_of("  # Title\n\nA text.\n", 50)] == ["# Title\n\nA text."]
    assert chunks_of(" \n\t ", 50) == []
    assert chunks_of("", 50) == []


def test_cuts_between_paragraphs_before_sentences() -> None:
    text = "\n\n".join("Wind blows over land. Rain falls on water." for _ in range(10))
    assert all(chunk.text.startswith("Wind") and chunk.text.endswith("water.") for chunk in chunks_of(text, 35))


def test_cuts_after_sentences_before_words() -> None:
    assert all(chunk.text.endswith(".") for chunk in chunks_of("The wind, e.g. a gale, blows. " * 30, 40))


def test_table_rows_stay_whole() -> None:
    rows = [f"| row {number} | has a value. And a note. |" for number in range(40)]
    for chunk in chunks_of("\n".join(rows), 50):
        assert set(chunk.text.splitlines()) <= set(rows)


def test_a_heading_stays_with_its_first_sentence() -> None:
    sections = [f"## Part {n}\n\nThe first sentence of it. " + "More words follow here. " * n for n in range(1, 20)]
    text = "\n\n".join(sections)
    for chunk in chunks_of(text, 40):
        assert not chunk.text.splitlines()[-1].startswith("#")


def test_pages_count_from_one() -> None:
    text = "First page. " * 10 + "Second page. " * 10
    chunks = split_text(Parsed(text, pages=(0, 120)), tokenizer_for("LOCAL", MINILM_MODEL), 15, 0)
    assert [chunk.page for chunk in chunks] == [1 if chunk.start < 120 else 2 for chunk in chunks]
    assert {chunk.page for chunk in chunks} == {1, 2}
    assert chunks_of(text, 15)[0].page is None


@pytest.mark.parametrize(
    ("requested", "used"),
    [
        ((1000, 200), (254, 50)),
        ((254, 200), (254, 200)),
        ((100, 0), (100, 0)),
        ((8191, 8190), (254, 253)),
        ((300, 1), (254, 0)),
    ],
)
def test_a_size_above_the_models_limit_is_lowered_with_its_overlap(
    requested: tuple[int, int], used: tuple[int, int]
) -> None:
    assert effective_size(*requested, 254) == used
