"""Other words of a partition that have a word of the query in them: compounds, and endings that no stemmer reads.

    Keller finds Heizungskeller, Wärmepumpe finds Wärmepumpenanlage      languages of compounds, by their stems
    Heizungskeller finds Keller der Heizung                             where both parts are terms of the partition
    pompa finds pompy, насос finds насосами                              languages without a stemmer, and Turkish

The dictionary is the partition's own terms. They are searched at a part of the weight, and none weighs more than the
word itself does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from retrieval.database.rows import Executor
from retrieval.keywords import languages, queries, queries_word_forms
from retrieval.keywords.queries import Statistics
from retrieval.keywords.queries_word_forms import Range

COMPOUNDING: Final = frozenset({"german", "dutch", "swedish", "danish", "norwegian", "finnish"})
"""Configurations of languages that write compounds as one word."""
INFLECTED: Final = frozenset({languages.SIMPLE, "turkish"})
"""Configurations that leave endings of words."""
FORM: Final = 0.5
"""Count of a term that has a term of the query in it."""
PART: Final = 0.25
"""Count of a part of a compound of the query."""
MIN_LETTERS: Final = 4
"""Letters of a term of the query, and of what follows it in a compound, at least."""
MIN_FIRST_LETTERS: Final = 3
"""Letters before the term in a compound, at least."""
MAX_FORMS: Final = 12
"""Terms that are searched besides one of the query, at most: those of most chunks."""
_LINKS: Final = ("", "s", "e", "n", "en", "er", "es")
_PREFIXES: Final = frozenset(
    """
    ver ent zer vor ein auf aus bei los mit weg her hin dar emp miss unter uber durch nach wieder till med fra for over
    """.split()  # noqa: SIM905 - a list of words
)
"""First syllables that make another word of a word, normalized, and no compound."""


def find_forms(
    db: Executor, partition_id: int, text: str, statistics: Sequence[Statistics], configurations: Sequence[str]
) -> dict[str, list[Statistics]]:
    """Return the statistics of other terms that each term of a query finds; none where no configuration needs them."""
    if not (COMPOUNDING | INFLECTED).intersection(configurations):
        return {}
    detected = languages.configuration(languages.detect(text), "")
    read_by = {detected} if detected in configurations else set(configurations)
    words = [row for row in statistics if row.term.isalpha() and len(row.term) >= MIN_LETTERS]
    compounding = [row for row in words if COMPOUNDING.intersection(read_by, row.languages)]
    inflected = [row for row in words if INFLECTED.intersection(read_by, row.languages)]
    if not (compounding or inflected):
        return {}
    queried = {row.term for row in statistics}
    near: dict[str, list[Statistics]] = {row.term: [] for row in words}
    ranges = [*_range_compounds(compounding), *_range_inflections(inflected)]
    for item, candidate in queries_word_forms.list_terms_in_ranges(db, partition_id, ranges):
        is_form = _is_inflection if item.is_inflection else _is_compound
        if candidate.term not in queried and is_form(item.word, candidate.term):
            near[item.word].append(candidate)
    forms: dict[str, list[Statistics]] = {}
    for row in words:
        most_frequent = sorted(near[row.term], key=lambda candidate: (-candidate.chunks, candidate.term))[:MAX_FORMS]
        forms[row.term] = [
            replace(candidate, times=FORM * row.times, chunks=max(candidate.chunks, row.chunks))
            for candidate in most_frequent
        ]
    for row, part in _list_parts(db, partition_id, compounding):
        if part.term not in queried:
            forms[row.term].append(part)
    return forms


def _range_compounds(rows: Iterable[Statistics]) -> Iterator[Range]:
    for row in rows:
        yield Range(row.term, row.term, len(row.term) + MIN_LETTERS, is_reversed=False)
        yield Range(row.term, row.term[::-1], len(row.term) + MIN_FIRST_LETTERS, is_reversed=True)


def _range_inflections(rows: Iterable[Statistics]) -> Iterator[Range]:
    for row in rows:
        yield Range(row.term, row.term[: _stem_length(row.term)], 3, is_reversed=False, is_inflection=True)


def _stem_length(word: str) -> int:
    """Letters at the beginning of a word that no ending changes."""
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
            term[len(word) :].startswith(link) and len(term) - len(word) - len(link) >= MIN_LETTERS for link in _LINKS
        )
    return term.endswith(word) and term[: -len(word)] not in _PREFIXES


def _list_parts(db: Executor, partition_id: int, rows: Sequence[Statistics]) -> Iterator[tuple[Statistics, Statistics]]:
    """Yield compounds of the query, each with the statistics of a part, where both parts are terms of the partition."""
    splits = [(row, first, last) for row in rows for first, last in _split(row.term)]
    terms = sorted({part for _, first, last in splits for part in (first, last)})
    if not terms:
        return
    present = {row.term: row for row in queries.read_statistics_of(db, partition_id, terms, PART)}
    for row, first, last in splits:
        if first in present and last in present:
            yield from ((row, replace(present[part], times=PART * row.times)) for part in (first, last))


def _split(term: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of parts that a compound may have, without the letters that link them."""
    for at in range(MIN_LETTERS, len(term) - MIN_LETTERS + 1):
        for link in _LINKS:
            if term[:at].endswith(link) and at - len(link) >= MIN_LETTERS:
                yield term[: at - len(link)], term[at:]
