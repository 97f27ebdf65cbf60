"""Sitemap files, XML or a line each, read as a stream. Document types, and so entities, are refused."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast
from xml.parsers import expat

from connectors.charsets import decoding
from retrieval.errors import Skippable

MOST_BYTES = 64 * 1024 * 1024
"""Unpacked; the protocol's own bound is 50 MB."""
_PIECE = 64 * 1024
_MOST_TEXT = 4096
_LISTED = re.compile(r"https?://", re.IGNORECASE)
_ROOTS = ("urlset", "sitemapindex")


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    """`index`: the address of another sitemap, not of a page."""

    url: str
    modified: str
    index: bool


@dataclass
class _Reader:
    ready: list[SitemapEntry] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    text: dict[str, str] = field(default_factory=dict)

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        if len(self.path) > 20:
            raise Skippable("The sitemap is nested too deeply.")
        self.path.append(name.rpartition(" ")[2].lower())
        if len(self.path) == 1 and self.path[0] not in _ROOTS:
            raise _other()
        if self.path[-1] in ("url", "sitemap"):
            self.text = {}

    def data(self, data: str) -> None:
        if len(self.path) > 1 and self.path[-1] in ("loc", "lastmod") and self.path[-2] in ("url", "sitemap"):
            self.text[self.path[-1]] = (self.text.get(self.path[-1], "") + data)[:_MOST_TEXT]

    def end(self, _name: str) -> None:
        ended = self.path.pop()
        address = self.text.get("loc", "").strip()
        if ended in ("url", "sitemap") and address:
            self.ready.append(SitemapEntry(address, self.text.get("lastmod", "").strip()[:100], ended == "sitemap"))


def read(file: Path, media_type: str = "") -> Iterator[SitemapEntry]:
    """Its entries in order. Skippable for what is no sitemap, breaks off, unpacks to too much or brings entities."""
    pieces = _characters(file, media_type)
    first = next(pieces, "").lstrip("\ufeff \t\r\n")  # nothing may stand before XML, but often does
    rest = chain([first], pieces)
    yield from _lines(rest) if _LISTED.match(first) else _entries(rest)


def _characters(file: Path, media_type: str) -> Iterator[str]:
    """The file in pieces if it is UTF-8, else as a whole, by the charset that it most likely has."""
    try:
        decoder = codecs.getincrementaldecoder("utf-8")()
        for piece in _pieces(file):
            decoder.decode(piece)
        decoder.decode(b"", True)  # noqa: FBT003 - a codec's signature
    except UnicodeDecodeError:
        yield decoding.decode(b"".join(_pieces(file)), decoding.charset(media_type), markup=True)
        return
    yield from codecs.iterdecode(_pieces(file), "utf-8")


def _lines(pieces: Iterable[str]) -> Iterator[SitemapEntry]:
    """Of a text file: an address on each line."""
    left = ""
    for piece in pieces:
        *lines, left = (left + piece).replace("\r", "\n").split("\n")
        left = left[:_MOST_TEXT]
        yield from _listed(lines)
    yield from _listed([left])


def _listed(lines: Iterable[str]) -> Iterator[SitemapEntry]:
    addresses = (line.strip()[:_MOST_TEXT] for line in lines)
    return (SitemapEntry(address, "", index=False) for address in addresses if address)


def _entries(pieces: Iterable[str]) -> Iterator[SitemapEntry]:
    reader, parser = _Reader(), expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.data
    parser.StartDoctypeDeclHandler = _refuse
    try:
        for piece in pieces:
            parser.Parse(piece, False)  # noqa: FBT003 - expat's signature
            yield from reader.ready
            reader.ready.clear()
        parser.Parse("", True)  # noqa: FBT003
    except expat.ExpatError as error:
        raise Skippable("The sitemap is no well-formed XML.") from error


def _other() -> Skippable:
    return Skippable("There is no sitemap at the address, but another page. Name a sitemap, or ingest it as a website.")


def _refuse(name: str, *_declared: object) -> None:
    if name.lower() == "html":
        raise _other()
    raise Skippable("The sitemap declares a document type, which is not allowed.")


def _pieces(file: Path) -> Iterator[bytes]:
    size = 0
    with file.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        source = cast("BinaryIO", gzip.GzipFile(fileobj=plain)) if packed else plain
        try:
            while piece := source.read(_PIECE):
                size += len(piece)
                if size > MOST_BYTES:
                    raise Skippable(f"The sitemap is larger than {MOST_BYTES // 2**20} MiB unpacked.")
                yield piece
        except (OSError, EOFError, zlib.error) as error:
            raise Skippable("The sitemap's compressed content cannot be decompressed.") from error
