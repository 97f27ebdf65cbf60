"""Words of lines whose letters stand apart: spaces are where the gaps of the line itself are wide."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from connectors.parsers.pdf.scripts import find_places, place_letters

_TOKEN = re.compile(r"[^\W\d_]+")
_FEWEST, _SHORT, _TORN = 6, 2, 0.55
"""Words of a line, letters of a short word, and the share of short words of a torn line."""
_WIDER, _WIDER_BY = 1.5, 0.08
"""How many times a gap between words is as wide as one between letters, and by how much of a letter's height."""
_SPACED_SCRIPTS = re.compile("[a-zA-Z\u00c0-\u052f]")
"""Scripts whose words are seldom of one or two letters: Latin, Greek, Cyrillic."""


def is_torn(line: str) -> bool:
    """Tell whether most words of a line have one or two letters, as of no language."""
    words = _TOKEN.findall(line)
    if len(words) < _FEWEST or not _SPACED_SCRIPTS.search(line):
        return False
    return sum(len(word) <= _SHORT for word in words) > _TORN * len(words)


def joined_lines(text: str, words: Any) -> str:
    """Return the text of a pypdfium2 text page with the torn words of its lines joined."""
    if not any(map(is_torn, text.split("\n"))):
        return text
    lines = _read_lines(words)
    return "\n".join(lines.get("".join(line.split()), line) if is_torn(line) else line for line in text.split("\n"))


def _read_lines(words: Any) -> dict[str, str]:
    """Return the lines of a page by their letters."""
    import pypdfium2.raw as pdfium

    bounds = pdfium.FS_RECTF()
    lines: dict[str, str] = {}
    letters: list[tuple[str, float, float, float]] = []
    for index in range(words.count_chars()):
        sign = chr(pdfium.FPDFText_GetUnicode(words.raw, index))
        if sign in "\r\n":
            lines |= _joined(letters)
            letters = []
        elif sign.strip():
            pdfium.FPDFText_GetLooseCharBox(words.raw, index, bounds)
            letters.append((sign, bounds.left, bounds.right, bounds.top - bounds.bottom))
    return lines | _joined(letters)


def _joined(letters: Sequence[tuple[str, float, float, float]]) -> dict[str, str]:
    gaps = [(following[1] - letter[2]) / max(letter[3], 1.0) for letter, following in pairwise(letters)]
    widest = _word_gap(gaps)
    if not widest:
        return {}
    text = letters[0][0]
    for gap, letter in zip(gaps, letters[1:], strict=True):
        text += f"{' ' if gap >= widest else ''}{letter[0]}"
    return {} if is_torn(text) else {"".join(letter[0] for letter in letters): text}


def _word_gap(gaps: Sequence[float]) -> float:
    """Return the narrowest gap between words, at the widest step between two gaps of the line; 0 if there is none."""
    ordered = sorted(gaps)
    steps = [
        (wide - narrow, wide)
        for narrow, wide in pairwise(ordered)
        if wide > _WIDER * max(narrow, 0.0) and wide - narrow > _WIDER_BY
    ]
    return max(steps, default=(0.0, 0.0))[1]


def join_torn_words(markdown: str, text: str) -> str:
    """Return Markdown with the torn words of its lines as they stand in the text."""
    if not any(map(is_torn, markdown.split("\n"))):
        return markdown
    for line in text.split("\n"):
        solid, places = place_letters(markdown)
        letters, inner = place_letters(line)
        if len(letters) < _FEWEST or is_torn(line):
            continue
        for at in find_places(solid, letters)[:1]:
            start, end = places[at], places[at + len(letters) - 1] + 1
            torn = markdown[start:end]
            if is_torn(torn) and "|" not in torn and "\n\n" not in torn:
                markdown = f"{markdown[:start]}{line[inner[0] : inner[-1] + 1]}{markdown[end:]}"
    return markdown
