"""Conversion of a file and its packed files to Markdown, without storing anything."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from retrieval.errors import Skippable
from retrieval.ingestion.unpack import MAX_ARCHIVE_DEPTH
from retrieval.ports import Member, OcrStrategy, Parser, RawContent

# Includes packed files. A job run has more time.
CONVERSION_TIMEOUT_SECONDS: Final = 300.0
_INGEST_ADVICE: Final = "Ingest the file, or send its parts by themselves."


@dataclass(frozen=True, slots=True)
class ConversionResult:
    """Converted document; `error` replaces the text of an unreadable member."""

    filename: str
    markdown: str
    error: str | None = None


def convert_file(
    parser: Parser, raw: RawContent, ocr: OcrStrategy, *, max_characters: int, max_files: int
) -> list[ConversionResult]:
    """Convert the file and its members, three levels deep. Skippable if unreadable, too large or too slow."""
    deadline, documents, size, member_count = time.monotonic() + CONVERSION_TIMEOUT_SECONDS, [], 0, 0
    waiting = [(raw.name, raw, 0)]
    while waiting:
        name, file, depth = waiting.pop(0)
        if time.monotonic() > deadline:
            raise Skippable(
                f"Reading the file takes more than {CONVERSION_TIMEOUT_SECONDS:.0f} seconds. {_INGEST_ADVICE}"
            )
        try:
            parsed = parser.parse(file, ocr)
        except Skippable as error:
            if not depth:
                raise
            documents.append(ConversionResult(name, "", str(error)))
            continue
        size += len(parsed.text)
        member_count += len(parsed.members)
        if size > max_characters:
            raise Skippable(f"The file becomes more than {max_characters:,} characters. {_INGEST_ADVICE}")
        if member_count > max_files:
            raise Skippable(f"The file holds more than {max_files:,} files. {_INGEST_ADVICE}")
        # The text of an archive is its listing; an archive without one is omitted.
        if parsed.text.strip() or not parsed.members:
            documents.append(ConversionResult(name, parsed.text))
        for member in parsed.members:
            path = f"{name}/{member.path}"
            if (reason := _refusal_reason(member, depth)) is not None:
                documents.append(ConversionResult(path, "", reason))
            else:
                packed = RawContent(member.file, member.path.rpartition("/")[2], member.media_type, member.size)
                waiting.append((path, packed, depth + 1))
    return documents


def _refusal_reason(member: Member, depth: int) -> str | None:
    if member.reason:
        return member.reason
    return (
        f"Files are opened up to {MAX_ARCHIVE_DEPTH} levels deep; this one lies deeper."
        if depth >= MAX_ARCHIVE_DEPTH
        else None
    )
