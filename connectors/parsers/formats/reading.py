"""Read a file in a child process: detect its kind, extract its text, list its members."""

from __future__ import annotations

import base64
import io
import tempfile
import zipfile
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from connectors.parsers import detect, document, ocr_engines, packages, trust, xml
from connectors.parsers.detect import Kind
from connectors.parsers.document import NoText, Reader
from connectors.parsers.formats import (
    docx,
    epub,
    flat_packages,
    html_text,
    lyx,
    mail_text,
    markup,
    notebooks,
    opendocument,
    pdf,
    ppt,
    pptx,
    protection,
    rtf,
    spreadsheets,
    subtitles,
    texts,
    visio,
)
from connectors.parsers.formats.containers import ledger, unpack
from connectors.parsers.messages import Recognise, Reply, Task
from connectors.parsers.ocr_engines import RecognisedText
from connectors.parsers.pdf import images
from retrieval.errors import Skippable
from retrieval.ports import PageQuality

if TYPE_CHECKING:
    from PIL.Image import Image


# Below this confidence, Tesseract lacks the script or the picture is hard; the packaged engine reads instead.
SURE = 0.6


def recognise_page(task: Task, wanted: Recognise) -> Reply:
    """Return the text of the page or picture and its quality, "" for no trustworthy text; or the drawn page."""
    dots = ocr_engines.TESSERACT_DOTS if wanted.program else ocr_engines.PACKAGED_DOTS
    path = Path(task.path)
    image = images.render_page(path, wanted.page, dots) if wanted.pdf else images.read_frame(path, wanted.page)
    if images.is_blank(image):
        return Reply(qualities=(PageQuality(wanted.page, 1.0, recognised=True),))
    if wanted.draws:
        png = io.BytesIO()
        image.save(png, "PNG", compress_level=1)
        return Reply(picture=png.getvalue())
    recognised = _recognise_image(image, wanted)
    text = detect.make_storable(recognised.text)
    if not text.strip():
        return Reply(qualities=(trust.unreadable_page(wanted.page, trust.NOTHING_RECOGNISED, recognised=True),))
    quality = trust.judge_recognised(wanted.page, text, recognised.confidence)
    return Reply(text="" if quality.unread else text, qualities=(quality,))


def _recognise_image(image: Image, wanted: Recognise) -> RecognisedText:
    if wanted.program:
        recognised = ocr_engines.recognise_with_tesseract(image, wanted.program, wanted.languages)
        if recognised.confidence >= SURE or recognised.is_final:
            return recognised
    return ocr_engines.recognise_with_packaged(image)


_TEXT_ENDINGS = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx")
_MAX_MEMBERS = 20_000
# Containers whose text is the list of their members.
_LISTED_KINDS = (detect.ZIP, detect.SIGNED, detect.MBOX)
# Readers with the same parameters.
_READERS_BY_KIND: dict[Kind, Reader] = {
    detect.DOCX: docx.read_docx,
    detect.DOC: docx.read_doc,
    detect.PPTX: pptx.read_document,
    detect.PPT: ppt.read_document,
    detect.ODT: opendocument.read_document,
    detect.ODP: opendocument.read_document,
    detect.ODG: opendocument.read_document,
    detect.VSDX: visio.read_document,
    detect.RTF: rtf.read_document,
    detect.EPUB: epub.read_epub,
    detect.HTML: html_text.read_html,
    **dict.fromkeys((detect.XML, detect.SVG, detect.MIND_MAP), markup.read_xml),
    detect.LYX: lyx.read_document,
    detect.NOTEBOOK: notebooks.read_document,
    detect.SUBTITLES: subtitles.read_document,
    detect.EML: mail_text.read_mail,
    detect.MSG: mail_text.read_mail,
    detect.XLSX: spreadsheets.read_document,
    detect.XLS: spreadsheets.read_document,
    detect.ODS: spreadsheets.read_document,
    detect.CSV: spreadsheets.read_document,
    detect.TSV: spreadsheets.read_document,
}


def read_document(task: Task) -> Reply:
    """Return the file's text as Markdown. Skippable if unreadable."""
    if not task.password or task.page is not None:
        return _read_document(task)
    path = Path(task.path)
    with protection.open_copy(path, _kind_of(path, task), task.password) as copy:
        reply = _read_document(msgspec.structs.replace(task, path=str(copy)))
    size = {"fileSize": path.stat().st_size} if "fileSize" in reply.properties else {}
    return msgspec.structs.replace(reply, properties=reply.properties | size)


def _kind_of(path: Path, task: Task) -> Kind:
    with path.open("rb") as file:
        return detect.kind_of(file.read(detect.HEAD_BYTES), task.name, task.media_type)


def _read_document(task: Task) -> Reply:
    if task.page is not None:
        from connectors.parsers.formats import webpage

        return webpage.read_page(task, task.page)
    if task.recognise is not None:
        return recognise_page(task, task.recognise)
    path = Path(task.path)
    if task.draw is not None:
        from connectors.parsers.pdf import images

        return images.draw_page(path, task.draw)
    kind = _refine_kind(_kind_of(path, task), path, task)
    if kind is detect.TNEF:
        return _read_winmail(path, task)
    if kind is detect.XML:
        with flat_packages.packed_copy(path) as copy:
            if copy is not None:
                reply = _read_kind(_refine_kind(detect.ZIP, copy, task), copy, task)
                properties = {**reply.properties, "fileSize": path.stat().st_size}
                return msgspec.structs.replace(reply, properties=properties)
    return _read_kind(kind, path, task)


