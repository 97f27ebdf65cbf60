"""Find files inside Office documents: embedded objects, attachments and pictures, in old and new formats."""

from __future__ import annotations

import io
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from connectors.parsers import detect, xml
from connectors.parsers.detect import Kind
from connectors.parsers.formats.containers import ledger
from connectors.parsers.formats.containers.ledger import DAMAGE_ERRORS, DAMAGED_PART, LOCKED_PART, Part

if TYPE_CHECKING:
    import olefile


COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_NATIVE_STREAM = "\x01Ole10Native"
_FORMULA_STREAM = "Equation Native"
_DOCUMENT_STREAMS = {"WordDocument": "doc", "Workbook": "xls", "Book": "xls", "PowerPoint Document": "ppt"}
_OUTLOOK_STREAM = "__properties_version1.0"
# Streams with the unchanged bytes of a file.
_PLAIN_STREAMS = ("Package", "CONTENTS", "Contents", "EmbeddedOdf")
_UNKNOWN_PROGRAM = "It is an object of a program whose files are not read. Upload it as a file of a kind that is taken."
_OLD_FORMAT = (
    "It is embedded in a document of an older Office format, from which it cannot be taken. "
    "Save that document in the current format (DOCX, XLSX, PPTX), or upload the embedded file itself."
)
_ENDINGS_BY_MAGIC = ((b"PK\x03\x04", "zip"), (b"%PDF-", "pdf"), (b"{\\rtf", "rtf"), (COMPOUND, "ole"))
FORMULAS = "formulas"


def compound_parts(name: str, data: bytes) -> Iterator[Part]:
    """Return the file inside an embedded object. `name`: the object's name in the document."""
    if not data.startswith(COMPOUND):
        yield Part(f"{name}{_guess_ending(data)}", content=lambda: [data])
        return
    import olefile

    with olefile.OleFileIO(io.BytesIO(data)) as file:
        streams = {entry[0] for entry in file.listdir() if len(entry) == 1}
        whole = next((ending for stream, ending in _DOCUMENT_STREAMS.items() if stream in streams), "")
        if whole or _OUTLOOK_STREAM in streams:
            yield Part(f"{name}.{whole or 'msg'}", content=lambda: [data])
        else:
            yield files_within(file, "", name)


def stored_object(file: olefile.OleFileIO) -> Iterator[Part]:
    """Return the embedded objects in storages of a document of an older Office format."""
    storages = dict.fromkeys(
        "/".join(entry[:depth])
        for entry in file.listdir(streams=True, storages=False)
        for depth in range(1, len(entry))
        if _holds_object(entry, depth)
    )
    for storage in storages:
        yield files_within(file, f"{storage}/", storage.rpartition("/")[2])


def _holds_object(entry: list[str], depth: int) -> bool:
    # [MS-DOC] 2.1.7 keeps objects in ObjectPool, [MS-XLS] 2.1.5 in storages with the prefix MBD.
    parent = entry[: depth - 1]
    in_pool = parent == ["ObjectPool"]
    return in_pool or (not parent and entry[0].startswith("MBD"))


def files_within(file: olefile.OleFileIO, storage: str, name: str) -> Part:
    """Return the files of the object in `storage`: "" or a path with a trailing slash."""
    if file.exists(storage + _NATIVE_STREAM):
        return read_package(_read_stream(file, storage + _NATIVE_STREAM)[4:], name)
    if stream := next((stream for stream in _PLAIN_STREAMS if file.exists(storage + stream)), ""):
        data = _read_stream(file, storage + stream)
        return Part(f"{name}{_guess_ending(data)}", content=lambda: [data])
    if file.exists(storage + _FORMULA_STREAM):
        return Part(name, notice=FORMULAS)
    has_stream = any(file.exists(storage + stream) for stream in _DOCUMENT_STREAMS)
    return Part(name, error=_OLD_FORMAT if has_stream else _UNKNOWN_PROGRAM)


def read_package(data: bytes, name: str) -> Part:
    """Return the file of any kind in a package of the Windows packager, under its name."""
    try:
        at = 2
        label, at = _read_string(data, at)
        path, at = _read_string(data, at)
        at += 4
        (length,) = struct.unpack_from("<I", data, at)
        at += 4 + length
        (size,) = struct.unpack_from("<I", data, at)
        content = data[at + 4 : at + 4 + size]
    except (struct.error, ValueError):
        return Part(name, error=DAMAGED_PART)
    called = label or path.replace("\\", "/").rpartition("/")[2] or name
    if len(content) < size:
        return Part(called, error=DAMAGED_PART)
    return Part(called, content=lambda: [content])


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode("cp1252", "replace"), end + 1


