"""Superscripts and subscripts of a PDF page, from sizes and baselines of letters."""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from connectors.parsers.inline_forms import LOWERED, RAISED, Form, is_marked, write_forms

# In heights of the letter: maximum height of a script, and maximum difference within it.
_MAX_SCRIPT_HEIGHT, _MAX_DIFFERENCE = 0.88, 0.06
# In heights of the letter: maximum gap between neighbours, and between words of a script.
_MAX_LETTER_GAP, _MAX_WORD_GAP = 0.3, 0.75
# In heights of the base: ranges of the baseline's shift.
_RAISED_RANGE, _LOWERED_RANGE = (0.12, 0.75), (-0.45, -0.05)
# Maximum characters of a script, and maximum letters of a raised one without digits; small print is longer.
_MAX_SCRIPT_LENGTH, _MAX_RAISED_LETTERS = 24, 3
# Letters and digits on each side that locate a script in the Markdown.
_CONTEXT_LENGTH = 24
# Minimum of them that locate a script after a sign.
_MIN_CONTEXT = 6
# Maximum font size of a script, in sizes of the base.
_MAX_SCRIPT_SIZE = 0.93
MONOSPACED_NAME = re.compile(
    r"mono|cour|cmtt|cmsltt|cmitt|sftt|ectt|lmtt|txtt|t1xtt|typewriter|consol|menlo|inconsolata|nimbusmon"
    r"|letter ?gothic|andale|sourcecode|fixedsys|terminal|\btt[a-z]?\d*\b",
    re.IGNORECASE,
)
_MAX_FONT_NAME = 128
_CODE_PATTERN = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
# In radians.
_MAX_ANGLE = 0.1
# Search position of the base: in heights of the letter, and tolerance in points.
_BASE_OFFSET, _BASE_TOLERANCE = 0.15, 2.0
_DASH_SIGNS = frozenset("-\u2212\u2013\u2010\u2011")
_LEADING_SIGNS, _TRAILING_SIGNS = re.compile(r"[\W_]*"), re.compile(r"[\W_]*$")


@dataclass(frozen=True, slots=True)
class Script:
    """Superscript, subscript or struck-out text with its base word and the surrounding letters and digits."""

    text: str
    form: Form
    base: str
    prefix: str
    suffix: str
    # A letter or digit follows without a space.
    is_continued: bool = False

    @property
    def context_length(self) -> int:
        """Number of letters and digits around."""
        return len(self.prefix) + len(self.suffix)


@dataclass(frozen=True, slots=True)
class _LetterBounds:
    start: float
    end: float
    height: float
    baseline: float


def find_scripts(words: Any) -> tuple[Script, ...]:
    """Return the scripts of a pypdfium2 text page in file order."""
    import pypdfium2.raw as pdfium

    page, bounds = words.raw, pdfium.FS_RECTF()
    heights: list[float] = []
    for index in range(words.count_chars()):
        pdfium.FPDFText_GetLooseCharBox(page, index, bounds)
        heights.append(bounds.top - bounds.bottom)
    finder = _ScriptFinder(page, heights)
    scripts: list[Script] = []
    base, end = -1, 0
    for index, height in enumerate(heights):
        if index < end or height <= 0:
            continue
        if base >= 0 and height < _MAX_SCRIPT_HEIGHT * heights[base] and (script := finder.script_at(base, index)):
            scripts.append(script)
            end = index + len(script.text)
        else:
            base = index
    return tuple(scripts)


