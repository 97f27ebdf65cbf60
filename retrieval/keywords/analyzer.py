"""Analyzer: terms of a text for the index, and of a query for lookup.

A configuration of PostgreSQL stems the words of most languages. Before it sees them each character is written in one
way (`normalize`), on both sides alike, and what it would parse differently from how people type it is simplified, so
that it sees words and numbers alone:

    AB-1234  10.1000/xyz  AT&T        their parts, and the whole as one term: ab1234, 101000xyz, att
    /srv/share  $HOME/.bashrc         their parts: srv share, home bashrc; so of addresses and markup
    10.1145/3292500.3330701  3.11.7   and numbers in them: 10.1145, 3292500.3330701, 3.11
    C++  C#  .NET                     c, net; and c++, c#, .net as they are
    1,234,567                         1234567
    m^(2)  H_(2)O  10^(6)             their parts, and the whole where it has a letter: m2, h2o; so 10 and 6, not 106
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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, LiteralString

from retrieval.keywords import joined_forms
from retrieval.keywords.word_lists import STOP_WORDS, UNACCENTED

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


_LATIN: Final = {
    "ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "œ": "oe", "Œ": "OE", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "\u0131": "i", "þ": "th", "Þ": "Th", "ð": "d", "Ð": "D", "\u0451": "\u0435", "\u0401": "\u0415",
}  # fmt: skip
_VARIANTS: Final = {
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
_DROPPED: Final = (
    (0x00AD, 0x00AD), (0x0300, 0x036F), (0x0591, 0x05BD), (0x05BF, 0x05BF), (0x05C1, 0x05C2), (0x05C4, 0x05C5),
    (0x05C7, 0x05C7), (0x0610, 0x061A), (0x061C, 0x061C), (0x0640, 0x0640), (0x064B, 0x065F), (0x0670, 0x0670),
    (0x06D6, 0x06DC), (0x06DF, 0x06E4), (0x06E7, 0x06E8), (0x06EA, 0x06ED), (0x08D3, 0x08E1), (0x08E3, 0x08FF),
    (0x093C, 0x093C), (0x180E, 0x180E), (0x200D, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0x2066, 0x2069),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
)  # fmt: skip
"""Ranges of dropped characters. Zero-width spaces and non-joiners stay: they part words."""
_ZEROS: Final = (
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0E50, 0x0ED0,
    0x0F20, 0x1040, 0x17E0, 0x1810,
)  # fmt: skip
_QUOTE_IN_WORD: Final = re.compile("['\"](?<=[\u05d0-\u05ea].)(?=[\u05d0-\u05ea])(?:(?<=')|(?=.\\b))")
"""Geresh and gershayim of Hebrew words and abbreviations, however they are typed; they are dropped."""


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
_SCRIPTED: Final = re.compile(r"[^\W_]++(?:[_^]\([-+\u2212]?[^\W_]{1,12}[-+]?\)[^\W_]*+)++")
_SCRIPT_SIGNS: Final = re.compile(r"[_^()+\-\u2212]+")
_BESIDE_DIGITS: Final = re.compile(
    "(?<=\\d)(?=[\u2070\u00b9\u00b2\u00b3\u2074-\u208e\u00bc-\u00be\u2150-\u215e])|[\u2122\u2120]"
)
"""Exponents, marks of notes and fractions after a digit, and signs of trade marks: letters and digits to Unicode."""
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


def analyze_text(text: str, configuration: str) -> Prepared:
    """Analyze a chunk."""
    terms: Counter[str] = Counter()
    plain = _plain(text, terms)
    if stops := STOP_WORDS.get(configuration):
        _count_stop_words(plain, stops, terms)
    return Prepared(_drop_words(plain, UNACCENTED.get(configuration, ()))[:CHARACTERS], terms)


def analyze_query(text: str, configuration: str, dropped: Iterable[str] = ()) -> Prepared:
    """Analyze a query, with alternative spellings. dropped: stop words of the query's language."""
    terms: Counter[str] = Counter()
    plain = _plain(_drop_words(text, dropped), terms, is_query=True)
    whole = _join_hidden(text)
    stop_terms = _queried_stop_words(
        plain if whole == text else _plain(_drop_words(whole, dropped), Counter()),
        STOP_WORDS.get(configuration, frozenset()),
    )
    plain = _drop_words(plain, UNACCENTED.get(configuration, ()))[:CHARACTERS]
    respelling = _respell(text, plain, terms)
    return Prepared(respelling.text, respelling.terms + stop_terms, respelling.parts)


def _respell(text: str, asked: str, terms: Counter[str]) -> Prepared:
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


def list_words(text: str) -> list[str]:
    """The words of a query, each once."""
    return sorted({word.lower() for word in _WORD.findall(text)})


def has_only_stop_words(text: str, configuration: str) -> bool:
    """Tell if a query has only stop words, so that it is looked up where they are indexed alone."""
    lower_words = [word.lower() for word in _ANY.word.findall(normalize(_join_hidden(text)))]
    return bool(lower_words) and STOP_WORDS.get(configuration, frozenset()).issuperset(lower_words)


def list_typed_words(text: str) -> list[str]:
    """Return the words of a query as typed, each once, without punctuation around them: `AT&T`, `C++`, `/srv/share`."""
    runs = (run.strip("'`\u2018\u2019").rstrip(".:") for run in _TYPED.findall(text))
    return list(dict.fromkeys(run for run in runs if run))


