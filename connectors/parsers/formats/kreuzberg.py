"""Reading one file with kreuzberg, inside of a parser child: the kinds beyond plain text and Markdown."""

from __future__ import annotations

import base64
import re
import tempfile
import zipfile
from email.message import Message
from pathlib import Path

import kreuzberg
import msgspec

from connectors.parsers.detect import file_types, ole, plain
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.formats import (
    calendars,
    docx_repair,
    eml_repair,
    eml_text,
    epub_repair,
    html_repair,
    office_notes,
    opendocument,
    pdf,
    pptx_repair,
    rtf_repair,
)
from connectors.parsers.formats.containers import ledger, mail, unpack
from connectors.parsers.messages import Reply, Task
from connectors.parsers.pdf import images
from connectors.parsers.pdf.page_ranges import NoText
from connectors.parsers.text import json_text, properties, references, verbatim, xml
from connectors.parsers.text.cleanup import headless, plain_cells, tidied, titled, without_prompts
from retrieval.errors import Skippable

_PARTS = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx")
_MOST_MEMBERS = 20_000
_SPLIT = "Split it into smaller files and upload those."
_PICTURE = re.compile(rb"<p:pic[ >].*?</p:pic>", re.DOTALL)
_TEXT_ONLY = "-text"
_LISTED = (file_types.ZIP, file_types.SIGNED)
"""Containers without a text of their own."""
_SEPARATOR = re.compile(r'\A\s*"?sep=.?"?\n')
"""What Excel is told by a line of its own."""
_EMBEDDED = re.compile(r"data:[\w.+-]{1,40}/[\w.+-]{1,80};base64,[A-Za-z0-9+/=\s%]*")


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
    try:
        reply = _text(kind, path, task)
    except NoText:
        if kind is file_types.PDF and (reply := _members(kind, path, task)) and reply.members:
            return reply
        raise
    return reply if kind in _LISTED else _with_members(kind, path, task, reply)


def _text(kind: Kind, path: Path, task: Task) -> Reply:
    if kind in _LISTED:
        return _members(kind, path, task)
    return _without_library(kind, path, task) or _whole(kind, path, task)


def _without_library(kind: Kind, path: Path, task: Task) -> Reply | None:
    if kind in (file_types.ICS, file_types.VCF):
        return _calendar(kind, path)
    if kind is file_types.IMAGE:
        return _image(path, ocr=task.ocr)
    if kind in (file_types.PDF, file_types.ODP, file_types.ODT):
        return pdf.read(path, task) if kind is file_types.PDF else opendocument.read(kind, path)
    if kind in (file_types.PLAIN, file_types.MARKDOWN, file_types.JSONL):
        return verbatim.read(path.read_bytes(), kind, task.media_type)
    return json_text.read(path, task.media_type) if kind is file_types.JSON else None


def _whole(kind: Kind, path: Path, task: Task) -> Reply:
    message = mail.opened(path.read_bytes()) if kind is file_types.EML else None
    result, letters = _mended(kind, path, task.media_type)
    if message is not None:
        text = plain.storable(eml_text.of(message, _of_html, whole=task.unpack is None))
    else:
        text = tidied(references.restored(result.content + _furniture(result, kind)).translate(letters))
    if kind in (file_types.XLSX, file_types.XLS, file_types.ODS):
        text = plain_cells(text)
    if more := office_notes.beside(kind, path, text):
        text = f"{text.rstrip()}{more}\n"
    if kind is file_types.HTML:
        text = titled(text, plain.one_line(str(result.metadata.get("title") or "")))
    if kind is file_types.PPT:
        text = without_prompts(text)
    if kind is file_types.EPUB:
        text = headless(text)
    if not any(map(str.isalnum, text)):
        raise Skippable("The file holds no text. Upload a file with text in it.")
    known = properties.of(result, kind, path.stat().st_size)
    return Reply(
        text=text,
        title=properties.title(result, text),
        properties=known,
        count=properties.page_count(result),
    )


