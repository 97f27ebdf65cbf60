"""Reading with kreuzberg: Office files, books, e-mails, web pages and XML."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kreuzberg

from connectors.parsers.detect import file_types, plain
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.document import Document
from connectors.parsers.formats import (
    docx_repair,
    eml_repair,
    eml_text,
    epub_repair,
    html_repair,
    office_notes,
    pptx_repair,
    rtf_repair,
)
from connectors.parsers.formats.containers import mail
from connectors.parsers.messages import Task
from connectors.parsers.text import properties, references, xml
from connectors.parsers.text.cleanup import headless, plain_cells, tidied, titled, without_prompts
from retrieval.errors import Skippable

_PICTURE = re.compile(rb"<p:pic[ >].*?</p:pic>", re.DOTALL)
_TEXT_ONLY = "-text"
_SEPARATOR = re.compile(r'\A\s*"?sep=.?"?\n')
"""What Excel is told by a line of its own."""
_EMBEDDED = re.compile(r"data:[\w.+-]{1,40}/[\w.+-]{1,80};base64,[A-Za-z0-9+/=%\s]*")


def read(kind: Kind, path: Path, task: Task) -> Document:
    """The file's text and properties. Skippable for a file that cannot be read."""
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
    return _document(result, text, page_count=0 if kind is file_types.PPT else _page_count(result))


def _document(result: kreuzberg.ExtractionResult, text: str, page_count: int) -> Document:
    metadata: Mapping[str, Any] = result.metadata
    authors = ", ".join(map(str, metadata.get("authors") or []))
    return Document(
        text,
        title=str(metadata.get("title") or metadata.get("subject") or ""),
        author=authors or str(metadata.get("from_email") or ""),
        created_at=str(metadata.get("created_at") or ""),
        modified_at=str(metadata.get("modified_at") or ""),
        language=str(metadata.get("language") or ""),
        page_count=page_count,
    )


def _page_count(result: kreuzberg.ExtractionResult) -> int:
    metadata: Mapping[str, Any] = result.metadata
    structure = metadata.get("pages") or {}
    count = structure.get("total_count") if structure.get("unit_type") in ("page", "slide") else None
    count = count or metadata.get("page_count") or 0
    return count if isinstance(count, int) else 0


def of_fragment(markup: str) -> str:
    """HTML from within another file as Markdown. Skippable if it cannot be read."""
    page = f'<!doctype html><html><head><meta charset="utf-8"></head><body>{html_repair.flat(markup)}</body></html>'
    try:
        result = kreuzberg.extract_bytes_sync(page.encode(), "text/html", config=_config(structured=False))
    except kreuzberg.KreuzbergError as error:
        raise Skippable("The page is damaged and cannot be read.") from error
    return tidied(result.content)


def _config(*, structured: bool) -> kreuzberg.ExtractionConfig:
    return kreuzberg.ExtractionConfig(  # type: ignore[call-arg]  # its stub lacks disable_ocr
        output_format="markdown",
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        content_filter=kreuzberg.ContentFilterConfig(include_headers=True, include_footers=True),
        include_document_structure=structured,
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
        return Skippable(f"The {kind.label} unfolds to more than is read. {properties.SPLIT}")
    return properties.damaged(kind)


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
