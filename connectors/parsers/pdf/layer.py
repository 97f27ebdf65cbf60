"""Text layer of a PDF page, and Markdown verified against it."""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.parsers import detect, trust
from connectors.parsers.pdf.formulas import write_formulas
from connectors.parsers.pdf.leaders import read_contents, shorten_leaders
from connectors.parsers.pdf.missing_text import add_missing_lines, page_words, solid_text
from connectors.parsers.pdf.rules import NO_RULES, Rules, find_rules, read_paths
from connectors.parsers.pdf.scripts import Script, find_scripts, mark_scripts
from connectors.parsers.pdf.sideways import SidewaysText, find_sideways
from connectors.parsers.pdf.spacing import join_torn_lines, join_torn_words
from connectors.parsers.pdf.strikes import find_struck
from connectors.parsers.pdf.tex_letters import read_letters, replace_words
from retrieval.ports import PageQuality

_SOFT_HYPHEN = re.compile("[\ufffe\x02][ \t]*\r?\n?")
_TRAILING_SPACES = re.compile(r"[ \t]+\n")
# Alef and lam in this order: two letters, or a lam-alef reversed by PDFium.
_LAM_ALEF = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
# Presentation forms of Hebrew and Arabic letters.
_PRESENTATION_FORMS = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
# Annotation subtypes with words: text notes and free text.
_NOTE_SUBTYPES = (1, 3)
_WIDGET_SUBTYPE = 20
# Types of form fields: check box, radio button, combo box, list, text.
_FIELD_TYPES = frozenset({2, 3, 4, 5, 6})
_EMPTY_VALUES = frozenset({"", "Off"})
# Between right-to-left and left-to-right letters, where PDFium omits the space.
_DIRECTION_CHANGE = re.compile(r"(?<=[\u0590-\u08ff])(?=[A-Za-z])|(?<=[A-Za-z])(?=[\u0590-\u08ff])")
# A page with fewer letters and digits gets OCR if images cover more than `_MIN_IMAGE_SHARE`; one without any, if it has
# any object.
_MIN_LAYER_LETTERS = 100
_MIN_IMAGE_SHARE = 0.3
_IMAGE_OBJECT = 3
_SAMPLE_SIZE = 200


@dataclass(frozen=True, slots=True)
class TextLayer:
    """Text of a page in file order, with text added later such as annotations."""

    text: str
    added_texts: tuple[str, ...]
    quality: PageQuality
    # The page shows more than its text, or the text is unreadable.
    needs_ocr: bool
    scripts: tuple[Script, ...] = ()
    sideways: tuple[SidewaysText, ...] = ()
    rules: Rules = NO_RULES
    # Words with true letters by their words in Markdown.
    changed_words: Mapping[str, str] = field(default_factory=dict)

    @property
    def right_to_left(self) -> float:
        """Share of right-to-left letters."""
        return len(_RIGHT_TO_LEFT.findall(self.text)) / max(sum(map(str.isalpha, self.text)), 1)


def read_layer(document: Any, number: int) -> TextLayer:
    """Read the text layer of a pypdfium2 document's page, counted from 1. PdfiumError if damaged."""
    page = document[number - 1]
    text_page = page.get_textpage()
    try:
        true_text, changed_words = read_letters(text_page)
        text = shorten_leaders(join_torn_lines(_clean_text(text_page, true_text), text_page))
        quality = trust.judge_page(number, text, unmapped=_unmapped_share(text_page))
        paths = [] if quality.unread else read_paths(page)
        struck = find_struck(page, text_page, [bounds for _, bounds in paths])
        scripts = () if quality.unread else (*find_scripts(text_page), *struck)
        rules = find_rules(page, paths)
        sideways = find_sideways(page, text_page)
        legible = sum(map(str.isalnum, text))
        shows_more = legible < _MIN_LAYER_LETTERS and _shows_more_than_text(page, legible)
        added = tuple(dict.fromkeys(filter(None, _annotation_texts(document.formenv, page))))
    finally:
        text_page.close()
        page.close()
    if not text.strip() and shows_more:
        quality = trust.unreadable_page(number, trust.PICTURES_ONLY)
    return TextLayer(
        detect.make_storable(text).strip(),
        added,
        quality,
        shows_more or quality.unread,
        scripts,
        sideways,
        rules,
        changed_words,
    )


def _clean_text(words: Any, true_text: str) -> str:
    text = true_text or str(words.get_text_bounded())
    if _LAM_ALEF.search(text):
        text = _fix_ligatures(words)
    text = _DIRECTION_CHANGE.sub(" ", _TRAILING_SPACES.sub("\n", _SOFT_HYPHEN.sub("", text).replace("\r\n", "\n")))
    return _PRESENTATION_FORMS.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)


def _fix_ligatures(words: Any) -> str:
    """Return the text with each lam-alef in reading order."""
    # PDFium reverses the two letters, with one box for both.
    text = str(words.get_text_range())
    if len(text) != words.count_chars():
        return text
    letters = list(text)
    for match in _LAM_ALEF.finditer(text):
        start = match.start()
        if words.get_charbox(start) == words.get_charbox(start + 1):
            letters[start : start + 2] = reversed(letters[start : start + 2])
    return "".join(letters)


