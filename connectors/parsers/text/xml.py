"""XML parts of packed documents, read without what could reach or blow up anything."""

from __future__ import annotations

import zipfile
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser, parse


class Refused(Exception):
    """The XML declares entities."""


BROKEN = (zipfile.BadZipFile, OSError, KeyError, ParseError, NotImplementedError, RuntimeError, ValueError, Refused)


class _NoEntities(TreeBuilder):
    """A tree of XML that may not declare anything."""

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise Refused


def root(archive: zipfile.ZipFile, name: str) -> Element:
    with archive.open(name) as stream:
        root = parse(stream, XMLParser(target=_NoEntities())).getroot()  # noqa: S314
    if root is None:
        raise KeyError(name)
    return root