def _read_stream(file: olefile.OleFileIO, path: str) -> bytes:
    with file.openstream(path) as stream:
        return bytes(stream.read())


def _guess_ending(data: bytes) -> str:
    return next((f".{ending}" for mark, ending in _ENDINGS_BY_MAGIC if data.startswith(mark)), "")


OLDER_KINDS = (detect.DOC, detect.XLS, detect.PPT, detect.RTF)
_SLIDES_STREAM = "PowerPoint Document"
_OLE_OBJECT, _COMPRESSED_OBJECT = 0x1011, 1
_MAX_OBJECT_BYTES = 1 << 29
_RTF_OBJECT = re.compile(rb"\\objdata\b\s*((?:[0-9A-Fa-f]{2}\s*|\s)+)")
_EMBEDDED_OLE_FORMAT = 2
# Not the copies for older programs, nor the pictures of bullets and formulas.
_RTF_PICTURE = re.compile(rb"(?<!\\nonshppict)(?<!\\listpicture)(?<!\\mmathPict\{\\\*\\shppict)\s*\{\s*\\pict(?![a-z])")
_RTF_PICTURE_FORM = re.compile(rb"\\(pngblip|jpegblip|emfblip|wmetafile|macpict|dibitmap|wbitmap)")
_RTF_PICTURE_ENDINGS = {b"pngblip": ".png", b"jpegblip": ".jpg", b"emfblip": ".emf", b"wmetafile": ".wmf"}
_RTF_PICTURE_HEAD_BYTES = 4000


def older_parts(kind: Kind, path: Path) -> Iterator[Part]:
    """Return the embedded files, each as a part."""
    if kind is detect.RTF:
        data = path.read_bytes()
        yield from _rtf_objects(data)
        yield from _rtf_pictures(data)
        return
    import olefile

    if not olefile.isOleFile(str(path)):
        return  # a spreadsheet in XML or HTML, or one from before compound files: it embeds nothing
    with olefile.OleFileIO(str(path)) as file:
        if kind is not detect.PPT:
            yield from stored_object(file)
        elif file.exists(_SLIDES_STREAM):
            with file.openstream(_SLIDES_STREAM) as stream:
                yield from _slide_objects(stream.read())


def _slide_objects(data: bytes) -> Iterator[Part]:
    at, number = 0, 0
    while at + 8 <= len(data):
        flags, kind, size = struct.unpack_from("<HHI", data, at)
        content = data[at + 8 : at + 8 + size]
        at += 8 + size
        if kind != _OLE_OBJECT:
            continue
        number += 1
        name = f"object {number}"
        try:
            if flags >> 4 == _COMPRESSED_OBJECT:
                content = zlib.decompressobj().decompress(content[4:], _MAX_OBJECT_BYTES)
            yield from compound_parts(name, content)
        except DAMAGE_ERRORS:
            yield Part(name, error=DAMAGED_PART)


def _rtf_objects(data: bytes) -> Iterator[Part]:
    for number, match in enumerate(_RTF_OBJECT.finditer(data), 1):
        name = f"object {number}"
        try:
            yield from _rtf_object(bytes.fromhex("".join(match[1].decode("ascii").split())), name)
        except DAMAGE_ERRORS:
            yield Part(name, error=DAMAGED_PART)


def _rtf_pictures(data: bytes) -> Iterator[Part]:
    """Return notices of the pictures, each once though older programs get a second copy."""
    starts = [match.start() for match in _RTF_PICTURE.finditer(data)]
    for number, start in enumerate(starts, 1):
        form = _RTF_PICTURE_FORM.search(data, start, start + _RTF_PICTURE_HEAD_BYTES)
        ending = _RTF_PICTURE_ENDINGS.get(form[1], "") if form else ""
        yield Part(f"picture {number}{ending}", notice=_PICTURES_NOTICE)


def _rtf_object(data: bytes, name: str) -> Iterator[Part]:
    _version, form = struct.unpack_from("<II", data)
    words, at = [], 8
    for _ in range(3):
        (size,) = struct.unpack_from("<I", data, at)
        words.append(data[at + 4 : at + 4 + size].rstrip(b"\0"))
        at += 4 + size
    if form != _EMBEDDED_OLE_FORMAT:
        return  # a link to a file elsewhere
    (size,) = struct.unpack_from("<I", data, at)
    content = data[at + 4 : at + 4 + size]
    if words[0] == b"Package":
        yield read_package(content, name)
    else:
        yield from compound_parts(name, content)


