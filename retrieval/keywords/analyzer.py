"""Analyze text into terms, for the index and for queries.

Both sides are normalized and simplified before PostgreSQL stems words:

    AB-1234  10.1000/xyz  AT&T        parts and the joined term: ab1234, 101000xyz, att
    /srv/share  $HOME/.bashrc         parts: srv share, home bashrc
    10.1145/3292500.3330701  3.11.7   numbers: 10.1145, 3292500.3330701, 3.11
    C++  C#  .NET                     c, net, and c++, c#, .net
    1,234,567                         1234567
    m^(2)  H_(2)O  10^(6)             parts, and m2, h2o; 10 and 6 for an exponent
    港海豹                             pairs of characters: 港海 海豹

Stop words with meaning get marked terms: `^who` for names (capitals), `~who` in short texts and rows of five.
Queries also look up joined and split forms (`ab 1234`, `AB1234`) and spellings of umlauts (`Mueller`, `Müller`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final, LiteralString

from retrieval.keywords import joined_forms, stem_variants, word_lists
from retrieval.keywords.word_lists import STOP_WORDS, UNACCENTED_STOP_WORDS

# A tsvector holds at most a megabyte, so the text is cut at this length.
MAX_TEXT_CHARACTERS: LiteralString = "200000"
MAX_CHARACTERS: Final = int(MAX_TEXT_CHARACTERS)
# All stop words are indexed in texts of at most this number of words.
SHORT_TEXT_WORDS: Final = 32
# In longer texts, stop words are indexed in rows of at least this length.
STOP_WORD_ROW: Final = 5
# Prefixes of stop words written as names, and of other indexed stop words.
NAME_PREFIX, STOP_PREFIX = "^", "~"
# Limit of a term joined from parts, in characters.
_MAX_JOINED_LENGTH: Final = 64
_MAX_PARTS: Final = 6
# Indic letters, with vowel signs that `\w` does not match.
_INDIC_LETTERS: Final = (
    "\u0900-\u0963\u0980-\u09e3\u0a00-\u0a75\u0a80-\u0ae3\u0b00-\u0b63"
    "\u0b80-\u0bd7\u0c00-\u0c63\u0c80-\u0ce3\u0d00-\u0d63\u0d80-\u0df3"
)


_LATIN_LETTERS: Final = {
    "ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "œ": "oe", "Œ": "OE", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "\u0131": "i", "þ": "th", "Þ": "Th", "ð": "d", "Ð": "D", "\u0451": "\u0435", "\u0401": "\u0415",
}  # fmt: skip
_LETTER_VARIANTS: Final = {
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
    # final letters of Hebrew
    "\u05da": "\u05db", "\u05dd": "\u05de", "\u05df": "\u05e0", "\u05e3": "\u05e4", "\u05e5": "\u05e6",
}  # fmt: skip
# Zero-width spaces and non-joiners are not dropped: they separate words.
_DROPPED_RANGES: Final = (
    (0x00AD, 0x00AD), (0x0300, 0x036F), (0x0591, 0x05BD), (0x05BF, 0x05BF), (0x05C1, 0x05C2), (0x05C4, 0x05C5),
    (0x05C7, 0x05C7), (0x0610, 0x061A), (0x061C, 0x061C), (0x0640, 0x0640), (0x064B, 0x065F), (0x0670, 0x0670),
    (0x06D6, 0x06DC), (0x06DF, 0x06E4), (0x06E7, 0x06E8), (0x06EA, 0x06ED), (0x08D3, 0x08E1), (0x08E3, 0x08FF),
    (0x093C, 0x093C), (0x180E, 0x180E), (0x200D, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0x2066, 0x2069),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xE0100, 0xE01EF),
)  # fmt: skip
_ZERO_DIGITS: Final = (
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0E50, 0x0ED0,
    0x0F20, 0x1040, 0x17E0, 0x1810,
)  # fmt: skip
# Dropped: geresh and gershayim in Hebrew words, as typed; apostrophes of Cyrillic; points between letters of N·m.
_MARK_IN_WORD: Final = re.compile(
    "['\"](?<=[\u05d0-\u05ea].)(?=[\u05d0-\u05ea])(?:(?<=')|(?=.\\b))"
    "|'(?<=[\u0400-\u0491].)(?=[\u0400-\u0491])|[\u00b7\u2219\u22c5](?<=[A-Za-z].)(?=[A-Za-z])"
)


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Patterns for ASCII or for any text."""

    joined: re.Pattern[str]
    parts: re.Pattern[str]
    marked: re.Pattern[str]
    dotted: re.Pattern[str]
    spaced: re.Pattern[str]
    word: re.Pattern[str]
    capitals: re.Pattern[str]


