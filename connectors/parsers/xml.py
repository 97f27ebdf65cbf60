"""Parse XML members of packages without declared entities or access outside of the package."""

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


BROKEN = (
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


def parse_parts(source: str, parser: etree.XMLParser) -> Any:
    """Return the root, or an element `text` around several roots, such as those of a part of a book."""
    root = etree.fromstring(source.encode(), parser)
    # With `recover`, the parser drops what follows the first root.
    has_rest = any(entry.type == etree.ErrorTypes.ERR_DOCUMENT_END for entry in parser.error_log)
    return etree.fromstring(f"<text>{source}</text>".encode(), parser) if has_rest and "<!" not in source else root


def is_too_deep(error: BaseException | None) -> bool:
    """Check for an error caused by too deeply nested elements."""
    return isinstance(error, RecursionError) or getattr(error, "code", None) == etree.ErrorTypes.ERR_RESOURCE_LIMIT


def is_out_of_memory(error: BaseException | None) -> bool:
    """Check for an error caused by exhausted memory."""
    return isinstance(error, MemoryError) or getattr(error, "code", None) == etree.ErrorTypes.ERR_NO_MEMORY


_ENTITY_MARKS = tuple("<!ENTITY".encode(codec) for codec in ("utf-8", "utf-16-le", "utf-16-be"))


def parse_xml(data: bytes) -> Element:
    """Parse XML without declared entities and return its root; otherwise raise one of `BROKEN`."""
    if any(mark in data for mark in _ENTITY_MARKS):
        raise EntitiesRefused
    return fromstring(data)  # noqa: S314


def read_root(archive: zipfile.ZipFile, name: str) -> Element:
    return parse_xml(archive.read(name))


def open_package(path: Path) -> zipfile.ZipFile:
    """Open a ZIP; members named with backslashes, by programs of Windows, get slashes."""
    archive = zipfile.ZipFile(path)
    if any("\\" in name for name in archive.NameToInfo):
        for entry in archive.filelist:
            entry.filename = entry.filename.replace("\\", "/")
        archive.NameToInfo = {entry.filename: entry for entry in archive.filelist}
    return archive


def iterate_elements(stream: IO[bytes], *tags: str, starts: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield elements of these tags at their end, and with `starts` at their start; pass each to `free_element`."""
    events = ("start", "end") if starts else ("end",)
    parser = etree.iterparse(stream, events, tag=tags, resolve_entities=False, no_network=True, huge_tree=True)
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


class About(TypedDict, total=False):
    """Properties of a document, named as in `Document`."""

    title: str
    author: str
    created_at: str
    modified_at: str
    language: str


def read_about(archive: zipfile.ZipFile, name: str) -> About:
    """Read document properties from a member of a package; {} for a damaged one, as office programs do."""
    try:
        root = read_root(archive, name)
    except BROKEN:
        return {}
    texts = {part.tag.rpartition("}")[2]: "".join(part.itertext()) for part in root.iter() if not len(part)}
    return About(
        title=texts.get("title", ""),
        author=texts.get("initial-creator") or texts.get("creator", ""),
        created_at=texts.get("created") or texts.get("creation-date", ""),
        modified_at=texts.get("modified") or texts.get("date", ""),
        language=texts.get("language", ""),
    )


_REFERENCE_PATTERN: Final = re.compile(r"<!\[CDATA\[.*?\]\]>|<!--.*?-->|&([A-Za-z][\w.-]{0,60});", re.DOTALL)
_DECLARED_ENTITY: Final = re.compile(r"<!ENTITY\s+([\w.-]{1,80})\s")


def name_characters(source: str) -> str:
    """Replace references without a declaration: of HTML, such as `&nbsp;` in DocBook, else by their name."""
    declared = {*_DECLARED_ENTITY.findall(source), "amp", "lt", "gt", "quot", "apos"}

    def replace_reference(match: re.Match[str]) -> str:
        name = f"{match[1]};"
        if not match[1] or match[1] in declared:
            return match[0]
        return escape(html5.get(name, match[0]))

    return _REFERENCE_PATTERN.sub(replace_reference, source)
