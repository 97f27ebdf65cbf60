"""Grapheme clusters (Unicode annex 29): where a text may be cut without splitting a character."""

from __future__ import annotations

from typing import Final
from unicodedata import category

_JOINER: Final = "\u200d"
LONGEST: Final = 64
"""Code points of the longest character that is kept whole; more is a row of accents made to break things."""


def last_cut(text: str, floor: int, limit: int) -> int | None:
    """The last place in (floor, limit] where a character ends, or None; joined emoji and flags give way first."""
    lowest = max(floor, limit - LONGEST)
    for whole in (True, False):
        for position in range(limit, lowest, -1):
            if is_cut(text, position, floor, whole=whole):
                return position
    return None


def next_cut(text: str, floor: int) -> int:
    """The end of the character that starts at `floor`; of an endless one, its first 64 code points."""
    highest = min(len(text), floor + LONGEST)
    for position in range(floor + 1, highest):
        if is_cut(text, position, floor, whole=False):
            return position
    return highest


def is_cut(text: str, position: int, floor: int, *, whole: bool = True) -> bool:
    """May the text be cut before `position`? `floor`: an earlier such place; `whole`: keep joined emoji and flags."""
    if position <= 0 or position >= len(text):
        return True
    previous, following = text[position - 1], text[position]
    if following < "\u0300":
        return not (previous == "\r" and following == "\n")
    if _extends(following):
        return False
    if _jamo(previous) and _jamo(following):
        return not _same_syllable(previous, following)
    if whole and previous == _JOINER:
        return False
    return not (whole and _flag(previous) and _flag(following) and _odd_flags(text, position, floor))


def _extends(character: str) -> bool:
    """Accents, variation selectors, joiners, skin tones and tags belong to the character before them."""
    return (
        category(character) in {"Mn", "Mc", "Me"}
        or character in "\u200c\u200d"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _jamo(character: str) -> bool:
    return "\u1100" <= character <= "\u11ff" or "\uac00" <= character <= "\ud7a3"


def _same_syllable(before: str, after: str) -> bool:
    """Korean written letter by letter: leading consonants join what follows, vowels and finals what precedes."""
    return before < "\u1160" or "\u1160" <= after <= "\u11ff"


def _flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _odd_flags(text: str, position: int, floor: int) -> bool:
    """Is `position` in the middle of a flag, which is a pair of letters?"""
    start = position
    while start > floor and _flag(text[start - 1]):
        start -= 1
    return (position - start) % 2 == 1
