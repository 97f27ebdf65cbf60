"""Rechunking keeps unchanged chunks, also after moves, with valid sizes and offsets."""

from __future__ import annotations

import time
from array import array
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.ingestion.chunking import splitter
from retrieval.ingestion.chunking.cutter import Cutter
from retrieval.ingestion.chunking.splitter import PreviousChunk, split_text
from retrieval.ingestion.chunking.structure import Headers
from retrieval.ingestion.chunking.tokenizer import MINILM_MODEL, tokenizer_for
from retrieval.ingestion.chunking.units import Units
from retrieval.ports import Chunk, Parsed
from tests.standins.edited_texts import KINDS, edited

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
@settings(max_examples=100, deadline=None)
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


def test_a_chapter_that_moves_is_found_where_it_is_now() -> None:
    chance = Random(3)
    parts = [KINDS["prose"].part(chance) for _ in range(90)]
    previous_chunks = chunks_of("\n\n".join(parts), 254, 50)
    moved = [*parts[40:70], *parts[:40], *parts[70:]]
    assert len(new(chunks_of("\n\n".join(moved), 254, 50, previous_chunks), previous_chunks)) <= 6


def test_chunks_stay_about_as_full_through_many_edits() -> None:
    kind, chance = KINDS["prose"], Random(5)
    parts = [kind.part(chance) for _ in range(60)]
    chunks = chunks_of("\n\n".join(parts), 254, 50)
    for number in range(100):
        parts = edited(parts, ["replace", "insert", "remove", "move"][number % 4], kind, chance)
        chunks = chunks_of("\n\n".join(parts), 254, 50, chunks)
    assert len(chunks) <= 1.4 * len(chunks_of("\n\n".join(parts), 254, 50))
    assert all(first_chunk.tokens + second_chunk.tokens > 200 for first_chunk, second_chunk in pairwise(chunks))


@pytest.mark.slow
@pytest.mark.parametrize("part", ["x", "a ", "| a | b | c | d | e | f |\n", "漢", "the same words again and again. "])
def test_cost_grows_with_the_text_and_no_faster(part: str) -> None:
    def cpu(characters: int) -> float:
        text = part * (characters // len(part)) + "z"
        previous_chunks = chunks_of(text, 100, 20)
        start = time.process_time()
        chunks_of("y " + text, 100, 20, previous_chunks)
        return time.process_time() - start

    cpu(2_000)
    assert cpu(80_000) < 40 * (cpu(10_000) + 0.02), "eight times the text costs far more than eight times the work"


@pytest.mark.slow
def test_a_long_text_in_small_chunks_costs_as_much_for_each_chunk() -> None:
    def cpu(words: int) -> float:
        text = " ".join(f"漢{number:06d}" for number in range(words))
        starts = array("q", range(0, 8 * words, 8))
        cutter = Cutter(
            text,
            Units(starts, array("q", (start + 7 for start in starts))),
            20,
            4,
            Headers.of(Parsed(""), tokenizer_for("LOCAL", MINILM_MODEL), 20),
        )
        ranges = list(cutter.ranges())
        previous_chunks = [PreviousChunk(text[start:end], 0) for start, end in ranges]
        started = time.process_time()
        assert splitter.choose_ranges(cutter, previous_chunks) == ranges
        return time.process_time() - started

    cpu(2_000)
    assert cpu(240_000) < 30 * (cpu(20_000) + 0.02), "twelve times the text costs far more than twelve times the work"
