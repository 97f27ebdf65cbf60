"""Characters out of bytes: which encoding a text is in, and what a stored text must be free of."""

from __future__ import annotations

import codecs
import re

from connectors.parsers.detect import encodings

_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
HEAD = 4096
_SAMPLE = 32 * 1024
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,40})""", re.IGNORECASE)
_CONTROL = frozenset(range(32)) - frozenset(b"\0\t\n\r\f\x1b")
_FEWEST = 8
_JAPANESE_MAIL = re.compile(rb"\x1b\$[@B].+?\x1b\([BJ]", re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udfff]")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.+)")


def text_of(data: bytes, *, markup: bool = False) -> str:
    """The text of a file, line endings as `\\n`. `markup`: it may name its own encoding (HTML, XML)."""
    text = decode(data, markup=markup).removeprefix("\ufeff")
    return storable(text.replace("\r\n", "\n").replace("\r", "\n"))


def decode(data: bytes, *, markup: bool = False) -> str:
    for bom, name in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(name, "replace")
    wide = _wide(data[:HEAD]) or _unmarked(data[:HEAD])
    if wide:
        return data.decode(wide, "replace")
    try:
        if _JAPANESE_MAIL.search(data[:_SAMPLE]):
            return data.decode("iso2022_jp")
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _legacy(data, _declared(data) if markup else None)


def _wide(head: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark: ASCII characters leave zeros at the same places of every unit."""
    whole = len(head) // 4 * 4
    if whole < 8 or head.count(0) < whole // 5:
        return None
    zeros = [head[place:whole:4].count(0) * 4 / whole for place in range(4)]
    if min(zeros[1:]) > 0.9 > zeros[0]:
        return "utf-32-le"
    if min(zeros[:3]) > 0.9 > zeros[3]:
        return "utf-32-be"
    even, odd = (zeros[0] + zeros[2]) / 2, (zeros[1] + zeros[3]) / 2
    if odd > 0.4 and even < 0.1:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 and odd < 0.1 else None


def _declared(data: bytes) -> str | None:
    found = _DECLARED.search(data[:HEAD])
    try:
        return codecs.lookup(found[1].decode()).name if found else None
    except LookupError:
        return None


def _legacy(data: bytes, declared: str | None) -> str:
    """An encoding of before Unicode: what is declared, what a longer text looks like, else Western European."""
    if (mended := _almost_utf8(data)) is not None:
        return mended
    named = {"iso8859-1": "cp1252", "utf-8": None}.get(declared or "utf-8", declared)
    try:
        if named:
            return data.decode(named)
    except (UnicodeDecodeError, LookupError):
        pass
    return _likeliest(data)


def _almost_utf8(data: bytes) -> str | None:
    """UTF-8 in which some bytes are of another encoding, or halves of characters were written apart (CESU-8)."""
    try:
        return data.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    except UnicodeDecodeError:
        pass
    sample = data[: _SAMPLE * 8].decode("utf-8", "replace")
    broken, beyond = sample.count("\ufffd"), sum(character > "\x7f" for character in sample)
    return data.decode("utf-8", _STRAY) if 2 * broken < beyond or broken * 20 <= beyond else None


def _stray(error: UnicodeError) -> tuple[str, int]:
    """A byte by itself is a letter or sign of the Western encoding, as of words that were pasted in."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    one = error.object[error.start : error.end]
    return one.decode("cp1252", "replace") if len(one) == 1 and one != b"\xff" else "\ufffd", error.end


_STRAY = "stray-western"
codecs.register_error(_STRAY, _stray)


def _likeliest(data: bytes) -> str:
    name = encodings.guess(data) or "cp1252"
    text = data.decode(name, "replace")
    return text if name != "cp1252" or "\ufffd" not in text else data.decode("latin-1")


def _unmarked(head: bytes) -> str | None:
    """UTF-16 without a mark in a script that leaves no zeros: it looks full of controls, or of nothing in a row."""
    control = sum(byte in _CONTROL for byte in head)
    if control * (4 if head.isascii() else 50) < len(head) or len(head) < _FEWEST:
        return None
    return encodings.guess(head[: len(head) // 2 * 2], wide=True)


def glance(head: bytes) -> str | None:
    """The characters at the start of a file, or None if it is no text."""
    if any(head.startswith(bom) for bom, _ in _BOMS) or _wide(head) or _unmarked(head):
        return decode(head)
    control = sum(byte in _CONTROL for byte in head) / max(len(head), 1)
    allowed = 0.2
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        allowed = 0.02
    if control > allowed or head.count(0) > 0.3 * len(head):
        return None
    return head.decode("latin-1")


def storable(text: str) -> str:
    """Without zero characters and lone surrogates, which PostgreSQL's text refuses."""
    if "\0" in text:
        text = text.replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def first_heading(markdown: str) -> str:
    """The first `#` heading within the first 200 lines, outside of code, or ""."""
    fenced = False
    for line in markdown[:20_000].split("\n")[:200]:
        if _FENCE.match(line):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line)
        if found:
            return one_line(re.sub(r"[*_`]{1,3}|\\(?=\W)|\s#+\s*$", "", found[1]))
    return ""


def one_line(text: str) -> str:
    """White space collapsed, at most 300 characters."""
    return " ".join(storable(text).split())[:300]
