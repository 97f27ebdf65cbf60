"""Result of reading a file: its text as tidy Markdown, and its properties."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from connectors.parsers import detect, trust
from connectors.parsers.detect import Kind
from connectors.parsers.messages import Reply, Task
from retrieval.errors import Skippable


@dataclass(frozen=True, slots=True)
class Document:
    """Text as Markdown, with the properties that the file names itself; "" where it names none.

    `created_at` and `modified_at` are dates in ISO 8601 or RFC 5322. `pages` holds the offset in `text` at which each
    page or slide begins. `warnings` are sentences on content that was not read; they are shown as the file's notice.
    """

    text: str
    title: str = ""
    author: str = ""
    created_at: str = ""
    modified_at: str = ""
    language: str = ""
    pages: tuple[int, ...] = ()
    page_count: int = 0
    warnings: tuple[str, ...] = ()


class NoText(Skippable):
    """The file holds no text of its own."""


Reader = Callable[[Kind, Path, Task], Document]
"""Reads a file of a `Kind`. Skippable, with the cause and what to do, for a file that cannot be read."""


_IMAGE_LINK = re.compile(r"\\?!\[([^\]\n]{0,500}+)\]\((?:<[^>\n]{0,4000}+>|[^()\n]{0,4000}+)\)")
_ESCAPED = re.compile(r"(?s:```.*?(?:```|\Z))|`[^`\n]*`|\$\$[^$]*\$\$|\\([\\!#$%&()*+,\-./:;<=>?@\[\]^_{}~'\"])")
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f\xad]")
"""And soft hyphens, which nobody sees and which tear words apart."""


def strip_invisible(text: str) -> str:
    """Remove invisible characters."""
    return detect.make_storable(_CONTROL.sub("", text))


def tidy_markdown(markdown: str) -> str:
    """Without what helps no reader: links to images (their descriptions stay), control characters, and backslashes
    before punctuation, themselves too, outside of code and formulas: they would tear `part\\_number` apart for the
    keyword side.
    """
    text = markdown.replace("\r\n", "\n").replace("\r", "\n")
    text = _IMAGE_LINK.sub(r"\1", detect.make_storable(_CONTROL.sub("", text)))
    return _ESCAPED.sub(lambda found: found[1] or found[0], text)


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


def build_reply(kind: Kind, path: Path, document: Document) -> Reply:
    """The reply for a document that was read. NoText if it holds none."""
    if not any(map(str.isalnum, document.text)):
        raise NoText("The file holds no text. Upload a file with text in it.")
    properties: dict[str, str | int] = {"mimeType": kind.media_type, "fileSize": path.stat().st_size}
    texts = {
        "language": detect.one_line(document.language) or trust.detect_language(document.text),
        "author": clean_name(document.author),
        "createdAt": utc_instant(document.created_at),
        "modifiedAt": utc_instant(document.modified_at),
        "notice": " ".join(document.warnings),
    }
    properties |= {"pageCount": document.page_count} if document.page_count else {}
    properties |= {key: value for key, value in texts.items() if value}
    return Reply(
        text=document.text,
        title=clean_name(document.title) or detect.first_heading(document.text),
        pages=document.pages,
        properties=properties,
    )


def damaged_file(kind: Kind) -> Skippable:
    """The refusal of a file that its reader cannot read."""
    return Skippable(
        f"The {kind.label} file is damaged or incomplete and cannot be read. "
        "Save it again from the program that made it and upload that."
    )


def clean_name(text: str) -> str:
    """Return a title or author in one line; "" for placeholders that programs write."""
    line = detect.one_line(text)
    return "" if line.lower() in _NO_NAMES else line


def utc_instant(stamp: str) -> str:
    """ISO 8601 in UTC, or "" if the date makes no sense."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(stamp)
        except ValueError:
            continue
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return ""