def _members(kind: Kind, path: Path, task: Task) -> Reply:
    """A container whose own text is the list of what it holds."""
    if task.unpack is None:
        raise Skippable("The file is an archive within a web page or a text, where none is taken. Upload it as a file.")
    parts = unpack.account(kind, path, task.name, task.unpack)
    known: dict[str, str | int] = {"mimeType": kind.media_type, "fileSize": path.stat().st_size}
    known |= {"notice": parts.notice()} if parts.notices else {}
    text = ledger.listing(task.name, parts.members)
    return Reply(
        text=text, title=plain.one_line(task.name), properties=known, members=tuple(parts.members), listing=True
    )


def _with_members(kind: Kind, path: Path, task: Task, reply: Reply) -> Reply:
    """The reply with the files that are packed into this one; once for a long PDF."""
    if task.unpack is None or task.first:
        return reply
    parts = unpack.account(kind, path, task.name, task.unpack)
    known = {**reply.properties, "notice": parts.notice()} if parts.notices else reply.properties
    return msgspec.structs.replace(reply, members=tuple(parts.members), properties=known)


def _winmail(path: Path, task: Task) -> Reply:
    """Outlook's winmail.dat, read as the mail that it is."""
    data = path.read_bytes()
    place = Path(tempfile.mkdtemp()) / "raw"
    message = Message()
    message["Content-Type"] = file_types.TNEF.media_type
    message["Content-Transfer-Encoding"] = "base64"
    message.set_payload(base64.encodebytes(data).decode("ascii"))
    place.write_bytes(message.as_bytes())
    reply = _with_members(file_types.EML, place, task, _text(file_types.EML, place, task))
    known = {**reply.properties, "mimeType": file_types.TNEF.media_type, "fileSize": len(data)}
    return msgspec.structs.replace(reply, properties=known)


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
    known: dict[str, str | int] = {"mimeType": media_type, "fileSize": path.stat().st_size, "pageCount": count}
    return Reply(properties=known, pictured=tuple(range(1, count + 1)), count=count)


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
        raise damaged(file_types.named(task.name, task.media_type) or file_types.ZIP) from error


def _mimetype(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> str:
    """What OpenDocument and EPUB files say of themselves. Skippable if the document is encrypted."""
    by_name = {member.filename: member for member in members}
    manifest = by_name.get("META-INF/manifest.xml")
    if manifest and manifest.file_size < 2**20 and b"encryption-data" in archive.read(manifest):
        raise Skippable("The file is protected by a password. Remove the password and upload it again.")
    named = by_name.get("mimetype")
    return archive.read(named).decode("ascii", "replace").strip() if named and named.file_size < 200 else ""


def _refuse_bomb(members: list[zipfile.ZipInfo], expanded_bytes: int) -> None:
    size = sum(member.file_size for member in members if member.filename.lower().endswith(_PARTS))
    if size > expanded_bytes or len(members) > _MOST_MEMBERS:
        raise Skippable(
            f"The file unfolds to {size // 2**20:,} MB in {len(members):,} parts; "
            f"at most {expanded_bytes // 2**20:,} MB in {_MOST_MEMBERS:,} parts are read. {_SPLIT}"
        )


def _config(*, structured: bool) -> kreuzberg.ExtractionConfig:
    return kreuzberg.ExtractionConfig(  # type: ignore[call-arg]  # its stub lacks disable_ocr
        output_format="markdown",
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        content_filter=kreuzberg.ContentFilterConfig(include_headers=True, include_footers=True),
        include_document_structure=structured,
        language_detection=kreuzberg.LanguageDetectionConfig(enabled=True),
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=1),
    )


def _of_html(page: str) -> str:
    """A mail's HTML as Markdown; "" if nothing can be read of it."""
    try:
        data, config = html_repair.flat(_EMBEDDED.sub("", page)).encode(), _config(structured=False)
        found = kreuzberg.extract_bytes_sync(data, file_types.HTML.media_type, config=config)
    except (kreuzberg.KreuzbergError, ValueError, RuntimeError):
        return ""
    return titled(tidied(found.content), plain.one_line(str(found.metadata.get("title") or "")))


