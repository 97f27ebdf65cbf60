"""One way to write a character, of those that people and keyboards have for it.

Left out: accents of Latin and Greek letters, points and signs of vowels in Hebrew and Arabic, the nukta of Devanagari,
and what is not seen (soft hyphens, joiners, marks of direction). Made one: the alefs, yehs, kafs and hehs of Arabic and
Persian, ß and ss, the digits of all scripts, the compatible forms of Unicode.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_LATIN: Final = {
    "ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "œ": "oe", "Œ": "OE", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "\u0131": "i", "þ": "th", "Þ": "Th", "ð": "d", "Ð": "D", "\u0451": "\u0435", "\u0401": "\u0415",
}  # fmt: skip
_ONE: Final = {
    "\u1e9e": "SS", "\u03c2": "\u03c3",
    # hamza on alef, waw and yeh; teh marbuta and the hehs; alef maksura and Persian yeh; Persian kaf
    "\u0622": "\u0627", "\u0623": "\u0627", "\u0625": "\u0627", "\u0671": "\u0627", "\u0672": "\u0627",
    "\u0673": "\u0627", "\u0624": "\u0648", "\u0626": "\u064a", "\u0629": "\u0647", "\u06c0": "\u0647",
    "\u06c1": "\u0647", "\u06c2": "\u0647", "\u06c3": "\u0647", "\u06d5": "\u0647", "\u0649": "\u064a",
    "\u06cc": "\u064a", "\u06a9": "\u0643",
    # letters that Unicode composes with a nukta
    "\u0929": "\u0928", "\u0931": "\u0930", "\u0934": "\u0933",
    # marks that stand for those of ASCII: Arabic points of numbers, modifier apostrophes, Hebrew marks, minus
    "\u066b": ".", "\u066c": ",", "\u02bc": "'", "\u2019": "'", "\u05f3": "'", "\u05f4": '"', "\u201d": '"',
    "\u05be": "-", "\u2212": "-",
}  # fmt: skip
_LEFT_OUT: Final = (
    (0x00AD, 0x00AD), (0x0300, 0x036F), (0x0591, 0x05BD), (0x05BF, 0x05BF), (0x05C1, 0x05C2), (0x05C4, 0x05C5),
    (0x05C7, 0x05C7), (0x0610, 0x061A), (0x061C, 0x061C), (0x0640, 0x0640), (0x064B, 0x065F), (0x0670, 0x0670),
    (0x06D6, 0x06DC), (0x06DF, 0x06E4), (0x06E7, 0x06E8), (0x06EA, 0x06ED), (0x08D3, 0x08E1), (0x08E3, 0x08FF),
    (0x093C, 0x093C), (0x180E, 0x180E), (0x200D, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0x2066, 0x2069),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
)  # fmt: skip
"""First and last characters of what is not read. Zero-width spaces and non-joiners stay: they part words."""
_ZEROS: Final = (
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0E50, 0x0ED0,
    0x0F20, 0x1040, 0x17E0, 0x1810,
)  # fmt: skip
_IN_A_WORD: Final = re.compile("['\"](?<=[\u05d0-\u05ea].)(?=[\u05d0-\u05ea])(?:(?<=')|(?=.\\b))")
"""Geresh and gershayim of Hebrew words and abbreviations, however they are typed."""


def folded(text: str) -> str:
    """The text in the one way to write it; of ASCII as it is."""
    return text if text.isascii() else _IN_A_WORD.sub("", _written(text, *_all()))


def unaccented(text: str) -> str:
    """Without the accents of Latin and Greek letters, in the compatible forms of Unicode, and no more."""
    return text if text.isascii() else _written(text, *_accents())


def _written(text: str, these: re.Pattern[str], by: Mapping[str, str]) -> str:
    return these.sub(lambda found: by[found[0]], unicodedata.normalize("NFKC", text))


@lru_cache(maxsize=1)
def _accents() -> tuple[re.Pattern[str], Mapping[str, str]]:
    return _table({})


@lru_cache(maxsize=1)
def _all() -> tuple[re.Pattern[str], Mapping[str, str]]:
    digits = {chr(first + digit): str(digit) for first in _ZEROS for digit in range(10)}
    hidden = {chr(number): "" for first, last in _LEFT_OUT for number in range(first, last + 1)}
    return _table(digits | hidden | _ONE)


def _table(more: Mapping[str, str]) -> tuple[re.Pattern[str], Mapping[str, str]]:
    """Accents and more: what to look for, since most characters stay as they are, and what to write for each."""
    table = _LATIN | dict(more)
    for number in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00), *range(0x370, 0x400), *range(0x1F00, 0x2000)):
        base = unicodedata.normalize("NFD", chr(number))
        if len(base) > 1:
            table.setdefault(chr(number), "".join(part for part in base if not unicodedata.combining(part)))
    return re.compile(f"[{''.join(map(re.escape, sorted(table)))}]"), table
