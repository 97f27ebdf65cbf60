"""Analyzer: terms of a text for the index, and of a query for lookup.

A configuration of PostgreSQL stems the words of most languages. Before it sees them each character is written in one
way (`folding`), on both sides alike, and what it would parse differently from how people type it is simplified, so
that it sees words and numbers alone:

    AB-1234  10.1000/xyz  AT&T        their parts, and the whole as one term: ab1234, 101000xyz, att
    /srv/share  $HOME/.bashrc         their parts: srv share, home bashrc; so of addresses and markup
    10.1145/3292500.3330701  3.11.7   and numbers in them: 10.1145, 3292500.3330701, 3.11
    C++  C#  .NET                     c, net; and c++, c#, .net as they are
    1,234,567                         1234567
    港海豹                             pairs of neighbouring characters: 港海 海豹, which no configuration needs to know

Stop words with meaning are indexed as separate terms: `^who` where it is in capitals, or capitalized within a sentence;
`~who` in a short text, and in a row of five of them or more. A query looks them up where it has no other words, and
those in capitals: `IT department`.

A query also looks up `ab1234` where `ab 1234` was typed, the parts of `AB1234`, and `Mueller` where it was `Müller`,
and the other way round.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, LiteralString

from retrieval.search.folding import folded
from retrieval.search.stop_words import STOP_WORDS
from retrieval.search.word_lists import UNACCENTED

LIMIT: LiteralString = "200000"
"""Characters of a text that are indexed; a tsvector holds a megabyte at most."""
CHARACTERS: Final = int(LIMIT)
SHORT: Final = 32
"""Words of a text up to which its stop words are indexed, too,"""
ROW: Final = 5
"""and stop words in a row from which on they are anywhere."""
MEANT, STANDS = "^", "~"
"""Before a stop word that is written as a name, and before one that stands there."""
_LONGEST: Final = 64
"""Characters of a term that is joined from parts."""
_PARTS: Final = 6
_VOWELS: Final = (
    "\u0900-\u0963\u0980-\u09e3\u0a00-\u0a75\u0a80-\u0ae3\u0b00-\u0b63"
    "\u0b80-\u0bd7\u0c00-\u0c63\u0c80-\u0ce3\u0d00-\u0d63\u0d80-\u0df3"
)
"""Ranges of Indic letters, with the vowels and signs that stand in words and are no letters to `re`."""


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Regular expressions of the analyzer, for ASCII or for any text."""

    joined: re.Pattern[str]
    parts: re.Pattern[str]
    marked: re.Pattern[str]
    dotted: re.Pattern[str]
    spaced: re.Pattern[str]
    word: re.Pattern[str]
    capitals: re.Pattern[str]


def _patterns(more: str, dashes: str, upper: str, flags: re.RegexFlag) -> _Patterns:
    letter = rf"[\w{more}]" if more else r"\w"
    between = rf"(?:[-._:@&{dashes}]|[:.]?[/\\][/\\.~$@-]{{0,3}}+)"
    return _Patterns(
        re.compile(rf"(?<!{letter}){letter}++(?:{between}{letter}++)+", flags),
        re.compile(rf"[^\w{more}]+", flags),
        re.compile(rf"(?<!{letter})({letter}{{1,20}}+)(\+\+|#)(?![^\W\d]|[+#])", flags),
        re.compile(rf"\.(?<![\w.]\.)(?=[^\W\d])({letter}++)", flags),
        re.compile(r"\b([^\W\d]{1,3}) & ([^\W\d]{1,3})\b", flags),
        re.compile(rf"{letter}+", flags),
        re.compile(rf"[{upper}](?:(?<=[\w,] .){letter}*|(?<!\w.)[{upper}]+\b)", flags),
    )


