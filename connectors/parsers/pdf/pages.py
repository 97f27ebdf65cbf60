"""Where each page starts in a Markdown text, from the library's list of text blocks and their pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_LETTERS = re.compile(r"[^\W_]+")
_KEY = 80
"""Letters and digits of a block's start that are looked for, where the text does not go on with the block."""
_REACH = 4000
"""How many letters further on a block may stand; further away there is another one of the same words."""
_AHEAD = 4
"""How many blocks that stand nowhere are passed over before one that the text goes on with."""


def starts(text: str, blocks: Iterable[tuple[int, str]], count: int) -> tuple[int, ...]:
    """The offset of each of `count` pages, ascending; an empty page starts where the next one does.

    `blocks`: (page, text) in reading order. Text and blocks are walked side by side, so that of words that stand on
    many pages each block takes its own. Markup between letters is passed over.
    """
    letters, places = _solid(text)
    known = [(page, block) for page, block in ((page, _solid(block)[0]) for page, block in blocks) if block]
    found: dict[int, int] = {}
    cursor = 0
    tried: set[int] = set()
    for number, (page, block) in enumerate(known):
        at = _find(letters, cursor, [ahead for _, ahead in known[number : number + 1 + _AHEAD]])
        if at is not None:
            place = at if page not in tried else cursor
            if page > max(found, default=0) and place < len(letters):
                found[page] = _line_start(text, places[place], places[cursor - 1] + 1 if cursor else 0)
            cursor = at + len(_shared(letters, at, block))
        tried.add(page)
    return _filled(found, count, len(text)) if found or count == 1 else ()


def _solid(text: str) -> tuple[str, Sequence[int]]:
    """Its letters and digits alone, and the offset of each."""
    parts: list[str] = []
    places: list[int] = []
    for match in _LETTERS.finditer(text):
        parts.append(match.group())
        places += range(match.start(), match.end())
    return "".join(parts), places


def _find(letters: str, cursor: int, blocks: Sequence[str]) -> int | None:
    """Where the first of these blocks stands from `cursor` on; None if nowhere, or if another is what comes next."""
    if letters.startswith(blocks[0][:_KEY], cursor):
        return cursor
    if any(len(block) >= _KEY // 4 and letters.startswith(block[:_KEY], cursor) for block in blocks[1:]):
        return None
    at = letters.find(blocks[0][:_KEY], cursor, cursor + _REACH)
    return None if at < 0 else at


def _shared(letters: str, at: int, block: str) -> str:
    """As much of the block as stands there: all of it, or else its beginning."""
    return block if letters.startswith(block, at) else block[:_KEY]


def _line_start(text: str, place: int, least: int) -> int:
    """The start of the line, if nothing but markup is before the place there."""
    line = text.rfind("\n", least, place) + 1
    return place if _LETTERS.search(text, line, place) else max(line, least)


def _filled(found: dict[int, int], count: int, end: int) -> tuple[int, ...]:
    places = [0] * count
    following = end
    for page in range(count, 0, -1):
        following = found.get(page, following)
        places[page - 1] = following
    if places:
        places[0] = 0
    return tuple(places)
