"""Convert EPUB books to Markdown."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from connectors.charsets import decoding
from connectors.parsers import document, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document
from connectors.parsers.formats import html_text
from connectors.parsers.messages import Task

# HTML parsers leave self-closed XHTML elements open.
_SELF_CLOSED_ELEMENT = re.compile(
    r"<((?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)[\w:]+)([^<>]*)/>"
)


def read_epub(kind: Kind, path: Path, _task: Task) -> Document:
    """Return the readable chapters. Skippable without a chapter list."""
    try:
        with zipfile.ZipFile(path) as archive:
            container = xml.read_root(archive, "META-INF/container.xml")
            package = next(node.get("full-path", "") for node in container.iter() if node.tag.endswith("}rootfile"))
            text = "\n\n".join(filter(None, _read_chapters(archive, package)))
            about = xml.read_properties(archive, package)
    except (*xml.PARSE_ERRORS, StopIteration) as error:
        raise document.damaged_file(kind) from error
    return replace(Document(text, **about), modified_at="")


def _read_chapters(archive: zipfile.ZipFile, package: str) -> Iterator[str]:
    root = xml.read_root(archive, package)
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
        except xml.PARSE_ERRORS:
            continue  # reported as damaged
        yield html_text.page_body(_SELF_CLOSED_ELEMENT.sub(r"<\1\2></\1>", decoding.decode_text(data, "", markup=True)))