_ASCII: Final = _patterns("", "", "A-Z", re.ASCII)
_ANY: Final = _patterns(_VOWELS, "\u2010\u2011\u2013", "A-Z\u0391-\u03a9\u0400-\u042f", re.NOFLAG)
_HIDDEN: Final = re.compile(rf"(?<![\w{_VOWELS}])[\w{_VOWELS}]++(?:[\u200b\u200c]+[\w{_VOWELS}]++)+")
"""What a zero-width space or non-joiner stands in: one word to some, several to others."""
_DECIMAL: Final = re.compile(r"\d+\.\d+")
_DECIMALS: Final = re.compile(r"(?<!\d)(?<!\d\.)\d+\.\d+")
_THOUSANDS: Final = re.compile(r"\d(?<![\d.,].)\d{0,2}(?:,\d{3})+(?![\d,])")
_SIGN: Final = re.compile(r"[-+](?<!\w.)(?=\d)")
_SPECIAL: Final = "-/<>&@:#=%~\\+?*$^"
"""What PostgreSQL would read as a part of an address, a path, a tag or a number."""
UNSPACED: Final = re.compile(
    "[\u3005\u3007\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002fa1f\u1100-\u11ff\uac00-\ud7a3\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ede\u1000-\u104f\u1780-\u17d3]+"
)
"""Runs of scripts that put no blanks between words: Han, kana, Thai, Lao, Burmese, Khmer; and Hangul."""
_MIXED: Final = re.compile(r"\b([^\W\d_]+)(\d+)\b|\b(\d+)([^\W\d_]+)\b")
_SPACED: Final = re.compile(r"(?=\b([^\W\d_]{1,8}) (\d[^\W_]*)\b)")
_WORD: Final = re.compile(r"[^\W\d_]+")
_UMLAUTS: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "Ø": "Oe", "Å": "Aa"}
)
_SPELLED: Final = re.compile(r"(?<![aeiouq])([aou])e", re.IGNORECASE)
_ROWS: Final = re.compile(b"\x01{%d,}" % ROW)
_TYPED: Final = re.compile(
    '(?:[^\\s,;!?"()\\[\\]{}<>\u2026\u00ab\u00bb\u201c-\u201e\u3001-\u3011\uff01-\uff0f\uff1a-\uff20]|,(?=\\d))+'
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Text for a configuration, and finished terms with their counts.

    `parts`: of a query, the parts of words such as `AB1234`. A configuration reads them, too; they count less.
    """

    text: str
    terms: Counter[str] = field(default_factory=Counter)
    parts: str = ""


def of_text(text: str, configuration: str) -> Prepared:
    """Analyze a chunk."""
    terms: Counter[str] = Counter()
    plain = _plain(text, terms)
    if stops := STOP_WORDS.get(configuration):
        _say(plain, stops, terms)
    return Prepared(without(plain, UNACCENTED.get(configuration, ()))[:CHARACTERS], terms)


def of_query(text: str, configuration: str, dropped: Iterable[str] = ()) -> Prepared:
    """Analyze a query, with alternative spellings. dropped: stop words of the query's language."""
    terms: Counter[str] = Counter()
    plain = _plain(without(text, dropped), terms)
    stop_terms = _meant(plain, STOP_WORDS.get(configuration, frozenset()))
    plain = without(plain, UNACCENTED.get(configuration, ()))[:CHARACTERS]
    respelling = respelled(text, plain, terms)
    return Prepared(respelling.text, respelling.terms + stop_terms, respelling.parts)


def respelled(text: str, asked: str, terms: Counter[str]) -> Prepared:
    """Add alternative spellings to an analyzed query; further terms of that kind are added to `terms`."""
    joined = list(terms)
    plain = " ".join(asked.split())
    for match in _SPACED.finditer(plain):
        terms.setdefault((match[1] + match[2]).lower(), 1)
    parts = [" ".join(filter(None, match.groups())) for match in _MIXED.finditer(plain)]
    for term in joined:
        parts += [" ".join(filter(None, match.groups())) for match in _MIXED.finditer(term)]
    present = set(plain.lower().split())
    spellings = [word for word in _spelled(text) if word.lower() not in present]
    within = [word for word in " ".join(parts).split() if word.lower() not in present]
    return Prepared(" ".join([plain, *spellings]), terms, " ".join(within))


def words(text: str) -> list[str]:
    """The words of a query, each once."""
    return sorted({word.lower() for word in _WORD.findall(text)})


def only_stop_words(text: str, configuration: str) -> bool:
    """Tell if a query has only stop words, so that it is looked up where they are indexed alone."""
    lower_words = [word.lower() for word in _ANY.word.findall(folded(text))]
    return bool(lower_words) and STOP_WORDS.get(configuration, frozenset()).issuperset(lower_words)


def typed(text: str) -> list[str]:
    """Return the words of a query as typed, each once, without punctuation around them: `AT&T`, `C++`, `/srv/share`."""
    runs = (run.strip("'`\u2018\u2019").rstrip(".:") for run in _TYPED.findall(text))
    return list(dict.fromkeys(run for run in runs if run))


def pairs(run: str, terms: Counter[str]) -> str:
    """Count the pairs of neighbours; nothing is left for the configuration."""
    terms.update(run[at : at + 2] for at in range(max(len(run) - 1, 1)))
    return " "


def without(text: str, dropped: Iterable[str]) -> str:
    pattern = _any_of(tuple(sorted(dropped)))
    return text if pattern is None else pattern.sub(" ", text)


def grouped(text: str) -> str:
    """Numbers without the commas in them, and without the sign before."""
    return _SIGN.sub(" ", _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text))


