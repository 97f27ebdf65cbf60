"""Typos: the words nearest to a word of a query that no chunk has.

A word of letters alone, in no dictionary of the partition's languages, is compared with the words of chunks as written:
by insertions, deletions, replacements and swaps of neighbours, one for four letters and two from eight on. The terms of
the nearest are searched instead, at a part of the weight. Which words and terms occur is what the viewer can read, so
that words of hidden documents change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from retrieval.database.rows import Executor
from retrieval.keywords import analyzer, common_words, languages, postings, queries_typos
from retrieval.keywords.queries_typos import Seen

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MIN_LETTERS: Final = 4
"""Letters of a corrected word and of its correction, at least."""
MIN_LETTERS_FOR_TWO_EDITS: Final = 8
MIN_LETTERS_FOR_ANOTHER_FIRST: Final = 7
"""Letters from which on the first letter may be wrong."""
MAX_LETTERS: Final = 40
MAX_CORRECTED_WORDS: Final = 4
"""Words of a query that are corrected, at most."""
MAX_TERMS: Final = 3
"""Terms that are searched instead of a word, at most."""
MAX_CANDIDATES: Final = 200
"""Terms whose chunks are read for one word, at most."""
_ALPHABETS: Final = tuple(
    "".join(map(chr, range(first, last + 1))) for first, last in ((0x61, 0x7A), (0x3B1, 0x3C9), (0x430, 0x44F))
)
"""Of the letters that may come first: Latin, Greek, Cyrillic."""
_WORD: Final = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that no chunk has, the words that are searched instead, and their terms."""

    word: str
    words: tuple[str, ...]
    terms: tuple[str, ...]

    @property
    def note(self) -> str:
        """Say it in a sentence."""
        verb = "was" if len(self.words) == 1 else "were"
        return f"{self.word} was not found; {' and '.join(self.words)} {verb} searched instead."


def correct_words(
    db: Executor,
    viewed: Executor,
    partition_id: int,
    text: str,
    *,
    language: str,
    configurations: Sequence[str],
    present: Sequence[str],
    absent: Sequence[str],
) -> list[Correction]:
    """Return a correction for each word of a query that is absent and has a near term.

    viewed: the database as the viewer sees it. present, absent: the terms of the query that occur, and that do not.
    """
    detected = languages.configuration(languages.detect(text), "")
    used = sorted({language, *configurations})
    queried = [detected] if detected in used and detected != languages.SIMPLE else used
    lexemes = _list_absent_words(db, partition_id, text, language, configurations, set(absent))
    corrections = []
    unknown = [word for word in lexemes if not any(common_words.is_common(word.lower(), name) for name in used)]
    for word in unknown[:MAX_CORRECTED_WORDS]:
        own_forms = {term for name, term in lexemes[word] if name in queried}
        candidates = _list_candidates(db, partition_id, word, own_forms, present)
        rows = queries_typos.read_seen(viewed, partition_id, candidates[:MAX_CANDIDATES])
        nearest = _choose_nearest(db, word, rows, queried)
        if nearest:
            words = tuple(dict.fromkeys(surface for _, surface in nearest))
            corrections.append(Correction(word, words, tuple(term for term, _ in nearest)))
    return corrections


def _list_absent_words(
    db: Executor, partition_id: int, text: str, language: str, configurations: Sequence[str], absent: set[str]
) -> dict[str, list[tuple[str, str]]]:
    """Return the words of letters alone of which every term is absent, with configurations and terms."""
    words = [word for word in analyzer.list_typed_words(text) if _is_correctable(word)]
    analyzed = {
        word: postings.analyze_query(db, partition_id, word, language, configurations)
        for word in words[: 4 * MAX_CORRECTED_WORDS]
    }
    lexemes: dict[str, list[tuple[str, str]]] = {}
    for row in queries_typos.list_lexemes(db, analyzed):
        lexemes.setdefault(row.word, []).append((row.configuration, row.term))
    return {word: forms for word, forms in lexemes.items() if absent.issuperset(term for _, term in forms)}


def _is_correctable(word: str) -> bool:
    return word.isalpha() and MIN_LETTERS <= len(word) <= MAX_LETTERS and not analyzer.UNSPACED.search(word)


def _max_edits(word: str) -> int:
    return 2 if len(word) >= MIN_LETTERS_FOR_TWO_EDITS else 1


