"""The text layer of a PDF page by page: pages that the library read badly, form fields, annotations."""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.parsers.detect import plain

_LITTLE, _MUCH = 0.03, 0.2
"""Shares of a page's letters: up to one nothing was lost, up to the other the missing lines are put after it."""
_FEWEST = 20
"""Letters that count as a loss: a page number does not."""
_HYPHEN = re.compile("[\ufffe\x02][ \t]*\r?\n?")
_GAPS = re.compile(r"[\W_]+")
_NOTES = (1, 3)
"""Subtypes of annotations that hold words: notes, and text that was typed onto the page."""
_WIDGET = 20
_FIELDS = frozenset({2, 3, 4, 5, 6})
"""Types of fields that people fill in: check box, radio button, combo box, list, text."""
_NOT_CHOSEN = frozenset({"", "Off"})


@dataclass(frozen=True, slots=True)
class Layer:
    """The text of a page in the order of the file, and text that was added to the page later, such as annotations."""

    text: str
    added: tuple[str, ...]


def completed(path: Path, text: str, starts: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """The text and where its pages start, with what was lost of them. As it was if the file cannot be opened here."""
    layers = _layers(path)
    if not layers:
        return text, tuple(starts)
    lacking = Counter(_solid("\n".join(layer.text for layer in layers))) - Counter(_solid(text))
    if len(starts) != len(layers):
        return _unplaced(text, tuple(starts), layers, lacking)
    ends = [*starts[1:], len(text)]
    pages = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    pairs = zip(layers, pages, strict=True)
    whole = [_with(_restored(layer.text, page, lacking), layer.added) for layer, page in pairs]
    return (text, tuple(starts)) if whole == pages else ("".join(whole), _offsets(whole))


def _unplaced(
    text: str, starts: tuple[int, ...], layers: Sequence[Layer], lacking: Counter[str]
) -> tuple[str, tuple[int, ...]]:
    """The same where it is not known which page a part of the text is from."""
    if _share(lacking, _solid(text)) > _LITTLE:
        whole = [_with(f"{layer.text}\n\n" if layer.text else "", layer.added) for layer in layers]
        return "".join(whole), _offsets(whole)
    return _with(text, [line for layer in layers for line in layer.added]), starts


def _restored(layer: str, page: str, lacking: Counter[str]) -> str:
    """A page with what the library lost of it. `lacking`: letters that stand nowhere, on no other page either."""
    known = _solid(page)
    missing = (Counter(_solid(layer)) - Counter(known)) & lacking
    share = _share(missing, _solid(layer))
    if share <= _LITTLE:
        return page
    return f"{layer}\n\n" if share > _MUCH else "\n".join([page.rstrip() + "\n", *_lines(layer, known, missing), "\n"])


def _share(missing: Counter[str], letters: str) -> float:
    return missing.total() / max(len(letters), 1) if missing.total() > _FEWEST else 0


def _lines(layer: str, known: str, missing: Counter[str]) -> Iterator[str]:
    """Those that are missing: others stand there in another order of letters, or of words."""
    for line in layer.splitlines():
        letters = _solid(line)
        if letters not in known and 2 * (Counter(letters) & missing).total() > len(letters):
            missing -= Counter(letters)
            yield line


def _with(page: str, added: Sequence[str]) -> str:
    known = _solid(page)
    fresh = [line for line in added if _solid(line) and _solid(line) not in known]
    return "\n\n".join([*filter(None, [page.rstrip()]), *fresh, ""]) if fresh else page


def _offsets(pages: Sequence[str]) -> tuple[int, ...]:
    places, length = [], 0
    for page in pages:
        places.append(length)
        length += len(page)
    return tuple(places)


def _solid(text: str) -> str:
    """Its letters and digits alone."""
    return _GAPS.sub("", unicodedata.normalize("NFKC", text).casefold())


def _layers(path: Path) -> list[Layer]:
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(path) as document:
            if document.get_formtype():
                document.init_forms()
            return [_layer(document, number) for number in range(len(document))]
    except pypdfium2.PdfiumError:
        return []


def _layer(document: Any, number: int) -> Layer:
    page = document[number]
    words = page.get_textpage()
    try:
        text = _HYPHEN.sub("", words.get_text_bounded()).replace("\r\n", "\n")
        added = tuple(dict.fromkeys(_added(document.formenv, page)))
    finally:
        words.close()
        page.close()
    return Layer(plain.storable(text).strip(), added)


def _added(form: Any, page: Any) -> Iterator[str]:
    """Notes, and each field that is filled in as `name: value`."""
    import pypdfium2.raw as pdfium

    for number in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        if kind in _NOTES:
            yield _line(_said(lambda *to, of=annotation: pdfium.FPDFAnnot_GetStringValue(of, b"Contents", *to)))
        elif kind == _WIDGET and form and pdfium.FPDFAnnot_GetFormFieldType(form, annotation) in _FIELDS:
            yield _field(form, annotation)
        pdfium.FPDFPage_CloseAnnot(annotation)


def _field(form: Any, annotation: Any) -> str:
    import pypdfium2.raw as pdfium

    value = _line(_said(lambda *to: pdfium.FPDFAnnot_GetFormFieldValue(form, annotation, *to)))
    label = _said(lambda *to: pdfium.FPDFAnnot_GetFormFieldAlternateName(form, annotation, *to))
    label = label or _said(lambda *to: pdfium.FPDFAnnot_GetFormFieldName(form, annotation, *to))
    return "" if value in _NOT_CHOSEN else f"{_line(label)}: {value}"


def _line(text: str) -> str:
    return " ".join(plain.storable(text).split())


def _said(ask: Callable[[Any, int], int]) -> str:
    """A text of pdfium, which tells its length in bytes first."""
    size = ask(None, 0)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    ask(buffer, size)
    return bytes(buffer).decode("utf-16-le", "replace").rstrip("\0")