def _read_kind(kind: Kind, path: Path, task: Task) -> Reply:
    try:
        reply = _read_text(kind, path, task)
    except NoText:
        # All of the text may be in files that the document holds, such as the altChunks of report generators.
        listing = None if task.unpack is None else _read_members(kind, path, task)
        if listing is None or all(member.reason for member in listing.members):
            raise
        return listing
    return reply if kind in _LISTED_KINDS else _add_members(kind, path, task, reply)


def _read_text(kind: Kind, path: Path, task: Task) -> Reply:
    if kind in _LISTED_KINDS:
        return _read_members(kind, path, task)
    if kind in _READERS_BY_KIND:
        return document.build_reply(kind, path, _READERS_BY_KIND[kind](kind, path, task))
    return _read_other_kind(kind, path, task)


def _read_other_kind(kind: Kind, path: Path, task: Task) -> Reply:
    if kind in (detect.ICS, detect.VCF):
        return _read_calendar_file(kind, path)
    if kind is detect.IMAGE:
        return _read_image(path, ocr=task.ocr)
    if kind is detect.PDF:
        return pdf.read_document(path, task)
    if kind in (detect.PLAIN, detect.MARKDOWN, detect.LOG, detect.JSONL):
        return texts.read_verbatim(path.read_bytes(), kind, task.media_type, task.name)
    return texts.read_json(path, task.media_type)


def _read_members(kind: Kind, path: Path, task: Task) -> Reply:
    """Return the list of members as the text of a container."""
    if task.unpack is None:
        raise Skippable("The file is an archive within a web page or a text, where none is taken. Upload it as a file.")
    parts = unpack.unpack_parts(kind, path, task.name, task.unpack, task.password)
    properties: dict[str, str | int] = {"mimeType": kind.media_type, "fileSize": path.stat().st_size}
    properties |= {"notice": parts.notice()} if parts.notices else {}
    text = ledger.list_members(task.name, parts.members)
    return Reply(
        text=text, title=detect.one_line(task.name), properties=properties, members=tuple(parts.members), listing=True
    )


def _add_members(kind: Kind, path: Path, task: Task, reply: Reply) -> Reply:
    """Add unpacked members to the reply, only with the first part of a PDF."""
    if task.unpack is None or task.first:
        return reply
    parts = unpack.unpack_parts(kind, path, task.name, task.unpack)
    notice = " ".join(filter(None, [str(reply.properties.get("notice", "")), parts.notice()]))
    properties = {**reply.properties, "notice": notice} if notice else reply.properties
    return msgspec.structs.replace(reply, members=tuple(parts.members), properties=properties)


def _read_winmail(path: Path, task: Task) -> Reply:
    """Read Outlook's winmail.dat as a mail."""
    data = path.read_bytes()
    raw_path = Path(tempfile.mkdtemp()) / "raw"
    message = Message()
    message["Content-Type"] = detect.TNEF.media_type
    message["Content-Transfer-Encoding"] = "base64"
    message.set_payload(base64.encodebytes(data).decode("ascii"))
    raw_path.write_bytes(message.as_bytes())
    reply = _read_kind(detect.EML, raw_path, task)
    properties = {**reply.properties, "mimeType": detect.TNEF.media_type, "fileSize": len(data)}
    return msgspec.structs.replace(reply, properties=properties)


def _read_calendar_file(kind: Kind, path: Path) -> Reply:
    data = path.read_bytes()
    text = mail_text.read_calendar(detect.text_of(data))
    if not any(map(str.isalnum, text)):
        return texts.read_verbatim(data, kind)
    return Reply(text=text, properties={"mimeType": kind.media_type, "fileSize": len(data)})


def _read_image(path: Path, *, ocr: bool) -> Reply:
    """Return the properties of an image before recognition. Skippable without OCR."""
    if not ocr:
        raise Skippable(
            "The file is an image and has no text of its own. Retry it, or ingest it again, with the OCR "
            "strategy STANDARD_OCR (ocrConfig)."
        )
    count, media_type = images.count_frames(path), images.image_media_type(path)
    properties: dict[str, str | int] = {"mimeType": media_type, "fileSize": path.stat().st_size, "pageCount": count}
    return Reply(properties=properties, ocr_pages=tuple(range(1, count + 1)), count=count)


def _refine_kind(kind: Kind, path: Path, task: Task) -> Kind:
    if kind is detect.COMPOUND:
        return detect.kind_of_compound(path.read_bytes(), task.name)
    if kind is not detect.ZIP:
        return kind
    try:
        with xml.open_package(path) as archive:
            packed = packages.kind_of_zip(archive, task.name, task.media_type)
            if packed is not detect.ZIP:
                _refuse_bomb(archive.infolist(), task.expanded_bytes)
            return packed
    except xml.PARSE_ERRORS as error:
        raise document.damaged_file(detect.kind_by_name(task.name, task.media_type) or detect.ZIP) from error


def _refuse_bomb(members: list[zipfile.ZipInfo], expanded_bytes: int) -> None:
    size = sum(member.file_size for member in members if member.filename.lower().endswith(_TEXT_ENDINGS))
    if size > expanded_bytes or len(members) > _MAX_MEMBERS:
        raise Skippable(
            f"The file unfolds to {size // 2**20:,} MB in {len(members):,} parts; "
            f"at most {expanded_bytes // 2**20:,} MB in {_MAX_MEMBERS:,} parts are read. {document.SPLIT_ADVICE}"
        )
