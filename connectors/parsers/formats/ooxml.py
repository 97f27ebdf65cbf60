"""Read parts of Office Open XML: packages and relations, charts, formulas."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from connectors.parsers import inline_forms, xml
from connectors.parsers.formats import ooxml_charts
from connectors.parsers.formats.ooxml_charts import LookUp, unknown_values
from connectors.parsers.inline_forms import Form, write_forms

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_SIGN_VALUE = f"{M}val"


def formula_line(node: Element) -> str:
    """Write a formula in one line: `x^(2)`, `(a+b)/c`, `√(x)`."""
    return _write_formula(node, tex=False)


def formula_latex(node: Element) -> str:
    return _write_formula(node, tex=True)


def _write_formula(node: Element, *, tex: bool) -> str:
    return "".join(_write_part(part, tex=tex) for part in node)


def _write_part(node: Element, *, tex: bool) -> str:
    name = node.tag.removeprefix(M)
    if name == "t":
        return node.text or ""
    if name.endswith("Pr"):
        return ""
    part = {child.tag.removeprefix(M): _write_formula(child, tex=tex) for child in node}
    write = _PART_WRITERS.get(name)
    return _write_formula(node, tex=tex) if write is None else write(node, part, tex=tex)


def _write_fraction(_node: Element, part: dict[str, str], *, tex: bool) -> str:
    above, below = part.get("num", ""), part.get("den", "")
    return rf"\frac{{{above}}}{{{below}}}" if tex else inline_forms.fraction(above, below)


def _write_script(_node: Element, part: dict[str, str], *, tex: bool) -> str:
    base = part.get("e", "")
    return (base if tex else inline_forms.grouped(base.strip())) + _write_limits(part, tex=tex)


def _write_root(_node: Element, part: dict[str, str], *, tex: bool) -> str:
    degree, inner = part.get("deg", ""), part.get("e", "")
    return rf"\sqrt{f'[{degree}]' if degree else ''}{{{inner}}}" if tex else f"{degree}√({inner})"


def _write_sum(node: Element, part: dict[str, str], *, tex: bool) -> str:
    return f"{_operator_sign(node, 'naryPr', 'chr', '∫')}{_write_limits(part, tex=tex)} {part.get('e', '')}"


def _write_delimited(node: Element, _parts: dict[str, str], *, tex: bool) -> str:
    inner = _operator_sign(node, "dPr", "sepChr", "|").join(_write_formula(e, tex=tex) for e in node.findall(f"{M}e"))
    return f"{_operator_sign(node, 'dPr', 'begChr', '(')}{inner}{_operator_sign(node, 'dPr', 'endChr', ')')}"


def _write_function(_node: Element, part: dict[str, str], *, tex: bool) -> str:  # noqa: ARG001
    return f"{part.get('fName', '')} {part.get('e', '')}"


def _write_rows(node: Element, _parts: dict[str, str], *, tex: bool) -> str:
    rows = node.findall(f"{M}mr")
    cells = [[_write_formula(cell, tex=tex) for cell in row] for row in rows] or [
        [_write_formula(line, tex=tex)] for line in node.findall(f"{M}e")
    ]
    return "; ".join(map(", ".join, cells))


_PART_WRITERS: dict[str, Callable[..., str]] = {
    "f": _write_fraction, "sSup": _write_script, "sSub": _write_script, "sSubSup": _write_script,
    "sPre": _write_script, "rad": _write_root, "nary": _write_sum,
    "d": _write_delimited, "func": _write_function, "m": _write_rows, "eqArr": _write_rows,
}  # fmt: skip


def _write_limits(part: dict[str, str], *, tex: bool) -> str:
    below, above = part.get("sub", ""), part.get("sup", "")
    if tex:
        return "".join(f"{mark}{{{text}}}" for mark, text in (("_", below), ("^", above)) if text)
    return (inline_forms.subscript(below) if below else "") + (inline_forms.superscript(above) if above else "")


def _operator_sign(node: Element, properties: str, name: str, usual: str) -> str:
    child = node.find(f"{M}{properties}/{M}{name}")
    return usual if child is None else child.get(_SIGN_VALUE, "")


A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_CHART_TAGS = tuple(f"{namespace}chart" for namespace in (ooxml_charts.C, ooxml_charts.CX))
_DIAGRAM_TAG = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
# Text boxes on a chart.
_CHART_SHAPES = "chartUserShapes"
# ISO's strict variant uses other namespaces for the same elements.
_STRICT_NS = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")


# Type, by its last word, and target of each relation by id.
Relations = dict[str, tuple[str, str]]


class Package:
    """Members of an Office file. Broken members count as missing."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.names = frozenset(archive.namelist())
        # Names of parts are the same in all cases of letters.
        self._spellings = {name.lower(): name for name in self.names}
        self._relations: dict[str, Relations] = {}

    def require(self, name: str) -> Element:
        """Return the root of a member; raises one of `xml.PARSE_ERRORS` if unreadable."""
        data = self._archive.read(self._spellings.get(name.lower(), name))
        return xml.parse_xml(_STRICT_NS.sub(rb"http://schemas.openxmlformats.org/\1/2006/\2", data))

    def root(self, name: str) -> Element | None:
        try:
            return self.require(name)
        except xml.PARSE_ERRORS:
            return None

    def relations(self, name: str) -> Relations:
        """Return targets of a member's relations; {} if absent."""
        if name in self._relations:
            return self._relations[name]
        folder, base = posixpath.split(name)
        root = self.root(f"{folder}/_rels/{base}.rels".lstrip("/"))
        self._relations[name] = {
            relation.get("Id", ""): (
                relation.get("Type", "").rpartition("/")[2],
                self._spellings.get((target := _target_path(folder, relation)).lower(), target),
            )
            for relation in (() if root is None else root)
        }
        return self._relations[name]

    def drawn(self, node: Element, relations: Relations, look_up: LookUp = unknown_values) -> Iterator[str]:
        """Return Markdown of a drawing's charts and diagrams."""
        for part in shown_elements(node):
            if part.tag not in (*_CHART_TAGS, _DIAGRAM_TAG):
                continue
            is_diagram = part.tag == _DIAGRAM_TAG
            target = relations.get(part.get(f"{R}dm" if is_diagram else f"{R}id", ""), ("", ""))[1]
            if (root := self.root(target)) is None:
                continue
            if is_diagram:
                yield "\n".join(paragraph_texts(root.iter(f"{A}p")))
                continue
            yield ooxml_charts.chart_markdown(root, look_up)
            for kind, name in self.relations(target).values():
                if kind == _CHART_SHAPES and (shapes := self.root(name)) is not None:
                    yield "\n".join(paragraph_texts(shapes.iter(f"{A}p")))


