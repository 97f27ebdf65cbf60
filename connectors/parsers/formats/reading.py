"""Reading one file of any kind, inside of a parser child: its kind, its text, and the files that are packed into it."""

from __future__ import annotations

import base64
import tempfile
import zipfile
from email.message import Message
from pathlib import Path

import msgspec

from connectors.parsers.detect import file_types, ole, plain
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.document import Reader
from connectors.parsers.formats import (
    calendars,
    doc,
    docx,
    epub,
    html_text,
    mail_text,
    opendocument,
    pdf,
    ppt,
    pptx,
    rtf,
    spreadsheets,
    xml_text,
)
from connectors.parsers.formats.containers import ledger, unpack
from connectors.parsers.messages import Reply, Task
from connectors.parsers.pdf import images
from connectors.parsers.text import json_text, properties, verbatim, xml
from retrieval.errors import Skippable

_PARTS = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx")
_MOST_MEMBERS = 20_000
_LISTED = (file_types.ZIP, file_types.SIGNED)
"""Containers without a text of their own."""
_READERS: dict[Kind, Reader] = {
    file_types.DOCX: docx.read,
    file_types.DOC: doc.read,
    file_types.PPTX: pptx.read,
    file_types.PPT: ppt.read,
    file_types.ODT: opendocument.read,
    file_types.ODP: opendocument.read,
    file_types.RTF: rtf.read,
    file_types.EPUB: epub.read,
    file_types.HTML: html_text.read,
    file_types.XML: xml_text.read,
    file_types.EML: mail_text.read,
    file_types.MSG: mail_text.read,
    file_types.XLSX: spreadsheets.read,
    file_types.XLS: spreadsheets.read,
    file_types.ODS: spreadsheets.read,
    file_types.CSV: spreadsheets.read,
    file_types.TSV: spreadsheets.read,
}
"""The reader of each kind that a library reads."""


def read(task: Task) -> Reply:
    """The file's text as Markdown. Skippable for a file that cannot be read."""
    if task.page is not None:
        from connectors.parsers.formats import webpage

        return webpage.read(task, task.page)
    if task.recognise is not None:
        from connectors.parsers.ocr import ocr_page

        return ocr_page.read(task, task.recognise)
    path = Path(task.path)
    if task.draw is not None:
        from connectors.parsers.pdf import rendering

        return rendering.read(path, task.draw)
    with path.open("rb") as file:
        kind = file_types.told(file.read(file_types.HEAD), task.name, task.media_type)
    kind = _looked_into(kind, path, task)
    if kind is file_types.TNEF:
        return _winmail(path, task)
    reply = _text(kind, path, task)
    return reply if kind in _LISTED else _with_members(kind, path, task, reply)


def _text(kind: Kind, path: Path, task: Task) -> Reply:
    if kind in _LISTED:
        return _members(kind, path, task)
    if kind in _READERS:
        return properties.reply(kind, path, _READERS[kind](kind, path, task))
    return _without_library(kind, path, task)


def _without_library(kind: Kind, path: Path, task: Task) -> Reply:
    if kind in (file_types.ICS, file_types.VCF):
        return _calendar(kind, path)
    if kind is file_types.IMAGE:
        return _image(path, ocr=task.ocr)
    if kind is file_types.PDF:
        return pdf.read(path, task)
    if kind in (file_types.PLAIN, file_types.MARKDOWN, file_types.JSONL):
        return verbatim.read(path.read_bytes(), kind, task.media_type)
    return json_text.read(path, task.media_type)


def _members(kind: Kind, path: Path, task: Task) -> Reply:
    """A container whose own text is the list of what it holds."""
    if task.unpack is None:
        raise Skippable("The file is an archive within a web page or a text, where none is taken. Upload it as a file.")
    parts = unpack.account(kind, path, task.name, task.unpack)
    properties: dict[str, str | int] = {"mimeType": kind.media_type, "fileSize": path.stat().st_size}
    properties |= {"notice": parts.notice()} if parts.notices else {}
    text = ledger.listing(task.name, parts.members)
    return Reply(
        text=text, title=plain.one_line(task.name), properties=properties, members=tuple(parts.members), listing=True
    )


