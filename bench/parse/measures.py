"""Measures of a parser's Markdown against the truth of a file: tables, rows, words, order, headings."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise

_TAG = re.compile(r"<!--.*?-->|</?[a-zA-Z][^>]*>", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_WORD = re.compile(r"[^\W_]+")
_MOST_WORDS = 8000
"""Of a file whose order is compared; the comparison takes the square of it."""

Grid = dict[tuple[int, int], int]
"""The number of the cell that covers a row and column."""


@dataclass(frozen=True)
class Table:
    """A table of the truth: cells as (row, column, last row, last column, text)."""

    cells: tuple[tuple[int, int, int, int, str], ...]

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[str | None]]) -> Table:
        """A table of rows of texts; None continues the cell to its left."""
        cells: list[tuple[int, int, int, int, str]] = []
        for row, texts in enumerate(rows):
            for column, text in enumerate(texts):
                if text is None:
                    cells[-1] = (*cells[-1][:3], column, cells[-1][4])
                else:
                    cells.append((row, column, row, column, text))
        return cls(tuple(cells))

    def rows(self) -> list[list[str]]:
        """The texts of each row that has two or more, normalized, from left to right."""
        by_row: dict[int, list[tuple[int, str]]] = {}
        for row, column, _, _, text in self.cells:
            if normalized(text):
                by_row.setdefault(row, []).append((column, normalized(text)))
        return [[text for _, text in sorted(members)] for members in by_row.values() if len(members) > 1]

    def relations(self) -> Counter[tuple[str, str, str]]:
        grid: Grid = {}
        for number, (row, column, last_row, last_column, _) in enumerate(self.cells):
            grid |= {(r, c): number for r in range(row, last_row + 1) for c in range(column, last_column + 1)}
        return _relations(grid, [normalized(cell[4]) for cell in self.cells])


@dataclass
class Score:
    """Sums over files; ratios are taken of the sums."""

    files: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, **counts: float) -> None:
        for name, count in counts.items():
            self.counts[name] += count  # type: ignore[assignment]

    def ratio(self, part: str, whole: str) -> float | None:
        return self.counts[part] / self.counts[whole] if self.counts[whole] else None

    def f1(self, kind: str) -> float | None:
        """Of what is expected and found; None where the truth holds nothing of the kind."""
        if not self.counts[f"{kind}_expected"]:
            return None
        return 2 * self.counts[f"{kind}_hits"] / (self.counts[f"{kind}_expected"] + self.counts[f"{kind}_found"])

    def figures(self) -> dict[str, float | None]:
        return {
            "files": self.files,
            "tables": self.f1("relations"),
            "rows": self.ratio("rows_kept", "rows"),
            "recall": self.ratio("words_hits", "words_expected"),
            "precision": self.ratio("words_hits", "words_found"),
            "order": self.ratio("order", "ordered"),
            "headings": self.f1("headings"),
            "right": self.ratio("right", "judged"),
        }


def normalized(text: str) -> str:
    """Letters and digits alone, without markup."""
    return "".join(
        _WORD.findall(re.sub(r"[|#*_`>\\~]", " ", html.unescape(_TAG.sub(" ", _LINK.sub(r"\1", text)))).lower())
    )


def words(text: str) -> list[str]:
    plain = html.unescape(_TAG.sub(" ", _LINK.sub(r"\1", text.replace("\\", ""))))
    return _WORD.findall(unicodedata.normalize("NFKC", plain).casefold())


def score_tables(score: Score, tables: Sequence[Table], text: str) -> None:
    """Relations of neighbouring cells (the measure of ICDAR 2013), and true rows that stand in one line in order."""
    expected: Counter[tuple[str, str, str]] = Counter()
    found: Counter[tuple[str, str, str]] = Counter()
    lines = re.sub(r"</tr>", "\n", re.sub(r"\n(?=\s*<t[dh])", " ", text)).split("\n")
    solid = [line for line in map(normalized, lines) if line]
    for table in tables:
        expected += table.relations()
        rows = table.rows()
        score.add(rows=len(rows), rows_kept=sum(any(_in_order(row, line) for line in solid) for row in rows))
    for cells in written_tables(text):
        grid: Grid = {}
        texts: list[str] = []
        for r, row in enumerate(cells):
            for c, cell in enumerate(row):
                if solid_cell := normalized(cell):
                    grid[r, c] = len(texts)
                    texts.append(solid_cell)
        found += _relations(grid, texts)
    for relation in [(a, b, direction) for a, b, direction in found if a == b]:  # a label repeated where it is merged
        found[relation] = min(found[relation], expected[relation])
    hits = (expected & found).total()
    score.add(relations_hits=hits, relations_expected=expected.total(), relations_found=found.total())


def score_words(score: Score, truth: str, text: str) -> None:
    """Words by number, and those of the truth that stand in its order."""
    expected, found = words(truth), words(text)
    hits = (Counter(expected) & Counter(found)).total()
    score.add(words_hits=hits, words_expected=len(expected), words_found=len(found))
    if max(len(expected), len(found)) <= _MOST_WORDS:
        blocks = SequenceMatcher(None, expected, found, autojunk=False).get_matching_blocks()
        score.add(order=sum(block.size for block in blocks), ordered=len(expected))


def score_headings(score: Score, headings: Sequence[str], text: str) -> None:
    expected = Counter(normalized(heading) for heading in headings)
    found = Counter(filter(None, map(normalized, re.findall(r"^#{1,6} +(.+)$", text, re.MULTILINE))))
    score.add(headings_hits=(expected & found).total())
    score.add(headings_expected=expected.total(), headings_found=found.total())


def written_tables(text: str) -> list[list[list[str]]]:
    """The pipe tables and HTML tables of a Markdown."""
    tables: list[list[list[str]]] = []
    rows: list[list[str]] = []
    for line in [*map(str.strip, text.split("\n")), ""]:
        if line.startswith("|") and line.count("|") > 1:
            body = line[1:].rstrip("|") if line.startswith("||") else line.strip("|")
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", body)]
            if not (any(cells) and all(re.fullmatch(r":?-*:?", cell) for cell in cells)):
                rows.append(cells)
        elif rows:
            tables.append(rows)
            rows = []
    written = re.findall(r"<table.*?</table>", text, re.DOTALL | re.IGNORECASE)
    rows_of = re.compile(r"<tr.*?</tr>", re.DOTALL | re.IGNORECASE)
    return tables + [[_html_row(row) for row in rows_of.findall(table)] for table in written]


def _html_row(row: str) -> list[str]:
    cells: list[str] = []
    for attributes, cell in re.findall(r"<t[dh]([^>]*)>(.*?)</t[dh]>", row, re.DOTALL | re.IGNORECASE):
        span = re.search(r'colspan="?(\d+)', attributes)
        cells += [cell, *[""] * (int(span[1]) - 1 if span else 0)]
    return cells


def _relations(grid: Grid, texts: Sequence[str]) -> Counter[tuple[str, str, str]]:
    """Each pair of neighbouring cells with a text, once: (text, text, direction)."""
    lines: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for (row, column), cell in grid.items():
        if texts[cell]:
            lines.setdefault(("h", row), []).append((column, cell))
            lines.setdefault(("v", column), []).append((row, cell))
    pairs = {
        (cell, other, direction)
        for (direction, _), members in lines.items()
        for (_, cell), (_, other) in pairwise(sorted(members))
        if cell != other
    }
    return Counter((texts[a], texts[b], direction) for a, b, direction in pairs)


def _in_order(cells: Sequence[str], line: str) -> bool:
    position = 0
    for cell in cells:
        position = line.find(cell, position)
        if position < 0:
            return False
        position += len(cell)
    return True
