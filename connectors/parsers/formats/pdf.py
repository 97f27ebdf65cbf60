"""PDF reader: Markdown from positions of texts, verified against PDFium's text, with a quality per page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from connectors.parsers import detect, messages, trust
from connectors.parsers.document import clean_name, utc_instant
from connectors.parsers.messages import Reply, Task
from connectors.parsers.pdf import layer, markdown
from connectors.parsers.pdf.layer import TextLayer
from connectors.parsers.pdf.markdown import PageMarkdown
from retrieval.errors import Skippable
from retrieval.ports import PageQuality

_DAMAGED_PDF = (
    "The PDF file is damaged or incomplete and cannot be read. Save it again from the program that made it and "
    "upload that."
)

_PROTECTED_PDF = (
    "The PDF is protected by a certificate or by rights management, which the service cannot open. "
    "Upload it without the protection."
)
# Maximum quality of a page without layout.
_MAX_UNORDERED_QUALITY = 0.7
# Maximum quality of a page with several reading directions.
_MAX_MIXED_QUALITY = 0.9


def read_document(path: Path, task: Task) -> Reply:
    """Read at most WINDOW_PAGES pages after the first `task.first`. Skippable if unreadable."""
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(path) as document:
            count = messages.check_page_count(len(document))
            first, last = task.first + 1, min(task.first + messages.WINDOW_PAGES, count)
            if document.get_formtype():
                document.init_forms()
            layers = {number: _read_layer(document, number) for number in range(first, last + 1)}
            metadata = document.get_metadata_dict()
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise detect.locked_file("The PDF") from error
        raise Skippable(_PROTECTED_PDF if "security" in str(error).lower() else _DAMAGED_PDF) from error
    pages_markdown = markdown.convert_pages(path, first, last, layers)
    texts = [_page_text(pages_markdown.get(number), page) for number, page in layers.items()]
    text = "".join(texts)
    return Reply(
        text=text,
        title=clean_name(metadata.get("Title", "")) or detect.first_heading(text),
        pages=_page_starts(texts),
        properties=_document_properties(path, count, metadata, text),
        ocr_pages=tuple(number for number, page in layers.items() if page.needs_ocr),
        count=count,
        pdf=True,
        qualities=tuple(_page_quality(page, pages_markdown.get(number)) for number, page in layers.items()),
        following=last if last < count else 0,
    )


def _read_layer(document: Any, number: int) -> TextLayer:
    import pypdfium2

    try:
        return layer.read_layer(document, number)
    except pypdfium2.PdfiumError:
        return TextLayer("", (), trust.unreadable_page(number, "The page is damaged."), needs_ocr=False)


def _page_quality(page: TextLayer, page_markdown: PageMarkdown | None) -> PageQuality:
    quality = page.quality
    if not page.text or quality.unread:
        return quality
    if page_markdown is None:
        limit, reason = _MAX_UNORDERED_QUALITY, trust.NO_LAYOUT
    elif page_markdown.direction_count > 1:
        limit, reason = _MAX_MIXED_QUALITY, trust.SEVERAL_DIRECTIONS
    else:
        return quality
    return PageQuality(quality.page, min(quality.quality, limit), (*quality.reasons, reason))


def _page_text(page_markdown: PageMarkdown | None, page: TextLayer) -> str:
    """Return the text of a page with a blank line after it; "" for a page with unreliable letters."""
    if page.quality.unread:
        return ""
    text = layer.verified_page(page_markdown.text if page_markdown else "", page)
    return f"{text}\n\n" if text.strip() else ""


def _page_starts(texts: Iterable[str]) -> tuple[int, ...]:
    """Return the offset of each page in the joined text."""
    starts, length = [], 0
    for text in texts:
        starts.append(length)
        length += len(text)
    return tuple(starts)


_DATE_PATTERN = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(Z|[+-]\d\d'?(?:\d\d)?)?")


def _document_properties(path: Path, count: int, metadata: dict[str, str], text: str) -> dict[str, str | int]:
    file_properties: dict[str, str | int] = {
        "mimeType": detect.PDF.media_type,
        "fileSize": path.stat().st_size,
        "pageCount": count,
    }
    texts = {
        "language": trust.detect_language(text),
        "author": clean_name(metadata.get("Author", "")),
        "createdAt": _parse_date(metadata.get("CreationDate", "")),
        "modifiedAt": _parse_date(metadata.get("ModDate", "")),
    }
    return {**file_properties, **{name: value for name, value in texts.items() if value}}


def _parse_date(stamp: str) -> str:
    """Return a PDF date such as D:20240131120000+01'00' (ISO 32000-1, 7.9.4) in ISO 8601 and UTC; "" if invalid."""
    match = _DATE_PATTERN.match(stamp)
    if not match:
        return ""
    year, month, day, hour, minute, second, zone = match.groups()
    offset = "+00:00" if zone in (None, "Z") else f"{zone[:3]}:{zone[4:6] or '00'}"
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}"
    return utc_instant(f"{year}-{month or '01'}-{day or '01'}T{clock}{offset}")
