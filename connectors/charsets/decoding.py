"""Decoding of bytes: by byte order mark, a plausible declared charset, else the likeliest encoding."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator

from connectors.charsets import guessing
from retrieval.errors import Skippable

HEAD_BYTES = 4096
BYTE_ORDER_MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
CONTROL_BYTES = frozenset(range(32)) - frozenset(b"\0\t\n\r\f\x1b")
_SAMPLE_BYTES = 32 * 1024
_MIN_WIDE_BYTES = 8
_MIN_SCRIPT_LETTERS = 20
_MAX_DAMAGED_SHARE = 0.05
_MAX_DAMAGED_COUNT = 5
_JAPANESE_MAIL = re.compile(rb"\x1b\$[@B].+?\x1b\([BJ]", re.DOTALL)
_COMMENT_PATTERN = re.compile(rb"<!--.*?-->", re.DOTALL)
_CHARSET_PARAMETER = re.compile(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:+-]{2,40})""", re.IGNORECASE)
_MARKUP_CHARSET = re.compile(
    rb"""<\?xml\b[^>]*?\bencoding\s*=\s*["']\s*([A-Za-z0-9_.:+-]{2,40})"""
    rb"""|<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([A-Za-z0-9_.:+-]{2,40})""",
    re.IGNORECASE,
)
_SUPERSET_CODECS = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "hz": "gb18030",
    "big5": "big5hkscs",
    "cp950": "big5hkscs",
    "shift_jis": "cp932",
    "shift_jis_2004": "cp932",
    "euc_kr": "cp949",
    "utf-16": "utf-16-le",
    "utf-8-sig": "utf-8",
}
# Labels of https://encoding.spec.whatwg.org/#names-and-labels unknown to Python.
_CODECS_BY_LABEL = {
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "windows-949": "cp949",
    "ks_c_5601-1989": "cp949",
    "korean": "cp949",
    "x-gbk": "gb18030",
    "chinese": "gb18030",
    "gb_2312-80": "gb18030",
    "x-x-big5": "big5hkscs",
    "cn-big5": "big5hkscs",
    "x-euc-jp": "euc_jp",
    "x-cp1250": "cp1250",
    "x-cp1251": "cp1251",
    "x-cp1252": "cp1252",
    "windows-874": "cp874",
    "dos-874": "cp874",
    "iso-8859-8-i": "iso8859-8",
    "logical": "iso8859-8",
    "x-mac-cyrillic": "mac-cyrillic",
    "x-mac-roman": "mac-roman",
    "koi": "koi8-r",
    "koi8": "koi8-r",
    "unicode": "utf-16-le",
    "unicode-1-1-utf-8": "utf-8",
}
# Windows code pages without a Python codec named `cp` and number.
_CODE_PAGES = {
    1200: "utf-16-le",
    20127: "ascii",
    20866: "koi8-r",
    20932: "euc_jp",
    21866: "koi8-u",
    50220: "iso2022_jp",
    50221: "iso2022_jp",
    50222: "iso2022_jp",
    50225: "iso2022_kr",
    51932: "euc_jp",
    51949: "euc_kr",
    54936: "gb18030",
    65001: "utf-8",
    **{28590 + part: f"iso8859-{part}" for part in (*range(1, 12), 13, 14, 15, 16)},
}
_ACCEPTED_CODECS = re.compile(
    r"utf-8|utf-16-[lb]e|utf-32(-[lb]e)?|ascii|cp125\d|iso8859-\d+|koi8-[rtu]|cp437|cp85[0258]|cp86[26]|cp874"
    r"|mac-(roman|cyrillic|latin2|greek|turkish)|gb18030|big5hkscs|cp932|cp949|euc_jp|euc_jis_2004|iso2022_(jp|kr)|johab"
)
_MULTI_BYTE_CODECS = frozenset({"gb18030", "big5hkscs", "cp932", "cp949", "euc_jp", "euc_jis_2004", "johab"})


def find_codec(label: str) -> str | None:
    """Return Python's codec for a label as in browsers (`gb2312` is GB 18030); None if not accepted."""
    name = label.strip().strip("\"'").lower()
    try:
        name = _CODECS_BY_LABEL.get(name) or codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    name = _SUPERSET_CODECS.get(name, name)
    return name if _ACCEPTED_CODECS.fullmatch(name) else None


def code_page(number: int) -> str:
    """Return the label of a Windows code page."""
    return _CODE_PAGES.get(number, f"cp{number}")


def read_charset(media_type: str) -> str:
    """Return the charset parameter of a media type, or ""."""
    match = _CHARSET_PARAMETER.search(media_type)
    return match[1] if match else ""


def decode_text(data: bytes, declared: str = "", *, markup: bool = False) -> str:
    """Decode a text. `declared`: charset from the header or mail. `markup`: HTML or XML with its own declaration."""
    # A charset counts if all bytes fit. Among several, the likeliest text wins, else the first declaration.
    for mark, name in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            data = data[len(mark) :]
            if name != "utf-8" or _decode_strictly(data, name) is not None:
                return data.decode(name, "replace")
            break
    names = list(dict.fromkeys(_declared_codecs(data, declared, markup=markup)))
    text = _decode_certain(data, names)
    return text if text is not None else _decode_declared(data, [name for name in names if name != "utf-8"])


