"""Parse XML members of packages without entities or access outside of the package."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import IO, Any, TypedDict
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser, parse

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


def is_too_deep(error: BaseException | None) -> bool:
    """Check for an error caused by too deeply nested elements."""
    return isinstance(error, RecursionError) or getattr(error, "code", None) == etree.ErrorTypes.ERR_RESOURCE_LIMIT


def is_out_of_memory(error: BaseException | None) -> bool:
    """Check for an error caused by exhausted memory."""
    return isinstance(error, MemoryError) or getattr(error, "code", None) == etree.ErrorTypes.ERR_NO_MEMORY


class _NoEntities(TreeBuilder):
    """XML tree builder without declarations."""

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise EntitiesRefused


def parse_xml(data: bytes) -> Element:
    """Parse XML without declarations and return its root; otherwise raise one of `BROKEN`."""
    parser = XMLParser(target=_NoEntities())  # noqa: S314
    parser.feed(data)
    root: Element | None = parser.close()
    if root is None:
        raise KeyError
    return root


def read_root(archive: zipfile.ZipFile, name: str) -> Element:
    with archive.open(name) as stream:
        root = parse(stream, XMLParser(target=_NoEntities())).getroot()  # noqa: S314
    if root is None:
        raise KeyError(name)
    return root


def iterate_elements(stream: IO[bytes], *tags: str, starts: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield elements of these tags at their end, and with `starts` at their start; pass each to `free_element`."""
    events = ("start", "end") if starts else ("end",)
    parser = etree.iterparse(stream, events, tag=tags, resolve_entities=False, no_network=True)
    for event, element in parser:
        if element.getroottree().docinfo.internalDTD is not None:
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
    """Read document properties from a member of a package."""
    if name not in archive.namelist():
        return {}
    texts = {
        part.tag.rpartition("}")[2]: "".join(part.itertext())
        for part in read_root(archive, name).iter()
        if not len(part)
    }
    return About(
        title=texts.get("title", ""),
        author=texts.get("initial-creator") or texts.get("creator", ""),
        created_at=texts.get("created") or texts.get("creation-date", ""),
        modified_at=texts.get("modified") or texts.get("date", ""),
        language=texts.get("language", ""),
    )
