"""Find compounds and inflections of query words among the partition's terms.

Keller finds Heizungskeller, Wärmepumpe finds Wärmepumpenanlage      compounds, by stem and as typed
avtal finds hyresavtalet                                             with endings that stemmers leave
Pumpe finds Wärmepumpenanlage                                        inside of a compound, if nothing else has the word
Heizungskeller finds Keller der Heizung                             both parts are terms of the partition
pompa finds pompy, насос finds насосами, חדר finds בחדרי            languages without a good stemmer
strøm finds strømsvigt, rum finds maskinrum                          no text has the word
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from retrieval.database.rows import Executor
from retrieval.keywords import analyzer, languages, queries, queries_word_forms, stem_variants
from retrieval.keywords.queries import TermStatistics
from retrieval.keywords.queries_word_forms import TermRange

# Languages with compounds in one word.
COMPOUND_LANGUAGES: Final = frozenset({"german", "dutch", "swedish", "danish", "norwegian", "finnish", "hungarian"})
# Configurations without stemming of endings.
INFLECTED_LANGUAGES: Final = frozenset({languages.SIMPLE_CONFIGURATION, "turkish", "finnish", "hungarian"})
# Weight of a longer term with the word in it.
FORM_COUNT: Final = 0.5
# Weight of a part of a compound.
PART_COUNT: Final = 0.25
# Limit for the word and for the rest of a compound.
MIN_LETTERS: Final = 4
# Limit for the letters before the word in a compound.
MIN_FIRST_LETTERS: Final = 3
# Limit of an ending with the letters that it replaces.
MAX_ENDING: Final = 4
# Most frequent forms per word.
MAX_FORMS: Final = 12
# Stem of a longer typed word: Wagen has wag.
MIN_STEM_LETTERS: Final = 3
_LINKING_LETTERS: Final = ("", "s", "e", "n", "en", "er", "es")
# Endings that stemmers leave: -et of Swedish, and all of a document whose language was not detected.
_NORDIC_ENDINGS: Final = (
    "a", "n", "s", "t", "en", "er", "et", "ar", "or", "na", "ne", "ens", "ets", "ene", "arna", "erna", "orna", "erne",
)  # fmt: skip
_ENDINGS: Final = ("e", "n", "s", "en", "er")
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
    language = languages.detect_language(text)
    detected = "" if languages.is_ambiguous(language) else languages.choose_configuration(language, "")
    read_by = {detected} if detected in configurations else set(configurations)
    words = [row for row in statistics if row.term.isalpha() and len(row.term) >= MIN_STEM_LETTERS]
    compounding = [row for row in words if COMPOUND_LANGUAGES.intersection(read_by, row.languages)]
    compounding = [row for row in compounding if _is_latin(row.term)]
    inflected = [row for row in words if INFLECTED_LANGUAGES.intersection(read_by, row.languages)]
    if not (compounding or inflected):
        return {}
    queried = {row.term for row in statistics}
    near: dict[str, dict[str, TermStatistics]] = {row.term: {} for row in words}
    bases = _list_bases(db, text, compounding, COMPOUND_LANGUAGES.intersection(read_by))
    endings = _NORDIC_ENDINGS if stem_variants.NORDIC_LANGUAGES.intersection(read_by) else _ENDINGS
    ranges = [*_range_compounds(bases, endings), *_range_inflections(inflected)]
    for item, candidate in queries_word_forms.list_terms_in_ranges(db, partition_id, ranges):
        is_form = (
            _is_inflection(item, candidate.term)
            if item.is_inflection
            else _is_compound(item.base, candidate.term, endings)
        )
        if candidate.term not in queried and is_form:
            near[item.word][candidate.term] = candidate
    hidden = _list_hidden(compounding, bases, near)
    for word, base, candidate in queries_word_forms.list_terms_with(db, partition_id, hidden):
        if _is_inside(base, candidate.term, endings):
            near[word][candidate.term] = candidate
    forms: dict[str, list[TermStatistics]] = {}
    for row in words:
        most_frequent = sorted(near[row.term].values(), key=lambda candidate: (-candidate.chunks, candidate.term))[
            :MAX_FORMS
        ]
        forms[row.term] = [
            replace(candidate, times=FORM_COUNT * row.times, chunks=max(candidate.chunks, row.chunks))
            for candidate in most_frequent
        ]
    for row, part in _list_parts(db, partition_id, compounding):
        if part.term not in queried:
            forms[row.term].append(part)
    return forms


def find_distant_forms(
    db: Executor, partition_id: int, words: Sequence[str], configurations: Collection[str]
) -> list[TermStatistics]:
    """Return statistics of terms similar to words without chunks; none for English."""
    if {"english"}.issuperset(configurations):
        return []
    plain = {analyzer.normalize_text(word).lower() for word in words if word.isalpha()}
    plain = {word for word in plain if len(word) >= MIN_STEM_LETTERS and not analyzer.UNSPACED_SCRIPTS.search(word)}
    is_compounding = not COMPOUND_LANGUAGES.isdisjoint(configurations)
    ranges = []
    for word in sorted(plain):
        stem = word[: _stem_length(word)]
        ranges.append(TermRange(word, word, stem, 3, is_reversed=False, is_inflection=True))
        if is_compounding and _is_latin(word):
            least = len(word) + MIN_LETTERS
            ranges.append(TermRange(word, word, word, 1 + len(word), is_reversed=False))
            ranges.append(TermRange(word, word, word[::-1], least, is_reversed=True))
    near: dict[str, dict[str, TermStatistics]] = {word: {} for word in plain}
    for item, candidate in queries_word_forms.list_terms_in_ranges(db, partition_id, ranges) if ranges else ():
        if candidate.term.isalpha() and (not item.is_inflection or _is_inflection(item, candidate.term)):
            near[item.word][candidate.term] = candidate
    inside = [(word, word) for word in sorted(plain) if is_compounding and not near[word] and len(word) > MIN_LETTERS]
    for word, _, candidate in queries_word_forms.list_terms_with(db, partition_id, inside):
        if candidate.term.isalpha():
            near[word][candidate.term] = candidate
    return [
        replace(candidate, times=FORM_COUNT)
        for candidates in near.values()
        for candidate in sorted(candidates.values(), key=lambda row: (-row.chunks, row.term))[:MAX_FORMS]
    ]


def _list_bases(
    db: Executor, text: str, rows: Sequence[TermStatistics], configurations: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the forms that compounds of a term may have: stems, and the words of the query with the term's stem."""
    typed = [word for word in analyzer.list_words(analyzer.normalize_text(text)) if len(word) >= MIN_STEM_LETTERS]
    typed = [word for word in typed if any(word.startswith(row.term) for row in rows)]
    stems = {word: {word} | stem_variants.list_compound_stems(word, configurations) for word in typed}
    for word, stem in queries_word_forms.stem_in_compounds(db, sorted(configurations), typed):
        stems[word].add(stem)
    bases = {}
    for row in rows:
        own_words = [word for word in typed if word.startswith(row.term)]
        forms = {row.term}.union(*(stems[word] for word in own_words))
        least = MIN_STEM_LETTERS if any(len(word) >= MIN_LETTERS for word in own_words) else MIN_LETTERS
        bases[row.term] = tuple(sorted(form for form in forms if len(form) >= least))
    return bases