OOXML = (detect.DOCX, detect.PPTX, detect.XLSX, detect.VSDX)
OPEN_DOCUMENT = (detect.ODT, detect.ODP, detect.ODS, detect.ODG)
_TEXT_ENDINGS = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx")
_MEDIA_PATTERN = re.compile(
    r"(?:^|/)(?:media|Pictures|images?)/[^/]+$|\.(?:png|jpe?g|gif|svg|webp|emf|wmf|tiff?|bmp)$", re.IGNORECASE
)
_SOUND_PATTERN = re.compile(r"\.(?:mp[34]|m4[av]|wav|ogg|avi|mov|wmv|webm)$", re.IGNORECASE)
_PICTURES_NOTICE, _RECORDINGS_NOTICE = "pictures", "recordings"
_EMBEDDED_PATTERN = re.compile(r"/(?:oleObject|package|aFChunk|subDocument)$")
_MANIFEST_NAMESPACE = "{urn:oasis:names:tc:opendocument:xmlns:manifest:1.0}"
_MANIFEST_TYPE = f"{_MANIFEST_NAMESPACE}media-type"
_ODF_PREFIX = "application/vnd.oasis.opendocument."
_ENDINGS_BY_ODF_TYPE = {
    f"{_ODF_PREFIX}text": "odt",
    f"{_ODF_PREFIX}spreadsheet": "ods",
    f"{_ODF_PREFIX}presentation": "odp",
    f"{_ODF_PREFIX}graphics": "odg",
}
_ODF_FORMULA = f"{_ODF_PREFIX}formula"
_OLE_TYPE = "application/vnd.sun.star.oleobject"
_MANIFEST_DAMAGED = (
    "The list of what the document holds is damaged. Save it again from the program that made it and upload that."
)
_DRM_PROTECTED = "It is encrypted by the publisher (DRM). Upload a copy of the book without that protection."
_MEMBER_MISSING = (
    "The book lists it and does not hold it. Save the book again from the program that made it and upload that."
)


def office_parts(kind: Kind, path: Path) -> Iterator[Part]:
    """Return the files in a document besides its text, and failures for unreadable text members."""
    with xml.open_package(path) as archive:
        if kind in OOXML:
            yield from _ooxml_parts(archive)
        elif kind in OPEN_DOCUMENT:
            yield from _open_document_parts(archive)
        else:
            yield from _book_parts(archive)
        yield from _picture_parts(archive)
        yield from _damaged_parts(archive)


def _damaged_parts(archive: zipfile.ZipFile) -> Iterator[Part]:
    """Report text members that fail to unpack."""
    for entry in archive.infolist():
        if not entry.filename.lower().endswith(_TEXT_ENDINGS):
            continue
        if entry.flag_bits & 1:
            yield Part(entry.filename, error=LOCKED_PART)
            continue
        try:
            for _ in ledger.member_content(archive, entry)():
                pass
        except DAMAGE_ERRORS:
            yield Part(entry.filename, error=DAMAGED_PART)


def _picture_parts(archive: zipfile.ZipFile) -> Iterator[Part]:
    for name in archive.namelist():
        if _SOUND_PATTERN.search(name):
            yield Part(posixpath.basename(name), notice=_RECORDINGS_NOTICE)
        elif _MEDIA_PATTERN.search(name) and not name.startswith(("Thumbnails/", "docProps/")):
            yield Part(posixpath.basename(name), notice=_PICTURES_NOTICE)


def _ooxml_parts(archive: zipfile.ZipFile) -> Iterator[Part]:
    entries = {entry.filename: entry for entry in archive.infolist()}
    behind_charts, embedded = set(), {name for name in entries if re.search(r"/embeddings/[^/]+$", name)}
    for name in entries:
        if name.endswith(".rels") and not name.startswith("_rels/"):
            targets = set(_embedded_targets(archive, name)) & entries.keys()
            embedded |= targets
            behind_charts |= targets if "/charts/" in name else set()
    for name in sorted(embedded - behind_charts):  # what charts show is read with the document
        called = posixpath.basename(name)
        if name.endswith(".bin"):
            yield from _object_part(archive, entries[name])
        else:
            yield Part(called, content=ledger.member_content(archive, entries[name]))