def _plain(text: str, terms: Counter[str]) -> str:
    """Words and numbers; what they make together, and what no configuration reads, is counted in terms."""
    plain = folded(text[:CHARACTERS])
    patterns = _ANY
    if plain.isascii():
        patterns = _ASCII
    else:
        if "\u200b" in plain or "\u200c" in plain:
            plain = _HIDDEN.sub(lambda match: _shown(match[0]), plain)
        plain = UNSPACED.sub(lambda run: pairs(run[0], terms), plain)
    plain = grouped(plain).replace("_", "-")
    if "&" in plain:
        plain = patterns.spaced.sub(r"\1&\2", plain.replace("&amp;", "&"))
    if "#" in plain or "++" in plain:
        terms.update((word + mark).lower() for word, mark in patterns.marked.findall(plain))
    terms.update("." + word.lower() for word in patterns.dotted.findall(plain))
    plain = patterns.joined.sub(lambda match: _parts(match[0], terms, patterns.parts), plain)
    for mark in _SPECIAL:
        plain = plain.replace(mark, " ")
    return plain


def _shown(match: str) -> str:
    """The words that hidden characters part, if they are not parted everywhere, and the one that they make."""
    parts = match.replace("\u200c", "\u200b").split("\u200b")
    joined = "".join(parts)
    return f"{' '.join(filter(None, parts))} {joined}" if len(parts) <= _PARTS else joined


def _parts(match: str, terms: Counter[str], between: re.Pattern[str]) -> str:
    if _DECIMAL.fullmatch(match):
        return match
    if "." in match:
        terms.update(_DECIMALS.findall(match))
    parts = between.split(match)
    joined = "".join(parts)
    if len(parts) > _PARTS or len(joined) > _LONGEST:
        return " ".join(parts)
    if not any(map(str.isdigit, joined)):
        return f"{' '.join(parts)} {joined}"
    terms[joined.lower()] += 1
    return " ".join(parts)


def _say(plain: str, stops: frozenset[str], terms: Counter[str]) -> None:
    """Count the stop words of a text that say something."""
    patterns = _ASCII if plain.isascii() else _ANY
    for word in patterns.capitals.findall(plain):
        if (lower := word.lower()) in stops:
            terms[MEANT + lower] += 1
    lower_words = patterns.word.findall(plain.lower())
    if len(lower_words) <= SHORT:
        terms.update(STANDS + word for word in lower_words if word in stops)
        return
    is_stop = bytes(map(stops.__contains__, lower_words))
    for row in _ROWS.finditer(is_stop):
        terms.update(STANDS + word for word in lower_words[row.start() : row.end()])


def _meant(plain: str, stops: frozenset[str]) -> Counter[str]:
    """Return the stop words that a query looks up: all of them if it has no other words, else those in capitals."""
    plain_words = _ANY.word.findall(plain)
    lower = [word.lower() for word in plain_words]
    if stops.issuperset(lower):
        return Counter([mark + word for word in lower for mark in (MEANT, STANDS)])
    if plain.upper() == plain:
        return Counter()
    capitals = [word.lower() for word in plain_words if len(word) > 1 and word.isupper()]
    return Counter(MEANT + word for word in capitals if word in stops)


@lru_cache(maxsize=64)
def _any_of(dropped: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile(rf"\b{_tree(dropped)}\b", re.IGNORECASE) if dropped else None


def _tree(endings: Iterable[str]) -> str:
    """A pattern for any of them that reads each character once."""
    by_first: dict[str, list[str]] = {}
    for ending in endings:
        by_first.setdefault(ending[:1], []).append(ending[1:])
    last = by_first.pop("", None)
    several = "|".join(re.escape(first) + _tree(rests) for first, rests in by_first.items())
    return f"(?:{several}){'?' if last else ''}" if several else ""


def _spelled(text: str) -> list[str]:
    """Words with umlauts written out, and words whose `ue` may stand for one."""
    text_words = _WORD.findall(unicodedata.normalize("NFC", text))
    written = [folded(word.translate(_UMLAUTS)) for word in text_words if word.translate(_UMLAUTS) != word]
    return written + [_SPELLED.sub(r"\1", word) for word in text_words if _SPELLED.search(word)]