def _list_candidates(
    db: Executor, partition_id: int, word: str, forms: Collection[str], present: Sequence[str]
) -> list[str]:
    """List terms that a near word may have, nearest first: those near a form of the word or near its beginning."""
    plain = analyzer.normalize(word).lower()
    limit = _max_edits(word)
    distances: dict[str, int] = {}
    for form in {plain, *forms}:
        starts = _vary_start(form) if len(word) >= MIN_LETTERS_FOR_ANOTHER_FIRST else []
        terms = queries_typos.list_terms_near(
            db, partition_id, form[0], starts, (max(len(form) // 2, MIN_LETTERS - 1), len(form) + limit)
        )
        terms = [term for term in terms if term.isalpha() and term not in present]
        # A stem is about the beginning of a word: "perman" of "permanantly".
        for term, distance in zip(terms, measure_distances(form, terms, any_end=True), strict=True):
            distances[term] = min(distances.get(term, limit + 1), int(distance))
    nearest = [term for term, distance in distances.items() if distance <= limit]
    return sorted(nearest, key=lambda term: (distances[term], abs(len(term) - len(plain)), term))


def _choose_nearest(
    db: Executor, word: str, rows: Sequence[Seen], configurations: Sequence[str]
) -> list[tuple[str, str]]:
    """Choose the terms, each with its word, whose words as written are nearest to the word of the query."""
    plain = analyzer.normalize(word).lower()
    contents = {content for row in rows for content in row.contents}
    words = {surface.lower() for content in contents for surface in _WORD.findall(content)}
    written = sorted(surface for surface in words if len(surface) >= MIN_LETTERS)
    edits = measure_distances(plain, [analyzer.normalize(surface).lower() for surface in written])
    near = {
        surface: int(distance)
        for surface, distance in zip(written, edits, strict=True)
        if 0 < distance <= _max_edits(word) and _may_begin(plain, analyzer.normalize(surface))
    }
    analyzed = {
        surface: [postings.Analyzed(0, name, analyzer.analyze_query(surface, name)) for name in configurations]
        for surface in near
    }
    chunks = {row.term: row.chunks for row in rows}
    pairs = sorted(
        {
            (near[row.word], -chunks[row.term], row.term, row.word)
            for row in (queries_typos.list_lexemes(db, analyzed) if analyzed else [])
            if row.term in chunks
        }
    )
    nearest: dict[str, str] = {}
    for distance, _, term, surface in pairs:
        if distance == pairs[0][0]:
            nearest.setdefault(term, surface)
    return list(nearest.items())[:MAX_TERMS]


def _may_begin(word: str, surface: str) -> bool:
    """Check that short words begin alike."""
    return min(len(word), len(surface)) >= MIN_LETTERS_FOR_ANOTHER_FIRST or word[:1] == surface[:1]


def _vary_start(form: str) -> list[str]:
    """Return what a form may be if its first letter is wrong, missing, too much, or swapped with the second."""
    letters = next((alphabet for alphabet in _ALPHABETS if form[0] in alphabet), "")
    starts = [letter + form for letter in letters] + [letter + form[1:] for letter in letters]
    return [*starts, form[1:], form[1:2] + form[:1] + form[2:]]


def measure_distances(form: str, terms: Sequence[str], *, any_end: bool = False) -> npt.NDArray[np.int64]:
    """Count the edits between a form and each of the terms: letters put in, left out, replaced, or swapped once.

    any_end: count those of the beginning of the form that is nearest.
    """
    import numpy as np

    lengths = np.array([len(term) for term in terms], np.int64)
    if not len(terms):
        return lengths
    width = int(lengths.max())
    letters = np.array([term.ljust(width, "\0") for term in terms]).view(np.uint32).reshape(len(terms), width)
    rows = np.broadcast_to(np.arange(width + 1), (len(terms), width + 1))
    earlier_rows = rows
    indexes = np.arange(len(terms))
    least = lengths
    for at, letter in enumerate(form, 1):
        row = np.empty_like(rows)
        row[:, 0] = at
        differs = letters != ord(letter)
        for column in range(1, width + 1):
            best = np.minimum(rows[:, column - 1] + differs[:, column - 1], rows[:, column] + 1)
            best = np.minimum(best, row[:, column - 1] + 1)
            if at > 1 and column > 1:
                swapped = ~differs[:, column - 2] & (letters[:, column - 1] == ord(form[at - 2]))
                best = np.where(swapped, np.minimum(best, earlier_rows[:, column - 2] + 1), best)
            row[:, column] = best
        earlier_rows, rows = rows, row
        if any_end:
            least = np.minimum(least, rows[indexes, lengths])
    return least if any_end else rows[indexes, lengths]
