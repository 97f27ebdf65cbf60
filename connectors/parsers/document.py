"""Result of reading a file: tidy Markdown and properties."""

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
    r"""Markdown of a file with its own properties, "" if absent.

    Dates are in ISO 8601 or RFC 5322. `pages`: offset in `text` of each page or slide. `warnings`: sentences on unread
    content, shown as the file's notice.
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
    """The file holds no text."""


# Reads a file of a `Kind`; raises Skippable with the cause and advice.
Reader = Callable[[Kind, Path, Task], Document]


_IMAGE_LINK = re.compile(r"\\?!\[([^\]\n]{0,500}+)\]\((?:<[^>\n]{0,4000}+>|[^()\n]{0,4000}+)\)")
_ESCAPE_PATTERN = re.compile(r"(?s:```.*?(?:```|\Z))|`[^`\n]*`|\$\$[^$]*\$\$|\\([\\!#$%&()*+,\-./:;<=>?@\[\]^_{}~'\"])")
# With soft hyphens, which are invisible and tear words apart.
_INVISIBLE_CHARACTERS = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f\xad]")


def strip_invisible(text: str) -> str:
    """Remove invisible characters."""
    return detect.make_storable(_INVISIBLE_CHARACTERS.sub("", text))


def tidy_markdown(markdown: str) -> str:
    """Replace image links by their descriptions; remove control characters and backslashes before punctuation outside
    code and formulas.
    """
    # Backslashes would tear `part\_number` apart in keyword search.
    text = markdown.replace("\r\n", "\n").replace("\r", "\n")
    text = _IMAGE_LINK.sub(r"\1", detect.make_storable(_INVISIBLE_CHARACTERS.sub("", text)))
    return _ESCAPE_PATTERN.sub(lambda match: match[1] or match[0], text)


SPLIT_ADVICE = "Split it into smaller files and upload those."

_PLACEHOLDER_NAMES = frozenset(
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
    """Return the reply for a document. NoText if it is empty."""
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
    """Return the refusal of a damaged file."""
    return Skippable(
        f"The {kind.label} file is damaged or incomplete and cannot be read. "
        "Save it again from the program that made it and upload that."
    )


def clean_name(text: str) -> str:
    """Return a title or author in one line; "" for placeholders of programs."""
    line = detect.one_line(text)
    return "" if line.lower() in _PLACEHOLDER_NAMES else line


def utc_instant(stamp: str) -> str:
    """Return a date in ISO 8601 and UTC, or "" if invalid."""
    for parse_date in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse_date(stamp)
        except ValueError:
            continue
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return ""
