"""Mends an RTF before the library reads it: characters beyond 16 bits, and spaces that do not break."""

from __future__ import annotations

import re

_PAIR = re.compile(rb"\\u-?\d{1,5} ?\??\\u-?\d{1,5} ?\??")
_NUMBER = re.compile(rb"-?\d+")
_SIGN = re.compile(rb"\\([\\~])")
_FIRST, _LAST = 0xE100, 0xE8FF
"""Of the private characters that stand for those that RTF writes in two halves."""


def readable(data: bytes) -> tuple[bytes, dict[int, str]]:
    """The file as the library reads it whole, and what its private characters are to become again."""
    known: dict[str, int] = {}

    def one(found: re.Match[bytes]) -> bytes:
        high, low = (int(number) & 0xFFFF for number in _NUMBER.findall(found[0]))
        if not (0xD800 <= high < 0xDC00 <= low < 0xE000) or _FIRST + len(known) > _LAST:
            return found[0]
        character = chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)
        return rb"\u%d?" % (known.setdefault(character, _FIRST + len(known)) - 0x10000)

    mended = _SIGN.sub(lambda found: rb"\'a0" if found[1] == b"~" else found[0], data)
    return _PAIR.sub(one, mended), {place: character for character, place in known.items()}
