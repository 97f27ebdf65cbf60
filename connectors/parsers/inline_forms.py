"""Plain text for formatting with meaning, the same for all readers.

    10<sup>6</sup>, H<sub>2</sub>O     10^(6), H_(2)O
    mark of a footnote                 word [1]
    struck out                         ~~two weeks~~
    fraction, root                     (a+b)/c, √(x)
    picture with a description         [picture: Pump with two valves]
    reading above a word               東京(とうきょう)

These stay plain, since no reader takes them for digits of the word before: suffixes of ordinals (1st, 2nd, 1er, 2ème),
marks without letters or digits (®, *, †), and text that is superscript as a whole. Superscript TM and SM are ™ and ℠.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

# Readers wrap each piece in control characters, which no XML holds; `write_forms` replaces them where the paragraph or
# cell ends, when the text before a superscript is known and the pieces of one superscript are joined.
_RAISED_MARKS, _LOWERED_MARKS, _STRUCK_MARKS, _NOTE_MARKS = (
    ("\x0e", "\x0f"),
    ("\x10", "\x11"),
    ("\x12", "\x13"),
    ("\x14", "\x15"),
)
_MARK_PATTERN = re.compile("[\x0e-\x15]")
_SCRIPT_PATTERNS = ((re.compile(r"\x0e([^\x0e-\x11]*)\x0f"), "^"), (re.compile(r"\x10([^\x0e-\x11]*)\x11"), "_"))
_NOTE_MARK = re.compile(r"\x14([^\x14\x15]*)\x15")
_STRUCK_TEXT = re.compile(r"\x12([^\x12\x13]*)\x13")
_JOINT_PATTERN = re.compile(r"\x0f\x0e|\x11\x10|\x15\x14|\x13([ \t\xa0]*)\x12")
_ORDINAL_PATTERN = re.compile(r"st|nd|rd|th|er|re|[eè]re|[eè]me|i[eè]me|nde?", re.IGNORECASE)
_DIGIT_BEFORE = re.compile(r"\d\.?[\x12\x13]*\Z")
# Characters before a script that decide its spelling.
_CONTEXT_LENGTH = 32
# Letters before it are of alphabets with spaces between words.
_FIRST_HANGUL = "\u1100"
_TRADE_MARKS = {"TM": "™", "SM": "℠"}
# Sentences that Office adds to descriptions, and names that programs give to pictures.
_PICTURE_FILLERS = re.compile(
    r"\s*(?:Description automatically generated(?: with \w+ confidence)?|AI-generated content may be incorrect)\.?",
    re.IGNORECASE,
)
_PICTURE_FILE = re.compile(
    r"(?:\S*[\\/])?[^\\/]*\.(?:png|jpe?g|gif|bmp|tiff?|svg|emf|wmf|webp|eps|pict?)"
    r"|(?:picture|image|img|bild|grafik|graphic|graphics)[ _-]?\d*",
    re.IGNORECASE,
)
_BRACKETED_TEXT = re.compile(r"[\[(].*[\])]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Form:
    """Position of text (1 above the line, -1 below), strike-through, and footnote mark."""

    script: int = 0
    struck: bool = False
    note: bool = False

    def __or__(self, inner: Form) -> Form:
        """Combine the forms of two nested elements."""
        return Form(inner.script or self.script, self.struck or inner.struck, self.note or inner.note)

    def mark(self, text: str) -> str:
        """Mark a piece of text for `write_forms`."""
        return f"{self.opening}{text}{self.closing}" if text and self != PLAIN else text

    @property
    def opening(self) -> str:
        """Mark before the text."""
        return (_STRUCK_MARKS[0] if self.struck else "") + self._position_mark(0)

    @property
    def closing(self) -> str:
        """Mark after the text."""
        return self._position_mark(1) + (_STRUCK_MARKS[1] if self.struck else "")

    def _position_mark(self, end: int) -> str:
        marks = _NOTE_MARKS if self.note else _RAISED_MARKS if self.script > 0 else _LOWERED_MARKS
        return marks[end] if self.note or self.script else ""


PLAIN = Form()
RAISED, LOWERED, STRUCK = Form(1), Form(-1), Form(struck=True)


def write_forms(text: str) -> str:
    """Replace the marks in a paragraph or cell by plain text."""
    if not _MARK_PATTERN.search(text):
        return text
    text = _JOINT_PATTERN.sub(lambda joint: joint[1] or "", text)
    text = _NOTE_MARK.sub(_write_note_mark, text)
    bare = _MARK_PATTERN.sub("", text).strip()
    for pattern, sign in _SCRIPT_PATTERNS:
        text = pattern.sub(partial(_write_script, sign, bare), text)
    return _MARK_PATTERN.sub("", _STRUCK_TEXT.sub(_write_struck, text))


def is_marked(text: str) -> bool:
    """Check for marks of `Form.mark`."""
    return bool(_MARK_PATTERN.search(text))


def superscript(text: str) -> str:
    """Write an exponent."""
    return f"^({text})"


def subscript(text: str) -> str:
    """Write an index."""
    return f"_({text})"


def fraction(numerator: str, denominator: str) -> str:
    """Write a fraction in one line, with brackets around compound parts."""
    return f"{grouped(numerator)}/{grouped(denominator)}"


def grouped(text: str) -> str:
    """Put brackets around text other than a word, a number, or bracketed text."""
    return text if re.fullmatch(r"\w*|\d+[.,]\d+", text) or _is_one_group(text) else f"({text})"


def footnote_mark(label: str) -> str:
    """Write the mark of a footnote."""
    return f" [{label}]"


def tick(is_chosen: bool) -> str:  # noqa: FBT001 - a sign for a value
    """Write a check box."""
    return "\u2612" if is_chosen else "\u2610"


def reading(*parts: str) -> str:
    """Write the reading of a word in parentheses, joined from readings of single characters; Latin ones with spaces."""
    words = [part.strip() for part in parts if part.strip()]
    space = " " if any(part[0] < _FIRST_HANGUL for part in words) else ""
    return f"({space.join(words)})" if words else ""


def picture(words: str) -> str:
    """Write the description of a picture; "" without words of its author."""
    words = _PICTURE_FILLERS.sub("", " ".join(words.split())).strip()
    return f"[picture: {words}]" if any(map(str.isalpha, words)) and not _PICTURE_FILE.fullmatch(words) else ""


def column_name(levels: Iterable[str]) -> str:
    """Write the name of a column below a header of several rows."""
    return " \u2013 ".join(dict.fromkeys(filter(None, levels)))


def note(kind: str, label: str, words: str) -> str:
    """Write a note under its mark."""
    return f"{kind} [{label}]: {words}" if label else f"{kind}: {words}"


def _write_note_mark(match: re.Match[str]) -> str:
    label = _MARK_PATTERN.sub("", match[1]).strip(" \n\t[]()")
    return footnote_mark(label) if label else ""


def _is_one_group(text: str) -> bool:
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return sign == ")" and at == len(text) - 1
    return False


def _write_script(sign: str, bare: str, match: re.Match[str]) -> str:
    inner = match[1]
    words = _MARK_PATTERN.sub("", inner).strip()
    preceding = match.string[max(match.start() - _CONTEXT_LENGTH, 0) : match.start()]
    is_bracketed = preceding[-1:] in ("(", "[") and match.string[match.end() :][:1] in (")", "]")
    if not any(map(str.isalnum, words)) or words == bare or is_bracketed:
        return inner
    if sign == "^" and words.upper() in _TRADE_MARKS and preceding[-1:].isalnum():
        return _TRADE_MARKS[words.upper()]
    if sign == "^" and _ORDINAL_PATTERN.fullmatch(words) and _DIGIT_BEFORE.search(preceding):
        return inner
    if _BRACKETED_TEXT.fullmatch(words):
        return f" {words}" if words[0] == "[" else f"{sign}{words}"
    leading, trailing = inner[: len(inner) - len(inner.lstrip())], inner[len(inner.rstrip()) :]
    return f"{leading}{sign}({inner.strip()}){trailing}"


def _write_struck(match: re.Match[str]) -> str:
    return "\n".join(map(_strike_line, match[1].split("\n")))


def _strike_line(line: str) -> str:
    words = line.strip()
    return line.replace(words, f"~~{words}~~") if any(map(str.isalnum, words)) else line
