"""Files within Office documents, OpenDocument files and books, and their parts that are damaged."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from connectors.parsers.detect import file_types
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.formats.containers import ole_objects, zips
from connectors.parsers.formats.containers.ledger import BROKEN, DAMAGED, LOCKED, Part
from connectors.parsers.text import xml

OOXML = (file_types.DOCX, file_types.PPTX, file_types.XLSX)
OPEN_DOCUMENT = (file_types.ODT, file_types.ODP, file_types.ODS)
_WORDS = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx")
_MEDIA = re.compile(
    r"(?:^|/)(?:media|Pictures|images?)/[^/]+$|\.(?:png|jpe?g|gif|svg|webp|emf|wmf|tiff?|bmp)$", re.IGNORECASE
)
_SOUND = re.compile(r"\.(?:mp[34]|m4[av]|wav|ogg|avi|mov|wmv|webm)$", re.IGNORECASE)
_PICTURES, _RECORDINGS = "pictures", "recordings"
_EMBEDDED = re.compile(r"/(?:oleObject|package|aFChunk|subDocument)$")
_MANIFEST = "{urn:oasis:names:tc:opendocument:xmlns:manifest:1.0}"
_ODF = "application/vnd.oasis.opendocument."
_ODF_FILES = {f"{_ODF}text": "odt", f"{_ODF}spreadsheet": "ods", f"{_ODF}presentation": "odp"}
_ODF_FORMULA = f"{_ODF}formula"
_OLE = "application/vnd.sun.star.oleobject"
_UNLISTED = (
    "The list of what the document holds is damaged. Save it again from the program that made it and upload that."
)
_PROTECTED = "It is encrypted by the publisher (DRM). Upload a copy of the book without that protection."
_MISSING = "The book lists it and does not hold it. Save the book again from the program that made it and upload that."


def parts(kind: Kind, path: Path) -> Iterator[Part]:
    """The files that the document holds beside its own text, and what of that text cannot be read."""
    with zipfile.ZipFile(path) as archive:
        if kind in OOXML:
            yield from _ooxml(archive)
        elif kind in OPEN_DOCUMENT:
            yield from _open_document(archive)
        else:
            yield from _book(archive)
        yield from _pictures(archive)
        yield from _damaged(archive)


def _damaged(archive: zipfile.ZipFile) -> Iterator[Part]:
    """Parts with words of the document that cannot be unpacked."""
    for entry in archive.infolist():
        if not entry.filename.lower().endswith(_WORDS):
            continue
        if entry.flag_bits & 1:
            yield Part(entry.filename, error=LOCKED)
            continue
        try:
            for _ in zips.content(archive, entry)():
                pass
        except BROKEN:
            yield Part(entry.filename, error=DAMAGED)


def _pictures(archive: zipfile.ZipFile) -> Iterator[Part]:
    for name in archive.namelist():
        if _SOUND.search(name):
            yield Part(posixpath.basename(name), notice=_RECORDINGS)
        elif _MEDIA.search(name) and not name.startswith(("Thumbnails/", "docProps/")):
            yield Part(posixpath.basename(name), notice=_PICTURES)


def _ooxml(archive: zipfile.ZipFile) -> Iterator[Part]:
    entries = {entry.filename: entry for entry in archive.infolist()}
    behind_charts, embedded = set(), {name for name in entries if re.search(r"/embeddings/[^/]+$", name)}
    for name in entries:
        if name.endswith(".rels") and not name.startswith("_rels/"):
            targets = set(_targets(archive, name)) & entries.keys()
            embedded |= targets
            behind_charts |= targets if "/charts/" in name else set()
    for name in sorted(embedded - behind_charts):  # what charts show is read with the document
        called = posixpath.basename(name)
        if name.endswith(".bin"):
            yield from _object(archive, entries[name])
        else:
            yield Part(called, content=zips.content(archive, entries[name]))


def _targets(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """The parts that the relations of a part name as embedded in it."""
    try:
        relations = xml.root(archive, name)
    except xml.BROKEN + BROKEN:
        return  # reported as damaged
    folder = posixpath.dirname(posixpath.dirname(name))
    for relation in relations:
        if _EMBEDDED.search(relation.get("Type", "")) and relation.get("TargetMode") != "External":
            target = unquote(relation.get("Target", ""))
            yield target.lstrip("/") if target.startswith("/") else posixpath.normpath(f"{folder}/{target}")


def _object(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[Part]:
    name = posixpath.basename(entry.filename)
    try:
        data = b"".join(zips.content(archive, entry)())
        yield from ole_objects.parts(name.removesuffix(".bin"), data)
    except BROKEN:
        yield Part(name, error=DAMAGED)


def _open_document(archive: zipfile.ZipFile) -> Iterator[Part]:
    entries = {entry.filename: entry for entry in archive.infolist()}
    try:
        listed = xml.root(archive, "META-INF/manifest.xml")
    except xml.BROKEN + BROKEN:
        yield from (Part(name, error=_UNLISTED) for name in entries if re.fullmatch(r"Object \d+/content\.xml", name))
        return
    for line in listed:
        name, kind = line.get(f"{_MANIFEST}full-path", ""), line.get(f"{_MANIFEST}media-type", "")
        called = name.rstrip("/")
        if name in ("", "/") or called.startswith("ObjectReplacements"):
            continue
        if kind == _ODF_FORMULA:
            yield Part(called, notice=ole_objects.FORMULAS)
        elif name.endswith("/") and kind in _ODF_FILES:
            yield Part(f"{called}.{_ODF_FILES[kind]}", kind, content=partial(_apart, archive, name, kind))
        elif kind == _OLE and name in entries:
            yield from _object(archive, entries[name])


def _apart(archive: zipfile.ZipFile, folder: str, kind: str) -> list[bytes]:
    """A document in a folder of another one, as a file of its own."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as own:
        own.writestr("mimetype", kind, zipfile.ZIP_STORED)
        for name in archive.namelist():
            if name.startswith(folder) and not name.endswith("/"):
                own.writestr(name.removeprefix(folder), archive.read(name))
    return [file.getvalue()]


def _book(archive: zipfile.ZipFile) -> Iterator[Part]:
    """Chapters that are missing or protected, and files of other kinds that the book lists."""
    names = set(archive.namelist())
    protected = _protected(archive) if "META-INF/encryption.xml" in names else set()
    for name in sorted(name for name in names if name.endswith(".opf")):
        try:
            package = xml.root(archive, name)
        except xml.BROKEN + BROKEN:
            continue  # reported as damaged
        folder = posixpath.dirname(name)
        for item in package.iter():
            if not item.tag.endswith("}item") or "://" in item.get("href", "://"):
                continue
            place = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
            kind = item.get("media-type", "")
            if place not in names and posixpath.normpath(posixpath.join(folder, item.get("href", ""))) not in names:
                if "html" in kind:
                    yield Part(place, error=_MISSING)
            elif place in protected and not _is_font(kind):
                yield Part(place, error=_PROTECTED)
            elif kind == file_types.PDF.media_type:
                yield Part(posixpath.basename(place), kind, content=zips.content(archive, archive.getinfo(place)))


def _protected(archive: zipfile.ZipFile) -> set[str]:
    try:
        encryption: Element = xml.root(archive, "META-INF/encryption.xml")
    except xml.BROKEN + BROKEN:
        return set()
    return {unquote(node.get("URI", "")) for node in encryption.iter() if node.tag.endswith("}CipherReference")}


def _is_font(kind: str) -> bool:
    return "font" in kind or "opentype" in kind