def _mended(kind: Kind, path: Path, media_type: str) -> tuple[kreuzberg.ExtractionResult, dict[int, str]]:
    """What the library reads of a copy in which nothing is that it would lose, and what to replace in that."""
    if kind is file_types.RTF:
        data, letters = rtf_repair.readable(path.read_bytes())
        copy = Path(tempfile.mkdtemp()) / "raw"
        copy.write_bytes(data)
        return _extracted(kind, copy, media_type), letters
    mend = {
        file_types.DOCX: docx_repair.readable,
        file_types.PPTX: pptx_repair.in_order,
        file_types.EPUB: epub_repair.readable,
    }.get(kind)
    return _extracted(kind, mend(path) if mend else path, media_type), {}


def _extracted(kind: Kind, path: Path, media_type: str) -> kreuzberg.ExtractionResult:
    config = _config(structured=kind is file_types.DOCX)
    try:
        if kind is file_types.EML:
            return kreuzberg.extract_bytes_sync(eml_repair.readable(path.read_bytes()), kind.media_type, config=config)
        if (
            kind is file_types.XLS
        ):  # of a file without an ending the library tells only that it is damaged, locked or not
            return kreuzberg.extract_bytes_sync(path.read_bytes(), kind.media_type, config=config)
        if not kind.text:
            return kreuzberg.extract_file_sync(path, kind.media_type, config=config)
        text = plain.text_of(path.read_bytes(), media_type, markup=kind in (file_types.HTML, file_types.XML))
        if kind is file_types.HTML:
            text = html_repair.flat(_EMBEDDED.sub("", text))
        if kind is file_types.CSV:
            text = _SEPARATOR.sub("", text)
        if kind is file_types.XML:
            text = references.resolved(text)
        return kreuzberg.extract_bytes_sync(text.encode(), kind.media_type, config=config)
    except (kreuzberg.KreuzbergError, ValueError, RuntimeError, OSError) as error:
        if kind is file_types.PPTX and "image" in str(error).lower() and (rest := _without_pictures(path)):
            return _extracted(kind, rest, media_type)
        raise _refusal(kind, str(error)) from error


def _without_pictures(path: Path) -> Path | None:
    """A copy of a presentation without its pictures: one that leads nowhere keeps the library from reading the rest."""
    if path.name.endswith(_TEXT_ONLY):
        return None
    place = Path(tempfile.mkdtemp()) / f"raw{_TEXT_ONLY}"
    try:
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(place, "w") as new:
            for member in old.infolist():
                data = old.read(member) if member.filename.endswith((".xml", ".rels")) else b""
                new.writestr(member.filename, _PICTURE.sub(b"", data))
    except xml.BROKEN:
        return None
    return place


def _refusal(kind: Kind, error: str) -> Skippable:
    if "password" in error.lower() or "encrypted" in error.lower():
        return Skippable(f"The {kind.label} is protected by a password. Remove the password and upload it again.")
    if "recursion" in error.lower():
        return Skippable(
            f"The {kind.label} is nested too deeply to be read. Save it with fewer levels and upload that."
        )
    if "limit exceeded" in error.lower():
        return Skippable(f"The {kind.label} unfolds to more than is read. {_SPLIT}")
    return damaged(kind)


def damaged(kind: Kind) -> Skippable:
    return Skippable(
        f"The {kind.label} file is damaged or incomplete and cannot be read. "
        "Save it again from the program that made it and upload that."
    )


def _furniture(result: kreuzberg.ExtractionResult, kind: Kind) -> str:
    """Headers and footers of a DOCX, once and after its text: the library's Markdown leaves them out."""
    if kind is not file_types.DOCX or not result.document:
        return ""
    layers = ("header", "footer")
    nodes = [node for layer in layers for node in result.document["nodes"] if node.get("content_layer") == layer]
    return "".join(
        f"\n\n{block}" for block in dict.fromkeys(_block(node.get("content")) for node in nodes) if block.strip()
    )


def _block(content: object) -> str:
    """A block's own text; a table's cells in reading order."""
    if isinstance(content, list):
        return " ".join(map(_block, content))
    if not isinstance(content, dict):
        return ""
    own = content.get("text") or content.get("content")
    return (
        own
        if isinstance(own, str)
        else " ".join(_block(part) for part in content.values() if isinstance(part, (dict, list)))
    )
