"""Write MathML formulas of web pages and OpenDocument in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, tostring

from connectors.parsers.inline_forms import fraction, grouped, subscript, superscript

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_MAX_DEPTH = 40
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