def _unmapped_share(words: Any) -> float:
    """Return the share of characters without a Unicode value in their font, from a sample."""
    import pypdfium2.raw as pdfium

    count = words.count_chars()
    sampled = range(0, count, count // _SAMPLE_SIZE + 1)
    unmapped = [index for index in sampled if pdfium.FPDFText_HasUnicodeMapError(words, index) == 1]
    return len(unmapped) / max(len(sampled), 1)


def _shows_more_than_text(page: Any, legible: int) -> bool:
    """Check for images over `_MIN_IMAGE_SHARE` of the page; without letters for any object."""
    objects = list(page.get_objects())
    if not legible:
        return bool(objects)
    width, height = page.get_size()
    boxes = [shape.get_bounds() for shape in objects if shape.type == _IMAGE_OBJECT]
    covered = sum((right - left) * (top - bottom) for left, bottom, right, top in boxes)
    return bool(covered > _MIN_IMAGE_SHARE * width * height)


def _annotation_texts(form: Any, page: Any) -> Iterator[str]:
    """Yield notes, and filled form fields as `name: value`."""
    import pypdfium2.raw as pdfium

    for number in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        if kind in _NOTE_SUBTYPES:
            yield _single_line(
                _read_string(lambda *out, of=annotation: pdfium.FPDFAnnot_GetStringValue(of, b"Contents", *out))
            )
        elif kind == _WIDGET_SUBTYPE and form and pdfium.FPDFAnnot_GetFormFieldType(form, annotation) in _FIELD_TYPES:
            yield _field_text(form, annotation)
        pdfium.FPDFPage_CloseAnnot(annotation)


def _field_text(form: Any, annotation: Any) -> str:
    import pypdfium2.raw as pdfium

    value = _single_line(_read_string(lambda *to: pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, *to)))
    label = _read_string(lambda *to: pdfium.FPDFAnnot_GetFormFieldAlternateName(form, annotation, *to))
    label = label or _read_string(lambda *to: pdfium.FPDFAnnot_GetFormFieldName(form, annotation, *to))
    return "" if value in _EMPTY_VALUES else f"{_single_line(label)}: {value}"


def _single_line(text: str) -> str:
    return " ".join(detect.make_storable(text).split())


def _read_string(read_value: Callable[[Any, int], int]) -> str:
    """Read a string from a PDFium function: first the length in bytes, then the value."""
    size = read_value(None, 0)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    read_value(buffer, size)
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\0")


_RIGHT_TO_LEFT_SHARE = 0.3
_HEADING_LINE = re.compile(r"^(#+ )(.+)$", re.MULTILINE)


def verified_page(markdown: str, layer: TextLayer) -> str:
    """Return the page's Markdown completed from PDFium's text, or the latter if the two disagree, with added texts."""
    markdown = write_formulas(replace_words(shorten_leaders(markdown), layer.changed_words), layer.text)
    contents = read_contents(layer.text)
    if contents or layer.right_to_left > _RIGHT_TO_LEFT_SHARE:
        text = _mark_headings(contents or layer.text, markdown)
    else:
        markdown = join_torn_words(markdown, layer.text)
        text = add_missing_lines(
            _reorder_right_to_left(markdown, layer) if layer.right_to_left else markdown, layer.text
        )
    text, fresh = _add_texts(text, layer)
    return "\n\n".join(filter(None, [mark_scripts(text, layer.scripts).strip("\n"), *fresh]))


def _add_texts(text: str, layer: TextLayer) -> tuple[str, list[str]]:
    """Return the page's text with a name before each drawn value of a form field, and the missing texts."""
    fresh = []
    solid_page, page_lines = solid_text(layer.text), set(layer.text.split("\n"))
    for line in layer.added_texts:
        value = line.partition(": ")[2]
        if not solid_text(line) or solid_text(line) in solid_text(text):
            continue
        # liteparse draws the values of fields; PDFium's text is without them.
        drawn = [part for part in text.split("\n") if part == value] if value not in page_lines else []
        if value and drawn:
            text = "\n".join(line if part == value else part for part in text.split("\n"))
        elif not value or solid_text(text).count(solid_text(value)) <= solid_page.count(solid_text(value)):
            fresh.append(line)
    return text, fresh


def _reorder_right_to_left(markdown: str, layer: TextLayer) -> str:
    """Put the words of right-to-left paragraphs in PDFium's order."""
    lines = [(line, Counter(page_words(line))) for line in layer.text.split("\n")]
    parts = markdown.split("\n\n")
    for index, part in enumerate(parts):
        words = Counter(page_words(part))
        if _is_right_to_left(part) and not part.startswith("|"):
            contained = [(line, line_words) for line, line_words in lines if line_words and line_words <= words]
            if sum((line_words for _, line_words in contained), Counter()) == words:
                parts[index] = " ".join(line for line, _ in contained)
    return "\n\n".join(parts)


def _is_right_to_left(text: str) -> bool:
    turned = sum(unicodedata.bidirectional(letter) in ("R", "AL") for letter in text)
    return turned > _RIGHT_TO_LEFT_SHARE * sum(map(str.isalpha, text))


def _mark_headings(text: str, markdown: str) -> str:
    """Mark PDFium's lines as headings if the Markdown has a heading with the same letters in any order."""
    headings = {_sorted_letters(heading): mark for mark, heading in _HEADING_LINE.findall(markdown)}
    marked = ((line, headings.get(_sorted_letters(line))) for line in text.split("\n"))
    return "\n".join(f"\n{mark}{line.strip()}\n" if mark and line.strip() else line for line, mark in marked)


def _sorted_letters(text: str) -> str:
    return "".join(sorted(solid_text(text)))
