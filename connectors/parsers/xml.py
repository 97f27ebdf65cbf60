"""Parse XML members of packages. Declared entities and external references are refused."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from html.entities import html5
from pathlib import Path
from typing import IO, Any, Final, TypedDict
from xml.etree.ElementTree import Element, ParseError, fromstring
from xml.sax.saxutils import escape

from lxml import etree


class EntitiesRefused(Exception):
    """The XML declares entities."""


# Errors of a damaged package or member.
PARSE_ERRORS = (
    zipfile.BadZipFile,
    OSError,
    KeyError,
    ParseError,
    etree.XMLSyntaxError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    EntitiesRefused,
)


def parse_fragments(source: str, parser: etree.XMLParser) -> Any:
    """Return the root of XML; for several roots, as of a book's chapters, an element `text` around them."""
    root = etree.fromstring(source.encode(), parser)
    # With `recover`, the parser drops content after the first root, and logs the error.
    is_cut = any(entry.type == etree.ErrorTypes.ERR_DOCUMENT_END for entry in parser.error_log)
    has_declaration = "<!" in source
    if not is_cut or has_declaration:
        return root
    return etree.fromstring(f"<text>{source}</text>".encode(), parser)


def is_too_deep(error: BaseException | None) -> bool:
    """Check for an error caused by too deeply nested elements."""
    return isinstance(error, RecursionError) or getattr(error, "code", None) == etree.ErrorTypes.ERR_RESOURCE_LIMIT


def is_out_of_memory(error: BaseException | None) -> bool:
    """Check for an error caused by exhausted memory."""
    return isinstance(error, MemoryError) or getattr(error, "code", None) == etree.ErrorTypes.ERR_NO_MEMORY


_ENTITY_MARKS = tuple("<!ENTITY".encode(codec) for codec in ("utf-8", "utf-16-le", "utf-16-be"))


def parse_xml(data: bytes) -> Element:
    """Parse XML without declared entities and return the root. Raises one of `PARSE_ERRORS`."""
    if any(mark in data for mark in _ENTITY_MARKS):
        raise EntitiesRefused
    return fromstring(data)  # noqa: S314


def read_root(archive: zipfile.ZipFile, name: str) -> Element:
    return parse_xml(archive.read(name))


def open_package(path: Path) -> zipfile.ZipFile:
    """Open a ZIP; backslashes in member names, as of Windows programs, become slashes."""
    archive = zipfile.ZipFile(path)
    if any("\\" in name for name in archive.NameToInfo):
        for entry in archive.filelist:
            entry.filename = entry.filename.replace("\\", "/")
        archive.NameToInfo = {entry.filename: entry for entry in archive.filelist}
    return archive


def iterate_elements(stream: IO[bytes], *tags: str, starts: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield event and element of these tags at their ends, with `starts` also at their starts.

    Pass each element to `free_element` after use. EntitiesRefused for declared entities.
    """
    events = ("start", "end") if starts else ("end",)
    parser = etree.iterparse(stream, events, tag=tags, resolve_entities=False, no_network=True, huge_tree=True)
    # The first element follows all declarations of the document.
    for event, element in parser:
        declarations = element.getroottree().docinfo.internalDTD
        if declarations is not None and declarations.entities():
            raise EntitiesRefused
        yield event, element
        break
    yield from parser


def free_element(element: Any) -> None:
    """Free the memory of an element and its predecessors."""
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]


class PackageProperties(TypedDict, total=False):
    """Properties of a document, named as in `Document`."""

    title: str
    author: str
    created_at: str
    modified_at: str
    language: str


def read_properties(archive: zipfile.ZipFile, name: str) -> PackageProperties:
    """Read document properties from a member of a package; {} for a damaged member."""
    try:
        root = read_root(archive, name)
    except PARSE_ERRORS:
        return {}
    leaves = (element for element in root.iter() if not len(element))
    texts = {leaf.tag.rpartition("}")[2]: "".join(leaf.itertext()) for leaf in leaves}
    return PackageProperties(
        title=texts.get("title", ""),
        author=texts.get("initial-creator") or texts.get("creator", ""),
        created_at=texts.get("created") or texts.get("creation-date", ""),
        modified_at=texts.get("modified") or texts.get("date", ""),
        language=texts.get("language", ""),
    )


_REFERENCE_PATTERN: Final = re.compile(r"<!\[CDATA\[.*?\]\]>|<!--.*?-->|&([A-Za-z][\w.-]{0,60});", re.DOTALL)
_DECLARED_ENTITY: Final = re.compile(r"<!ENTITY\s+([\w.-]{1,80})\s")


def resolve_html_entities(source: str) -> str:
    """Replace undeclared entities by the characters of HTML, as `&nbsp;` in DocBook; escape unknown ones."""
    declared = {*_DECLARED_ENTITY.findall(source), "amp", "lt", "gt", "quot", "apos"}

    def replace_reference(match: re.Match[str]) -> str:
        name = f"{match[1]};"
        if not match[1] or match[1] in declared:
            return match[0]
        return escape(html5.get(name, match[0]))

    return _REFERENCE_PATTERN.sub(replace_reference, source)