def require_readable(text: str) -> str:
    """Return the text. Skippable if mostly replacement characters (U+FFFD)."""
    if text.count("\ufffd") > max(_MAX_DAMAGED_COUNT, _MAX_DAMAGED_SHARE * len(text)):
        raise Skippable(
            "The text is damaged: many of its characters are replacement characters (U+FFFD). "
            "Save it again from its source in UTF-8, and ingest that."
        )
    return text


def wide_codec(head: bytes) -> str | None:
    """Return the codec of UTF-16 or UTF-32 without a byte order mark; None for other encodings."""
    return _wide_codec_by_zeros(head) or _wide_codec_by_controls(head)


def _declared_codecs(data: bytes, declared: str, *, markup: bool) -> Iterator[str]:
    if name := find_codec(declared) if declared else None:
        yield name
    if markup:
        for match in _MARKUP_CHARSET.finditer(_COMMENT_PATTERN.sub(b"", data[:HEAD_BYTES])):
            name = find_codec((match[1] or match[2]).decode("ascii"))
            if name and not name.startswith(("utf-16", "utf-32")):  # it could not be read if it were
                yield name


def _decode_certain(data: bytes, names: Iterable[str]) -> str | None:
    """Decode encodings recognisable by their bytes: UTF-8, UTF-16, UTF-32 and those with escapes."""
    if wide := wide_codec(data[:HEAD_BYTES]):
        return data.decode(wide, "replace")
    escaped = ["iso2022_jp"] if _JAPANESE_MAIL.search(data[:_SAMPLE_BYTES]) else []
    for name in (*escaped, *(name for name in names if name == "iso2022_kr"), "utf-8"):
        if (text := _decode_strictly(data, name)) is not None:
            return text
    return _decode_almost_utf8(data)


def _decode_declared(data: bytes, names: Iterable[str]) -> str:
    texts = {name: text for name in names if (text := _decode_strictly(data, name)) is not None}
    likeliest = _decode_likeliest(data)
    if not texts:
        return next(_decode_nearly(data, names), likeliest)
    first = next(iter(texts))
    if likeliest in texts.values() or (first == "cp1252" and _is_foreign_script(likeliest)):
        return likeliest
    return texts[first]


def _decode_strictly(data: bytes, name: str) -> str | None:
    try:
        text = data.decode(name)
    except UnicodeError:
        return None
    return unicodedata.normalize("NFC", text) if name == "cp1258" else text


def _decode_nearly(data: bytes, names: Iterable[str]) -> Iterator[str]:
    """Yield decodings with few broken bytes, as in truncated pages."""
    for name in names:
        if name in _MULTI_BYTE_CODECS:
            text = data.decode(name, "replace")
            if text.count("\ufffd") * 20 <= sum(character > "\x7f" for character in text):
                yield text


def _is_foreign_script(text: str) -> bool:
    """Check for non-Western letters: servers and mail programs declare Western charsets for any text."""
    letters = [character for character in text if character > "\x7f" and character.isalpha()]
    return len(letters) >= _MIN_SCRIPT_LETTERS and sum(letter >= "\u0370" for letter in letters) > len(letters) * 0.9


def _decode_likeliest(data: bytes) -> str:
    name = guessing.guess_encoding(data) or "cp1252"
    text = _decode_strictly(data, name) or data.decode(name, "replace")
    return text if name != "cp1252" or "\ufffd" not in text else data.decode("latin-1")


def _wide_codec_by_zeros(head: bytes) -> str | None:
    """Detect UTF-16 or UTF-32 by zeros at regular positions, as in ASCII text."""
    whole = len(head) // 4 * 4
    if whole < _MIN_WIDE_BYTES or head.count(0) < whole // 5:
        return None
    zeros = [head[start:whole:4].count(0) * 4 / whole for start in range(4)]
    if min(zeros[1:]) > 0.9 > zeros[0]:
        return "utf-32-le"
    if min(zeros[:3]) > 0.9 > zeros[3]:
        return "utf-32-be"
    even, odd = (zeros[0] + zeros[2]) / 2, (zeros[1] + zeros[3]) / 2
    if odd > 0.4 and even < 0.1:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 and odd < 0.1 else None


def _wide_codec_by_controls(head: bytes) -> str | None:
    """Detect UTF-16 without zeros by its many control bytes."""
    control = sum(byte in CONTROL_BYTES for byte in head)
    if control * (4 if head.isascii() else 50) < len(head) or len(head) < _MIN_WIDE_BYTES:
        return None
    return guessing.guess_encoding(head[: len(head) // 2 * 2], wide=True)


def _decode_almost_utf8(data: bytes) -> str | None:
    """Decode UTF-8 with a few bytes in another encoding, or with split surrogates (CESU-8)."""
    try:
        return data.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    except UnicodeDecodeError:
        pass
    sample = data[: _SAMPLE_BYTES * 8].decode("utf-8", "replace")
    broken, beyond = sample.count("\ufffd"), sum(character > "\x7f" for character in sample)
    return data.decode("utf-8", _STRAY_ERRORS) if 2 * broken < beyond or broken * 20 <= beyond else None


def _decode_stray_byte(error: UnicodeError) -> tuple[str, int]:
    """Decode a stray byte as Western, as in pasted words."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    byte = error.object[error.start : error.end]
    return byte.decode("cp1252", "replace") if len(byte) == 1 and byte != b"\xff" else "\ufffd", error.end


_STRAY_ERRORS = "stray-western"
codecs.register_error(_STRAY_ERRORS, _decode_stray_byte)
