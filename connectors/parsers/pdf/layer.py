"""The text layer of a PDF's page, verified against the text of another library."""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from connectors.parsers import detect, trust
from connectors.parsers.pdf.scripts import Script, find_scripts, mark_scripts
from connectors.parsers.pdf.sideways import Sideways, find_sideways
from connectors.parsers.pdf.spacing import join_torn_words, joined_lines
from retrieval.ports import PageQuality

_HYPHEN = re.compile("[\ufffe\x02][ \t]*\r?\n?")
_SPACES = re.compile(r"[ \t]+\n")
_LIGATURE = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
"""An alef and a lam, in this order: two letters, or the two of a lam-alef that PDFium turned around."""
_FORMS = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")
"""Hebrew and Arabic letters as they are shown, by their place in a word."""
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_NOTES = (1, 3)
"""Subtypes of annotations that hold words: notes, and text that was typed onto the page."""
_WIDGET = 20
_FIELDS = frozenset({2, 3, 4, 5, 6})
"""Types of fields that people fill in: check box, radio button, combo box, list, text."""
_NOT_CHOSEN = frozenset({"", "Off"})
_DIRECTION_CHANGE = re.compile(r"(?<=[\u0590-\u08ff])(?=[A-Za-z])|(?<=[A-Za-z])(?=[\u0590-\u08ff])")
"""Between letters that are read from the right and letters from the left: PDFium leaves out the space there."""
_WORDS = 100
"""Letters and digits that make a page's text layer one to be relied on."""
_COVERED = 0.3
_IMAGE = 3
_SAMPLED = 200


@dataclass(frozen=True, slots=True)
class Layer:
    """The text of a page in the order of the file, and text that was added to the page later, such as annotations.

    `pictured`: the page shows something that its text does not say, so that recognition may find more.
    """

    text: str
    added: tuple[str, ...]
    quality: PageQuality
    pictured: bool
    scripts: tuple[Script, ...] = ()
    sideways: tuple[Sideways, ...] = ()

    @property
    def right_to_left(self) -> float:
        """The share of letters that are read from the right."""
        return len(_RIGHT_TO_LEFT.findall(self.text)) / max(sum(map(str.isalpha, self.text)), 1)


def of_page(document: Any, number: int) -> Layer:
    """The layer of a page, counted from 1, of a pypdfium2 document. PdfiumError for a damaged page."""
    page = document[number - 1]
    words = page.get_textpage()
    try:
        text = joined_lines(_text(words), words)
        quality = trust.judge_page(number, text, unmapped=_unmapped(words))
        scripts = () if quality.unread else find_scripts(words)
        sideways = find_sideways(page, words)
        legible = sum(map(str.isalnum, text))
        pictured = legible < _WORDS and _shows_more(page, legible)
        added = tuple(dict.fromkeys(filter(None, _added(document.formenv, page))))
    finally:
        words.close()
        page.close()
    if not text.strip() and pictured:
        quality = trust.unreadable_page(number, trust.PICTURE)
    return Layer(detect.make_storable(text).strip(), added, quality, pictured or quality.unread, scripts, sideways)


def _text(words: Any) -> str:
    text = str(words.get_text_bounded())
    if _LIGATURE.search(text):
        text = _with_ligatures(words)
    text = _DIRECTION_CHANGE.sub(" ", _SPACES.sub("\n", _HYPHEN.sub("", text).replace("\r\n", "\n")))
    return _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)


def _with_ligatures(words: Any) -> str:
    """The whole text with each lam-alef in reading order: PDFium turns its two letters, which share a box, around."""
    text = str(words.get_text_range())
    if len(text) != words.count_chars():
        return text
    letters = list(text)
    for match in _LIGATURE.finditer(text):
        at = match.start()
        if words.get_charbox(at) == words.get_charbox(at + 1):
            letters[at : at + 2] = reversed(letters[at : at + 2])
    return "".join(letters)


def _unmapped(words: Any) -> float:
    """The share of characters whose font leads to no letter, of a sample."""
    import pypdfium2.raw as pdfium

    count = words.count_chars()
    places = range(0, count, count // _SAMPLED + 1)
    unmapped = [index for index in places if pdfium.FPDFText_HasUnicodeMapError(words, index) == 1]
    return len(unmapped) / max(len(places), 1)


def _shows_more(page: Any, legible: int) -> bool:
    kinds = [(kind.type, kind.get_bounds() if kind.type == _IMAGE else None) for kind in page.get_objects()]
    if not legible:
        return bool(kinds)
    width, height = page.get_size()
    covered = sum((b[2] - b[0]) * (b[3] - b[1]) for _, b in kinds if b)
    return bool(covered > _COVERED * width * height)


def _added(form: Any, page: Any) -> Iterator[str]:
    """Notes, and each field that is filled in as `name: value`."""
    import pypdfium2.raw as pdfium

    for number in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        if kind in _NOTES:
            yield _line(_string(lambda *to, of=annotation: pdfium.FPDFAnnot_GetStringValue(of, b"Contents", *to)))
        elif kind == _WIDGET and form and pdfium.FPDFAnnot_GetFormFieldType(form, annotation) in _FIELDS:
            yield _field(form, annotation)
        pdfium.FPDFPage_CloseAnnot(annotation)


def _field(form: Any, annotation: Any) -> str:
    import pypdfium2.raw as pdfium

    value = _line(_string(lambda *to: pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, *to)))
    label = _string(lambda *to: pdfium.FPDFAnnot_GetFormFieldAlternateName(form, annotation, *to))
    label = label or _string(lambda *to: pdfium.FPDFAnnot_GetFormFieldName(form, annotation, *to))
    return "" if value in _NOT_CHOSEN else f"{_line(label)}: {value}"