def _count_pairs(run: str, terms: Counter[str], *, is_query: bool) -> str:
    """Count the pairs of neighbours, and each Han character; nothing is left for the configuration."""
    run = joined_forms.fold_han(run)
    if len(run) > 1:
        terms.update(run[at : at + 2] for at in range(len(run) - 1))
    if len(run) == 1 or not is_query:
        # Marked, they count in no length; a query looks up one that stands without neighbours.
        terms.update(STANDS + character for character in run)
    return " "


def _drop_words(text: str, dropped: Iterable[str]) -> str:
    pattern = _any_of(tuple(sorted(dropped)))
    return text if pattern is None else pattern.sub(" ", text)


def _join_numbers(text: str) -> str:
    """Numbers without the commas in them, and without the sign before."""
    return _SIGN.sub(" ", _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text))


def _plain(text: str, terms: Counter[str], *, is_query: bool = False) -> str:
    """Words and numbers; what they make together, and what no configuration reads, is counted in terms."""
    plain = normalize(text[:CHARACTERS])
    if "^(" in plain or "_(" in plain:
        plain = _SCRIPTED.sub(lambda match: _script_parts(match[0], terms), plain)
    patterns = _ANY
    if plain.isascii():
        patterns = _ASCII
    else:
        if "\u200b" in plain or "\u200c" in plain:
            plain = _HIDDEN.sub(lambda match: _shown(match[0]), plain)
        plain = UNSPACED.sub(lambda run: _count_pairs(run[0], terms, is_query=is_query), plain)
    plain = _read_joined_forms(plain, terms, is_query=is_query)
    plain = _join_numbers(plain).replace("_", "-")
    if "&" in plain:
        plain = patterns.spaced.sub(r"\1&\2", plain.replace("&amp;", "&"))
    if "#" in plain or "++" in plain:
        terms.update((word + mark).lower() for word, mark in patterns.marked.findall(plain))
    terms.update("." + word.lower() for word in patterns.dotted.findall(plain))
    plain = patterns.joined.sub(lambda match: _parts(match[0], terms, patterns.parts), plain)
    for mark in _SPECIAL:
        plain = plain.replace(mark, " ")
    return plain


def _read_joined_forms(plain: str, terms: Counter[str], *, is_query: bool) -> str:
    """Count emoji and joined forms, which count in no length; the text, with the names before its version numbers."""
    terms.update(joined_forms.list_emoji(plain))
    numeric = joined_forms.read_numeric_parts(plain)
    joined = joined_forms.list_joined_forms(numeric)
    terms.update(STANDS + form for form in joined)
    if is_query:
        terms.update(joined)
        terms.update(STANDS + code for code in joined_forms.list_typed_codes(plain) - joined)
    elif names := joined_forms.list_versioned_names(numeric):
        return " ".join([plain, *names])
    return plain


def _join_hidden(text: str) -> str:
    """Join the words that hidden characters part: a stop word is one however it is written."""
    return text.replace("\u200b", "").replace("\u200c", "")


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


def _script_parts(match: str, terms: Counter[str]) -> str:
    """The parts of a word with superscripts or subscripts; what they make together is counted, unless it is a number
    with an exponent or the mark of a note."""
    parts = [part for part in _SCRIPT_SIGNS.split(match) if part]
    joined = "".join(parts)
    if parts[0][0].isalpha() and len(joined) <= _LONGEST:
        terms[joined.lower()] += 1
    return " ".join(parts)


def _count_stop_words(plain: str, stops: frozenset[str], terms: Counter[str]) -> None:
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


def _queried_stop_words(plain: str, stops: frozenset[str]) -> Counter[str]:
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
    written = [normalize(word.translate(_UMLAUTS)) for word in text_words if word.translate(_UMLAUTS) != word]
    return written + [_SPELLED.sub(r"\1", word) for word in text_words if _SPELLED.search(word)]


def normalize(text: str) -> str:
    """Return the text with each character written in one way; ASCII stays as it is.

    Accents of Latin and Greek letters, vowel points of Hebrew and Arabic, the nukta of Devanagari and invisible
    characters are dropped. Alefs, yehs, kafs and hehs, ß and ss, digits of all scripts, and the compatible forms of
    Unicode become one.
    """
    if text.isascii():
        return text
    pattern, replacements = _replacements()
    text = _BESIDE_DIGITS.sub(" ", text)
    plain = pattern.sub(lambda match: replacements[match[0]], unicodedata.normalize("NFKC", text))
    return _QUOTE_IN_WORD.sub("", plain)


@lru_cache(maxsize=1)
def _replacements() -> tuple[re.Pattern[str], Mapping[str, str]]:
    """Return the pattern of the characters that are replaced, and the replacement of each."""
    digits = {chr(first + digit): str(digit) for first in _ZEROS for digit in range(10)}
    hidden = {chr(number): "" for first, last in _DROPPED for number in range(first, last + 1)}
    table = _LATIN | digits | hidden | _VARIANTS
    for number in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00), *range(0x370, 0x400), *range(0x1F00, 0x2000)):
        base = unicodedata.normalize("NFD", chr(number))
        if len(base) > 1:
            table.setdefault(chr(number), "".join(part for part in base if not unicodedata.combining(part)))
    return re.compile(f"[{''.join(map(re.escape, sorted(table)))}]"), table
