"""Conversion of a file, with the files packed into it, to Markdown; nothing is stored."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from retrieval.errors import Skippable
from retrieval.ingestion.unpack import DEPTH
from retrieval.ports import Member, OcrStrategy, Parser, RawContent

SECONDS: Final = 300.0
"""How long one file may take with all that is packed into it; a job run has more patience."""
_INGEST: Final = "Ingest the file, or send its parts by themselves."


@dataclass(frozen=True, slots=True)
class Converted:
    """One document. `error`: why a member could not be read; it has no text then."""

    filename: str
    markdown: str
    error: str | None = None


def convert_file(parser: Parser, raw: RawContent, ocr: OcrStrategy, *, most: int, members: int) -> list[Converted]:
    """The file's text, then those of its members, `archive/path`, however deep within three levels.

    Skippable for a file that cannot be read, that becomes more than `most` characters or more than `members` files, or
    takes too long. Of an archive the text is what it lists; one without any is left out itself.
    """
    end, outputs, size, number = time.monotonic() + SECONDS, [], 0, 0
    waiting = [(raw.name, raw, 0)]
    while waiting:
        name, file, depth = waiting.pop(0)
        if time.monotonic() > end:
            raise Skippable(f"Reading the file takes more than {SECONDS:.0f} seconds. {_INGEST}")
        try:
            parsed = parser.parse(file, ocr)
        except Skippable as error:
            if not depth:
                raise
            outputs.append(Converted(name, "", str(error)))
            continue
        size += len(parsed.text)
        number += len(parsed.members)
        if size > most:
            raise Skippable(f"The file becomes more than {most:,} characters. {_INGEST}")
        if number > members:
            raise Skippable(f"The file holds more than {members:,} files. {_INGEST}")
        if parsed.text.strip() or not parsed.members:
            outputs.append(Converted(name, parsed.text))
        for member in parsed.members:
            path = f"{name}/{member.path}"
            if (reason := _refusal(member, depth)) is not None:
                outputs.append(Converted(path, "", reason))
            else:
                packed = RawContent(member.file, member.path.rpartition("/")[2], member.media_type, member.size)
                waiting.append((path, packed, depth + 1))
    return outputs


def _refusal(member: Member, depth: int) -> str | None:
    if member.reason:
        return member.reason
    return f"Files are opened up to {DEPTH} levels deep; this one lies deeper." if depth >= DEPTH else None
