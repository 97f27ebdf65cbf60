"""Typos: the terms nearest to a word of a query that no chunk has.

A word of letters alone is compared with the terms of the partition that begin like it, or differ from it in the first
letter: by insertions, deletions, replacements and swaps of neighbours, one for four letters and two from eight on. The
nearest terms are searched instead, at a part of the weight. Which words and terms occur is what the viewer can read, so
that words of hidden documents change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from retrieval.database.rows import Executor
from retrieval.keywords import analyzer, postings, queries_typos

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SHORTEST: Final = 4
"""Letters of a word that is corrected, at least,"""
LONG: Final = 8
"""and from which on two edits are allowed."""
LONGEST: Final = 40
WORDS: Final = 4
"""Words of a query that are corrected, at most."""
NEAREST: Final = 3
"""Terms that are searched instead of a word, at most."""
CANDIDATES: Final = 200
"""Terms at one distance whose chunks are read, at most."""
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
    lexemes = _list_lexemes(db, partition_id, text, language, configurations, set(absent))
    corrections = []
    for word, forms in list(lexemes.items())[:WORDS]:
        for candidates in _find_nearest(db, partition_id, word, forms, present):
            rows = queries_typos.read_seen(viewed, partition_id, candidates[:CANDIDATES])
            best = sorted(rows, key=lambda row: (-row.chunks, row.term))[:NEAREST]
            if best:
                words = tuple(dict.fromkeys(_surface(row.term, row.content) for row in best))
                corrections.append(Correction(word, words, tuple(row.term for row in best)))
                break
    return corrections


def _list_lexemes(
    db: Executor, partition_id: int, text: str, language: str, configurations: Sequence[str], absent: set[str]
) -> dict[str, list[str]]:
    """Return the words of letters alone of which every term is absent, with their terms."""
    words = [word for word in analyzer.list_typed_words(text) if _is_correctable(word)]
    analyzed = {
        word: postings.analyze_query(db, partition_id, word, language, configurations) for word in words[: 4 * WORDS]
    }
    lexemes: dict[str, list[str]] = {}
    for row in queries_typos.list_lexemes(db, analyzed):
        lexemes.setdefault(row.word, []).append(row.term)
    return {word: terms for word, terms in lexemes.items() if absent.issuperset(terms)}


def _is_correctable(word: str) -> bool:
    return word.isalpha() and SHORTEST <= len(word) <= LONGEST and not analyzer.UNSPACED.search(word)


def _find_nearest(
    db: Executor, partition_id: int, word: str, forms: Sequence[str], present: Sequence[str]
) -> list[list[str]]:
    """Find the terms at a distance of one from one of the forms of a word, and those at two.

    A term at no distance is the word itself, which only hidden documents have.
    """
    limit = 2 if len(word) >= LONG else 1
    distances: dict[str, int] = {}
    for form in forms:
        terms = queries_typos.list_terms_near(
            db, partition_id, form[0], _vary_start(form), (len(form) - limit, len(form) + limit)
        )
        terms = [term for term in terms if term.isalpha() and term not in present]
        for term, distance in zip(terms, measure_distances(form, terms), strict=True):
            distances[term] = min(distances.get(term, limit + 1), int(distance))
    return [[term for term, nearest in distances.items() if nearest == distance] for distance in range(1, limit + 1)]


def _vary_start(form: str) -> list[str]:
    """Return what a form may be if its first letter is wrong, missing, too much, or swapped with the second."""
    letters = next((alphabet for alphabet in _ALPHABETS if form[0] in alphabet), "")
    starts = [letter + form for letter in letters] + [letter + form[1:] for letter in letters]
    return [*starts, form[1:], form[1:2] + form[:1] + form[2:]]


def measure_distances(form: str, terms: Sequence[str]) -> npt.NDArray[np.int64]:
    """Count the edits between a form and each of the terms: letters put in, left out, replaced, or swapped once."""
    import numpy as np

    lengths = np.array([len(term) for term in terms], np.int64)
    if not len(terms):
        return lengths
    width = int(lengths.max())
    letters = np.array([term.ljust(width, "\0") for term in terms]).view(np.uint32).reshape(len(terms), width)
    rows = np.broadcast_to(np.arange(width + 1), (len(terms), width + 1))
    earlier_rows = rows
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
    return rows[np.arange(len(terms)), lengths]


def _surface(term: str, content: str) -> str:
    """Return the word of a text that the term most probably stands for."""
    words = {word.lower() for word in _WORD.findall(content)}
    return min(words, key=lambda word: (-_shared(word, term), abs(len(word) - len(term)), word), default=term)


def _shared(word: str, term: str) -> int:
    plain = analyzer.normalize(word)
    return next((at for at, (a, b) in enumerate(zip(plain, term, strict=False)) if a != b), min(len(plain), len(term)))
