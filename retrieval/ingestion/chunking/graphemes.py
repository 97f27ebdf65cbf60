"""Grapheme clusters (Unicode annex 29): cut positions that split no character."""

from __future__ import annotations

from typing import Final
from unicodedata import category

_ZERO_WIDTH_JOINER: Final = "\u200d"
# A longer cluster is a deliberate pile of accents.
MAX_CHARACTER_CODE_POINTS: Final = 64


def last_cut(text: str, floor: int, limit: int) -> int | None:
    """Return the last character end in (floor, limit], or None; splits joined emoji and flags only if necessary."""
    lowest = max(floor, limit - MAX_CHARACTER_CODE_POINTS)
    for keep_joined in (True, False):
        for position in range(limit, lowest, -1):
            if is_cut(text, position, floor, keep_joined=keep_joined):
                return position
    return None


def next_cut(text: str, floor: int) -> int:
    """Return the end of the character that starts at `floor`, at most 64 code points."""
    highest = min(len(text), floor + MAX_CHARACTER_CODE_POINTS)
    for position in range(floor + 1, highest):
        if is_cut(text, position, floor, keep_joined=False):
            return position
    return highest


def is_cut(text: str, position: int, floor: int, *, keep_joined: bool = True) -> bool:
    """Return whether `position` is between characters. `floor`: an earlier cut; `keep_joined`: never split emoji."""
    if position <= 0 or position >= len(text):
        return True
    previous, following = text[position - 1], text[position]
    if following < "\u0300":
        return not (previous == "\r" and following == "\n")
    if _is_extender(following):
        return False
    if _is_hangul_letter(previous) and _is_hangul_letter(following):
        return not _is_same_syllable(previous, following)
    if keep_joined and previous == _ZERO_WIDTH_JOINER:
        return False
    return not (
        keep_joined
        and _is_flag_letter(previous)
        and _is_flag_letter(following)
        and _is_inside_flag(text, position, floor)
    )


def _is_extender(character: str) -> bool:
    # Accents, variation selectors, joiners, skin tones and tags extend the previous character.
    return (
        category(character) in {"Mn", "Mc", "Me"}
        or character in "\u200c\u200d"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    )


def _is_hangul_letter(character: str) -> bool:
    return "\u1100" <= character <= "\u11ff" or "\uac00" <= character <= "\ud7a3"


def _is_same_syllable(previous: str, following: str) -> bool:
    # Decomposed Korean: leading consonants join the following letter, vowels and finals the preceding one.
    return previous < "\u1160" or "\u1160" <= following <= "\u11ff"


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_inside_flag(text: str, position: int, floor: int) -> bool:
    # A flag is a pair of letters; an odd distance is inside a pair.
    start = position
    while start > floor and _is_flag_letter(text[start - 1]):
        start -= 1
    return (position - start) % 2 == 1
