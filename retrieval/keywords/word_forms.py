"""Find compounds and inflections of query words among the partition's terms.

Keller finds Heizungskeller, Wärmepumpe finds Wärmepumpenanlage      compounds, by stem
Heizungskeller finds Keller der Heizung                             both parts are terms of the partition
pompa finds pompy, насос finds насосами                              languages without a stemmer, and Turkish
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from retrieval.database.rows import Executor
from retrieval.keywords import languages, queries, queries_word_forms
from retrieval.keywords.queries import TermStatistics
from retrieval.keywords.queries_word_forms import TermRange

# Languages with compounds in one word.
COMPOUND_LANGUAGES: Final = frozenset({"german", "dutch", "swedish", "danish", "norwegian", "finnish"})
# Configurations without stemming of endings.
INFLECTED_LANGUAGES: Final = frozenset({languages.SIMPLE_CONFIGURATION, "turkish"})
# Weight of a longer term with the word in it.
FORM_COUNT: Final = 0.5
# Weight of a part of a compound.
PART_COUNT: Final = 0.25
# Limit for the word and for the rest of a compound.
MIN_LETTERS: Final = 4
# Limit for the letters before the word in a compound.
MIN_FIRST_LETTERS: Final = 3
# Most frequent forms per word.
MAX_FORMS: Final = 12
_LINKING_LETTERS: Final = ("", "s", "e", "n", "en", "er", "es")
# Prefixes of derived words, which are no compounds; normalized.
_VERB_PREFIXES: Final = frozenset(
    """
    ver ent zer vor ein auf aus bei los mit weg her hin dar emp miss unter uber durch nach wieder till med fra for over
    """.split()  # noqa: SIM905 - a list of words
)


def find_forms(
    db: Executor, partition_id: int, text: str, statistics: Sequence[TermStatistics], configurations: Sequence[str]
) -> dict[str, list[TermStatistics]]:
    """Return statistics of forms by query term; no form weighs more than the term."""
    if not (COMPOUND_LANGUAGES | INFLECTED_LANGUAGES).intersection(configurations):
        return {}
    detected = languages.choose_configuration(languages.detect_language(text), "")
    read_by = {detected} if detected in configurations else set(configurations)
    words = [row for row in statistics if row.term.isalpha() and len(row.term) >= MIN_LETTERS]
    compounding = [row for row in words if COMPOUND_LANGUAGES.intersection(read_by, row.languages)]
    inflected = [row for row in words if INFLECTED_LANGUAGES.intersection(read_by, row.languages)]
    if not (compounding or inflected):
        return {}
    queried = {row.term for row in statistics}
    near: dict[str, list[TermStatistics]] = {row.term: [] for row in words}
    ranges = [*_range_compounds(compounding), *_range_inflections(inflected)]
    for item, candidate in queries_word_forms.list_terms_in_ranges(db, partition_id, ranges):
        is_form = _is_inflection if item.is_inflection else _is_compound
        if candidate.term not in queried and is_form(item.word, candidate.term):
            near[item.word].append(candidate)
    forms: dict[str, list[TermStatistics]] = {}
    for row in words:
        most_frequent = sorted(near[row.term], key=lambda candidate: (-candidate.chunks, candidate.term))[:MAX_FORMS]
        forms[row.term] = [
            replace(candidate, times=FORM_COUNT * row.times, chunks=max(candidate.chunks, row.chunks))
            for candidate in most_frequent
        ]
    for row, part in _list_parts(db, partition_id, compounding):
        if part.term not in queried:
            forms[row.term].append(part)
    return forms


def _range_compounds(rows: Iterable[TermStatistics]) -> Iterator[TermRange]:
    for row in rows:
        yield TermRange(row.term, row.term, len(row.term) + MIN_LETTERS, is_reversed=False)
        yield TermRange(row.term, row.term[::-1], len(row.term) + MIN_FIRST_LETTERS, is_reversed=True)


def _range_inflections(rows: Iterable[TermStatistics]) -> Iterator[TermRange]:
    for row in rows:
        yield TermRange(row.term, row.term[: _stem_length(row.term)], 3, is_reversed=False, is_inflection=True)


def _stem_length(word: str) -> int:
    """Return the number of letters before any ending."""
    return max(3, len(word) - (1 if len(word) <= 5 else 2 if len(word) <= 7 else 3))


def _is_inflection(word: str, term: str) -> bool:
    shared = next(
        (at for at, (letter, counterpart) in enumerate(zip(word, term, strict=False)) if letter != counterpart), None
    )
    shared = min(len(word), len(term)) if shared is None else shared
    return term.isalpha() and shared >= _stem_length(word) and (shared == len(word) or len(term) - shared <= 4)


def _is_compound(word: str, term: str) -> bool:
    if not term.isalpha():
        return False
    if term.startswith(word):
        return any(
            term[len(word) :].startswith(link) and len(term) - len(word) - len(link) >= MIN_LETTERS
            for link in _LINKING_LETTERS
        )
    return term.endswith(word) and term[: -len(word)] not in _VERB_PREFIXES


def _list_parts(
    db: Executor, partition_id: int, rows: Sequence[TermStatistics]
) -> Iterator[tuple[TermStatistics, TermStatistics]]:
    """Yield compounds of the query with the statistics of their parts."""
    splits = [(row, first, last) for row in rows for first, last in _split_compound(row.term)]
    terms = sorted({part for _, first, last in splits for part in (first, last)})
    if not terms:
        return
    present = {row.term: row for row in queries.read_statistics_of(db, partition_id, terms, PART_COUNT)}
    for row, first, last in splits:
        if first in present and last in present:
            yield from ((row, replace(present[part], times=PART_COUNT * row.times)) for part in (first, last))


def _split_compound(term: str) -> Iterator[tuple[str, str]]:
    """Yield possible pairs of compound parts, without linking letters."""
    for position in range(MIN_LETTERS, len(term) - MIN_LETTERS + 1):
        for link in _LINKING_LETTERS:
            if term[:position].endswith(link) and position - len(link) >= MIN_LETTERS:
                yield term[: position - len(link)], term[position:]
