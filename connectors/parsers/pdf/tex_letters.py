"""Letters of TeX's fonts read by PDFium as codes: brackets, ligatures, accents apart from their letter."""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Codes of the symbol font (CMSY) that stand for ASCII letters, digits and signs in other fonts.
_SYMBOLS = {
    "!": "\u2192", "0": "\u2032", "1": "\u221e", "2": "\u2208", "8": "\u2200", "9": "\u2203", "b": "\u230a",
    "c": "\u230b", "d": "\u2308", "e": "\u2309", "f": "{", "g": "}", "h": "\u27e8", "i": "\u27e9", "j": "|",
    "k": "\u2016", "n": "\\", "r": "\u2207", "s": "\u222b", "t": "\u2294",
}  # fmt: skip
# Codes of the font of large signs (CMEX): sums, products, integrals, unions, roots; wide accents have no letter.
_LARGE_SIGNS = {
    **dict.fromkeys("PX", "\u2211"), **dict.fromkeys("QY", "\u220f"), **dict.fromkeys("RZ", "\u222b"),
    **dict.fromkeys("S[", "\u22c3"), **dict.fromkeys("T\\", "\u22c2"), **dict.fromkeys("pqrst", "\u221a"),
    **dict.fromkeys("bcdefg", ""),
}  # fmt: skip
_LARGE_FONT = re.compile(r"(?:^|\+)(?:CMEX|LMMathExtension)", re.IGNORECASE)
_SYMBOL_FONT = re.compile(r"(?:^|\+)(?:CMB?SY|LMMathSymbols|MnSymbol|txsy|pxsy)\w*\d*", re.IGNORECASE)
_MATH_FONT = re.compile(r"(?:^|\+)(?:CM(?:EX|B?SY|MI)|LMMath|MSAM|MSBM)", re.IGNORECASE)
# Ligatures, quotes and dashes of text fonts: of encoding T1, and of OT1.
_T1_LETTERS = dict(
    zip(
        range(0x10, 0x20),
        (
            "\u201c",
            "\u201d",
            "\u201e",
            "\u00ab",
            "\u00bb",
            "\u2013",
            "\u2014",
            "",
            "",
            "\u0131",
            "\u0237",
            "ff",
            "fi",
            "fl",
            "ffi",
            "ffl",
        ),
        strict=True,
    )
)
_OT1_LETTERS = dict(
    zip(
        (*range(0x0B, 0x12), *range(0x19, 0x20)),
        (
            "ff",
            "fi",
            "fl",
            "ffi",
            "ffl",
            "\u0131",
            "\u0237",
            "\u00df",
            "\u00e6",
            "\u0153",
            "\u00f8",
            "\u00c6",
            "\u0152",
            "\u00d8",
        ),
        strict=True,
    )
)
_BULLET_CODE = "\x88"
_OT1_LIGATURE, _T1_LIGATURE = (
    re.compile("[a-z][\x0b-\x0f](?=[a-z ,.;\r])|[a-z\r ][\x0b-\x0f][a-z]"),
    re.compile(r"[a-z]?[\x1b-\x1f][a-z]"),
)
_COMBINING = {
    "\u00a8": "\u0308", "\u00b4": "\u0301", "`": "\u0300", "\u02cb": "\u0300", "\u02c6": "\u0302", "\u02dc": "\u0303",
    "\u02c7": "\u030c", "\u02d8": "\u0306", "\u00af": "\u0304", "\u02d9": "\u0307", "\u02da": "\u030a",
    "\u00b8": "\u0327", "\u02dd": "\u030b",
}  # fmt: skip
_ACCENTS = "".join(_COMBINING)
_DOTLESS = {"\u0131": "i", "\u0237": "j"}
_TOKEN_PATTERN = re.compile(rf"(?:h[*/\u2217])?[\w{re.escape(_ACCENTS)}\x0b\x0c\x0e-\x1f]+")
_SUSPECT_PATTERN = re.compile(
    r"(?<![^\W\d_])(?:[!01289b-knrst]|[P-TX-\\pq](?![a-z]{2}))"
    r"|(?:[!01289b-knrst]|(?<![a-zA-Z]{2})[P-TX-\\pq])(?![^\W\d_])"
)
_MAX_FONT_NAME = 128
# In letters: where PDFium may put an accent after its letter. In heights of the letter: how far an accent rises.
_MAX_ACCENT_DISTANCE, _MAX_ACCENT_RISE = 6, 2.0
# Ligatures of T1 that liteparse takes for others by their shape: ff and fl.
_LITEPARSE_GUESSES = {0x1B: "ft", 0x1D: "Th"}
_QUOTE_CODES, _QUOTES = "\x10\x11\x12\x13\x14", "\u201c\u201d\u201e\u00ab\u00bb"


