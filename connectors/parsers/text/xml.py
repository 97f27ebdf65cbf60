"""XML parts of packed documents, read without what could reach or blow up anything."""

from __future__ import annotations

import zipfile
from typing import TypedDict
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser, parse


class Refused(Exception):
    """The XML declares entities."""


BROKEN = (zipfile.BadZipFile, OSError, KeyError, ParseError, NotImplementedError, RuntimeError, ValueError, Refused)


class _NoEntities(TreeBuilder):
    """A tree of XML that may not declare anything."""

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise Refused


def parsed(data: bytes) -> Element:
    """The root of XML that declares nothing; raises one of `BROKEN` otherwise."""
    parser = XMLParser(target=_NoEntities())  # noqa: S314
    parser.feed(data)
    root: Element | None = parser.close()
    if root is None:
        raise KeyError
    return root


def root(archive: zipfile.ZipFile, name: str) -> Element:
    with archive.open(name) as stream:
        root = parse(stream, XMLParser(target=_NoEntities())).getroot()  # noqa: S314
    if root is None:
        raise KeyError(name)
    return root


class About(TypedDict, total=False):
    """What a document says of itself, under the names of `Document`."""

    title: str
    author: str
    created_at: str
    modified_at: str
    language: str


def about(archive: zipfile.ZipFile, name: str) -> About:
    """What the part of a packed document says of it, under the names of `Document`."""
    if name not in archive.namelist():
        return {}
    texts = {
        part.tag.rpartition("}")[2]: "".join(part.itertext()) for part in root(archive, name).iter() if not len(part)
    }
    return About(
        title=texts.get("title", ""),
        author=texts.get("initial-creator") or texts.get("creator", ""),
        created_at=texts.get("created") or texts.get("creation-date", ""),
        modified_at=texts.get("modified") or texts.get("date", ""),
        language=texts.get("language", ""),
    )
