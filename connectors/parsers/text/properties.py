"""What a file says of itself: title, author, dates, language, pages."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from connectors.parsers.detect import plain
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.document import Document
from connectors.parsers.messages import Reply
from connectors.parsers.text import letters
from retrieval.errors import Skippable

SPLIT = "Split it into smaller files and upload those."

_NO_NAMES = frozenset(
    {
        "untitled",
        "unknown",
        "document",
        "title",
        "anonymous",
        "(anonymous)",
        "unspecified",
        "(unspecified)",
        "python-docx",
    }
)


def reply(kind: Kind, path: Path, document: Document) -> Reply:
    """The reply for a document that was read. Skippable if it holds no text."""
    if not any(map(str.isalnum, document.text)):
        raise Skippable("The file holds no text. Upload a file with text in it.")
    properties: dict[str, str | int] = {"mimeType": kind.media_type, "fileSize": path.stat().st_size}
    texts = {
        "language": plain.one_line(document.language) or letters.language(document.text),
        "author": name(document.author),
        "createdAt": instant(document.created_at),
        "modifiedAt": instant(document.modified_at),
        "notice": " ".join(document.warnings),
    }
    properties |= {"pageCount": document.page_count} if document.page_count else {}
    properties |= {key: value for key, value in texts.items() if value}
    return Reply(
        text=document.text,
        title=name(document.title) or plain.first_heading(document.text),
        pages=document.pages,
        properties=properties,
    )


def damaged(kind: Kind) -> Skippable:
    """The refusal of a file that its reader cannot read."""
    return Skippable(
        f"The {kind.label} file is damaged or incomplete and cannot be read. "
        "Save it again from the program that made it and upload that."
    )


def name(text: str) -> str:
    """A title or author in one line; "" for what programs write where nobody said any."""
    line = plain.one_line(text)
    return "" if line.lower() in _NO_NAMES else line


def instant(stamp: str) -> str:
    """ISO 8601 in UTC, or "" if the date makes no sense."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(stamp)
        except ValueError:
            continue
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return ""
