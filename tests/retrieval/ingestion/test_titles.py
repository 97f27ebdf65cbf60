"""Titles in embedded text: usable titles, position, and the model's token limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ingestion.chunking import titles
from retrieval.ingestion.chunking.splitter import split_text
from retrieval.ingestion.chunking.titles import embedded_text, usable_title
from retrieval.ingestion.chunking.tokenizer import MINILM_MODEL, WORDLLAMA_MODEL, tokenizer_for
from retrieval.ports import Parsed

TOKENIZER = tokenizer_for("LOCAL", MINILM_MODEL)


@pytest.mark.parametrize(
    "title",
    ["Harbour rules", "Mitochondria", "Annual report 2024", "Don't panic", "流体力学", "Größe & Gewicht: Normen"],
)
def test_a_title_in_words_counts(title: str) -> None:
    assert usable_title(f"  {title}\n", TOKENIZER) == title


@pytest.mark.parametrize(
    "name",
    ["", "report.pdf", "Annual report 2024.docx", "d41d8cd98f00b204e9800998ecf8427e", "cranfield 12", "IMG_2231",
     "https://example.com/a page", "www.example.com", "C:\\files\\my letter", "2024-05-01",
     "Microsoft Word - letter.doc"],
)  # fmt: skip
def test_a_file_name_an_address_or_a_number_is_no_title(name: str) -> None:
    assert usable_title(name, TOKENIZER) == ""


def test_the_title_stands_on_a_line_before_the_chunk_unless_it_is_there() -> None:
    assert embedded_text("Harbour rules", "", "Ships wait.") == "Harbour rules\nShips wait."
    assert embedded_text("Harbour rules", "", "# Harbour\n rules\n\nShips wait.") == "# Harbour\n rules\n\nShips wait."
    assert embedded_text("", "", "Ships wait.") == "Ships wait."


def test_chunks_are_cut_smaller_only_where_the_title_would_not_fit() -> None:
    text = "Ships wait outside until the pilot comes. " * 60
    short = titles.split_titled(Parsed(text, "Harbour rules"), TOKENIZER, 100, 20, 254)
    assert (short.size, short.chunks) == (100, split_text(Parsed(text), TOKENIZER, 100, 20))
    whole = titles.split_titled(
        Parsed("# Harbour rules\n\n" + "ship " * 249, "Harbour rules"), TOKENIZER, 1000, 200, 254
    )
    assert (whole.size, len(whole.chunks)) == (254, 1)
    long = titles.split_titled(Parsed("ship " * 600, "Harbour rules"), TOKENIZER, 1000, 200, 254)
    assert long.size < 254
    assert all(
        len(TOKENIZER.spans([embedded_text(long.title, chunk.header, chunk.text)])[0]) <= 254 for chunk in long.chunks
    )


@given(
    st.text(max_size=80), st.text(max_size=300), st.integers(1, 60), st.sampled_from([MINILM_MODEL, WORDLLAMA_MODEL])
)
def test_any_title_any_text(title: str, text: str, max_tokens: int, model: str) -> None:
    cut = titles.split_titled(Parsed(text, title), tokenizer_for("LOCAL", model), 40, 10, max_tokens)
    assert 1 <= cut.size <= max_tokens
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in cut.chunks)
    assert not "".join(text.split()) or cut.chunks
