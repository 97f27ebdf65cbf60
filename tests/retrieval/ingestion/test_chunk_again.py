"""Rechunking keeps unchanged chunks, also after moves, with valid sizes and offsets."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingestion.chunking.splitter import PreviousChunk, split_text
from retrieval.ingestion.chunking.tokenizer import MINILM_MODEL, tokenizer_for
from retrieval.ports import Chunk, Parsed
from tests.standins.edited_texts import KINDS

RANDOM_WORDS = st.sampled_from(
    ["alpha", "beta.", "gamma\n\n", "delta,", "epsilon", "漢字。", "# Head\n", "| a | b |\n", "🇩🇪", "é"]
)
RANDOM_TEXT = st.lists(RANDOM_WORDS, min_size=1, max_size=150).map(" ".join)


def chunks_of(text: str, size: int, overlap: int, previous_chunks: list[Chunk] | None = None) -> list[Chunk]:
    return split_text(
        Parsed(text), tokenizer_for("LOCAL", MINILM_MODEL), size, overlap, previous=pieces(previous_chunks or [])
    )


def pieces(chunks: list[Chunk]) -> list[PreviousChunk]:
    ends = [0, *(chunk.end for chunk in chunks)]
    return [PreviousChunk(chunk.text, max(0, end - chunk.start)) for chunk, end in zip(chunks, ends, strict=False)]


@given(RANDOM_TEXT, RANDOM_TEXT, RANDOM_TEXT, RANDOM_TEXT, st.integers(12, 40), st.integers(0, 11))
def test_sizes_overlaps_and_offsets_are_as_in_a_new_text(
    head: str, old: str, new: str, tail: str, size: int, overlap: int
) -> None:
    text = head + new + tail
    chunks = chunks_of(text, size, overlap, chunks_of(head + old + tail, size, overlap))
    covered, tokenizer = 0, tokenizer_for("LOCAL", MINILM_MODEL)
    for number, chunk in enumerate(chunks):
        assert chunk.index == number
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.tokens <= size
        assert not text[covered : chunk.start].strip(), "text between two chunks is lost"
        assert chunk.end > covered, "a chunk brings nothing new"
        assert len(tokenizer.spans([text[chunk.start : covered]])[0]) <= overlap
        covered = chunk.end
    assert not text[covered:].strip(), "the end of the text is lost"


@pytest.mark.parametrize("overlap", [0, 50])
def test_the_same_text_again_is_cut_as_it_was(overlap: int) -> None:
    chance = Random(1)
    text = " ".join(KINDS["prose"].part(chance) for _ in range(60))
    chunks = chunks_of(text, 254, overlap)
    assert chunks_of(text, 254, overlap, chunks) == chunks
    repeated_text = "The wind blows over the land and over the sea, and then it rains. " * 100
    chunks = chunks_of(repeated_text, 254, overlap)
    assert len(new(chunks_of(repeated_text, 254, overlap, chunks), chunks)) <= 1


@pytest.mark.parametrize("overlap", [0, 50])
def test_two_words_of_one_endless_paragraph_cost_one_or_two(overlap: int) -> None:
    chance = Random(7)
    words = [f"word{chance.randrange(5000)}" for _ in range(8_000)]
    previous_chunks = chunks_of(" ".join(words), 254, overlap)
    for position in chance.sample(range(len(words) - 1), 12):
        changed = [*words[:position], "changed", "here", *words[position + 2 :]]
        assert 1 <= len(new(chunks_of(" ".join(changed), 254, overlap, previous_chunks), previous_chunks)) <= 2


def new(chunks: list[Chunk], previous_chunks: list[Chunk]) -> set[str]:
    return {chunk.text for chunk in chunks} - {chunk.text for chunk in previous_chunks}
