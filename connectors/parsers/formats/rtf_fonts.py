"""Letters of RTF by the charset or signs of their font."""

from __future__ import annotations

import re
from typing import Final

from connectors.parsers.formats.docx_runs import symbol_sign

# Code pages of font character sets.
_FONT_CODE_PAGES: Final = {
    128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258",
    177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 77: "mac_roman",
}  # fmt: skip
_SYMBOL_CHARSET: Final = 2
_PRIVATE_CODES: Final = range(0xF000, 0xF100)
_DINGBAT_FONT: Final = re.compile(r"(?:wingdings|webdings|zapf ?dingbats|itc zapf|monotype sorts)")
_BULLET: Final = "\u2022"
_SYMBOL_FIELD: Final = re.compile(
    rb'SYMBOL\s+(?:0[xX]([0-9A-Fa-f]{1,6})|(\d{1,7}))(?:.*?\\f\s*"?([^"\\]{1,60}))?', re.DOTALL
)


class Fonts:
    """Fonts of a document by number."""

    def __init__(self) -> None:
        self._charsets: dict[int, int] = {}
        self._names: dict[int, str] = {}

    def set_charset(self, font: int, charset: int) -> None:
        self._charsets[font] = charset

    def add_name(self, font: int, name: bytes) -> None:
        words = name.decode("latin-1").strip(" ;").lower()
        if words:
            self._names.setdefault(font, words)

    def decode(self, font: int, data: bytes, code_page: str) -> str:
        if self._charsets.get(font) == _SYMBOL_CHARSET or self._names.get(font) == "symbol":
            return "".join(self._sign(font, code) for code in data)
        return data.decode(_FONT_CODE_PAGES.get(self._charsets.get(font, 0), code_page), "replace")

    def letter(self, font: int, code: int) -> str:
        """Return the letter of a UTF-16 code; programs write codes of symbol fonts as private ones."""
        return self._sign(font, code - _PRIVATE_CODES.start) if code in _PRIVATE_CODES else chr(code)

    def _sign(self, font: int, code: int) -> str:
        return _font_sign(self._names.get(font, "symbol"), code)


def _font_sign(name: str, code: int) -> str:
    family = "symbol" if "symbol" in name else name
    if sign := symbol_sign(family, code):
        return sign
    return _BULLET if code == 0xB7 or _DINGBAT_FONT.match(name) else chr(code)


def field_sign(instruction: bytes) -> str:
    """Return the sign of a SYMBOL field; "" for other fields."""
    match = _SYMBOL_FIELD.search(instruction)
    if match is None:
        return ""
    code = int(match[1], 16) if match[1] else int(match[2])
    code = code - _PRIVATE_CODES.start if code in _PRIVATE_CODES else code
    if match[3]:
        return (
            _font_sign(match[3].decode("latin-1").strip().lower(), code) if code < 0x100 else chr(min(code, 0x10FFFF))
        )
    return bytes([code]).decode("cp1252", "replace") if code < 0x100 else chr(min(code, 0x10FFFF))
