"""Format numbers as spreadsheet programs do, by number format code (ECMA-376 part 1, 18.8.30)."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache, partial
from itertools import takewhile
from locale import windows_locale
from typing import Any, Final, Literal, NamedTuple

Show = Callable[[float], str]
Token = tuple[str, str]

# Built-in formats have no code in files. Dates with locale-dependent order are ISO 8601.
BUILT_IN: Final = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", **dict.fromkeys((5, 6), "$#,##0;-$#,##0"),
    **dict.fromkeys((7, 8), "$#,##0.00;-$#,##0.00"), 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??",
    14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm",
    21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", **dict.fromkeys((*range(27, 32), 36, *range(50, 59)), "yyyy-mm-dd"),
    **dict.fromkeys(range(32, 36), "h:mm:ss"), **dict.fromkeys((37, 38), "#,##0;(#,##0)"),
    **dict.fromkeys((39, 40), "#,##0.00;(#,##0.00)"), 41: "#,##0;-#,##0;-", 42: "$#,##0;-$#,##0;-",
    43: "#,##0.00;-#,##0.00;-", 44: "$#,##0.00;-$#,##0.00;-", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0",
    48: "##0.0E+0", 49: "@",
}  # fmt: skip
_TOKEN_PATTERN: Final = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|[_*].|\[\$(?P<currency>[^\]-]*)(?:-(?P<language>[0-9A-F]*))?[^\]]*\]'
    r"|\[(?P<elapsed>h+|m+|s+)\]|\[(?P<condition>(?:<=|>=|<>|[<>=])-?[\d.]+)\]|\[[^\]]*\]|(?P<general>General)|(?P<noon>AM/PM|A/P)"
    r"|(?P<exponent>E[+-])|(?P<fraction>(?<=[0#? ])/(?=[0#?\d]))|(?P<second>s+(?:\.0+)?)|(?P<date>y+|m+|d+|h+)"
    r"|(?P<era>[bge])|(?P<digit>[0#?])|(?P<mark>[.,%@])|(?P<literal>.)",
    re.IGNORECASE | re.DOTALL,
)
_UNIT_PATTERN: Final = re.compile(r'"[^"]*"?|\\.|[_*].|\[[^\]]*\]|.', re.DOTALL)
_LITERAL_KINDS: Final = frozenset({"quoted", "escaped", "currency", "literal"})
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne,
}  # fmt: skip
_DAY_SECONDS: Final = 86_400
_EPOCH_STARTS: Final = {1900: datetime(1899, 12, 30), 1904: datetime(1904, 1, 1)}  # noqa: DTZ001 - no place, no zone
# Spreadsheets keep 15 digits.
_MAX_EXACT: Final = 1e15


class Format(NamedTuple):
    """Number format of cells, for numbers and texts."""

    number: Show
    text: Callable[[str], str]


class _Section(NamedTuple):
    tokens: Sequence[Token]
    show: Show
    applies: Callable[[float], bool] | None


@lru_cache(maxsize=4096)
def of_code(code: str, epoch: int = 1900) -> Format:
    """Parse a format code; `epoch`: 1900 or 1904, start of the day count."""
    if code in ("", "General", "GENERAL"):
        return Format(format_general, _keep_text)
    parts = [""]
    for unit in _UNIT_PATTERN.findall(code):
        parts = [*parts, ""] if unit == ";" else [*parts[:-1], parts[-1] + unit]
    sections = [_parse_section(part, epoch) for part in parts[:4]]
    texts = sections[3:] or [section for section in sections[-1:] if ("mark", "@") in section.tokens]
    numbers = sections[:3] if len(sections) > 3 else sections[: len(sections) - len(texts)] or sections
    number = partial(
        _section_by_condition if any(section.applies for section in numbers) else _section_by_sign, numbers
    )
    is_single = len(numbers) == 1 and not numbers[0].applies
    return Format(
        numbers[0].show if is_single else number, partial(_write_text, texts[0].tokens) if texts else _keep_text
    )


def format_general(value: float) -> str:
    """Format a number without a format: up to eleven characters, whole numbers in full."""
    size = abs(value)
    if size < _MAX_EXACT and value == int(value):
        return str(int(value))
    if 1 <= size < 1e10:
        text = f"{value:.10g}"
        return text if "e" not in text else str(round(value))
    if 1e-4 <= size < 1e11:
        return f"{value:.9f}".rstrip("0").rstrip(".") if size < 1 else str(round(value))
    digits, _, exponent = f"{value:.5E}".partition("E")
    return f"{digits.rstrip('0').rstrip('.')}E{exponent}"


def _keep_text(text: str) -> str:
    return text


def serial_of_date(moment: datetime) -> float:
    """Return the serial number of a date and time, in days since 1899-12-30."""
    return (moment.replace(tzinfo=None) - _EPOCH_STARTS[1900]) / timedelta(days=1)


def _section_by_condition(sections: Sequence[_Section], value: float) -> str:
    section = next((candidate for candidate in sections if candidate.applies is None or candidate.applies(value)), None)
    return section.show(value) if section else format_general(value)


def _section_by_sign(sections: Sequence[_Section], value: float) -> str:
    if value < 0 and len(sections) > 1:
        return sections[1].show(-value)
    return sections[2 if value == 0 and len(sections) > 2 else 0].show(value)


def _write_text(tokens: Sequence[Token], text: str) -> str:
    return "".join(
        text if part == ("mark", "@") else part[1] for part in tokens if part[0] in _LITERAL_KINDS or part[1] == "@"
    )


def _parse_section(code: str, epoch: int) -> _Section:
    matches = [match for match in _TOKEN_PATTERN.finditer(code) if match.lastgroup]
    language = next((match["language"] for match in matches if match["language"]), "")
    tokens = [_parse_token(match) for match in matches]
    kinds = {kind for kind, _ in tokens}
    applies = next((_parse_condition(text) for kind, text in tokens if kind == "condition"), None)
    if kinds & {"date", "second", "elapsed"}:
        show: Show = lru_cache(4096)(partial(_write_moment, _mark_minutes(tokens), language, epoch))
    elif "digit" not in kinds:
        show = partial(_write_literals, tokens)
    else:
        show = partial(_write_fraction, tokens) if "fraction" in kinds else _decimal_writer(tokens)
    return _Section(tokens, show, applies)


def _parse_token(match: re.Match[str]) -> Token:
    kind = "currency" if match.lastgroup == "language" else str(match.lastgroup)
    return kind, match[kind]


def _parse_condition(text: str) -> Callable[[float], bool]:
    sign = text.rstrip("-.0123456789")
    limit = float(text[len(sign) :])

    def applies(value: float) -> bool:
        return bool(_COMPARISONS[sign](value, limit))

    return applies


def _write_literals(tokens: Sequence[Token], value: float) -> str:
    """Return literals, with the number in place of `General` or `@`."""
    return "".join(
        format_general(value) if kind == "general" or text == "@" else text
        for kind, text in tokens
        if kind in _LITERAL_KINDS or kind == "general" or text in ("@", "%")
    ).strip()


def _decimal_writer(tokens: Sequence[Token]) -> Show:
    kinds = [kind for kind, _ in tokens]
    first, last = kinds.index("digit"), len(kinds) - 1 - kinds[::-1].index("digit")
    point = next((at for at, token in enumerate(tokens) if token == ("mark", ".")), len(tokens))
    power = kinds.index("exponent") if "exponent" in kinds else len(tokens)
    commas = [at for at, token in enumerate(tokens) if token == ("mark", ",")]
    whole = [at for at, kind in enumerate(kinds) if kind == "digit" and at < min(point, power)]
    decimals = [at for at, kind in enumerate(kinds) if kind == "digit" and point < at < power]
    exponents = [at for at, kind in enumerate(kinds) if kind == "digit" and at > power]
    grouped = any(first < at < (whole or [0])[-1] for at in commas)
    scaled = sum(1 for _ in takewhile(lambda token: token == ("mark", ","), tokens[last + 1 :]))
    if whole and point < len(tokens):
        scaled += sum(1 for _ in takewhile(lambda token: token == ("mark", ","), tokens[whole[-1] + 1 :]))
    factor = 100.0 ** tokens.count(("mark", "%")) / 1000.0**scaled

    def show(value: float) -> str:
        size, exponent = abs(value) * factor, 0
        if exponents:
            size, exponent = _split_mantissa(size, len(whole) or 1, len(decimals))
        texts = {at: text for at, (kind, text) in enumerate(tokens) if kind in _LITERAL_KINDS or text == "%"}
        digits, _, part = _round_half_up(size, len(decimals)).partition(".")
        _fill_whole(texts, tokens, whole, "" if digits == "0" else digits, grouped=grouped)
        _fill_decimals(texts, tokens, decimals, part)
        if point < len(tokens):
            texts[point] = "."
        if exponents:
            texts[power] = "E" + ("-" if exponent < 0 else "+" if tokens[power][1].endswith("+") else "")
            _fill_whole(texts, tokens, exponents, str(abs(exponent)), grouped=False)
        return ("-" if value < 0 else "") + "".join(texts[at] for at in sorted(texts)).strip()

    pattern = "".join(text for _, text in tokens[first : last + 1])
    if not re.fullmatch(r"(#,)?#*0(\.0+)?|0+(\.0+)?", pattern):
        return show
    lead = "".join(text for kind, text in tokens[:first] if kind in _LITERAL_KINDS).lstrip()
    tail = "".join(text for kind, text in tokens[last + 1 :] if kind in _LITERAL_KINDS or text == "%").rstrip()
    zeros = pattern.partition(".")[0].count("0")
    return partial(
        _write_plain,
        lead,
        tail,
        "," if grouped else f"0{zeros + len(decimals) + bool(decimals)}",
        len(decimals),
        factor,
    )


def _write_plain(lead: str, tail: str, width: str, decimals: int, factor: float, value: float) -> str:
    """Format a number with adjacent digits, the usual case."""
    # Takes a fifth of the time of `_decimal_writer`'s general case.
    size = abs(value) * factor
    digits = f"{math.nextafter(size, math.inf) if size < _MAX_EXACT else size:{width}.{decimals}f}"
    return f"-{lead}{digits}{tail}" if value < 0 else f"{lead}{digits}{tail}"


def _round_half_up(size: float, decimals: int) -> str:
    """Round half up by decimal digits."""
    # The float of 2.675 is slightly below: the next larger float rounds up.
    return f"{math.nextafter(size, math.inf) if size < _MAX_EXACT else size:.{decimals}f}"


def _split_mantissa(size: float, width: int, decimals: int) -> tuple[float, int]:
    """Return a mantissa of at most `width` whole digits, and an exponent divisible by `width`."""
    exponent = math.floor(math.log10(size)) // width * width if size else 0
    if float(_round_half_up(size / 10.0**exponent, decimals)) >= 10**width:
        exponent += width
    return size / 10.0**exponent, exponent


def _fill_whole(
    texts: dict[int, str], tokens: Sequence[Token], places: Sequence[int], digits: str, *, grouped: bool
) -> None:
    """Assign digits of a whole number to places from the right; the first place takes the remaining digits."""
    for number, at in enumerate(reversed(places)):
        padding = "0" if tokens[at][1] == "0" else ""
        remaining = digits[: len(digits) - number] if number < len(digits) else padding
        run = remaining if at == places[0] else remaining[-1:]
        if grouped and run.strip():
            low = range(number, number + len(run))
            run = "".join(
                digit + ("," if position and position % 3 == 0 else "")
                for digit, position in zip(run, reversed(low), strict=True)
            )
        texts[at] = run


def _fill_decimals(texts: dict[int, str], tokens: Sequence[Token], places: Sequence[int], digits: str) -> None:
    is_end = True
    for at, digit in zip(reversed(places), reversed(digits), strict=True):
        is_end = is_end and digit == "0" and tokens[at][1] != "0"
        texts[at] = "" if is_end else digit


def _write_fraction(tokens: Sequence[Token], value: float) -> str:
    slash = [kind for kind, _ in tokens].index("fraction")
    digits_before = [at for at, (kind, _) in enumerate(tokens[:slash]) if kind == "digit"]
    above = len(list(takewhile(lambda token: token[0] == "digit", reversed(tokens[:slash]))))
    below = "".join(text for _, text in takewhile(lambda token: token[1] in "0123456789#?", tokens[slash + 1 :]))
    whole = int(abs(value)) if len(digits_before) > above else 0
    remainder = abs(value) - whole
    if below.strip("0#?"):
        top, bottom = round(remainder * int(below)), int(below)
    else:
        top, bottom = Fraction(remainder).limit_denominator(10 ** len(below) - 1).as_integer_ratio()
    if len(digits_before) > above and top == bottom:
        whole, top = whole + 1, 0
    fraction = " ".join(filter(None, [str(whole) if whole or not top else "", f"{top}/{bottom}" if top else ""]))
    ends = tokens[: digits_before[0]], tokens[slash + 1 + len(below) :]
    lead, tail = ("".join(text for kind, text in end if kind in _LITERAL_KINDS) for end in ends)
    return f"{'-' if value < 0 else ''}{lead}{fraction}{tail}".strip()


def _mark_minutes(tokens: Sequence[Token]) -> list[Token]:
    """Mark `m` as minutes after hours or before seconds."""
    clock = [at for at, (kind, _) in enumerate(tokens) if kind in ("date", "second", "elapsed")]
    result = list(tokens)
    for number, at in enumerate(clock):
        previous = tokens[clock[number - 1]] if number else ("", "")
        following = tokens[clock[number + 1]] if number + 1 < len(clock) else ("", "")
        is_month = tokens[at][0] == "date" and tokens[at][1].lower() in ("m", "mm")
        if is_month and (previous[1].lower().startswith("h") or following[1].lower().startswith("s")):
            result[at] = ("minute", tokens[at][1])
    return result


def _write_moment(tokens: Sequence[Token], language: str, epoch: int, value: float) -> str:
    decimals = max((len(text.partition(".")[2]) for kind, text in tokens if kind == "second"), default=0)
    total = round(abs(value) * _DAY_SECONDS, decimals)
    elapses = any(kind == "elapsed" for kind, _ in tokens)
    if (value < 0 and not elapses) or total >= 2_958_466 * _DAY_SECONDS:
        return format_general(value)
    start = _EPOCH_STARTS[epoch] + timedelta(
        days=epoch == 1900 and total < 60 * _DAY_SECONDS
    )  # there was no 29 February 1900
    moment = start + timedelta(seconds=total)
    hours = moment.hour % 12 or 12 if any(kind == "noon" for kind, _ in tokens) else moment.hour
    fields = {"h": hours, "y": moment.year, "m": moment.month, "d": moment.day}
    seconds = {"h": 3600, "m": 60, "s": 1}
    result = ["-"] if value < 0 else []
    for kind, text in tokens:
        sign, width = text[:1].lower(), len(text.partition(".")[0])
        if kind == "elapsed":
            result.append(str(int(total // seconds[sign])).zfill(width))
        elif kind == "minute":
            result.append(str(moment.minute).zfill(width))
        elif kind == "second":
            result.append(f"{total % 60:0{width + decimals + 1 if decimals else width}.{decimals}f}")
        elif kind == "noon":
            result.append(text.split("/")[moment.hour >= 12])
        elif kind == "date" and sign in "md" and width > 2:
            result.append(_moment_name(sign, width, moment, language))
        elif kind == "date":
            result.append(str(moment.year % 100 if sign == "y" and width < 3 else fields[sign]).zfill(min(width, 2)))
        elif kind == "era":
            result.append(str(moment.year) if sign == "e" else "")
        elif kind in _LITERAL_KINDS or kind in ("digit", "fraction") or text in ".,":
            result.append(text)
    return "".join(result).strip()


def _moment_name(sign: str, width: int, moment: datetime, language: str) -> str:
    """Return the name of a month or day in the format's language (Microsoft LCID), else in English."""
    import babel
    from babel.dates import get_day_names, get_month_names

    try:
        locale = babel.Locale.parse(windows_locale.get(int(language or "0", 16) & 0xFFFF, "en"))
    except (babel.UnknownLocaleError, ValueError):
        locale = babel.Locale("en")
    length: Literal["abbreviated", "narrow", "wide"] = (
        "abbreviated" if width == 3 else "narrow" if width == 5 else "wide"
    )
    names = get_month_names(length, locale=locale) if sign == "m" else get_day_names(length, locale=locale)
    return str(names[moment.month if sign == "m" else moment.weekday()]).rstrip(".")
