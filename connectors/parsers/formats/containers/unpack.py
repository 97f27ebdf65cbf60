"""Parts of any container, in one ledger."""

from __future__ import annotations

import ctypes
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.parsers import detect
from connectors.parsers.detect import Kind
from connectors.parsers.formats.containers import ledger, mail, mailbox_file, office, outlook
from connectors.parsers.formats.containers.ledger import DAMAGED_PART, Ledger, Part
from connectors.parsers.messages import Unpack

if TYPE_CHECKING:
    import pypdfium2


_ATTACHMENT_MARK = b"/FileAttachment"
_OBJECT_STREAM = re.compile(rb"/ObjStm\b[^>]{0,400}>>\s*stream\r?\n", re.DOTALL)


def pdf_parts(path: Path) -> Iterator[Part]:
    """Yield the embedded files of the document, then of its pages."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError:
        return  # the reader of its text reports what is wrong
    with document:
        visited: set[tuple[str, int]] = set()
        for number in range(document.count_attachments()):
            name, data = _read_attachment(document.get_attachment(number).raw)
            visited.add((name, hash(data)))
            yield _attachment_part(name, data)
        for name, data in _page_attachments(document, path):
            if (name, hash(data)) not in visited:  # some programs list a page's file among the document's, too
                yield _attachment_part(name, data)


def _attachment_part(name: str, data: bytes | None) -> Part:
    if data is None:
        return Part(name, error=DAMAGED_PART)
    return Part(name, content=lambda: [data]) if data else Part(name, notice="empty attachments")


def _page_attachments(document: pypdfium2.PdfDocument, path: Path) -> Iterator[tuple[str, bytes | None]]:
    import pypdfium2.raw as pdfium

    if not _may_hold_annotations(path.read_bytes()):
        return
    for index in range(len(document)):
        page = pdfium.FPDF_LoadPage(document.raw, index)
        if not page:
            continue
        try:
            for number in range(pdfium.FPDFPage_GetAnnotCount(page)):
                annotation = pdfium.FPDFPage_GetAnnot(page, number)
                if not annotation:
                    continue
                try:
                    if pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_FILEATTACHMENT:
                        file = pdfium.FPDFAnnot_GetFileAttachment(annotation)
                        yield _read_attachment(file) if file else (f"attachment of page {index + 1}", None)
                finally:
                    pdfium.FPDFPage_CloseAnnot(annotation)
        finally:
            pdfium.FPDF_ClosePage(page)


def _may_hold_annotations(data: bytes) -> bool:
    """Check the bytes for file annotations."""
    # Loading every page takes as long as reading its text.
    if _ATTACHMENT_MARK in data or b"/Encrypt" in data:
        return True
    for match in _OBJECT_STREAM.finditer(data):
        try:
            if _ATTACHMENT_MARK in zlib.decompressobj().decompress(data[match.end() :], 1 << 24):
                return True
        except zlib.error:
            return True
    return False


def _read_attachment(attachment: Any) -> tuple[str, bytes | None]:
    """Return name and content of an attachment; content None if unreadable."""
    import pypdfium2.raw as pdfium

    size = pdfium.FPDFAttachment_GetName(attachment, None, 0)
    letters = ctypes.create_string_buffer(size)
    pdfium.FPDFAttachment_GetName(attachment, ctypes.cast(letters, ctypes.POINTER(pdfium.FPDF_WCHAR)), size)
    name = letters.raw.decode("utf-16-le", "replace").rstrip("\0") or "attachment"
    length = ctypes.c_ulong()
    if not pdfium.FPDFAttachment_GetFile(attachment, None, 0, length):
        return name, None
    content = ctypes.create_string_buffer(length.value)
    if length.value and not pdfium.FPDFAttachment_GetFile(attachment, content, length.value, length):
        return name, None
    return name, content.raw[: length.value]


def unpack_parts(kind: Kind, path: Path, name: str, bounds: Unpack, password: str = "") -> Ledger:
    """Write, report or note every part of a file. Skippable beyond the limits, or for a container without text that
    does not open.
    """
    parts = Ledger(bounds)
    if kind is detect.ZIP:
        ledger.unpack_zip(path, parts, password)
    else:
        parts.add_parts(_find_parts(kind, path, name))
    return parts


def _find_parts(kind: Kind, path: Path, name: str) -> Iterator[Part]:
    if kind is detect.EML:
        yield from mail.find_parts(mail.open_wrappers(path.read_bytes()))
    elif kind is detect.MBOX:
        yield from mailbox_file.find_parts(path)
    elif kind is detect.MSG:
        yield from outlook.find_parts(path)
    elif kind is detect.PDF:
        yield from pdf_parts(path)
    elif kind is detect.SIGNED:
        content = mail.signed_content(path.read_bytes())
        called = name[: -len(".p7m")] if name.lower().endswith(".p7m") else name
        is_message = mail.is_message(content)
        yield Part(f"{called}.eml" if is_message else called, content=lambda: [content])
    elif kind in (*office.OOXML, *office.OPEN_DOCUMENT, detect.EPUB):
        yield from office.office_parts(kind, path)
    elif kind in office.OLDER_KINDS:
        yield from office.older_parts(kind, path)