def _with_members(kind: Kind, path: Path, task: Task, reply: Reply) -> Reply:
    """The reply with the files that are packed into this one; once for a long PDF."""
    if task.unpack is None or task.first:
        return reply
    parts = unpack.account(kind, path, task.name, task.unpack)
    notice = " ".join(filter(None, [str(reply.properties.get("notice", "")), parts.notice()]))
    properties = {**reply.properties, "notice": notice} if notice else reply.properties
    return msgspec.structs.replace(reply, members=tuple(parts.members), properties=properties)


def _winmail(path: Path, task: Task) -> Reply:
    """Outlook's winmail.dat, read as the mail that it is."""
    data = path.read_bytes()
    raw_path = Path(tempfile.mkdtemp()) / "raw"
    message = Message()
    message["Content-Type"] = file_types.TNEF.media_type
    message["Content-Transfer-Encoding"] = "base64"
    message.set_payload(base64.encodebytes(data).decode("ascii"))
    raw_path.write_bytes(message.as_bytes())
    reply = _with_members(file_types.EML, raw_path, task, _text(file_types.EML, raw_path, task))
    properties = {**reply.properties, "mimeType": file_types.TNEF.media_type, "fileSize": len(data)}
    return msgspec.structs.replace(reply, properties=properties)


def _calendar(kind: Kind, path: Path) -> Reply:
    data = path.read_bytes()
    text = calendars.read(plain.text_of(data))
    if not any(map(str.isalnum, text)):
        return verbatim.read(data, kind)
    return Reply(text=text, properties={"mimeType": kind.media_type, "fileSize": len(data)})


def _image(path: Path, *, ocr: bool) -> Reply:
    """What is known of an image before its text is recognised."""
    if not ocr:
        raise Skippable(
            "The file is an image and has no text of its own. Retry it, or ingest it again, with the OCR "
            "strategy STANDARD_OCR (ocrConfig)."
        )
    count, media_type = images.frames(path), images.media_type(path)
    properties: dict[str, str | int] = {"mimeType": media_type, "fileSize": path.stat().st_size, "pageCount": count}
    return Reply(properties=properties, pictured=tuple(range(1, count + 1)), count=count)


def _looked_into(kind: Kind, path: Path, task: Task) -> Kind:
    if kind is file_types.COMPOUND:
        return ole.kind(path.read_bytes(), task.name)
    if kind is not file_types.ZIP:
        return kind
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            packed = file_types.packed((member.filename for member in parts), _mimetype(archive, parts))
            if packed is not file_types.ZIP:
                _refuse_bomb(parts, task.expanded_bytes)
            return packed
    except xml.BROKEN as error:
        raise properties.damaged(file_types.named(task.name, task.media_type) or file_types.ZIP) from error


def _mimetype(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> str:
    """What OpenDocument and EPUB files say of themselves. Skippable if the document is encrypted."""
    by_name = {member.filename: member for member in members}
    manifest = by_name.get("META-INF/manifest.xml")
    if manifest and manifest.file_size < 2**20 and b"encryption-data" in archive.read(manifest):
        raise Skippable("The file is protected by a password. Remove the password and upload it again.")
    entry = by_name.get("mimetype")
    return archive.read(entry).decode("ascii", "replace").strip() if entry and entry.file_size < 200 else ""


def _refuse_bomb(members: list[zipfile.ZipInfo], expanded_bytes: int) -> None:
    size = sum(member.file_size for member in members if member.filename.lower().endswith(_PARTS))
    if size > expanded_bytes or len(members) > _MOST_MEMBERS:
        raise Skippable(
            f"The file unfolds to {size // 2**20:,} MB in {len(members):,} parts; "
            f"at most {expanded_bytes // 2**20:,} MB in {_MOST_MEMBERS:,} parts are read. {properties.SPLIT}"
        )