def _compile_patterns(extra_letters: str, dashes: str, upper: str, flags: re.RegexFlag) -> _Patterns:
    letter = rf"[\w{extra_letters}]" if extra_letters else r"\w"
    between = rf"(?:[-._:@&{dashes}]|[:.]?[/\\][/\\.~$@-]{{0,3}}+)"
    return _Patterns(
        re.compile(rf"(?<!{letter}){letter}++(?:{between}{letter}++)+", flags),
        re.compile(rf"[^\w{extra_letters}]+", flags),
        re.compile(rf"(?<!{letter})({letter}{{1,20}}+)(\+\+|#)(?![^\W\d]|[+#])", flags),
        re.compile(rf"\.(?<![\w.]\.)(?=[^\W\d])({letter}++)", flags),
        re.compile(r"\b([^\W\d]{1,3}) & ([^\W\d]{1,3})\b", flags),
        re.compile(rf"{letter}+", flags),
        re.compile(rf"[{upper}](?:(?<=[\w,] .){letter}*|(?<!\w.)[{upper}]+\b)", flags),
    )


_ASCII_PATTERNS: Final = _compile_patterns("", "", "A-Z", re.ASCII)
_UNICODE_PATTERNS: Final = _compile_patterns(
    _INDIC_LETTERS, "\u2010\u2011\u2013", "A-Z\u0391-\u03a9\u0400-\u042f", re.NOFLAG
)
# Words around zero-width spaces or non-joiners: one word to some writers, several to others.
_ZERO_WIDTH_PATTERN: Final = re.compile(
    rf"(?<![\w{_INDIC_LETTERS}])[\w{_INDIC_LETTERS}]++(?:[\u200b\u200c]+[\w{_INDIC_LETTERS}]++)+"
)
_DECIMAL_PATTERN: Final = re.compile(r"\d+\.\d+")
_DECIMALS_PATTERN: Final = re.compile(r"(?<!\d)(?<!\d\.)\d+\.\d+")
_THOUSANDS_PATTERN: Final = re.compile(r"\d(?<![\d.,].)\d{0,2}(?:,\d{3})+(?![\d,])")
_SUBSCRIPT_PATTERN: Final = re.compile(r"[^\W_]++(?:[_^]\([-+\u2212]?[^\W_]{1,12}[-+]?\)[^\W_]*+)++")
_SCRIPT_SIGNS: Final = re.compile(r"[_^()+\-\u2212]+")
# Exponents, note marks and fractions after a digit, trade marks and diameters: letters and digits in Unicode.
_BESIDE_DIGITS: Final = re.compile(
    "(?<=\\d)(?=[\u2070\u00b9\u00b2\u00b3\u2074-\u208e\u00bc-\u00be\u2150-\u215e])|[\u2122\u2120]"
    "|(?<!\\w)[\u00d8\u00f8\u2300](?=\\s?\\d)"
)
_SIGN_PATTERN: Final = re.compile(r"[-+](?<!\w.)(?=\d)")
# PostgreSQL would parse these as addresses, paths, tags or numbers.
_SPECIAL_CHARACTERS: Final = "-/<>&@:#=%~\\+?*$^"
# Runs of scripts without spaces: Han, kana, Hangul, Thai, Lao, Burmese, Khmer.
UNSPACED_SCRIPTS: Final = re.compile(
    "[\u3005\u3007\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002fa1f\u1100-\u11ff\uac00-\ud7a3\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ede\u1000-\u104f\u1780-\u17d3]+"
)
_MIXED_PATTERN: Final = re.compile(r"\b([^\W\d_]+)(\d+)\b|\b(\d+)([^\W\d_]+)\b")
_SPACED_PATTERN: Final = re.compile(r"(?=\b([^\W\d_]{1,8}) (\d[^\W_]*)\b)")
_WORD_PATTERN: Final = re.compile(r"[^\W\d_]+")
_APOSTROPHE_IN_NAME: Final = re.compile(r"\b([A-Z])'([A-Z]\w+)")
# Adjacent words of longer queries are not joined.
_MAX_JOINED_WORDS: Final = 4
_UMLAUT_SPELLINGS: Final = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "Ø": "Oe", "Å": "Aa"}
)
_UMLAUT_PATTERN: Final = re.compile(r"(?<![aeiouq])([aou])e", re.IGNORECASE)
_STOP_ROW_PATTERN: Final = re.compile(b"\x01{%d,}" % STOP_WORD_ROW)
_TYPED_PATTERN: Final = re.compile(
    '(?:[^\\s,;!?"()\\[\\]{}<>\u2026\u00ab\u00bb\u201c-\u201e\u3001-\u3011\uff01-\uff0f\uff1a-\uff20]|,(?=\\d))+'
)


