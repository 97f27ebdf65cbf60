"""Formulas of Office documents (OMML), in a line of text or as LaTeX."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree.ElementTree import Element

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_SIGN = f"{M}val"


def line(node: Element) -> str:
    """A formula as people type it: `x^2`, `a/b`, `√(x)`."""
    return _written(node, tex=False)


def latex(node: Element) -> str:
    return _written(node, tex=True)


def _written(node: Element, *, tex: bool) -> str:
    return "".join(_part(part, tex=tex) for part in node)


def _part(node: Element, *, tex: bool) -> str:
    name = node.tag.removeprefix(M)
    if name == "t":
        return node.text or ""
    if name.endswith("Pr"):
        return ""
    part = {child.tag.removeprefix(M): _written(child, tex=tex) for child in node}
    write = _FORMS.get(name)
    return _written(node, tex=tex) if write is None else write(node, part, tex=tex)


def _fraction(_node: Element, part: dict[str, str], *, tex: bool) -> str:
    above, below = part.get("num", ""), part.get("den", "")
    return rf"\frac{{{above}}}{{{below}}}" if tex else f"{_grouped(above)}/{_grouped(below)}"


def _script(_node: Element, part: dict[str, str], *, tex: bool) -> str:
    return part.get("e", "") + _limits(part, tex=tex)


def _root(_node: Element, part: dict[str, str], *, tex: bool) -> str:
    degree, inner = part.get("deg", ""), part.get("e", "")
    return rf"\sqrt{f'[{degree}]' if degree else ''}{{{inner}}}" if tex else f"{degree}√({inner})"


def _sum(node: Element, part: dict[str, str], *, tex: bool) -> str:
    return f"{_sign(node, 'naryPr', 'chr', '∫')}{_limits(part, tex=tex)} {part.get('e', '')}"


def _delimited(node: Element, _part: dict[str, str], *, tex: bool) -> str:
    inner = _sign(node, "dPr", "sepChr", "|").join(_written(e, tex=tex) for e in node.findall(f"{M}e"))
    return f"{_sign(node, 'dPr', 'begChr', '(')}{inner}{_sign(node, 'dPr', 'endChr', ')')}"


def _function(_node: Element, part: dict[str, str], *, tex: bool) -> str:  # noqa: ARG001
    return f"{part.get('fName', '')} {part.get('e', '')}"


def _rows(node: Element, _part: dict[str, str], *, tex: bool) -> str:
    rows = node.findall(f"{M}mr")
    cells = [[_written(cell, tex=tex) for cell in row] for row in rows] or [
        [_written(line, tex=tex)] for line in node.findall(f"{M}e")
    ]
    return "; ".join(map(", ".join, cells))


_FORMS: dict[str, Callable[..., str]] = {
    "f": _fraction, "sSup": _script, "sSub": _script, "sSubSup": _script, "sPre": _script, "rad": _root, "nary": _sum,
    "d": _delimited, "func": _function, "m": _rows, "eqArr": _rows,
}  # fmt: skip


def _limits(part: dict[str, str], *, tex: bool) -> str:
    marks = (("_", part.get("sub", "")), ("^", part.get("sup", "")))
    return "".join(f"{mark}{{{text}}}" if tex else f"{mark}{_grouped(text)}" for mark, text in marks if text)


def _grouped(text: str) -> str:
    return text if text.isalnum() else f"({text})"


def _sign(node: Element, properties: str, name: str, usual: str) -> str:
    child = node.find(f"{M}{properties}/{M}{name}")
    return usual if child is None else child.get(_SIGN, "")
