"""Packages of Office Open XML: parts, the relations between them, and the drawings that all programs share."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterable, Iterator
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from connectors.parsers.formats import charts
from connectors.parsers.text import xml

A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}chart"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
"""Namespaces of ISO's strict variant, by which the same elements are called."""


Relations = dict[str, tuple[str, str]]
"""The last word of the type and the target of each relation of a part, by their ids."""


class Package:
    """The parts of an Office file. Parts that are broken or missing are read as if they were not there."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.names = frozenset(archive.namelist())
        self._relations: dict[str, Relations] = {}

    def require(self, name: str) -> Element:
        """The root of a part; raises one of `xml.BROKEN` if it cannot be read."""
        return xml.parsed(_STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/\2", self._archive.read(name)))

    def root(self, name: str) -> Element | None:
        try:
            return self.require(name)
        except xml.BROKEN:
            return None

    def relations(self, name: str) -> Relations:
        """Where the relations of a part lead; {} if it has none."""
        if name in self._relations:
            return self._relations[name]
        folder, base = posixpath.split(name)
        root = self.root(f"{folder}/_rels/{base}.rels".lstrip("/"))
        self._relations[name] = {
            relation.get("Id", ""): (relation.get("Type", "").rpartition("/")[2], _target(folder, relation))
            for relation in (() if root is None else root)
        }
        return self._relations[name]

    def drawn(self, node: Element, relations: Relations, look_up: charts.LookUp = charts.unknown) -> Iterator[str]:
        """Markdown of the charts and diagrams that a drawing refers to."""
        for part in node.iter():
            if part.tag not in (_CHART, _DIAGRAM):
                continue
            target = relations.get(part.get(f"{R}id" if part.tag == _CHART else f"{R}dm", ""), ("", ""))[1]
            if (root := self.root(target)) is not None:
                yield (
                    charts.markdown(root, look_up) if part.tag == _CHART else "\n".join(paragraphs(root.iter(f"{A}p")))
                )


def paragraphs(nodes: Iterable[Element]) -> list[str]:
    """The words of paragraphs of DrawingML, without blank ones."""
    texts = (" ".join(words(node).split()) for node in nodes)
    return [text for text in texts if text]


def words(paragraph: Element) -> str:
    signs = {f"{A}br": "\n", f"{A}tab": " "}
    return "".join(signs.get(node.tag) or (node.text or "" if node.tag == f"{A}t" else "") for node in paragraph.iter())


def _target(folder: str, relation: Element) -> str:
    target = relation.get("Target", "")
    if relation.get("TargetMode") == "External":
        return target
    return posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