@dataclass(frozen=True, slots=True)
class PreparedText:
    """Text for a configuration, and finished terms with counts."""

    text: str
    terms: Counter[str] = field(default_factory=Counter)
    # Pieces of query words such as `AB1234`, with a lower count.
    parts: str = ""


def analyze_text(text: str, configuration: str) -> PreparedText:
    """Analyze a chunk."""
    terms: Counter[str] = Counter()
    plain = _prepare_text(text, terms)
    if stops := STOP_WORDS.get(configuration):
        _count_stop_words(plain, stops, terms)
    return PreparedText(_finish_text(plain, configuration, terms), terms)


def analyze_query(text: str, configuration: str, dropped: Iterable[str] = ()) -> PreparedText:
    """Analyze a query, with alternative spellings and without `dropped` stop words."""
    terms: Counter[str] = Counter()
    plain = _prepare_text(_drop_words(text, dropped), terms, is_query=True)
    whole = _join_hidden(text)
    stop_terms = _select_stop_words(
        plain if whole == text else _prepare_text(_drop_words(whole, dropped), Counter()),
        STOP_WORDS.get(configuration, frozenset()),
    )
    plain = _finish_text(plain, configuration, terms, is_query=True)
    respelling = _respell(text, plain, terms)
    return PreparedText(respelling.text, respelling.terms + stop_terms, respelling.parts)


def _finish_text(plain: str, configuration: str, terms: Counter[str], *, is_query: bool = False) -> str:
    """Return the text for the stemmer of a configuration, and count roots of Arabic words."""
    if configuration == "arabic":
        terms.update(STOP_PREFIX + root for root in stem_variants.list_arabic_roots(plain, is_query=is_query))
    plain = _drop_words(plain, UNACCENTED_STOP_WORDS.get(configuration, ()))
    return stem_variants.respell_endings(plain, configuration)[:MAX_CHARACTERS]


def _respell(text: str, analyzed_text: str, terms: Counter[str]) -> PreparedText:
    """Add alternative spellings to an analyzed query and to `terms`."""
    joined = list(terms)
    plain = " ".join(analyzed_text.split())
    for match in _SPACED_PATTERN.finditer(plain):
        terms.setdefault((match[1] + match[2]).lower(), 1)
    parts = [" ".join(filter(None, match.groups())) for match in _MIXED_PATTERN.finditer(plain)]
    parts += joined_forms.split_camel_case(text)
    words = plain.split()
    if len(words) <= _MAX_JOINED_WORDS:
        parts += [first + last for first, last in pairwise(words) if first.isalpha() and last.isalpha()]
    for term in joined:
        parts += [" ".join(filter(None, match.groups())) for match in _MIXED_PATTERN.finditer(term)]
    present = set(plain.lower().split())
    spellings = [word for word in _list_umlaut_spellings(text) if word.lower() not in present]
    within = [word for word in " ".join(parts).split() if word.lower() not in present]
    return PreparedText(" ".join([plain, *spellings]), terms, " ".join(within))


def list_words(text: str) -> list[str]:
    """List distinct words of a query in lower case."""
    return sorted({word.lower() for word in _WORD_PATTERN.findall(text)})


def has_only_stop_words(text: str, configuration: str) -> bool:
    """Check for a query of stop words only."""
    lower_words = [word.lower() for word in _UNICODE_PATTERNS.word.findall(normalize_text(_join_hidden(text)))]
    return bool(lower_words) and STOP_WORDS.get(configuration, frozenset()).issuperset(lower_words)


