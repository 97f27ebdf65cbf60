"""Measures of a parser's Markdown: tables, rows, words, order, headings."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise

_TAG_PATTERN = re.compile(r"<!--.*?-->|</?[a-zA-Z][^>]*>", re.DOTALL)
_LINK_PATTERN = re.compile(r"\[([^\]]*)\]\([^)]*\)")
# A line of base64 (RFC 2045 writes 76 characters); words and addresses are shorter or hold other signs.
_BASE64_PATTERN = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}")
_WORD_PATTERN = re.compile(r"[^\W_]+")
# The comparison of the order is quadratic.
_MAX_ORDERED_WORDS = 8000

# Cell number by row and column.
Grid = dict[tuple[int, int], int]


@dataclass(frozen=True)
class Table:
    """True table: cells as (row, column, last row, last column, text)."""

    cells: tuple[tuple[int, int, int, int, str], ...]

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[str | None]]) -> Table:
        """Make a table of rows; None continues the cell to the left."""
        cells: list[tuple[int, int, int, int, str]] = []
        for row, texts in enumerate(rows):
            for column, text in enumerate(texts):
                if text is None:
                    cells[-1] = (*cells[-1][:3], column, cells[-1][4])
                else:
                    cells.append((row, column, row, column, text))
        return cls(tuple(cells))

    def text_rows(self) -> list[list[str]]:
        """Return normalized texts of rows with at least two cells."""
        by_row: dict[int, list[tuple[int, str]]] = {}
        for row, column, _, _, text in self.cells:
            if normalize_text(text):
                by_row.setdefault(row, []).append((column, normalize_text(text)))
        return [[text for _, text in sorted(members)] for members in by_row.values() if len(members) > 1]

    def cell_relations(self) -> Counter[tuple[str, str, str]]:
        grid: Grid = {}
        for number, (row, column, last_row, last_column, _) in enumerate(self.cells):
            grid |= {(r, c): number for r in range(row, last_row + 1) for c in range(column, last_column + 1)}
        return find_relations(grid, [normalize_text(cell[4]) for cell in self.cells])


@dataclass
class Score:
    """Sums over files, for ratios."""

    files: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, **counts: float) -> None:
        for name, count in counts.items():
            self.counts[name] += count  # type: ignore[assignment]

    def ratio(self, part: str, whole: str) -> float | None:
        return self.counts[part] / self.counts[whole] if self.counts[whole] else None

    def f1(self, kind: str) -> float | None:
        """Return F1 of expected and found items; None without expected ones."""
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
            "noise": self.ratio("noise_tokens", "tokens"),
            "right": self.ratio("right", "judged"),
        }


def normalize_text(text: str) -> str:
    """Return letters and digits without markup."""
    return "".join(
        _WORD_PATTERN.findall(
            re.sub(r"[|#*_`>\\~]", " ", html.unescape(_TAG_PATTERN.sub(" ", _LINK_PATTERN.sub(r"\1", text)))).lower()
        )
    )


def split_words(text: str) -> list[str]:
    plain = html.unescape(_TAG_PATTERN.sub(" ", _LINK_PATTERN.sub(r"\1", text.replace("\\", ""))))
    return _WORD_PATTERN.findall(unicodedata.normalize("NFKC", plain).casefold())


def score_tables(score: Score, tables: Sequence[Table], text: str) -> None:
    """Count relations of neighboring cells (ICDAR 2013) and rows kept in one line."""
    expected: Counter[tuple[str, str, str]] = Counter()
    found_relations: Counter[tuple[str, str, str]] = Counter()
    lines = re.sub(r"</tr>", "\n", re.sub(r"\n(?=\s*<t[dh])", " ", text)).split("\n")
    # Normalized: Markdown marks and spaces do not count.
    solid = [line for line in map(normalize_text, lines) if line]
    for table in tables:
        expected += table.cell_relations()
        rows = table.text_rows()
        score.add(rows=len(rows), rows_kept=sum(any(is_in_order(row, line) for line in solid) for row in rows))
    for cells in read_tables(text):
        grid: Grid = {}
        texts: list[str] = []
        for r, row in enumerate(cells):
            for c, cell in enumerate(row):
                if solid_cell := normalize_text(cell):
                    grid[r, c] = len(texts)
                    texts.append(solid_cell)
        found_relations += find_relations(grid, texts)
    for relation in [
        (a, b, direction) for a, b, direction in found_relations if a == b
    ]:  # a label repeated where it is merged
        found_relations[relation] = min(found_relations[relation], expected[relation])
    hits = (expected & found_relations).total()
    score.add(relations_hits=hits, relations_expected=expected.total(), relations_found=found_relations.total())


def score_words(score: Score, truth: str, text: str) -> None:
    """Count words, and words in the true order."""
    expected, found_words = split_words(truth), split_words(text)
    hits = (Counter(expected) & Counter(found_words)).total()
    score.add(words_hits=hits, words_expected=len(expected), words_found=len(found_words))
    if max(len(expected), len(found_words)) <= _MAX_ORDERED_WORDS:
        blocks = SequenceMatcher(None, expected, found_words, autojunk=False).get_matching_blocks()
        score.add(order=sum(block.size for block in blocks), ordered=len(expected))


def score_noise(score: Score, text: str) -> None:
    """Count the words of the text that are base64 or unprintable."""
    tokens = text.split()
    score.add(tokens=len(tokens), noise_tokens=sum(map(_is_noise, tokens)))


def _is_noise(token: str) -> bool:
    if any(unicodedata.category(sign) in ("Cc", "Co", "Cn", "Cs") or sign == "\ufffd" for sign in token):
        return True
    return bool(_BASE64_PATTERN.fullmatch(token)) and len({*map(str.isdigit, token)}) > 1 and not token.islower()


def score_headings(score: Score, headings: Sequence[str], text: str) -> None:
    expected = Counter(normalize_text(heading) for heading in headings)
    found_headings = Counter(filter(None, map(normalize_text, re.findall(r"^#{1,6} +(.+)$", text, re.MULTILINE))))
    score.add(headings_hits=(expected & found_headings).total())
    score.add(headings_expected=expected.total(), headings_found=found_headings.total())


def read_tables(text: str) -> list[list[list[str]]]:
    """Return pipe and HTML tables of a Markdown text."""
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
    html_tables = re.findall(r"<table.*?</table>", text, re.DOTALL | re.IGNORECASE)
    rows_of = re.compile(r"<tr.*?</tr>", re.DOTALL | re.IGNORECASE)
    return tables + [[_html_row(row) for row in rows_of.findall(table)] for table in html_tables]


def _html_row(row: str) -> list[str]:
    cells: list[str] = []
    for attributes, cell in re.findall(r"<t[dh]([^>]*)>(.*?)</t[dh]>", row, re.DOTALL | re.IGNORECASE):
        span = re.search(r'colspan="?(\d+)', attributes)
        cells += [cell, *[""] * (int(span[1]) - 1 if span else 0)]
    return cells


def find_relations(grid: Grid, texts: Sequence[str]) -> Counter[tuple[str, str, str]]:
    """Count pairs of neighboring cells as (text, text, direction)."""
    lines: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for (row, column), cell in grid.items():
        if texts[cell]:
            lines.setdefault(("h", row), []).append((column, cell))
            lines.setdefault(("v", column), []).append((row, cell))
    pairs = {
        (cell, other_cell, direction)
        for (direction, _), members in lines.items()
        for (_, cell), (_, other_cell) in pairwise(sorted(members))
        if cell != other_cell
    }
    return Counter((texts[a], texts[b], direction) for a, b, direction in pairs)


def is_in_order(cells: Sequence[str], line: str) -> bool:
    position = 0
    for cell in cells:
        position = line.find(cell, position)
        if position < 0:
            return False
        position += len(cell)
    return True