def _embedded_targets(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """Return the members related to a member as embedded."""
    try:
        relations = xml.read_root(archive, name)
    except xml.PARSE_ERRORS + DAMAGE_ERRORS:
        return  # reported as damaged
    folder = posixpath.dirname(posixpath.dirname(name))
    for relation in relations:
        if _EMBEDDED_PATTERN.search(relation.get("Type", "")) and relation.get("TargetMode") != "External":
            target = unquote(relation.get("Target", ""))
            yield target.lstrip("/") if target.startswith("/") else posixpath.normpath(f"{folder}/{target}")


def _object_part(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[Part]:
    name = posixpath.basename(entry.filename)
    try:
        data = b"".join(ledger.member_content(archive, entry)())
        yield from compound_parts(name.removesuffix(".bin"), data)
    except DAMAGE_ERRORS:
        yield Part(name, error=DAMAGED_PART)


def _open_document_parts(archive: zipfile.ZipFile) -> Iterator[Part]:
    entries = {entry.filename: entry for entry in archive.infolist()}
    try:
        manifest = xml.read_root(archive, "META-INF/manifest.xml")
    except xml.PARSE_ERRORS + DAMAGE_ERRORS:
        yield from (
            Part(name, error=_MANIFEST_DAMAGED) for name in entries if re.fullmatch(r"Object \d+/content\.xml", name)
        )
        return
    kinds = {line.get(f"{_MANIFEST_NAMESPACE}full-path"): line.get(_MANIFEST_TYPE, "") for line in manifest}
    shows_formulas = "spreadsheet" not in kinds.get("/", "")
    for line in manifest:
        name, kind = line.get(f"{_MANIFEST_NAMESPACE}full-path", ""), line.get(_MANIFEST_TYPE, "")
        called = name.rstrip("/")
        if name in ("", "/") or called.startswith("ObjectReplacements"):
            continue
        if kind == _ODF_FORMULA:  # texts and slides hold it in their words
            yield from () if shows_formulas else (Part(called, notice=FORMULAS),)
        elif name.endswith("/") and kind in _ENDINGS_BY_ODF_TYPE:
            yield Part(
                f"{called}.{_ENDINGS_BY_ODF_TYPE[kind]}", kind, content=partial(_repack_folder, archive, name, kind)
            )
        elif kind == _OLE_TYPE and name in entries:
            yield from _object_part(archive, entries[name])


def _repack_folder(archive: zipfile.ZipFile, folder: str, kind: str) -> list[bytes]:
    """Repack a document in a folder of another document as a separate file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as package:
        package.writestr("mimetype", kind, zipfile.ZIP_STORED)
        for name in archive.namelist():
            if name.startswith(folder) and not name.endswith("/"):
                package.writestr(name.removeprefix(folder), archive.read(name))
    return [file.getvalue()]


def _book_parts(archive: zipfile.ZipFile) -> Iterator[Part]:
    """Report missing or protected chapters, and return files of other kinds in the book's list."""
    names = set(archive.namelist())
    protected = _protected_members(archive) if "META-INF/encryption.xml" in names else set()
    for name in sorted(name for name in names if name.endswith(".opf")):
        try:
            package = xml.read_root(archive, name)
        except xml.PARSE_ERRORS + DAMAGE_ERRORS:
            continue  # reported as damaged
        folder = posixpath.dirname(name)
        for item in package.iter():
            if not item.tag.endswith("}item") or "://" in item.get("href", "://"):
                continue
            item_path = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
            kind = item.get("media-type", "")
            if item_path not in names and posixpath.normpath(posixpath.join(folder, item.get("href", ""))) not in names:
                if "html" in kind:
                    yield Part(item_path, error=_MEMBER_MISSING)
            elif item_path in protected and not _is_font(kind):
                yield Part(item_path, error=_DRM_PROTECTED)
            elif kind == detect.PDF.media_type:
                yield Part(
                    posixpath.basename(item_path),
                    kind,
                    content=ledger.member_content(archive, archive.getinfo(item_path)),
                )


def _protected_members(archive: zipfile.ZipFile) -> set[str]:
    try:
        encryption: Element = xml.read_root(archive, "META-INF/encryption.xml")
    except xml.PARSE_ERRORS + DAMAGE_ERRORS:
        return set()
    return {unquote(node.get("URI", "")) for node in encryption.iter() if node.tag.endswith("}CipherReference")}


def _is_font(kind: str) -> bool:
    return "font" in kind or "opentype" in kind
