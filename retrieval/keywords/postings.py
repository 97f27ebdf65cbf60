"""Postings: terms of the visible chunks, in the database and transaction of the chunks.

A document is analyzed in the language that its namespace fixes, else in the one that is detected in its text, else in
the one that it declares. `documents.keyword_language` is the configuration that was used, with `=` before a fixed one;
`partitions.keyword_languages` lists those in use.

The first chunk of a document is indexed with the document's title before it; of one without a title, with its first
line once more where that stands alone.

Counts of terms are stored beside the postings as parts, one per transaction, so that writers do not wait for each
other; occasionally a writer adds them up.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.keywords import analyzer, languages, queries
from retrieval.keywords.analyzer import Prepared
from retrieval.keywords.queries import FIXED, Content, Sizes

_COMPACTED = 1 / 16
"""Share of indexing transactions that add up the counts of the terms they touch."""
_TERMS_AT_ONCE = 1000
"""Terms whose counts one statement reads and changes."""
_HEADING = re.compile(r"\s*(\S[^\n]{0,199})\n[^\S\n]*\n\s*\S")
"""A line of at most 200 characters, an empty one, and more text."""
_CHUNKS_AT_ONCE = 500
"""Chunks that one statement reads or indexes."""


@dataclass(frozen=True, slots=True)
class Analyzed:
    """A text as one configuration reads it. `chunk_id`: 0 for a query."""

    chunk_id: int
    configuration: str
    prepared: Prepared


def index_chunks(db: Executor, partition_id: int, chunk_ids: Sequence[int], language: str) -> tuple[int, int]:
    """Make chunks searchable, in the caller's transaction; what `partitions.chunks` and `.terms` gain.

    Each document is analyzed in its own language; `language`: the configuration of texts without a detected one.
    """
    chunks = terms = 0
    used: dict[str, str] = {}
    ordered = queries.sort_chunks(db, partition_id, chunk_ids)
    for start in range(0, len(ordered), _CHUNKS_AT_ONCE):
        contents = queries.read_contents(db, ordered[start : start + _CHUNKS_AT_ONCE])
        used |= _choose_configurations(
            db, partition_id, [row for row in contents if row.document_id not in used], language
        )
        texts = text_params([_analyze(row, used[row.document_id].removeprefix(FIXED)) for row in contents])
        sizes = queries.insert_postings(db, partition_id, texts)
        chunks, terms = chunks + sizes.chunks, terms + sizes.terms
    if used:
        queries.record_languages(db, partition_id, used, sorted({name.removeprefix(FIXED) for name in used.values()}))
    if random.random() < _COMPACTED:  # noqa: S311 - spreads work, guards nothing
        compact_counts(db, partition_id, chunk_ids)
    return chunks, terms


def remove_chunks(db: Executor, chunk_ids: Sequence[int]) -> tuple[int, int]:
    """Undo `index_chunks`; what `partitions.chunks` and `.terms` lose. Unknown chunks are no error."""
    sizes = db.fetch_one(Sizes, queries.DELETE_POSTINGS, {"chunks": list(chunk_ids)}) or Sizes()
    return sizes.chunks, sizes.terms


def compact_counts(db: Executor, partition_id: int, chunk_ids: Sequence[int]) -> None:
    """Add up the counts of these chunks' terms, unless another transaction does so in this partition."""
    if not queries.try_compaction_lock(db, partition_id):
        return
    for terms in _pages(queries.list_terms(db, chunk_ids)):
        counts = queries.read_scattered_counts(db, partition_id, terms)
        queries.delete_counts(db, partition_id, counts)
        queries.insert_counts(db, partition_id, counts)


def forget_terms(db: Database, partition_id: int, chunk_ids: Sequence[int], language: str) -> None:
    """Delete the counts of terms that occur in no other chunk; call it before these chunks are deleted.

    Works in short transactions, each for a bounded number of terms.
    """
    configurations = sorted({language, *queries.read_configurations(db, partition_id)})
    terms: set[str] = set()
    for start in range(0, len(chunk_ids), _CHUNKS_AT_ONCE):
        contents = queries.read_contents(db, chunk_ids[start : start + _CHUNKS_AT_ONCE])
        texts = [_analyze(row, configuration) for row in contents for configuration in configurations]
        terms.update(queries.list_lexemes(db, text_params(texts)))
    for page in _pages(terms):
        with db.transaction() as connection:
            forget_unused_terms(connection, partition_id, page)


def forget_unused_terms(db: Executor, partition_id: int, terms: Sequence[str]) -> None:
    """Delete the counts of those of the terms that occur in no chunk, in the caller's transaction."""
    for page in _pages(terms):
        queries.lock_counts(db, partition_id)
        queries.delete_counts(db, partition_id, queries.read_empty_counts(db, partition_id, page))


def analyze_query(
    db: Executor, partition_id: int, text: str, language: str, configurations: Sequence[str] | None = None
) -> list[Analyzed]:
    """Analyze a query in each configuration of the partition, without the stop words of its own language."""
    if configurations is None:
        configurations = queries.read_configurations(db, partition_id)
    used = sorted({language, *configurations})
    own = languages.configuration(languages.detect(text), "")
    stop_words: list[str] = []
    if len(used) > 1 and own in used and own != languages.SIMPLE:
        words = analyzer.list_words(text)
        stop_words = queries.select_stop_words(db, words, own)
        stop_words = [] if len(stop_words) == len(words) else stop_words
    return [Analyzed(0, name, analyzer.analyze_query(text, name, stop_words if name != own else ())) for name in used]


def text_params(texts: Sequence[Analyzed]) -> dict[str, Any]:
    """Return the statement parameters of texts: those for text search configurations, and the terms that need none."""
    terms = [(text.chunk_id, term, times) for text in texts for term, times in text.prepared.terms.items()]
    return {
        "chunks": [text.chunk_id for text in texts],
        "languages": [text.configuration for text in texts],
        "texts": [text.prepared.text for text in texts],
        "parts": [text.prepared.parts for text in texts],
        "term_chunks": [chunk for chunk, _, _ in terms],
        "terms": [term for _, term, _ in terms],
        "times": [times for _, _, times in terms],
    }


def _analyze(row: Content, configuration: str) -> Analyzed:
    text = row.content
    if row.title is not None and (title := row.title or _find_heading(text)):
        text = f"{title}\n\n{text}"
    return Analyzed(row.id, configuration, analyzer.analyze_text(text, configuration))


def _find_heading(text: str) -> str:
    """The first line where it stands alone above more text, or ""."""
    heading = _HEADING.match(text)
    return heading[1] if heading else ""


def _choose_configurations(
    db: Executor, partition_id: int, contents: Sequence[Content], language: str
) -> dict[str, str]:
    """Choose the configuration of each document. contents: chunks of one generation of each."""
    generations = {row.document_id: row.generation for row in contents}
    if not generations:
        return {}
    chosen = dict.fromkeys(generations, language)
    for declared in queries.read_declared_languages(db, partition_id, generations):
        fixed = declared.fixed and languages.fixed(declared.fixed)
        detected = languages.detect(declared.sample) or languages.code(declared.language)
        chosen[declared.id] = FIXED + fixed if fixed else languages.configuration(detected, language)
    return chosen


def _pages(terms: Sequence[str] | set[str]) -> Iterator[list[str]]:
    """Split the terms, sorted so that neighbours in the index are read together."""
    ordered = sorted(terms)
    for start in range(0, len(ordered), _TERMS_AT_ONCE):
        yield ordered[start : start + _TERMS_AT_ONCE]