def _line(text: str) -> str:
    return " ".join(detect.make_storable(text).split())


def _string(ask: Callable[[Any, int], int]) -> str:
    """Return a text of pdfium, which returns its length in bytes first."""
    size = ask(None, 0)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    ask(buffer, size)
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\0")


_PAGE_WORD = re.compile(r"[^\W_]+")
_LITTLE, _MUCH = 0.005, 0.2
"""Shares of a page's letters: up to one nothing was lost, up to the other the missing lines are put after it."""
_IN_ORDER = 0.5
"""Share of PDFium's neighbouring words that are neighbours in the Markdown, too, of pages without a table."""
_FROM_RIGHT = 0.3
_HEADING = re.compile(r"^(#+ )(.+)$", re.MULTILINE)


def verified_page(markdown: str, layer: Layer) -> str:
    """Return the text of a page: Markdown where it agrees with PDFium's text, plus text that was added to the page."""
    if layer.right_to_left > _FROM_RIGHT:
        text = _with_headings(layer.text, markdown)
    else:
        markdown = join_torn_words(markdown, layer.text)
        text = _completed(_turned(markdown, layer) if layer.right_to_left else markdown, layer.text)
    solid_text = _solid(text)
    fresh = [line for line in layer.added if _solid(line) and _solid(line) not in solid_text]
    return "\n\n".join(filter(None, [mark_scripts(text, layer.scripts).strip("\n"), *fresh]))


def _completed(markdown: str, text: str) -> str:
    markdown_words, text_words = Counter(_page_words(markdown)), Counter(_page_words(text))
    missing = Counter(
        {word: count for word, count in (text_words - markdown_words).items() if not _is_divided(word, markdown_words)}
    )
    share = _letters(missing) / max(_letters(text_words), 1)
    if share > _MUCH or ("\n|" not in f"\n{markdown}" and _agreement(markdown, text) < _IN_ORDER):
        return text
    if share <= _LITTLE:
        return markdown
    return "\n".join([f"{markdown}\n", *_lines(text, missing, _solid(markdown))])


def _is_divided(word: str, there: Counter[str]) -> bool:
    """Tell whether the parts of the word are present: PDFium joins parts that are close together."""
    return any(word[:position] in there and word[position:] in there for position in range(1, len(word)))


def _agreement(markdown: str, text: str) -> float:
    neighbours = set(pairwise(_page_words(markdown)))
    pairs = [pair for line in text.split("\n") for pair in pairwise(_page_words(line))]
    return sum(pair in neighbours for pair in pairs) / len(pairs) if pairs else 1.0


def _lines(text: str, missing: Counter[str], known: str) -> Iterator[str]:
    """Those with words that stand nowhere, in no other division either."""
    for line in text.split("\n"):
        words = Counter(_page_words(line))
        if 2 * _letters(words & missing) > _letters(words) and _solid(line) not in known:
            missing -= words
            yield line


def _turned(markdown: str, layer: Layer) -> str:
    """Paragraphs that are read from the right, in PDFium's order of their words."""
    lines = [(line, Counter(_page_words(line))) for line in layer.text.split("\n")]
    parts = markdown.split("\n\n")
    for index, part in enumerate(parts):
        words = Counter(_page_words(part))
        if _from_right(part) and not part.startswith("|"):
            contained = [(line, line_words) for line, line_words in lines if line_words and line_words <= words]
            if sum((line_words for _, line_words in contained), Counter()) == words:
                parts[index] = " ".join(line for line, _ in contained)
    return "\n\n".join(parts)


def _from_right(text: str) -> bool:
    turned = sum(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text)
    return turned > _FROM_RIGHT * sum(map(str.isalpha, text))


def _with_headings(text: str, markdown: str) -> str:
    """PDFium's lines, those with the letters of a heading of the Markdown, in whatever order, as headings."""
    headings = {_letters_of(heading): mark for mark, heading in _HEADING.findall(markdown)}
    marked = ((line, headings.get(_letters_of(line))) for line in text.split("\n"))
    return "\n".join(f"\n{mark}{line.strip()}\n" if mark and line.strip() else line for line, mark in marked)


def _letters_of(text: str) -> str:
    return "".join(sorted(_solid(text)))


def _page_words(text: str) -> Sequence[str]:
    return _PAGE_WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _solid(text: str) -> str:
    return "".join(_page_words(text))


def _letters(words: Counter[str]) -> int:
    return sum(len(word) * count for word, count in words.items())
