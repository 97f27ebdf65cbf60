"""Plain text for formatting that changes the meaning of words, the same for all readers.

    10<sup>6</sup>, H<sub>2</sub>O     10^(6), H_(2)O
    mark of a footnote                 word [1]
    struck out                         ~~two weeks~~
    fraction, root                     (a+b)/c, √(x)

These stay plain, since no reader takes them for digits of the word before: suffixes of ordinals (1st, 2nd, 1er, 2ème),
marks without letters or digits (®, *, †), and text that is superscript as a whole. Superscript TM and SM are ™ and ℠.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

# Readers wrap each piece in control characters, which no XML holds; `write_forms` replaces them where the paragraph or
# cell ends, when the text before a superscript is known and the pieces of one superscript are joined.
_RAISED, _LOWERED, _STRUCK, _NOTED = ("\x0e", "\x0f"), ("\x10", "\x11"), ("\x12", "\x13"), ("\x14", "\x15")
_MARKED = re.compile("[\x0e-\x15]")
_SCRIPTS = ((re.compile(r"\x0e([^\x0e-\x11]*)\x0f"), "^"), (re.compile(r"\x10([^\x0e-\x11]*)\x11"), "_"))
_NOTE_MARK = re.compile(r"\x14([^\x14\x15]*)\x15")
_STRUCK_TEXT = re.compile(r"\x12([^\x12\x13]*)\x13")
_JOINTS = re.compile(r"\x0f\x0e|\x11\x10|\x15\x14|\x13([ \t\xa0]*)\x12")
_ORDINAL = re.compile(r"st|nd|rd|th|er|re|[eè]re|[eè]me|i[eè]me|nde?", re.IGNORECASE)
_DIGIT_BEFORE = re.compile(r"\d\.?[\x12\x13]*\Z")
_CONTEXT = 32
"""Characters before a script that decide how it is written."""
_TRADE_MARKS = {"TM": "™", "SM": "℠"}
_BRACKETED = re.compile(r"[\[(].*[\])]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Form:
    """Position of text (1 above the line, -1 below), whether a line is drawn through it, and whether it is the mark of
    a footnote."""

    script: int = 0
    struck: bool = False
    note: bool = False

    def __or__(self, inner: Form) -> Form:
        """Return the form of text in two elements."""
        return Form(inner.script or self.script, self.struck or inner.struck, self.note or inner.note)

    def mark(self, text: str) -> str:
        """Mark a piece of text for `write_forms`."""
        return f"{self.opening}{text}{self.closing}" if text and self != PLAIN else text

    @property
    def opening(self) -> str:
        """Mark before the text."""
        return (_STRUCK[0] if self.struck else "") + self._position(0)

    @property
    def closing(self) -> str:
        """Mark after the text."""
        return self._position(1) + (_STRUCK[1] if self.struck else "")

    def _position(self, end: int) -> str:
        marks = _NOTED if self.note else _RAISED if self.script > 0 else _LOWERED
        return marks[end] if self.note or self.script else ""


PLAIN = Form()
RAISED, LOWERED, STRUCK = Form(1), Form(-1), Form(struck=True)


def write_forms(text: str) -> str:
    """Return the text of a paragraph or cell with its marks as plain text."""
    if not _MARKED.search(text):
        return text
    text = _JOINTS.sub(lambda joint: joint[1] or "", text)
    text = _NOTE_MARK.sub(_noted, text)
    bare = _MARKED.sub("", text).strip()
    for pattern, sign in _SCRIPTS:
        text = pattern.sub(partial(_scripted, sign, bare), text)
    return _MARKED.sub("", _STRUCK_TEXT.sub(_struck, text))


def superscript(text: str) -> str:
    """Write an exponent."""
    return f"^({text})"


def subscript(text: str) -> str:
    """Write an index."""
    return f"_({text})"


def fraction(numerator: str, denominator: str) -> str:
    """Write a fraction in one line, with brackets around each part that is more than a word or a number."""
    return f"{grouped(numerator)}/{grouped(denominator)}"


def grouped(text: str) -> str:
    """Put brackets around text, except a word, a number, or text in brackets already."""
    return text if re.fullmatch(r"\w*|\d+[.,]\d+", text) or _is_one_group(text) else f"({text})"


def footnote_mark(label: str) -> str:
    """Write the mark of a footnote in the text."""
    return f" [{label}]"


def note(kind: str, label: str, words: str) -> str:
    """Write a note, under the mark that leads to it."""
    return f"{kind} [{label}]: {words}" if label else f"{kind}: {words}"


def _noted(match: re.Match[str]) -> str:
    label = _MARKED.sub("", match[1]).strip(" \n\t[]()")
    return footnote_mark(label) if label else ""


def _is_one_group(text: str) -> bool:
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return sign == ")" and at == len(text) - 1
    return False


def _scripted(sign: str, bare: str, match: re.Match[str]) -> str:
    inner = match[1]
    words = _MARKED.sub("", inner).strip()
    preceding = match.string[max(match.start() - _CONTEXT, 0) : match.start()]
    is_bracketed = preceding[-1:] in ("(", "[") and match.string[match.end() :][:1] in (")", "]")
    if not any(map(str.isalnum, words)) or words == bare or is_bracketed:
        return inner
    if sign == "^" and words.upper() in _TRADE_MARKS and preceding[-1:].isalnum():
        return _TRADE_MARKS[words.upper()]
    if sign == "^" and _ORDINAL.fullmatch(words) and _DIGIT_BEFORE.search(preceding):
        return inner
    if _BRACKETED.fullmatch(words):
        return f" {words}" if words[0] == "[" else f"{sign}{words}"
    leading, trailing = inner[: len(inner) - len(inner.lstrip())], inner[len(inner.rstrip()) :]
    return f"{leading}{sign}({inner.strip()}){trailing}"


def _struck(match: re.Match[str]) -> str:
    return "\n".join(map(_struck_line, match[1].split("\n")))


def _struck_line(line: str) -> str:
    words = line.strip()
    return line.replace(words, f"~~{words}~~") if any(map(str.isalnum, words)) else line
