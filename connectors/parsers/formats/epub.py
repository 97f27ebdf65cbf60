"""Books (EPUB): their chapters in the order of the book, as Markdown."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from connectors.charsets import decoding
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.document import Document
from connectors.parsers.formats import html_text
from connectors.parsers.messages import Task
from connectors.parsers.text import properties, xml

_EMPTY = re.compile(
    r"<((?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)[\w:]+)([^<>]*)/>"
)
"""An element of XHTML that ends where it begins, which HTML would leave open."""


def read(kind: Kind, path: Path, _task: Task) -> Document:
    """The chapters that can be read. Skippable if there is no list of them."""
    try:
        with zipfile.ZipFile(path) as archive:
            container = xml.root(archive, "META-INF/container.xml")
            package = next(node.get("full-path", "") for node in container.iter() if node.tag.endswith("}rootfile"))
            text = "\n\n".join(filter(None, _chapters(archive, package)))
            about = xml.about(archive, package)
    except (*xml.BROKEN, StopIteration) as error:
        raise properties.damaged(kind) from error
    return replace(Document(text, **about), modified_at="")


def _chapters(archive: zipfile.ZipFile, package: str) -> Iterator[str]:
    root = xml.root(archive, package)
    folder, names = posixpath.dirname(package), set(archive.namelist())
    items = {
        node.get("id"): node.get("href", "")
        for node in root.iter()
        if node.tag.endswith("}item") and "nav" not in node.get("properties", "").split()
    }
    hrefs = (items.get(node.get("idref"), "") for node in root.iter() if node.tag.endswith("}itemref"))
    for address in filter(None, hrefs):
        places = [posixpath.normpath(posixpath.join(folder, name)) for name in (unquote(address), address)]
        path = next((path for path in places if path in names), "")
        try:
            data = archive.read(path) if path else b""
        except xml.BROKEN:
            continue  # reported as damaged
        yield html_text.body(_EMPTY.sub(r"<\1\2></\1>", decoding.decode(data, "", markup=True)))