class _ScriptFinder:
    """Reader of letter positions on one text page."""

    def __init__(self, page: Any, heights: Sequence[float]) -> None:
        self._page, self._heights = page, heights

    def script_at(self, base: int, start: int) -> Script | None:
        """Return the script from index `start` on the previous letter or on the nearest letter to its left."""
        import pypdfium2.raw as pdfium

        if self._is_blank(start) or abs(pdfium.FPDFText_GetCharAngle(self._page, start)) > _MAX_ANGLE:
            return None
        first = self._letter_bounds(start)
        is_apart = not self._is_base_of(base, start, first)
        if is_apart:
            # PDFium sorts the texts of a line, so that those of a table may come between.
            near_x, near_y = first.start - _BASE_OFFSET * first.height, first.baseline + _BASE_OFFSET * first.height
            base = pdfium.FPDFText_GetCharIndexAtPos(self._page, near_x, near_y, _BASE_TOLERANCE, _BASE_TOLERANCE)
            if base < 0 or not self._is_base_of(base, base + 1, first):
                return None
        end = self._last_index(start, first) + 1
        text = self._read_text(range(start, end))
        is_raised = first.baseline > self._letter_bounds(base).baseline
        is_word = is_raised and not any(map(str.isdigit, text)) and sum(map(str.isalpha, text)) > _MAX_RAISED_LETTERS
        following = base + 1 if is_apart else end
        is_script = not is_word and end - start <= _MAX_SCRIPT_LENGTH and self._is_smaller_font(base, start)
        return self._make_script(base, text, following, is_raised=is_raised) if is_script else None

    def _is_smaller_font(self, base: int, start: int) -> bool:
        """Check for a smaller font than the base's, as opposed to a lower letter or accent, and for no code."""
        if self._font_size(start) >= _MAX_SCRIPT_SIZE * self._font_size(base):
            return False
        return not all(MONOSPACED_NAME.search(self._font_name(index)) for index in (base, start))

    def _font_size(self, index: int) -> float:
        import pypdfium2.raw as pdfium

        matrix = pdfium.FS_MATRIX()
        pdfium.FPDFText_GetMatrix(self._page, index, matrix)
        return float(pdfium.FPDFText_GetFontSize(self._page, index) * math.hypot(matrix.c, matrix.d))

    def _font_name(self, index: int) -> str:
        import pypdfium2.raw as pdfium

        name = ctypes.create_string_buffer(_MAX_FONT_NAME)
        pdfium.FPDFText_GetFontInfo(self._page, index, name, _MAX_FONT_NAME, None)
        return name.value.decode("latin-1")

    def _is_base_of(self, base: int, start: int, first: _LetterBounds) -> bool:
        """Check for a larger letter to the left of a script, with at most another script between."""
        if self._is_blank(base):
            return False
        full = self._letter_bounds(base)
        neighbor = self._letter_bounds(start - 1) if start - 1 > base and self._heights[start - 1] > 0 else full
        rise = (first.baseline - full.baseline) / full.height
        is_near = -_MAX_LETTER_GAP * full.height < first.start - neighbor.end < _MAX_LETTER_GAP * full.height
        is_off = _RAISED_RANGE[0] < rise < _RAISED_RANGE[1] or _LOWERED_RANGE[0] < rise < _LOWERED_RANGE[1]
        return is_near and is_off and first.height < _MAX_SCRIPT_HEIGHT * full.height

    def _make_script(self, base: int, text: str, following: int, *, is_raised: bool) -> Script:
        prefix = self._read_text(range(max(0, base - 3 * _CONTEXT_LENGTH), base + 1))
        suffix = self._read_text(range(following, min(following + 3 * _CONTEXT_LENGTH, len(self._heights))))
        word = prefix.split()[-1]
        return Script(
            text,
            RAISED if is_raised else LOWERED,
            word,
            _solid_text(prefix[: len(prefix) - len(word)])[-_CONTEXT_LENGTH:],
            _solid_text(suffix)[:_CONTEXT_LENGTH],
            suffix[:1].isalnum(),
        )

    def _last_index(self, start: int, first: _LetterBounds) -> int:
        last, previous = start, first
        for index in range(start + 1, min(start + _MAX_SCRIPT_LENGTH + 2, len(self._heights))):
            if self._heights[index] <= 0 or self._is_blank(index):
                continue
            letter = self._letter_bounds(index)
            is_alike = abs(letter.height - first.height) < _MAX_DIFFERENCE * first.height
            gap = (letter.start - previous.end) / first.height
            is_level = abs(letter.baseline - first.baseline) < _MAX_DIFFERENCE * first.height
            if not (
                is_alike
                and is_level
                and -_MAX_LETTER_GAP < gap < (_MAX_LETTER_GAP if index == last + 1 else _MAX_WORD_GAP)
            ):
                break
            last, previous = index, letter
        return last

    def _letter_bounds(self, index: int) -> _LetterBounds:
        import pypdfium2.raw as pdfium

        bounds, x, y = pdfium.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
        pdfium.FPDFText_GetLooseCharBox(self._page, index, bounds)
        pdfium.FPDFText_GetCharOrigin(self._page, index, x, y)
        return _LetterBounds(bounds.left, bounds.right, bounds.top - bounds.bottom, y.value)

    def _is_blank(self, index: int) -> bool:
        return not self._read_text((index,)).strip()

    def _read_text(self, indexes: Iterable[int]) -> str:
        import pypdfium2.raw as pdfium

        return "".join(chr(pdfium.FPDFText_GetUnicode(self._page, index)) for index in indexes)


