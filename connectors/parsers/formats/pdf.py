"""PDFs, a window of pages at a time: Markdown by geometry, beside PDFium's text, with a verdict for each page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from connectors.parsers import detect, messages, trust
from connectors.parsers.document import clean_name, utc_instant
from connectors.parsers.messages import Reply, Task
from connectors.parsers.pdf import layer, markdown
from connectors.parsers.pdf.layer import Layer
from connectors.parsers.pdf.markdown import PageMarkdown
from retrieval.errors import Skippable
from retrieval.ports import PageQuality

_DAMAGED = (
    "The PDF file is damaged or incomplete and cannot be read. Save it again from the program that made it and "
    "upload that."
)

_PROTECTED = (
    "The PDF is protected by a certificate or by rights management, which the service cannot open. "
    "Upload it without the protection."
)
_IN_FILE_ORDER = 0.7
"""The quality at most of a page whose columns and tables are not known."""
_SEVERAL_WAYS = 0.9
"""The quality at most of a page whose text is read in several directions."""


def read_document(path: Path, task: Task) -> Reply:
    """The pages from `task.first` on. Skippable for a file that cannot be read."""
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(path) as document:
            count = messages.check_page_count(len(document))
            first, last = task.first + 1, min(task.first + messages.WINDOW_PAGES, count)
            if document.get_formtype():
                document.init_forms()
            layers = {number: _layer(document, number) for number in range(first, last + 1)}
            metadata = document.get_metadata_dict()
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise detect.locked_file("The PDF") from error
        raise Skippable(_PROTECTED if "security" in str(error).lower() else _DAMAGED) from error
    written = markdown.of_pages(path, first, last, {number: page.sideways for number, page in layers.items()})
    texts = [_text(written[number].text if number in written else "", page) for number, page in layers.items()]
    text, starts = "".join(texts), _starts(texts)
    return Reply(
        text=text,
        title=clean_name(metadata.get("Title", "")) or detect.first_heading(text),
        pages=starts,
        properties=_properties(path, count, metadata, text),
        pictured=tuple(number for number, page in layers.items() if page.pictured),
        count=count,
        pdf=True,
        qualities=tuple(_quality(page, written.get(number)) for number, page in layers.items()),
        following=last if last < count else 0,
    )


def _layer(document: Any, number: int) -> Layer:
    import pypdfium2

    try:
        return layer.of_page(document, number)
    except pypdfium2.PdfiumError:
        return Layer("", (), trust.unreadable_page(number, "The page is damaged."), pictured=False)


def _quality(page: Layer, written: PageMarkdown | None) -> PageQuality:
    quality = page.quality
    if not page.text or quality.unread:
        return quality
    if written is None:
        limit, reason = _IN_FILE_ORDER, trust.NOT_LAID_OUT
    elif written.ways > 1:
        limit, reason = _SEVERAL_WAYS, trust.SEVERAL_WAYS
    else:
        return quality
    return PageQuality(quality.page, min(quality.quality, limit), (*quality.reasons, reason))


def _text(written: str, page: Layer) -> str:
    """Return the text of a page, with the space after it. Text with untrusted letters is dropped."""
    text = layer.verified_page(written, page) if not page.quality.unread else ""
    return f"{text}\n\n" if text.strip() else ""


def _starts(texts: Iterable[str]) -> tuple[int, ...]:
    starts, length = [], 0
    for text in texts:
        starts.append(length)
        length += len(text)
    return tuple(starts)


_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(Z|[+-]\d\d'?(?:\d\d)?)?")


def _properties(path: Path, count: int, named: dict[str, str], text: str) -> dict[str, str | int]:
    properties: dict[str, str | int] = {"mimeType": detect.PDF.media_type, "fileSize": path.stat().st_size}
    texts = {
        "language": trust.detect_language(text),
        "author": clean_name(named.get("Author", "")),
        "createdAt": _moment(named.get("CreationDate", "")),
        "modifiedAt": _moment(named.get("ModDate", "")),
    }
    return properties | {"pageCount": count} | {name: value for name, value in texts.items() if value}


def _moment(stamp: str) -> str:
    """A date of a PDF, such as D:20240131120000+01'00' (ISO 32000-1, 7.9.4), as ISO 8601 in UTC; "" if it is none."""
    match = _DATE.match(stamp)
    if not match:
        return ""
    year, month, day, hour, minute, second, zone = match.groups()
    offset = "+00:00" if zone in (None, "Z") else f"{zone[:3]}:{zone[4:6] or '00'}"
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}"
    return utc_instant(f"{year}-{month or '01'}-{day or '01'}T{clock}{offset}")