def read_letters(words: Any) -> tuple[str, dict[str, str]]:
    """Return the text of a pypdfium2 text page with true letters, and the words that changed; "" without any."""
    import pypdfium2.raw as pdfium

    text = str(words.get_text_range())
    if len(text) != words.count_chars():  # PDFium counts characters beyond U+FFFF twice
        text = "".join(chr(pdfium.FPDFText_GetUnicode(words.raw, index)) for index in range(words.count_chars()))
    letters = list(text)
    for index, letter in _true_letters(words, text):
        letters[index] = letter
    if "".join(letters) == text:
        return "", {}
    unchanged, changed = set[str](), dict[str, str]()
    for match in _TOKEN_PATTERN.finditer(text):
        word = "".join(letters[match.start() : match.end()])
        if word == match[0]:
            unchanged.add(word)
        elif len(match[0]) > 1:
            changed[match[0]] = word
    for raw in [*changed]:
        changed.setdefault(raw.strip(_QUOTE_CODES).translate(_LITEPARSE_GUESSES), changed[raw].strip(_QUOTES))
    return "".join(letters), {raw: word for raw, word in changed.items() if raw not in unchanged}


def replace_words(markdown: str, changed: Mapping[str, str]) -> str:
    """Replace changed words; accents of Markdown may have a space next to them."""
    for raw, word in changed.items():
        pattern = "".join(f" ?{re.escape(sign)} ?" if sign in _COMBINING else re.escape(sign) for sign in raw)
        pattern = pattern.removeprefix(" ?").removesuffix(" ?")
        markdown = re.sub(rf"(?<!\w){pattern}(?!\w)", word.replace("\\", r"\\"), markdown)
    return markdown


def _true_letters(words: Any, text: str) -> Iterator[tuple[int, str]]:
    """Yield indexes with their true letter."""
    is_ot1, is_t1 = bool(_OT1_LIGATURE.search(text)), bool(_T1_LIGATURE.search(text))
    for match in _SUSPECT_PATTERN.finditer(text):
        name = _font_name(words, match.start())
        signs = _SYMBOLS if _SYMBOL_FONT.search(name) else _LARGE_SIGNS if _LARGE_FONT.search(name) else {}
        if match[0] in signs:
            yield match.start(), signs[match[0]]
    codes = _OT1_LETTERS if is_ot1 else _T1_LETTERS if is_t1 else {}
    for index, sign in enumerate(text) if codes or _BULLET_CODE in text else ():
        if text.startswith("\r\n", index):  # the end of a line, no ligature
            continue
        if sign == _BULLET_CODE:
            yield index, "\u2022"
        elif (sign < " " and ord(sign) in codes) or (sign == "\u00ff" and is_t1):
            name = _font_name(words, index)
            if not _MATH_FONT.search(name):
                yield index, "\u00df" if sign == "\u00ff" else codes[ord(sign)]
    yield from _composed_letters(words, text)


def _composed_letters(words: Any, text: str) -> Iterator[tuple[int, str]]:
    """Yield (index, text) for accents drawn on letters: "" for the accent, the accented letter for the base letter."""
    for match in re.finditer(f"[{_ACCENTS}]", text):
        accent = match.start()
        for index in (accent + 1, *range(accent - 1, accent - _MAX_ACCENT_DISTANCE, -1)):
            if not 0 <= index < len(text) or not text[index].isalpha():
                continue
            composed = unicodedata.normalize("NFC", _DOTLESS.get(text[index], text[index]) + _COMBINING[match[0]])
            if len(composed) == 1 and _is_above(_bounds(words, accent), _bounds(words, index)):
                yield accent, ""
                yield index, composed
                break


def _is_above(accent: Sequence[float], letter: Sequence[float]) -> bool:
    middle, height = (accent[0] + accent[2]) / 2, letter[3] - letter[1]
    return letter[0] - 0.1 <= middle <= letter[2] + 0.1 and abs(accent[1] - letter[1]) < _MAX_ACCENT_RISE * height


def _bounds(words: Any, index: int) -> tuple[float, float, float, float]:
    left, bottom, right, top = words.get_charbox(index)
    return left, bottom, right, top


def _font_name(words: Any, index: int) -> str:
    import pypdfium2.raw as pdfium

    name = ctypes.create_string_buffer(_MAX_FONT_NAME)
    pdfium.FPDFText_GetFontInfo(words.raw, index, name, _MAX_FONT_NAME, None)
    return name.value.decode("latin-1")