def make_script(words: Any, start: int, end: int, form: Form) -> Script | None:
    """Return the whole words between two indexes of a text page; None within a word or without letters."""
    count = words.count_chars()
    preceding = (
        words.get_text_range(max(0, start - 3 * _CONTEXT_LENGTH), min(start, 3 * _CONTEXT_LENGTH)) if start else ""
    )
    following = words.get_text_range(end, min(3 * _CONTEXT_LENGTH, count - end)) if end < count else ""
    text = words.get_text_range(start, end - start)
    is_torn = (preceding[-1:].isalnum() and text[:1].isalnum()) or (following[:1].isalnum() and text[-1:].isalnum())
    if is_torn or not _solid_text(text):
        return None
    return Script(text, form, "", _solid_text(preceding)[-_CONTEXT_LENGTH:], _solid_text(following)[:_CONTEXT_LENGTH])


def mark_scripts(text: str, scripts: Sequence[Script]) -> str:
    """Return the text with its scripts marked, each at the position with the most similar context."""
    if not scripts:
        return write_forms(text)
    solid, offsets = index_letters(text)
    code = [match.span() for match in _CODE_PATTERN.finditer(text)]
    marked: dict[int, tuple[int, str]] = {}
    for script in scripts:
        needle = _solid_text(script.base) + _solid_text(script.text)
        if not _solid_text(script.text):
            continue
        positions = [at for at in find_offsets(solid, needle) if _is_whole(text, offsets, at, len(needle), script)]
        spans = [_script_span(text, offsets, position, script) for position in positions]
        candidates = [
            (_context_similarity(solid, position, needle, script), -position, span)
            for position, span in zip(positions, spans, strict=True)
            if span and span[0] not in marked and not any(start <= span[0] < end for start, end in code)
        ]
        if candidates and (_solid_text(script.base) or max(candidates)[0] >= min(_MIN_CONTEXT, script.context_length)):
            start, end, words = max(candidates)[2]
            marked[start] = end, words
    pieces, position = list[str](), 0
    for start, (end, words) in sorted(marked.items()):
        if start >= position:
            pieces += [text[position:start], words]
            position = end
    return write_forms("".join([*pieces, text[position:]]))


def _is_whole(text: str, offsets: Sequence[int], at: int, length: int, script: Script) -> bool:
    """Check that a base and its script span whole words of the text, as on the page."""
    first, following = offsets[at], text[offsets[at + length - 1] + 1 :][:1]
    begins = not script.base[:1].isalnum() or not text[first - 1 : first].isalnum()
    return begins and (script.is_continued or not following.isalnum())


def _script_span(text: str, offsets: Sequence[int], at: int, script: Script) -> tuple[int, int, str] | None:
    """Return start, end and replacement of a script with its preceding space; None across cells or lines."""
    base, inner = _solid_text(script.base), _solid_text(script.text)
    first, last = offsets[at + len(base)], offsets[at + len(base) + len(inner) - 1] + 1
    start = offsets[at + len(base) - 1] + 1 if base else first
    between, signs, ending = text[start:first], _LEADING_SIGNS.match(script.text), _TRAILING_SIGNS.search(script.text)
    if "|" in text[start:last] or "\n\n" in text[start:last]:
        return None
    if is_marked(text[start:first]):  # by liteparse
        return start, start, ""
    sign = between.rstrip()[-1:]
    sign = sign if signs and sign in (_DASH_SIGNS if _DASH_SIGNS & {*signs[0]} else {*signs[0]}) else ""
    signs_between = between.rstrip().removesuffix(sign).split()
    last += len(ending[0]) if ending and text.startswith(ending[0], last) else 0
    words = script.form.mark(sign + " ".join(text[first:last].split()))
    is_tail = not script.base[-1:].isalnum()  # punctuation of the base; other signs belong after the script
    return (
        start,
        last,
        "".join([*signs_between, words] if is_tail else [words, *(f" {extra}" for extra in signs_between)]),
    )


def _context_similarity(solid: str, at: int, needle: str, script: Script) -> int:
    prefix, suffix = (
        solid[max(0, at - _CONTEXT_LENGTH) : at],
        solid[at + len(needle) : at + len(needle) + _CONTEXT_LENGTH],
    )
    pairs = [zip(reversed(prefix), reversed(script.prefix), strict=False), zip(suffix, script.suffix, strict=False)]
    return sum(len(list(takewhile(lambda pair: pair[0] == pair[1], side))) for side in pairs)


def find_offsets(solid: str, needle: str) -> list[int]:
    """Return all offsets of a text in another."""
    offsets, at = [], solid.find(needle)
    while at >= 0:
        offsets.append(at)
        at = solid.find(needle, at + 1)
    return offsets


def index_letters(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text, and the offset of each."""
    letters: list[str] = []
    offsets: list[int] = []
    for offset, character in enumerate(text):
        for letter in _solid_text(character):
            letters.append(letter)
            offsets.append(offset)
    return "".join(letters), offsets


def _solid_text(text: str) -> str:
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return "".join(filter(str.isalnum, plain.casefold()))
