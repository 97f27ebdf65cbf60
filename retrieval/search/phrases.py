"""Find chunks by phrases and excluded words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.database.rows import Executor
from retrieval.keywords import analyzer, joined_forms, queries, queries_word_forms, stem_variants
from retrieval.keywords.bm25_scorer import Ranking

CHUNKS_PER_READ: Final = 2_000
# Of more chunks with the words of a phrase, only the best by BM25 are read.
MAX_READ_CHUNKS: Final = 20_000
_WORD_PATTERN: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class PhraseIndex:
    """Lookup of chunk ids of a partition by phrase or word."""

    db: Executor
    partition_id: int
    # Text search configurations of the partition's documents.
    configurations: Sequence[str]
    # BM25 scores of the search; None without a keyword search.
    ranking: Ranking | None

    def list_with_all(self, phrases: Sequence[str]) -> set[int]:
        """List the chunks with every phrase, ignoring case and accents."""
        chunks_by_phrase = [set(self._list_with_phrase(phrase)) for phrase in phrases]
        return set.intersection(*chunks_by_phrase)

    def list_with_any(self, words: Iterable[str]) -> frozenset[int]:
        """List the chunks with any of the phrases, or of the words in any inflection."""
        chunks: set[int] = set()
        for word in words:
            is_phrase = " " in word
            chunks.update(self._list_with_phrase(word) if is_phrase else self._list_with_terms(word))
        return frozenset(chunks)

    def select_indexed(self, words: Iterable[str]) -> list[str]:
        """Drop words and phrases that only consist of stop words of any configuration."""
        return [word for word in words if not self._is_stop_word_anywhere(word)]

    def _is_stop_word_anywhere(self, text: str) -> bool:
        return any(analyzer.has_only_stop_words(text, name) for name in self.configurations)

    def _list_with_terms(self, text: str) -> list[int]:
        """List the chunks with every word of a text, stemmed by any single configuration."""
        # Text in scripts without spaces is indexed as pairs of characters.
        all_terms = analyzer.analyze_query(text, "simple").terms
        character_pairs = {term for term in all_terms if analyzer.UNSPACED_SCRIPTS.search(term)}
        spaced_text = analyzer.UNSPACED_SCRIPTS.sub(" ", analyzer.normalize_text(text)).replace("_", " ")
        words = _WORD_PATTERN.findall(spaced_text)
        chunk_ids = self._list_with_all_terms(" ".join(words), sorted(character_pairs))
        if self._is_stop_word_anywhere(text):
            # Stop words are indexed under a prefix, in short texts and in sequences of five.
            stop_terms = {analyzer.STOP_PREFIX + word.lower() for word in words}
            chunk_ids += self._list_with_all_terms("", sorted(stop_terms))
        return list(dict.fromkeys(chunk_ids))

    def _list_with_all_terms(self, words: str, terms: Sequence[str]) -> list[int]:
        """List the chunks with all words, stemmed by any single configuration, and all terms."""
        words_by_configuration = {name: stem_variants.respell_endings(words, name) for name in self.configurations}
        return queries_word_forms.list_chunks_with_all_terms(self.db, self.partition_id, words_by_configuration, terms)

    def _list_with_phrase(self, phrase: str) -> Iterator[int]:
        """List the chunks with the phrase in their text or title."""
        chunk_ids = self._list_with_terms(phrase)
        if len(chunk_ids) > MAX_READ_CHUNKS and self.ranking is not None:
            chunk_ids = [scored.chunk_id for scored in self.ranking.among(chunk_ids).best(MAX_READ_CHUNKS)]
        pattern = _compile_phrase(phrase)
        for start in range(0, len(chunk_ids), CHUNKS_PER_READ):
            for row in queries.read_contents(self.db, chunk_ids[start : start + CHUNKS_PER_READ]):
                if any(pattern.search(_normalize_text(text)) for text in (row.content, row.title) if text):
                    yield row.id


def _compile_phrase(phrase: str) -> re.Pattern[str]:
    """Compile a pattern of the phrase's words in sequence, with any punctuation between them."""
    words = [re.escape(word) for word in _WORD_PATTERN.findall(_normalize_text(phrase))]
    if analyzer.UNSPACED_SCRIPTS.search(phrase):
        return re.compile(r"[\W_]*".join(words))
    return re.compile(r"(?<!\w)" + r"[\W_]+".join(words) + r"(?!\w)")


def _normalize_text(text: str) -> str:
    return text.lower() if text.isascii() else joined_forms.fold_han(analyzer.normalize_text(text)).lower()