def shown_elements(node: Element) -> Iterator[Element]:
    """Yield an element and all below, of two versions of a drawing only the newer one."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += reversed(part[:1] if part.tag == f"{MC}AlternateContent" else part)


def picture_texts(node: Element) -> list[str]:
    """Return the descriptions of pictures and shapes of a drawing."""
    words = (part.get("descr") or part.get("alt") or "" for part in shown_elements(node))
    return list(dict.fromkeys(filter(None, map(inline_forms.picture, words))))


def paragraph_texts(nodes: Iterable[Element]) -> list[str]:
    """Return words of DrawingML paragraphs, without blank paragraphs."""
    texts = (" ".join(paragraph_text(node).split()) for node in nodes)
    return [text for text in texts if text]


def paragraph_text(paragraph: Element) -> str:
    signs = {f"{A}br": "\n", f"{A}tab": " "}
    starts = {f"{A}r", f"{A}fld", *signs}
    words: list[str] = []
    form = inline_forms.PLAIN
    for node in paragraph.iter():
        if node.tag == f"{A}rPr":
            form = _run_form(node)
        elif node.tag == f"{A}t":
            words.append(form.mark(node.text or ""))
        elif node.tag in starts:
            form = inline_forms.PLAIN
            words.append(signs.get(node.tag, ""))
    return write_forms("".join(words))


def _run_form(run: Element) -> Form:
    baseline = run.get("baseline", "0").rstrip("%")
    raised = -1 if baseline.startswith("-") else int(baseline.strip("0.") != "")
    return Form(raised, run.get("strike", "noStrike") != "noStrike")


def _target_path(folder: str, relation: Element) -> str:
    target = relation.get("Target", "")
    if relation.get("TargetMode") == "External":
        return target
    return posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
