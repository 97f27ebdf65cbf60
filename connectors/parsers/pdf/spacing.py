"""Words of letterspaced lines: spaces go to the wide gaps of each line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from connectors.parsers.pdf.scripts import find_offsets, index_letters

_WORD_PATTERN = re.compile(r"[^\W\d_]+")
# Minimum of words in a line, letters of a short word, and share of short words in a torn line.
_MIN_LINE_WORDS, _MAX_SHORT_LENGTH, _TORN_SHARE = 6, 2, 0.55
# Minimum ratio of word gaps to letter gaps, and minimum difference in heights of the letter.
_MIN_GAP_RATIO, _MIN_GAP_DIFFERENCE = 1.5, 0.08
# In heights of a letter: a wider gap divides columns.
_COLUMN_GAP = 2.0
# Scripts with few words of one or two letters: Latin, Greek, Cyrillic.
_SPACED_SCRIPTS = re.compile("[a-zA-Z\u00c0-\u052f]")


def is_torn(line: str) -> bool:
    """Check for a line of mostly one- and two-letter words."""
    words = _WORD_PATTERN.findall(line)
    if len(words) < _MIN_LINE_WORDS or not _SPACED_SCRIPTS.search(line):
        return False
    return sum(len(word) <= _MAX_SHORT_LENGTH for word in words) > _TORN_SHARE * len(words)


def join_torn_lines(text: str, words: Any) -> str:
    """Return the text of a pypdfium2 text page with joined words in torn lines."""
    if not any(map(is_torn, text.split("\n"))):
        return text
    lines = _read_lines(words)
    return "\n".join(lines.get("".join(line.split()), line) if is_torn(line) else line for line in text.split("\n"))


def _read_lines(words: Any) -> dict[str, str]:
    """Map the letters of each line of a page to its joined text."""
    import pypdfium2.raw as pdfium

    bounds = pdfium.FS_RECTF()
    lines: dict[str, str] = {}
    letters: list[tuple[str, float, float, float]] = []
    for index in range(words.count_chars()):
        sign = chr(pdfium.FPDFText_GetUnicode(words.raw, index))
        if sign in "\r\n":
            lines |= _join_letters(letters)
            letters = []
        elif sign.strip():
            pdfium.FPDFText_GetLooseCharBox(words.raw, index, bounds)
            letters.append((sign, bounds.left, bounds.right, bounds.top - bounds.bottom))
    return lines | _join_letters(letters)


def _join_letters(letters: Sequence[tuple[str, float, float, float]]) -> dict[str, str]:
    gaps = [(following[1] - letter[2]) / max(letter[3], 1.0) for letter, following in pairwise(letters)]
    widest = _word_gap(gaps)
    if not widest:
        return {}
    text = letters[0][0]
    for gap, letter in zip(gaps, letters[1:], strict=True):
        text += f"{' ' if gap >= widest else ''}{letter[0]}"
    return {} if is_torn(text) else {"".join(letter[0] for letter in letters): text}


def _word_gap(gaps: Sequence[float]) -> float:
    """Return the narrowest gap between words, above the widest step between gaps of a line; 0 without a step."""
    ordered = sorted(gap for gap in gaps if gap < _COLUMN_GAP)
    steps = [
        (wide - narrow, wide)
        for narrow, wide in pairwise(ordered)
        if wide > _MIN_GAP_RATIO * max(narrow, 0.0) and wide - narrow > _MIN_GAP_DIFFERENCE
    ]
    return max(steps, default=(0.0, 0.0))[1]


def join_torn_words(markdown: str, text: str) -> str:
    """Replace torn lines of Markdown by the same lines of the text layer."""
    if not any(map(is_torn, markdown.split("\n"))):
        return markdown
    solid, offsets = index_letters(markdown)
    for line in text.split("\n"):
        letters, inner = index_letters(line)
        if len(letters) < _MIN_LINE_WORDS or is_torn(line):
            continue
        for position in find_offsets(solid, letters)[:1]:
            start, end = offsets[position], offsets[position + len(letters) - 1] + 1
            torn = markdown[start:end]
            if is_torn(torn) and "|" not in torn and "\n\n" not in torn:
                markdown = f"{markdown[:start]}{line[inner[0] : inner[-1] + 1]}{markdown[end:]}"
                solid, offsets = index_letters(markdown)
    return markdown
