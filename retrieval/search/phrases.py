"""Find chunks by phrases and excluded words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.database.rows import Executor
from retrieval.keywords import analyzer, joined_forms, queries, queries_word_forms, stem_variants
from retrieval.keywords.bm25_scorer import Ranking

CHUNKS_AT_ONCE: Final = 2_000
# Only the best chunks by BM25 are compared with a frequent phrase.
MAX_COMPARED: Final = 20_000
_WORD_PATTERN: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class PhraseIndex:
    """Look up chunks of a partition by phrase or word, in its text search configurations."""

    db: Executor
    partition_id: int
    configurations: Sequence[str]
    ranking: Ranking | None

    def list_with_all(self, phrases: Sequence[str]) -> set[int]:
        """List the chunks with every phrase, ignoring case and accents."""
        return set.intersection(*(set(self._list_with_phrase(phrase)) for phrase in phrases))

    def list_with_any(self, words: Iterable[str]) -> frozenset[int]:
        """List the chunks with any of the words, inflected too, or phrases."""
        chunks: set[int] = set()
        for word in words:
            chunks.update(self._list_with_phrase(word) if " " in word else self._list_with_terms(word))
        return frozenset(chunks)

    def select_indexed(self, words: Iterable[str]) -> list[str]:
        """Drop words and phrases with stop words only in any configuration."""
        return [word for word in words if not self._is_stop_word_anywhere(word)]

    def _is_stop_word_anywhere(self, text: str) -> bool:
        return any(analyzer.has_only_stop_words(text, name) for name in self.configurations)

    def _list_with_terms(self, text: str) -> list[int]:
        """List the chunks with every word of a text in one configuration."""
        pairs = [
            term for term in analyzer.analyze_query(text, "simple").terms if analyzer.UNSPACED_SCRIPTS.search(term)
        ]
        words = _WORD_PATTERN.findall(
            analyzer.UNSPACED_SCRIPTS.sub(" ", analyzer.normalize_text(text)).replace("_", " ")
        )
        chunk_ids = self._list_with_all_terms(" ".join(words), sorted(set(pairs)))
        if self._is_stop_word_anywhere(text):
            # Stop words are terms of short texts, and where five stand in a row.
            chunk_ids += self._list_with_all_terms("", sorted({analyzer.STOP_PREFIX + word.lower() for word in words}))
        return list(dict.fromkeys(chunk_ids))

    def _list_with_all_terms(self, words: str, terms: Sequence[str]) -> list[int]:
        texts = {name: stem_variants.respell_endings(words, name) for name in self.configurations}
        return queries_word_forms.list_chunks_with_all_terms(self.db, self.partition_id, texts, terms)

    def _list_with_phrase(self, phrase: str) -> Iterator[int]:
        chunk_ids = self._list_with_terms(phrase)
        if len(chunk_ids) > MAX_COMPARED and self.ranking is not None:
            chunk_ids = [scored.chunk_id for scored in self.ranking.among(chunk_ids).best(MAX_COMPARED)]
        pattern = _compile_phrase(phrase)
        for start in range(0, len(chunk_ids), CHUNKS_AT_ONCE):
            for row in queries.read_contents(self.db, chunk_ids[start : start + CHUNKS_AT_ONCE]):
                if any(pattern.search(_normalize_text(text)) for text in (row.content, row.title) if text):
                    yield row.id


def _compile_phrase(phrase: str) -> re.Pattern[str]:
    """Compile a pattern of consecutive words with any punctuation in between."""
    words = _WORD_PATTERN.findall(_normalize_text(phrase))
    between = r"[\W_]+"
    if analyzer.UNSPACED_SCRIPTS.search(phrase):
        return re.compile(r"[\W_]*".join(map(re.escape, words)))
    return re.compile(rf"(?<!\w){between.join(map(re.escape, words))}(?!\w)")


def _normalize_text(text: str) -> str:
    return text.lower() if text.isascii() else joined_forms.fold_han(analyzer.normalize_text(text)).lower()
