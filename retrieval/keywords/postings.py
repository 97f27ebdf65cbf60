"""Index the terms of visible chunks, in the caller's transaction."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.keywords import analyzer, languages, queries
from retrieval.keywords.analyzer import PreparedText
from retrieval.keywords.queries import FIXED_PREFIX, ChunkContent, IndexSizes

# Writers add parts of counts, so that none waits; this share of transactions sums them up.
_COMPACTION_SHARE = 1 / 16
# Terms per statement.
_TERMS_AT_ONCE = 1000
# A short line, an empty line, and more text.
_HEADING_PATTERN = re.compile(r"\s*(\S[^\n]{0,199})\n[^\S\n]*\n\s*\S")
# Chunks per statement.
_CHUNKS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class AnalyzedText:
    """Text analyzed in one configuration. `chunk_id` is 0 for a query."""

    chunk_id: int
    configuration: str
    prepared: PreparedText


def index_chunks(db: Executor, partition_id: int, chunk_ids: Sequence[int], language: str) -> tuple[int, int]:
    """Make chunks searchable and return the increase of `partitions.chunks` and `.terms`."""
    # Configuration: fixed by the namespace, detected in the text, or declared, in this order.
    chunks = terms = 0
    used: dict[str, str] = {}
    ordered = queries.sort_chunks(db, partition_id, chunk_ids)
    for start in range(0, len(ordered), _CHUNKS_AT_ONCE):
        contents = queries.read_contents(db, ordered[start : start + _CHUNKS_AT_ONCE])
        used |= _choose_configurations(
            db, partition_id, [row for row in contents if row.document_id not in used], language
        )
        texts = text_params([_analyze_chunk(row, used[row.document_id].removeprefix(FIXED_PREFIX)) for row in contents])
        sizes = queries.insert_postings(db, partition_id, texts)
        chunks, terms = chunks + sizes.chunks, terms + sizes.terms
    if used:
        queries.record_languages(
            db, partition_id, used, sorted({name.removeprefix(FIXED_PREFIX) for name in used.values()})
        )
    if random.random() < _COMPACTION_SHARE:  # noqa: S311 - spreads work, guards nothing
        compact_counts(db, partition_id, chunk_ids)
    return chunks, terms


def remove_chunks(db: Executor, chunk_ids: Sequence[int]) -> tuple[int, int]:
    """Remove postings and return the decrease of `partitions.chunks` and `.terms`. Ignores unknown chunks."""
    sizes = db.fetch_one(IndexSizes, queries.DELETE_POSTINGS, {"chunks": list(chunk_ids)}) or IndexSizes()
    return sizes.chunks, sizes.terms


def compact_counts(db: Executor, partition_id: int, chunk_ids: Sequence[int]) -> None:
    """Sum up the counts of the chunks' terms, unless another transaction does."""
    if not queries.try_compaction_lock(db, partition_id):
        return
    for terms in _split_terms(queries.list_terms(db, chunk_ids)):
        counts = queries.read_scattered_counts(db, partition_id, terms)
        queries.delete_counts(db, partition_id, counts)
        queries.insert_counts(db, partition_id, counts)


def forget_terms(db: Database, partition_id: int, chunk_ids: Sequence[int], language: str) -> None:
    """Delete counts of terms without another chunk, in short transactions. Call before the deletion of chunks."""
    configurations = sorted({language, *queries.read_configurations(db, partition_id)})
    terms: set[str] = set()
    for start in range(0, len(chunk_ids), _CHUNKS_AT_ONCE):
        contents = queries.read_contents(db, chunk_ids[start : start + _CHUNKS_AT_ONCE])
        texts = [_analyze_chunk(row, configuration) for row in contents for configuration in configurations]
        terms.update(queries.list_lexemes(db, text_params(texts)))
    for page in _split_terms(terms):
        with db.transaction() as connection:
            forget_unused_terms(connection, partition_id, page)


def forget_unused_terms(db: Executor, partition_id: int, terms: Sequence[str]) -> None:
    """Delete counts of unused terms, in the caller's transaction."""
    for page in _split_terms(terms):
        queries.lock_counts(db, partition_id)
        queries.delete_counts(db, partition_id, queries.read_empty_counts(db, partition_id, page))


def analyze_query(
    db: Executor, partition_id: int, text: str, language: str, configurations: Sequence[str] | None = None
) -> list[AnalyzedText]:
    """Analyze a query in every configuration, without stop words of its own language."""
    if configurations is None:
        configurations = queries.read_configurations(db, partition_id)
    used = sorted({language, *configurations})
    query_configuration = languages.choose_configuration(languages.detect_language(text), "")
    stop_words: list[str] = []
    if len(used) > 1 and query_configuration in used and query_configuration != languages.SIMPLE_CONFIGURATION:
        words = analyzer.list_words(text)
        stop_words = queries.select_stop_words(db, words, query_configuration)
        stop_words = [] if len(stop_words) == len(words) else stop_words
    return [
        AnalyzedText(0, name, analyzer.analyze_query(text, name, stop_words if name != query_configuration else ()))
        for name in used
    ]


def text_params(texts: Sequence[AnalyzedText]) -> dict[str, Any]:
    """Return the statement parameters of analyzed texts."""
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


def _analyze_chunk(row: ChunkContent, configuration: str) -> AnalyzedText:
    # The first chunk is indexed with the title, or with a repeated heading.
    text = row.content
    if row.title is not None and (title := row.title or _find_heading(text)):
        text = f"{title}\n\n{text}"
    return AnalyzedText(row.id, configuration, analyzer.analyze_text(text, configuration))


def _find_heading(text: str) -> str:
    """Return the first line if an empty line follows, else ""."""
    heading = _HEADING_PATTERN.match(text)
    return heading[1] if heading else ""


def _choose_configurations(
    db: Executor, partition_id: int, contents: Sequence[ChunkContent], language: str
) -> dict[str, str]:
    """Choose the configuration of each document."""
    generations = {row.document_id: row.generation for row in contents}
    if not generations:
        return {}
    chosen = dict.fromkeys(generations, language)
    for declared in queries.read_declared_languages(db, partition_id, generations):
        fixed = declared.fixed and languages.parse_configuration(declared.fixed)
        detected = languages.detect_language(declared.sample) or languages.parse_language(declared.language)
        chosen[declared.id] = FIXED_PREFIX + fixed if fixed else languages.choose_configuration(detected, language)
    return chosen


def _split_terms(terms: Sequence[str] | set[str]) -> Iterator[list[str]]:
    """Split sorted terms into pages: neighbours in the index are read together."""
    ordered = sorted(terms)
    for start in range(0, len(ordered), _TERMS_AT_ONCE):
        yield ordered[start : start + _TERMS_AT_ONCE]
