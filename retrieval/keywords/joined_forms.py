"""Join numbers, units and codes, and fold Han characters, as further terms of a text.

1 234 567  7'654'321  9.876.543,21     1234567, 7654321, 9876543.21
DE89 3704 0044  +49 (30) 123 45 67     de8937040044, 49301234567
45 Nm  4,5 kg  M8 x 40  M8×40          45nm, 4.5kg, m8x40
0x80070005                             80070005
14.5.2026  May 14, 2026                20260514
€25  25 EUR  12 percent                25eur, 12%
libssl1.1  libcurl4t64                 libssl, libcurl
KB5034441                              5034441
發  広  髙  ラーメン                     发 广 高 らーめん
"""

# ruff: noqa: RUF001, RUF002 - the multiplication sign is a subject

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

# A row of more numbers is a table row.
MAX_GROUPS: Final = 8
# An IBAN has up to 34 characters.
MIN_CODE_LENGTH, MAX_CODE_LENGTH = 5, 34
# Units after a number, in lower case.
UNIT_NAMES: Final = frozenset(
    """
    nm μm um mm cm dm m km ft yd mi mg g kg t lb lbs oz ml cl dl l hl gal ms s min h hr hrs hz khz mhz ghz pa kpa
    mpa hpa bar mbar psi n kn mnm j kj mj cal kcal w mw kw gw kwh mwh wh v mv kv a ma ah mah va kva ohm pf nf uf f
    c k °c °f rpm bit kbit mbit gbit b kb mb gb tb kib mib gib tib kbps mbps gbps px dpi pt db dba mol mmol ppm lm %
    lx cd pc pcs m2 m3 mm2 mm3 cm2 cm3 dm3 km2 kmh mph eur usd gbp chf
    """.split()  # noqa: SIM905 - a list of words
)
# Units that are words or list letters in lower case: `in 1998 a law`.
_WRITTEN_IN_CAPITALS: Final = frozenset("abcfjknvwst")
_DIGITS_PATTERN: Final = re.compile(r"\d+")
_BLANK_PATTERN: Final = re.compile(r"\s")
# Characters around digits with a possible joined form.
CONTEXT_CHARACTERS: Final = 24
_THOUSANDS_PATTERN: Final = re.compile(r"(?<![\w.,'])\d{1,3}([ .,'])\d{3}(?:\1\d{3})*(?:[.,]\d+)?(?![\w']| \d)")
_COMMA_DECIMAL: Final = re.compile(r"(?<![\w.,'])(\d+),(\d{1,2}|\d{4,})(?![\d,])")
_PHONE_PATTERN: Final = re.compile(
    r"(?<![\w.])(?<!\d )\+?\d{0,3}[ -]?(?:\(\d{1,5}\)[ -]?)?\d{2,6}(?:[ ./-]{1,3}\d{2,6}){1,5}(?!\w| \d)"
)
_CODE_PATTERN: Final = re.compile(
    r"(?<![\w.,])(?<!\d )(?:[A-Z]{1,4} )?[A-Za-z]{0,4}\d+[A-Za-z]{0,2}"
    rf"(?: [A-Z]{{0,2}}\d+[A-Za-z]{{0,2}}){{1,{MAX_GROUPS - 1}}}(?!\w|[.,]\d| \d)"
)
_GROUPED_IBAN: Final = re.compile(r"\b[A-Za-z]{2}\d{2}(?: [A-Za-z\d]{4}){2,7}(?: [A-Za-z\d]{1,4})?\b")
_DIMENSIONS_PATTERN: Final = re.compile(
    r"(?<![\w.,])[A-Za-z]{0,2}\d+(?:[.,]\d+)?(?: ?[x×*] ?[A-Za-z]{0,2}\d+(?:[.,]\d+)?){1,3}(?=\b|[a-zµμ])"
)
_TIMES_PATTERN: Final = re.compile(r" ?[x×*] ?")
_UNIT_PATTERN: Final = re.compile(
    r"(?:(?<![\w,])|(?<=\d[x×]))(?<!\d\.)(\d+(?:[.,]\d+)?) ?((?!x\d)[^\W\d_]{1,4}[23]?|°[CF]|%)(?!\w)"
)
_CODE_TYPED: Final = re.compile(r"(?<!\w)[A-Za-z\d]++(?:\.\d++)?(?!\w)")
_LETTERS_OF_HEX: Final = re.compile(r"[a-fA-F]{4,16}")
_HEX_PATTERN: Final = re.compile(r"\b0x([\da-f]{2,16})\b", re.IGNORECASE)
_NAME_WITH_VERSION: Final = re.compile(r"\b([^\W\d_]{3,})(?=\d+(?:[._-]\d+)*(?:[a-z]\d{1,3})?\b)")
# The number of KB5034441.
_PREFIXED_NUMBER: Final = re.compile(r"\b[A-Za-z]{1,5}(\d{5,15})\b")
_PERCENT_PATTERN: Final = re.compile(r" ?\b(?:per ?cent|pro[cz]ent)\b", re.IGNORECASE)
_CURRENCY_SIGNS: Final = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR"}
_CURRENCY_PATTERN: Final = re.compile(r" ?([€$£¥₹]) ?")
_CURRENCY: Final = "(EUR|USD|GBP|JPY|INR|CHF|PLN|CZK|SEK|NOK|DKK|CAD|AUD|CNY)"
_AMOUNT_PATTERN: Final = re.compile(
    rf"(?:\b{_CURRENCY} )?(?<![\w.,'])(\d{{1,3}}(?:[ .,']\d{{3}}){{1,4}}|\d{{1,12}})(?:[.,](\d{{1,2}}))?"
    rf"(?![.,]?\d)(?: {_CURRENCY}\b)?"
)
# Months by the first letters of their names, in ten languages.
_MONTHS: Final = {
    "jan": 1, "feb": 2, "fev": 2, "mar": 3, "mrt": 3, "apr": 4, "avr": 4, "abr": 4, "may": 5, "mai": 5, "maj": 5,
    "mag": 5, "mei": 5, "jun": 6, "juin": 6, "giu": 6, "jul": 7, "juil": 7, "lug": 7, "aug": 8, "aou": 8, "ago": 8,
    "sep": 9, "set": 9, "oct": 10, "okt": 10, "ott": 10, "out": 10, "nov": 11, "dec": 12, "dez": 12, "dic": 12,
}  # fmt: skip
_YEAR_FIRST: Final = re.compile(r"(?<![\w.])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)")
_YEAR_LAST: Final = re.compile(r"(?<![\w.])(\d{1,2})([-/.]) ?(\d{1,2})\2 ?(\d{4})(?!\d)")
_MONTH_NAMED: Final = re.compile(
    r"\b(\d{1,2})(?:st|nd|rd|th|er|\.)? (?:de )?([^\W\d_]{3,10})\.?,? (?:de )?(\d{4})\b"
    r"|\b([^\W\d_]{3,10})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})\b"
)
_TIME_PATTERN: Final = re.compile(r"(?<![\w:.])(\d{1,2})[h:](\d{2})(?![\w:])")
# A name with the first number of its version, and such a query.
_MAJOR_VERSION: Final = re.compile(r"\b([A-Za-z]{3,20})[ -]?v?(\d{1,3})(?=\.\d|[a-wyz]\d{1,3}\b)")
_MAJOR_TYPED: Final = re.compile(r"\b([A-Za-z]{3,20})[ -]?v?(\d{1,3})(?![.\w])")
_COUNTRY_CODE: Final = re.compile("1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|...")
_CAMEL_CASE: Final = re.compile("[a-z][A-Z]")
_LATIN_WORD: Final = re.compile("[A-Za-z]+")
_CAMEL_BOUNDARY: Final = re.compile("(?<=[a-z])(?=[A-Z][a-z])|(?<=[A-Z])(?=[A-Z][a-z])")
_EMOJI_PATTERN: Final = re.compile(
    "[\u203c\u2049\u2122\u2139\u231a\u231b\u23e9-\u23fa\u25b6\u25c0\u2600-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    "\U0001f1e6-\U0001f1ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
# Han characters of names by Unihan, kSemanticVariant and kZVariant, simplified.
_FORMS_OF_NAMES: Final = {
    "髙": "高", "﨑": "崎", "濵": "滨", "邉": "边", "斎": "齐", "齋": "齐", "斋": "齐", "\U00020bb7": "吉", "栁": "柳",
    "桒": "桑", "冨": "富", "嶋": "岛", "嶌": "岛", "舘": "馆", "槗": "桥", "栄": "荣", "恵": "惠", "曻": "升",
    "凜": "凛", "閒": "间",
}  # fmt: skip


def read_numeric_parts(plain: str) -> str:
    """Return the surroundings of digits, by line; "" without digits."""
    parts: list[str] = []
    start = end = 0
    for digits in _DIGITS_PATTERN.finditer(plain):
        if digits.start() - CONTEXT_CHARACTERS > end:
            parts.append(plain[start:end])
            start = max(0, digits.start() - CONTEXT_CHARACTERS)
            start = max(plain.rfind(" ", 0, start), plain.rfind("\n", 0, start)) + 1
        if digits.end() + CONTEXT_CHARACTERS <= end:
            continue
        blank = _BLANK_PATTERN.search(plain, digits.end() + CONTEXT_CHARACTERS)
        end = blank.start() if blank else len(plain)
    return "\n".join(filter(None, [*parts, plain[start:end]])) if end else ""


def list_joined_forms(plain: str) -> set[str]:
    """Return joined forms of numbers, units and codes."""
    if not plain:
        return set()
    joined = {form for match in _THOUSANDS_PATTERN.finditer(plain) for form in _join_thousands(match)}
    joined.update(f"{match[1]}.{match[2]}" for match in _COMMA_DECIMAL.finditer(plain))
    for pattern in (_CODE_PATTERN, _GROUPED_IBAN):
        joined.update(map(_join_code, pattern.findall(plain)))
    joined.update(form for match in _PHONE_PATTERN.findall(plain) for form in _join_phone(match))
    joined.update(map(_join_dimensions, _DIMENSIONS_PATTERN.findall(plain)))
    joined.update(map(_join_unit, _UNIT_PATTERN.finditer(_PERCENT_PATTERN.sub("%", plain))))
    codes = [digits.lower() for digits in _HEX_PATTERN.findall(plain)]
    joined.update(codes, (code.lstrip("0") for code in codes if len(code) >= MIN_CODE_LENGTH))
    joined.update(_PREFIXED_NUMBER.findall(plain))
    joined.update((name + number).lower() for name, number in _MAJOR_VERSION.findall(plain))
    joined.update(hour + minutes for hour, minutes in _TIME_PATTERN.findall(plain))
    return joined.union(_list_dates(plain), _list_amounts(plain)) - {""}


def list_typed_codes(plain: str) -> set[str]:
    """Return codes of a query that texts may write in groups."""
    codes = _CODE_TYPED.findall(plain)
    typed = {code.lower() for code in codes if any(map(str.isdigit, code)) or _LETTERS_OF_HEX.fullmatch(code)}
    return typed.union((name + number).lower() for name, number in _MAJOR_TYPED.findall(plain))


def list_emoji(plain: str) -> list[str]:
    """Return the emoji of a text; no text search configuration does."""
    return [] if plain.isascii() else _EMOJI_PATTERN.findall(plain)


def list_versioned_names(plain: str) -> list[str]:
    """Return names before version numbers: `libssl` of `libssl1.1`."""
    return _NAME_WITH_VERSION.findall(plain)


def split_camel_case(text: str) -> Iterator[str]:
    """Yield the words of identifiers such as `getUserName` and `HTTPServerError`, not of names such as `GitHub`."""
    names = _LATIN_WORD.findall(text) if _CAMEL_CASE.search(text) else ()
    for words in map(_CAMEL_BOUNDARY.split, filter(_CAMEL_CASE.search, names)):
        if len(words) > (1 if words[0].islower() else 2):
            yield from (word for word in words if len(word) > 2)


def _join_thousands(match: re.Match[str]) -> list[str]:
    """Join `9.876.543,21` to 9876543 and 9876543.21."""
    # `1.234` is also 1234: the separator is ambiguous.
    separator = match[1]
    whole, decimals = match[0], ""
    for point in ",.":
        if point != separator and point in whole:
            whole, _, decimals = whole.partition(point)
    digits = whole.replace(separator, "")
    return [digits, f"{digits}.{decimals}"] if decimals else [digits]


def _join_code(groups: str) -> str:
    joined = groups.replace(" ", "").lower()
    return joined if MIN_CODE_LENGTH <= len(joined) <= MAX_CODE_LENGTH else ""


def _join_phone(groups: str) -> list[str]:
    """Join a phone number, and one with a country code as dialled within the country."""
    digits = re.sub(r"\(0\)|\D", "", groups)
    if not 7 <= len(digits) <= 15:
        return []
    bare = digits.removeprefix("00")
    code = _COUNTRY_CODE.match(bare) if "+" in groups or bare != digits else None
    return [bare, ("" if code[0] == "1" else "0") + bare[code.end() :]] if code else [bare]


def _list_dates(plain: str) -> set[str]:
    """Return dates as year, month and day; ambiguous dates with slashes in both orders."""
    dates = [(year, month, day) for year, _, month, day in _YEAR_FIRST.findall(plain)]
    for day, mark, month, year in _YEAR_LAST.findall(plain):
        dates += [(year, month, day), (year, day, month)] if mark == "/" else [(year, month, day)]
    for groups in _MONTH_NAMED.findall(plain):
        day, name, year = groups[:3] if groups[0] else (groups[4], groups[3], groups[5])
        month = _MONTHS.get(name[:4].lower()) or _MONTHS.get(name[:3].lower(), 0)
        dates.append((year, str(month), day))
    return {
        f"{year}{int(month):02}{int(day):02}"
        for year, month, day in dates
        if 0 < int(month) <= 12 and 0 < int(day) <= 31
    }


def _list_amounts(plain: str) -> set[str]:
    """Return amounts with the code of their currency."""
    text = _CURRENCY_PATTERN.sub(lambda match: f" {_CURRENCY_SIGNS[match[1]]} ", plain)
    amounts = set()
    for prefix, whole, cents, suffix in _AMOUNT_PATTERN.findall(text):
        if prefix or suffix:
            decimals = f".{cents}".rstrip("0") if cents else ""
            amounts.add(re.sub(r"\D", "", whole) + decimals.rstrip(".") + (prefix or suffix).lower())
    return amounts


def _join_dimensions(match: str) -> str:
    if match[:2].lower() == "0x":
        return ""
    return "x".join(part.replace(",", ".") for part in _TIMES_PATTERN.split(match)).lower()


def _join_unit(match: re.Match[str]) -> str:
    """Join `45 Nm` to 45nm; "" without a unit."""
    unit = match[2].lower()
    if unit not in UNIT_NAMES or (" " in match[0] and match[2] in _WRITTEN_IN_CAPITALS):
        return ""
    return match[1].replace(",", ".") + unit


def fold_han(run: str) -> str:
    """Replace traditional, Japanese and variant Han characters with simplified ones, katakana with hiragana."""
    return run.translate(_han_table())


@lru_cache(maxsize=1)
def _han_table() -> dict[int, str]:
    # OpenCC converts by phrase; by character, text and query agree.
    from opencc import OpenCC

    to_traditional, to_simplified = OpenCC("jp2t"), OpenCC("t2s")
    table = {}
    for first, last in ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)):
        for code in range(first, last + 1):
            folded = to_simplified.convert(to_traditional.convert(chr(code)))
            if folded != chr(code) and len(folded) == 1:
                table[code] = folded
    katakana = {code: chr(code - 0x60) for code in range(0x30A1, 0x30F7)}
    return table | katakana | {ord(form): character for form, character in _FORMS_OF_NAMES.items()}