def _range_compounds(bases: Mapping[str, Sequence[str]], endings: Sequence[str]) -> Iterator[TermRange]:
    for word, forms in bases.items():
        for base in forms:
            yield TermRange(word, base, base[::-1], len(base) + MIN_FIRST_LETTERS, is_reversed=True)
            if len(base) < MIN_LETTERS:
                continue
            yield TermRange(word, base, base, len(base) + MIN_LETTERS, is_reversed=False)
            for ending in endings:
                start = (base + ending)[::-1]
                yield TermRange(word, base, start, len(start) + MIN_FIRST_LETTERS, is_reversed=True)


def _range_inflections(rows: Iterable[TermStatistics]) -> Iterator[TermRange]:
    for row in rows:
        starts = set(stem_variants.list_inflected_starts(row.term))
        if len(row.term) >= MIN_LETTERS:
            starts.add((row.term, row.term[: _stem_length(row.term)]))
        for base, start in sorted(starts):
            yield TermRange(row.term, base, start, 3, is_reversed=False, is_inflection=True)


def _list_hidden(
    rows: Iterable[TermStatistics],
    bases: Mapping[str, Sequence[str]],
    near: Mapping[str, Mapping[str, TermStatistics]],
) -> list[tuple[str, str]]:
    """List words with their forms that neither chunks nor compounds have at an end."""
    # One row may be the stem of a word in one language, and another row that in another language.
    found = {form for row in rows for form in bases[row.term] if row.chunks or near[row.term]}
    return [
        (row.term, form)
        for row in rows
        if not row.chunks and not near[row.term] and found.isdisjoint(bases[row.term])
        for form in bases[row.term]
        if len(form) >= MIN_LETTERS
    ]


def _stem_length(word: str) -> int:
    """Return the number of letters before any ending."""
    return max(3, len(word) - (1 if len(word) <= 5 else 2 if len(word) <= 7 else 3))


def _is_inflection(item: TermRange, term: str) -> bool:
    """Check for the whole word, or its start with a short ending."""
    pairs = zip(item.base, term, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    is_short = len(item.base) < MIN_LETTERS
    return term.isalpha() and (len(term) - shared <= MAX_ENDING or (shared == len(item.base) and not is_short))


def _is_latin(word: str) -> bool:
    return word[:1].isascii()


def _is_compound(base: str, term: str, endings: Sequence[str]) -> bool:
    """Check for a compound that begins or ends with the base."""
    if not term.isalpha():
        return False
    if term.startswith(base):
        return _is_rest(term[len(base) :])
    # A short stem has no endings, or `wag` would be found in `gewagt`.
    return any(
        term.endswith(base + ending) and _is_first(term[: len(term) - len(base + ending)])
        for ending in ("", *(endings if len(base) >= MIN_LETTERS else ()))
    )


def _is_inside(base: str, term: str, endings: Sequence[str]) -> bool:
    """Check for a compound with the base between other words."""
    place = term.find(base, MIN_FIRST_LETTERS)
    rest = term[place + len(base) :]
    return term.isalpha() and place > 0 and _is_first(term[:place]) and (rest in ("", *endings) or _is_rest(rest))


def _is_first(letters: str) -> bool:
    return len(letters) >= MIN_FIRST_LETTERS and letters not in _VERB_PREFIXES


def _is_rest(letters: str) -> bool:
    return any(letters.startswith(link) and len(letters) - len(link) >= MIN_LETTERS for link in _LINKING_LETTERS)


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
