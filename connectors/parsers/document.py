"""The result of reading a file's text, whichever library read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from connectors.parsers.detect.file_types import Kind
from connectors.parsers.messages import Task


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


Reader = Callable[[Kind, Path, Task], Document]
"""Reads a file of a `Kind`. Skippable, with the cause and what to do, for a file that cannot be read."""