def list_typed_words(text: str) -> list[str]:
    """List distinct words of a query as typed, without surrounding punctuation: `AT&T`, `C++`, `/srv/share`."""
    runs = (run.strip("'`\u2018\u2019").rstrip(".:") for run in _TYPED_PATTERN.findall(text))
    return list(dict.fromkeys(run for run in runs if run))


def _count_pairs(run: str, terms: Counter[str], *, is_query: bool) -> str:
    """Count pairs of characters, and single Han characters, instead of words."""
    run = joined_forms.fold_han(run)
    if len(run) > 1:
        terms.update(run[start : start + 2] for start in range(len(run) - 1))
    han = [character for character in run if character >= "\u3400"]
    # Marked terms do not count in the chunk's length. A verb is known by its only Han character.
    singles = run if len(run) == 1 or not is_query else han if len(han) == 1 and run[0] == han[0] else ""
    terms.update(STOP_PREFIX + character for character in singles)
    return " "


def _drop_words(text: str, dropped: Iterable[str]) -> str:
    pattern = word_lists.compile_words(tuple(sorted(dropped)))
    return text if pattern is None else pattern.sub(" ", text)


def _join_numbers(text: str) -> str:
    """Drop thousands separators and signs of numbers."""
    return _SIGN_PATTERN.sub(" ", _THOUSANDS_PATTERN.sub(lambda number: number[0].replace(",", ""), text))


def _prepare_text(text: str, terms: Counter[str], *, is_query: bool = False) -> str:
    """Return words and numbers of a text, and count joined terms."""
    plain = normalize_text(text[:MAX_CHARACTERS])
    if "^(" in plain or "_(" in plain:
        plain = _SUBSCRIPT_PATTERN.sub(lambda match: _split_scripts(match[0], terms), plain)
    patterns = _UNICODE_PATTERNS
    if plain.isascii():
        patterns = _ASCII_PATTERNS
    else:
        if "\u200b" in plain or "\u200c" in plain:
            plain = _ZERO_WIDTH_PATTERN.sub(lambda match: _split_zero_width(match[0]), plain)
        plain = UNSPACED_SCRIPTS.sub(lambda run: _count_pairs(run[0], terms, is_query=is_query), plain)
    plain = _read_joined_forms(plain, terms, is_query=is_query)
    plain = _join_numbers(plain).replace("_", "-")
    if "&" in plain:
        plain = patterns.spaced.sub(r"\1&\2", plain.replace("&amp;", "&"))
    if "#" in plain or "++" in plain:
        terms.update((word + mark).lower() for word, mark in patterns.marked.findall(plain))
    terms.update("." + word.lower() for word in patterns.dotted.findall(plain))
    if "'" in plain:
        terms.update((initial + name).lower() for initial, name in _APOSTROPHE_IN_NAME.findall(plain))
    camel_case = "" if is_query else " ".join(joined_forms.split_camel_case(plain))
    plain = patterns.joined.sub(lambda match: _join_parts(match[0], terms, patterns.parts), plain)
    for mark in _SPECIAL_CHARACTERS:
        plain = plain.replace(mark, " ")
    return f"{plain} {camel_case}" if camel_case else plain


def _read_joined_forms(plain: str, terms: Counter[str], *, is_query: bool) -> str:
    """Count emoji and joined forms; return the text with names of versioned packages."""
    terms.update(joined_forms.list_emoji(plain))
    numeric = joined_forms.read_numeric_parts(plain)
    joined = joined_forms.list_joined_forms(numeric)
    terms.update(STOP_PREFIX + form for form in joined)
    if is_query:
        terms.update(joined)
        terms.update(STOP_PREFIX + code for code in joined_forms.list_typed_codes(plain) - joined)
    elif names := joined_forms.list_versioned_names(numeric):
        return " ".join([plain, *names])
    return plain


def _join_hidden(text: str) -> str:
    """Drop zero-width characters for the check of stop words."""
    return text.replace("\u200b", "").replace("\u200c", "")


def _split_zero_width(match: str) -> str:
    """Return the words between zero-width characters and the joined word."""
    parts = match.replace("\u200c", "\u200b").split("\u200b")
    joined = "".join(parts)
    return f"{' '.join(filter(None, parts))} {joined}" if len(parts) <= _MAX_PARTS else joined


