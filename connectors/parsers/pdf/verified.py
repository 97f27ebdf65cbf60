"""The Markdown of a page beside PDFium's text of it, which replaces what was read with other letters or in disorder."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from connectors.parsers.pdf.layer import Layer

_WORD = re.compile(r"[^\W_]+")
_LITTLE, _MUCH = 0.005, 0.2
"""Shares of a page's letters: up to one nothing was lost, up to the other the missing lines are put after it."""
_IN_ORDER = 0.5
"""Share of PDFium's neighbouring words that are neighbours in the Markdown, too, of pages without a table."""
_FROM_RIGHT = 0.3
_HEADING = re.compile(r"^(#+ )(.+)$", re.MULTILINE)


def page(markdown: str, layer: Layer) -> str:
    """The text of a page: as Markdown where it says what PDFium reads, and with what was added to the page."""
    if layer.right_to_left > _FROM_RIGHT:
        text = _with_headings(layer.text, markdown)
    else:
        text = _completed(_turned(markdown, layer) if layer.right_to_left else markdown, layer.text)
    known = _solid(text)
    fresh = [line for line in layer.added if _solid(line) and _solid(line) not in known]
    return "\n\n".join(filter(None, [text.strip("\n"), *fresh]))


def _completed(markdown: str, text: str) -> str:
    there, expected = Counter(_words(markdown)), Counter(_words(text))
    missing = Counter({word: count for word, count in (expected - there).items() if not _is_divided(word, there)})
    share = _letters(missing) / max(_letters(expected), 1)
    if share > _MUCH or ("\n|" not in f"\n{markdown}" and _agreement(markdown, text) < _IN_ORDER):
        return text
    if share <= _LITTLE:
        return markdown
    return "\n".join([f"{markdown}\n", *_lines(text, missing, _solid(markdown))])


def _is_divided(word: str, there: Counter[str]) -> bool:
    """Whether its parts stand there: PDFium joins what is not far enough apart for it."""
    return any(word[:place] in there and word[place:] in there for place in range(1, len(word)))


def _agreement(markdown: str, text: str) -> float:
    neighbours = set(pairwise(_words(markdown)))
    pairs = [pair for line in text.split("\n") for pair in pairwise(_words(line))]
    return sum(pair in neighbours for pair in pairs) / len(pairs) if pairs else 1.0


def _lines(text: str, missing: Counter[str], known: str) -> Iterator[str]:
    """Those with words that stand nowhere, in no other division either."""
    for line in text.split("\n"):
        words = Counter(_words(line))
        if 2 * _letters(words & missing) > _letters(words) and _solid(line) not in known:
            missing -= words
            yield line


def _turned(markdown: str, layer: Layer) -> str:
    """Paragraphs that are read from the right, in PDFium's order of their words."""
    lines = [(line, Counter(_words(line))) for line in layer.text.split("\n")]
    parts = markdown.split("\n\n")
    for place, part in enumerate(parts):
        words = Counter(_words(part))
        if _from_right(part) and not part.startswith("|"):
            taken = [(line, held) for line, held in lines if held and held <= words]
            if sum((held for _, held in taken), Counter()) == words:
                parts[place] = " ".join(line for line, _ in taken)
    return "\n\n".join(parts)


def _from_right(text: str) -> bool:
    turned = sum(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text)
    return turned > _FROM_RIGHT * sum(map(str.isalpha, text))


def _with_headings(text: str, markdown: str) -> str:
    """PDFium's lines, those with the letters of a heading of the Markdown, in whatever order, as headings."""
    headings = {_letters_of(heading): mark for mark, heading in _HEADING.findall(markdown)}
    marked = ((line, headings.get(_letters_of(line))) for line in text.split("\n"))
    return "\n".join(f"\n{mark}{line.strip()}\n" if mark and line.strip() else line for line, mark in marked)


def _letters_of(text: str) -> str:
    return "".join(sorted(_solid(text)))


def _words(text: str) -> Sequence[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _solid(text: str) -> str:
    return "".join(_words(text))


def _letters(words: Counter[str]) -> int:
    return sum(len(word) * count for word, count in words.items())
