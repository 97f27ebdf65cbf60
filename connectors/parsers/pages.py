"""Where each page starts in a Markdown text, from the library's list of text blocks and their pages."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W_]+")
_KEY = 80
"""Letters and digits of a page's start that are looked for."""


def starts(text: str, blocks: Iterable[tuple[int, str]], count: int) -> tuple[int, ...]:
    """The offset of each of `count` pages, ascending; an empty page starts where the next one does.

    `blocks`: (page, text) in reading order. Markup between their words is passed over.
    """
    by_page: dict[int, list[str]] = {}
    for page, block in blocks:
        by_page.setdefault(page, []).extend(_WORD.findall(block))
    found: dict[int, int] = {}
    cursor = 0
    for page in sorted(by_page):
        place = _find(text, by_page[page], cursor)
        if place is not None:
            found[page] = place
            cursor = place + sum(map(len, by_page[page])) // 2
    return _filled(found, count, len(text)) if found or count == 1 else ()


def _find(text: str, words: list[str], cursor: int) -> int | None:
    """The line or place after `cursor` where the page's first words stand, or else its words a little further on."""
    for skipped in (0, 4, 12, 30):
        key = _key(words[skipped:])
        match = re.compile(r"[\W_]*".join(key)).search(text, cursor) if key else None
        if match:
            line = text.rfind("\n", cursor, match.start()) + 1
            return match.start() if _WORD.search(text, line, match.start()) else max(line, cursor)
    return None


def _key(words: list[str]) -> list[str]:
    key: list[str] = []
    size = 0
    for word in words:
        key.append(word)
        size += len(word)
        if size >= _KEY:
            break
    return key


def _filled(found: dict[int, int], count: int, end: int) -> tuple[int, ...]:
    places = [0] * count
    following = end
    for page in range(count, 0, -1):
        following = found.get(page, following)
        places[page - 1] = following
    if places:
        places[0] = 0
    return tuple(places)
