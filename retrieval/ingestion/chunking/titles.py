"""Title line before each chunk in the embedded text, so that chunks from deep inside keep their topic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from retrieval.ingestion.chunking import splitter, units
from retrieval.ingestion.chunking.structure import Headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrieval.ingestion.chunking.splitter import Piece
    from retrieval.ports import Chunk, Parsed, Tokenizer

MOST_TOKENS: Final = 32
_LINE_END: Final = 2
"""Tokens that the end of the title's line may take in any tokenizer."""
_FILE_NAME: Final = re.compile(r"\.[A-Za-z]\w{1,4}$|^[a-z][a-z0-9+.-]*://|^(?:https?:|www\.)|[\\/]\S*[\\/]")
_WORD: Final = re.compile(r"[^\W\d_]{2,}(?:[-'\u2019][^\W\d_]+)*|[^\W\d_](?:['\u2019-][^\W\d_]+)+")
_PROGRAM: Final = re.compile(r"^Microsoft (?:Word|PowerPoint|Excel) - ")


@dataclass(frozen=True, slots=True)
class Cut:
    """Chunks, and the title, size and overlap that they were made with."""

    title: str
    chunks: list[Chunk]
    size: int
    overlap: int


@dataclass(frozen=True, slots=True)
class Former:
    """Chunks of the version before, and the size and overlap that they were made with."""

    pieces: Sequence[Piece]
    size: int
    overlap: int


def split_titled(
    parsed: Parsed,
    tokenizer: Tokenizer,
    requested: int,
    overlap: int,
    max_tokens: int,
    former: Former | None = None,
) -> Cut:
    """Chunks that fit the model together with their title; only where one would not, all are cut smaller.

    Those of `former` that the text still holds are kept where they were made with the size and overlap of now.
    """
    title = title_line(parsed.title, tokenizer, max_tokens)
    line = title_tokens(title, tokenizer)
    tokens = units.read_units(parsed.text, tokenizer)
    headers = Headers.of(parsed, tokenizer, splitter.effective_size(requested, overlap, max_tokens - line)[0])
    for room in (max_tokens, max_tokens - line):
        size, shared = splitter.effective_size(requested, overlap, room)
        kept_pieces = former.pieces if former and (former.size, former.overlap) == (size, shared) else ()
        chunks = splitter.split_text(
            parsed, tokenizer, size, shared, tokens=tokens, before=kept_pieces, headers=headers
        )
        if size + line <= max_tokens or not any(
            headers.cost(chunk.start) + chunk.tokens + line > max_tokens and _has_title(title, chunk)
            for chunk in chunks
        ):
            break
    return Cut(title, chunks, size, shared)


def embedded_text(title: str, header: str, text: str) -> str:
    """The text that is embedded for a chunk: the document's title and the table's header before it.

    The title is left out where the chunk begins with it, the header where the chunk holds it.
    """
    names = header.rpartition("\n")[2]
    body = f"{header}\n{text}" if header and f"| {names}" not in " ".join(text.split()) else text
    if not title:
        return body
    opening = " ".join(text[: 2 * len(title) + 32].split()).lstrip("#*_= ").casefold()
    return body if opening.startswith(title.casefold()) else f"{title}\n{body}"


def _has_title(title: str, chunk: Chunk) -> bool:
    return embedded_text(title, "", chunk.text) != chunk.text


def title_line(title: str, tokenizer: Tokenizer, max_tokens: int) -> str:
    """Return the title line for chunks, shortened for a model with this token limit."""
    return usable_title(title, tokenizer, min(MOST_TOKENS, max_tokens // 8))


def usable_title(title: str, tokenizer: Tokenizer, most: int = MOST_TOKENS) -> str:
    """The title in one line of at most `most` tokens; "" for a file name, an address, a hash or a numbered label."""
    line = " ".join(title.split())
    parts = [part.strip(".,:;!?()[]\"'“”«»") for part in line.split(" ")]
    words = sum(_WORD.fullmatch(part) is not None for part in parts)
    if _FILE_NAME.search(_PROGRAM.sub("", line)) or not (words > 1 or words == len(parts) == 1):
        return ""
    (spans,) = tokenizer.spans([line])
    return line if len(spans) <= most else line[: spans[most][0]].rpartition(" ")[0]


def title_tokens(title: str, tokenizer: Tokenizer) -> int:
    """Tokens that the title's line adds to a chunk."""
    return len(tokenizer.spans([title])[0]) + _LINE_END if title else 0
