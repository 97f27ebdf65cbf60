"""What is indexed of a text, and looked for of a query: words as people type them (D68).

A configuration of PostgreSQL stems the words of most languages. Before it sees them accents are left out, on both sides
alike, and what it would not read as people type it is made plain:

    AB-1234  10.1000/xyz  e-mail      their parts, and all of it in one: ab1234, 101000xyz, email
    1,234,567                         1234567
    港海豹                             pairs of neighbouring characters: 港海 海豹, which no configuration needs to know

A query looks besides for `ab1234` where `ab 1234` was typed, for its parts where it was `AB1234`, and for `Mueller`
where it was `Müller`, and the other way round.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, LiteralString

from retrieval.search.word_lists import UNACCENTED

LIMIT: LiteralString = "200000"
"""Characters of a text that are indexed; a tsvector holds a megabyte at most."""
CHARACTERS: Final = int(LIMIT)
_LONGEST: Final = 64
"""Characters of a term that is joined from parts."""
_PARTS: Final = 6
_JOINED: Final = re.compile(r"(?<![^\W_])[^\W_]+(?:[-\u2010\u2011\u2013._/:@][^\W_]+)+")
_DECIMAL: Final = re.compile(r"\d+\.\d+")
_THOUSANDS: Final = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_SIGN: Final = re.compile(r"(?<!\w)[-+](?=\d)")
_UNSPACED: Final = re.compile(
    "[\u3005\u3007\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002fa1f\u1100-\u11ff\uac00-\ud7a3\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ede\u1000-\u104f\u1780-\u17d3]+"
)
"""Runs of scripts that put no blanks between words: Han, kana, Thai, Lao, Burmese, Khmer; and Hangul."""
_MIXED: Final = re.compile(r"\b([^\W\d_]+)(\d+)\b|\b(\d+)([^\W\d_]+)\b")
_SPACED: Final = re.compile(r"(?=\b([^\W\d_]{1,8}) (\d[^\W_]*)\b)")
_WORD: Final = re.compile(r"[^\W\d_]+")
_LATIN_FOLDS: Final = {
    "ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "œ": "oe", "Œ": "OE", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "\u0131": "i", "þ": "th", "Þ": "Th", "ð": "d", "Ð": "D", "\u0451": "\u0435", "\u0401": "\u0415",
}  # fmt: skip
_UMLAUTS: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "Ø": "Oe", "Å": "Aa"}
)
_SPELLED: Final = re.compile(r"(?<![aeiouq])([aou])e", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a configuration reads, and terms that are terms already, each with how often it stands there."""

    text: str
    terms: Counter[str] = field(default_factory=Counter)


def of_text(text: str, configuration: str) -> Prepared:
    """Of a chunk."""
    terms: Counter[str] = Counter()
    plain = folded(text[:CHARACTERS])
    if not plain.isascii():
        plain = _UNSPACED.sub(lambda run: _pairs(run[0], terms), plain)
    plain = _SIGN.sub(" ", _THOUSANDS.sub(lambda number: number[0].replace(",", ""), plain))
    plain = _JOINED.sub(lambda match: _parts(match[0], terms), plain)
    return Prepared(_without(plain, UNACCENTED.get(configuration, ()))[:CHARACTERS], terms)


def of_query(text: str, configuration: str, dropped: Iterable[str] = ()) -> Prepared:
    """Of a query, with the other ways to write it. dropped: words that say nothing in the query's language."""
    prepared = of_text(_without(text, dropped), configuration)
    terms = prepared.terms.copy()
    plain = " ".join(prepared.text.split())
    for match in _SPACED.finditer(plain):
        terms.setdefault((match[1] + match[2]).lower(), 1)
    parts = [" ".join(filter(None, match.groups())) for match in _MIXED.finditer(plain)]
    for joined in list(prepared.terms):
        parts += [" ".join(filter(None, match.groups())) for match in _MIXED.finditer(joined)]
    seen = set(plain.lower().split())
    others = [word for word in (*_spelled(text), *" ".join(parts).split()) if word.lower() not in seen]
    return Prepared(" ".join([plain, *others]), terms)


def words(text: str) -> list[str]:
    """The words of a query, each once."""
    return sorted({word.lower() for word in _WORD.findall(text)})


def folded(text: str) -> str:
    """Without the accents of Latin and Greek letters, in the compatible forms of Unicode."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    return text.translate(_folds())


@lru_cache(maxsize=1)
def _folds() -> dict[int, str]:
    table = {ord(letter): plain for letter, plain in _LATIN_FOLDS.items()}
    for number in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00), *range(0x370, 0x400), *range(0x1F00, 0x2000)):
        base = unicodedata.normalize("NFD", chr(number))
        if len(base) > 1:
            table.setdefault(number, "".join(part for part in base if not unicodedata.combining(part)))
    return table


def _pairs(run: str, terms: Counter[str]) -> str:
    """Count the pairs of neighbours; nothing is left for the configuration."""
    terms.update(run[at : at + 2] for at in range(max(len(run) - 1, 1)))
    return " "


def _parts(match: str, terms: Counter[str]) -> str:
    if _DECIMAL.fullmatch(match):
        return match
    parts = [part for part in re.split(r"[^\w]|_", match) if part]
    joined = "".join(parts)
    if len(parts) > _PARTS or len(joined) > _LONGEST:
        return " ".join(parts)
    if joined.isalpha():
        return f"{' '.join(parts)} {joined}"
    terms[joined.lower()] += 1
    return " ".join(parts)


def _without(text: str, dropped: Iterable[str]) -> str:
    pattern = _any_of(tuple(sorted(dropped)))
    return text if pattern is None else pattern.sub(" ", text)


@lru_cache(maxsize=64)
def _any_of(dropped: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, dropped))})\b", re.IGNORECASE) if dropped else None


def _spelled(text: str) -> list[str]:
    """Words with umlauts written out, and words whose `ue` may stand for one."""
    found = _WORD.findall(unicodedata.normalize("NFC", text))
    written = [folded(word.translate(_UMLAUTS)) for word in found if word.translate(_UMLAUTS) != word]
    return written + [_SPELLED.sub(r"\1", word) for word in found if _SPELLED.search(word)]
