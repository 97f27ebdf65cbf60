"""Write MathML formulas of web pages and OpenDocument in one line."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, tostring

from connectors.parsers import xml
from connectors.parsers.inline_forms import fraction, grouped, subscript, superscript

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_MAX_DEPTH = 40
_DRAW_NS = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_TEXT_NS = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_MATH_NS = "{http://www.w3.org/1998/Math/MathML}"
_LINK_ATTRIBUTE = "{http://www.w3.org/1999/xlink}href"
# Formulas name their element at the start; charts do not.
_FORMULA_HEAD_BYTES = 300
_SILENT_TAGS = frozenset(("annotation", "annotation-xml", "mphantom", "-comment"))


def formula_line(node: LexborNode, depth: int = 0) -> str:
    """Write a formula in one line: `x^(2)`, `(a+b)/c`, `√(x)`."""
    if node.tag == "-text":
        return " ".join((node.text_content or "").split())
    if node.tag in _SILENT_TAGS:
        return ""
    if depth >= _MAX_DEPTH:
        return " ".join((node.text() or "").split())
    parts: list[str] = []
    child = node.child
    while child is not None:
        if child.tag != "-text" or (child.text_content or "").strip():
            parts.append(formula_line(child, depth + 1))
        child = child.next
    count, write = _ELEMENT_WRITERS.get(node.tag or "", (0, "".join))
    return write(parts) if len(parts) >= count else "".join(parts)


def xml_formula_line(formula: Element) -> str:
    """Write a formula of XML in one line, with elements of any prefix."""
    from selectolax.lexbor import LexborHTMLParser

    for part in formula.iter():
        part.tag = part.tag.rpartition("}")[2]
    node = LexborHTMLParser(tostring(formula, encoding="unicode")).css_first("math")
    return formula_line(node) if node is not None else ""


def write_frames(archive: zipfile.ZipFile, content: Element) -> None:
    """Replace the frames of formulas in OpenDocument by their text: words of a paragraph, a text box elsewhere."""
    for around in content.iter():
        for frame in around.findall(f"{_DRAW_NS}frame"):
            if formula := _embedded_formula(archive, frame):
                tail = frame.tail
                frame.clear()
                frame.tail = tail
                is_inline = around.tag.startswith(_TEXT_NS)
                frame.tag = f"{_TEXT_NS}span" if is_inline else frame.tag
                line = frame if is_inline else SubElement(SubElement(frame, f"{_DRAW_NS}text-box"), f"{_TEXT_NS}p")
                line.text = formula


def _embedded_formula(archive: zipfile.ZipFile, frame: Element) -> str:
    """Return the formula of a frame, within it or in a folder of the file; "" for other objects."""
    for part in frame.findall(f"{_DRAW_NS}object"):
        if (formula := part.find(f"{_MATH_NS}math")) is not None:
            return xml_formula_line(formula)
        name = f"{part.get(_LINK_ATTRIBUTE, '').removeprefix('./').rstrip('/')}/content.xml"
        if name in archive.namelist() and b"math" in (data := archive.read(name))[:_FORMULA_HEAD_BYTES]:
            with suppress(*xml.PARSE_ERRORS):
                return xml_formula_line(xml.parse_xml(data))
    return ""


def _write_scripts(parts: Sequence[str]) -> str:
    return f"{grouped(parts[0])}{subscript(parts[1])}{superscript(parts[2])}"


# Required number of parts and writer, by element.
_ELEMENT_WRITERS: dict[str, tuple[int, Callable[[Sequence[str]], str]]] = {
    "msup": (2, lambda parts: f"{grouped(parts[0])}{superscript(parts[1])}"),
    "msub": (2, lambda parts: f"{grouped(parts[0])}{subscript(parts[1])}"),
    "mover": (2, "".join),
    "msubsup": (3, _write_scripts),
    "munderover": (3, _write_scripts),
    "munder": (2, lambda parts: f"{parts[0]}{subscript(parts[1])}"),
    "mfrac": (2, lambda parts: fraction(parts[0], parts[1])),
    "msqrt": (1, lambda parts: f"√({''.join(parts)})"),
    "mroot": (2, lambda parts: f"{parts[1]}√({parts[0]})"),
    "mtr": (0, ", ".join),
    "mtable": (0, "; ".join),
    "mfenced": (0, lambda parts: f"({', '.join(parts)})"),
}
