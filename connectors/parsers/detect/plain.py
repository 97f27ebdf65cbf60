"""Texts of files: their characters, and what a stored text must be free of."""

from __future__ import annotations

import codecs
import re

from connectors.charsets import decoding

HEAD = decoding.HEAD
_SURROGATES = re.compile("[\ud800-\udfff]")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.+)")


def text_of(data: bytes, media_type: str = "", *, markup: bool = False) -> str:
    """The text of a file, line endings as `\\n`. `markup`: it may name its own charset (HTML, XML).

    Skippable if too much of it was replaced by U+FFFD.
    """
    text = decoding.decode(data, decoding.charset(media_type), markup=markup).removeprefix("\ufeff")
    return decoding.require_readable(storable(text.replace("\r\n", "\n").replace("\r", "\n")))


def glance(head: bytes) -> str | None:
    """The characters at the start of a file, or None if it is no text."""
    if any(head.startswith(mark) for mark, _ in decoding.BOMS) or decoding.wide_codec(head):
        return decoding.decode(head)
    control = sum(byte in decoding.CONTROL for byte in head) / max(len(head), 1)
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
