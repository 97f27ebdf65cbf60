"""Chunks that have a phrase, or a word that a query excludes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from retrieval.database.rows import Executor
from retrieval.keywords import analyzer, joined_forms, queries, queries_word_forms

CHUNKS_AT_ONCE: Final = 2_000
"""Chunks whose text is compared with a phrase at once."""
_WORD: Final = re.compile(r"\w+")


def list_chunks_with_phrases(
    db: Executor, partition_id: int, phrases: Sequence[str], language: str, configurations: Sequence[str]
) -> set[int]:
    """Return the chunks that have each of the phrases, in any case and with or without accents."""
    chunk_sets = [set(_list_with_phrase(db, partition_id, phrase, language, configurations)) for phrase in phrases]
    return set.intersection(*chunk_sets)


def list_chunks_with_any(
    db: Executor, partition_id: int, words: Sequence[str], language: str, configurations: Sequence[str]
) -> frozenset[int]:
    """Return the chunks that have one of the words in any form of it, or one of the phrases."""
    chunks: set[int] = set()
    for word in words:
        if " " in word.strip():
            chunks.update(_list_with_phrase(db, partition_id, word, language, configurations))
        else:
            chunks.update(_list_with_terms(db, partition_id, word, language, configurations))
    return frozenset(chunks)


def _list_with_terms(
    db: Executor, partition_id: int, text: str, language: str, configurations: Sequence[str]
) -> list[int]:
    """List the chunks that have every word of a text, as one of the configurations reads it."""
    pairs = [term for term in analyzer.analyze_query(text, language).terms if analyzer.UNSPACED.search(term)]
    words = " ".join(_WORD.findall(analyzer.UNSPACED.sub(" ", analyzer.normalize(text)))).replace("_", " ")
    return queries_word_forms.list_chunks_with_all_terms(
        db, partition_id, sorted({language, *configurations}), words, pairs
    )


def _list_with_phrase(
    db: Executor, partition_id: int, phrase: str, language: str, configurations: Sequence[str]
) -> Iterable[int]:
    chunk_ids = _list_with_terms(db, partition_id, phrase, language, configurations)
    matches_phrase = _compile_phrase(phrase)
    for start in range(0, len(chunk_ids), CHUNKS_AT_ONCE):
        for row in queries.read_contents(db, chunk_ids[start : start + CHUNKS_AT_ONCE]):
            if matches_phrase.search(_plain(row.content)) or (row.title and matches_phrase.search(_plain(row.title))):
                yield row.id


def _compile_phrase(phrase: str) -> re.Pattern[str]:
    """Compile a pattern of the words one after the other, whatever stands between them; a hyphen parts words."""
    words = _WORD.findall(_plain(phrase))
    between = r"[\W_]+"
    if analyzer.UNSPACED.search(phrase):
        return re.compile(r"[\W_]*".join(map(re.escape, words)))
    return re.compile(rf"(?<!\w){between.join(map(re.escape, words))}(?!\w)")


def _plain(text: str) -> str:
    return joined_forms.fold_han(analyzer.normalize(text)).lower()
