"""Correct words of a query without visible chunks, by edit distance to words in chunks."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from retrieval.database.rows import Executor
from retrieval.keywords import analyzer, common_words, languages, postings, queries_typos
from retrieval.keywords.queries_typos import VisibleTerm

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MIN_LETTERS: Final = 4
MIN_LETTERS_FOR_TWO_EDITS: Final = 8
# Only longer words may differ in the first letter.
MIN_LETTERS_FOR_ANOTHER_FIRST: Final = 7
MAX_LETTERS: Final = 40
MAX_CORRECTED_WORDS: Final = 4
# Replacement terms per word.
MAX_TERMS: Final = 3
# Terms per word with chunks to read.
MAX_CANDIDATES: Final = 200
# Latin, Greek, Cyrillic: alphabets for another first letter.
_FIRST_LETTERS: Final = tuple(
    "".join(map(chr, range(first, last + 1))) for first, last in ((0x61, 0x7A), (0x3B1, 0x3C9), (0x430, 0x44F))
)
_WORD_PATTERN: Final = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Correction:
    """Absent word, its replacements, and their terms."""

    word: str
    words: tuple[str, ...]
    terms: tuple[str, ...]

    @property
    def note(self) -> str:
        """Return a sentence for users."""
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
    lexemes: Mapping[str, Sequence[tuple[str, str]]],
) -> list[Correction]:
    """Correct the absent words of a query, with their `lexemes`, by terms visible to the viewer."""
    # Words of hidden documents change nothing, since candidates are read as the viewer.
    detected = languages.choose_configuration(languages.detect_language(text), "")
    used = sorted({language, *configurations})
    queried = [detected] if detected in used and detected != languages.SIMPLE_CONFIGURATION else used
    corrections = []
    unknown = [word for word in lexemes if _is_correctable(word)]
    unknown = [word for word in unknown if not any(common_words.is_common(word.lower(), name) for name in used)]
    for word in unknown[:MAX_CORRECTED_WORDS]:
        own_forms = {term for name, term in lexemes[word] if name in queried}
        candidates = _list_candidates(db, partition_id, word, own_forms, present)
        rows = queries_typos.read_visible_terms(viewed, partition_id, candidates[:MAX_CANDIDATES])
        nearest = _choose_nearest(db, word, rows, queried)
        if nearest:
            words = tuple(dict.fromkeys(surface for _, surface in nearest))
            corrections.append(Correction(word, words, tuple(term for term, _ in nearest)))
    return corrections


def list_absent_words(
    db: Executor, partition_id: int, text: str, language: str, configurations: Sequence[str], absent: set[str]
) -> dict[str, list[tuple[str, str]]]:
    """List alphabetic words with absent terms only, by configuration and term."""
    words = [word for word in analyzer.list_typed_words(text) if word.isalpha() and len(word) <= MAX_LETTERS]
    analyzed = {
        word: postings.analyze_query(db, partition_id, word, language, configurations)
        for word in words[: 4 * MAX_CORRECTED_WORDS]
    }
    lexemes: dict[str, list[tuple[str, str]]] = {}
    for row in queries_typos.list_lexemes(db, analyzed):
        lexemes.setdefault(row.word, []).append((row.configuration, row.term))
    return {word: forms for word, forms in lexemes.items() if absent.issuperset(term for _, term in forms)}


def _is_correctable(word: str) -> bool:
    return word.isalpha() and MIN_LETTERS <= len(word) <= MAX_LETTERS and not analyzer.UNSPACED_SCRIPTS.search(word)


def _max_edits(word: str) -> int:
    return 2 if len(word) >= MIN_LETTERS_FOR_TWO_EDITS else 1


def _list_candidates(
    db: Executor, partition_id: int, word: str, forms: Collection[str], present: Sequence[str]
) -> list[str]:
    """List terms near the word, nearest first."""
    plain = analyzer.normalize_text(word).lower()
    limit = _max_edits(word)
    distances: dict[str, int] = {}
    for form in {plain, *forms}:
        starts = _vary_start(form) if len(word) >= MIN_LETTERS_FOR_ANOTHER_FIRST else []
        terms = queries_typos.list_terms_near(
            db, partition_id, form[0], starts, (max(len(form) // 2, MIN_LETTERS - 1), len(form) + limit)
        )
        terms = [term for term in terms if term.isalpha() and term not in present]
        # A stem resembles the beginning of the word: "perman" of "permanantly".
        for term, distance in zip(terms, measure_distances(form, terms, any_end=True), strict=True):
            distances[term] = min(distances.get(term, limit + 1), int(distance))
    nearest = [term for term, distance in distances.items() if distance <= limit]
    return sorted(nearest, key=lambda term: (distances[term], abs(len(term) - len(plain)), term))


def _choose_nearest(
    db: Executor, word: str, rows: Sequence[VisibleTerm], configurations: Sequence[str]
) -> list[tuple[str, str]]:
    """Choose the terms of the words nearest in writing."""
    plain = analyzer.normalize_text(word).lower()
    contents = {content for row in rows for content in row.contents}
    words = {surface.lower() for content in contents for surface in _WORD_PATTERN.findall(content)}
    written = sorted(surface for surface in words if len(surface) >= MIN_LETTERS)
    edits = measure_distances(plain, [analyzer.normalize_text(surface).lower() for surface in written])
    near = {
        surface: int(distance)
        for surface, distance in zip(written, edits, strict=True)
        if 0 < distance <= _max_edits(word) and _may_begin(plain, analyzer.normalize_text(surface))
    }
    analyzed = {
        surface: [postings.AnalyzedText(0, name, analyzer.analyze_query(surface, name)) for name in configurations]
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
    """Check the first letter of short words."""
    return min(len(word), len(surface)) >= MIN_LETTERS_FOR_ANOTHER_FIRST or word[:1] == surface[:1]


def _vary_start(form: str) -> list[str]:
    """Return variants with a replaced, missing, extra or swapped first letter."""
    letters = next((alphabet for alphabet in _FIRST_LETTERS if form[0] in alphabet), "")
    starts = [letter + form for letter in letters] + [letter + form[1:] for letter in letters]
    return [*starts, form[1:], form[1:2] + form[:1] + form[2:]]


def measure_distances(form: str, terms: Sequence[str], *, any_end: bool = False) -> npt.NDArray[np.int64]:
    """Return edit distances (insert, delete, replace, swap) to the terms; `any_end` allows prefixes of the form."""
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
    for position, letter in enumerate(form, 1):
        row = np.empty_like(rows)
        row[:, 0] = position
        differs = letters != ord(letter)
        for column in range(1, width + 1):
            best = np.minimum(rows[:, column - 1] + differs[:, column - 1], rows[:, column] + 1)
            best = np.minimum(best, row[:, column - 1] + 1)
            if position > 1 and column > 1:
                swapped = ~differs[:, column - 2] & (letters[:, column - 1] == ord(form[position - 2]))
                best = np.where(swapped, np.minimum(best, earlier_rows[:, column - 2] + 1), best)
            row[:, column] = best
        earlier_rows, rows = rows, row
        if any_end:
            least = np.minimum(least, rows[indexes, lengths])
    return least if any_end else rows[indexes, lengths]