def _join_parts(match: str, terms: Counter[str], between: re.Pattern[str]) -> str:
    if _DECIMAL_PATTERN.fullmatch(match):
        return match
    if "." in match:
        terms.update(_DECIMALS_PATTERN.findall(match))
    parts = between.split(match)
    joined = "".join(parts)
    if len(parts) > _MAX_PARTS or len(joined) > _MAX_JOINED_LENGTH:
        return " ".join(parts)
    if not any(map(str.isdigit, joined)):
        return f"{' '.join(parts)} {joined}"
    terms[joined.lower()] += 1
    return " ".join(parts)


def _split_scripts(match: str, terms: Counter[str]) -> str:
    """Split superscripts and subscripts, and count the joined term."""
    # Numbers with exponents or note marks are not joined: 10 and 6, not 106.
    parts = [part for part in _SCRIPT_SIGNS.split(match) if part]
    joined = "".join(parts)
    if parts[0][0].isalpha() and len(joined) <= _MAX_JOINED_LENGTH:
        terms[joined.lower()] += 1
    return " ".join(parts)


def _count_stop_words(plain: str, stops: frozenset[str], terms: Counter[str]) -> None:
    """Count the stop words with meaning."""
    patterns = _ASCII_PATTERNS if plain.isascii() else _UNICODE_PATTERNS
    for word in patterns.capitals.findall(plain):
        if (lower := word.lower()) in stops:
            terms[NAME_PREFIX + lower] += 1
    lower_words = patterns.word.findall(plain.lower())
    if len(lower_words) <= SHORT_TEXT_WORDS:
        terms.update(STOP_PREFIX + word for word in lower_words if word in stops)
        return
    is_stop = bytes(map(stops.__contains__, lower_words))
    for row in _STOP_ROW_PATTERN.finditer(is_stop):
        terms.update(STOP_PREFIX + word for word in lower_words[row.start() : row.end()])


def _select_stop_words(plain: str, stops: frozenset[str]) -> Counter[str]:
    """Return the stop words to look up: all without other words, else those in capitals."""
    plain_words = _UNICODE_PATTERNS.word.findall(plain)
    lower = [word.lower() for word in plain_words]
    if stops.issuperset(lower):
        return Counter([mark + word for word in lower for mark in (NAME_PREFIX, STOP_PREFIX)])
    if plain.upper() == plain:
        return Counter()
    capitals = [word.lower() for word in plain_words if len(word) > 1 and word.isupper()]
    return Counter(NAME_PREFIX + word for word in capitals if word in stops)


def _list_umlaut_spellings(text: str) -> list[str]:
    """Return words with umlauts written out, and words with a possible umlaut."""
    text_words = _WORD_PATTERN.findall(unicodedata.normalize("NFC", text))
    written = [
        normalize_text(word.translate(_UMLAUT_SPELLINGS))
        for word in text_words
        if len(word) > 1 and word.translate(_UMLAUT_SPELLINGS) != word
    ]
    return written + [_UMLAUT_PATTERN.sub(r"\1", word) for word in text_words if _UMLAUT_PATTERN.search(word)]


def normalize_text(text: str) -> str:
    """Normalize characters: accents, points, digits, Arabic and compatible forms. ASCII is unchanged."""
    if text.isascii():
        return text
    pattern, replacements = _replacements()
    text = _BESIDE_DIGITS.sub(" ", text)
    plain = pattern.sub(lambda match: replacements[match[0]], unicodedata.normalize("NFKC", text))
    return _MARK_IN_WORD.sub("", plain)


@lru_cache(maxsize=1)
def _replacements() -> tuple[re.Pattern[str], Mapping[str, str]]:
    digits = {chr(first + digit): str(digit) for first in _ZERO_DIGITS for digit in range(10)}
    hidden = {chr(number): "" for first, last in _DROPPED_RANGES for number in range(first, last + 1)}
    table = _LATIN_LETTERS | digits | hidden | _LETTER_VARIANTS
    for number in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00), *range(0x370, 0x400), *range(0x1F00, 0x2000)):
        base = unicodedata.normalize("NFD", chr(number))
        if len(base) > 1:
            table.setdefault(chr(number), "".join(part for part in base if not unicodedata.combining(part)))
    return re.compile(f"[{''.join(map(re.escape, sorted(table)))}]"), table
