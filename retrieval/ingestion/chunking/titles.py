"""Document title before each embedded chunk, so that deep chunks keep their topic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from retrieval.ingestion.chunking import splitter, units
from retrieval.ingestion.chunking.structure import LINE_END_TOKENS, Headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrieval.ingestion.chunking.splitter import PreviousChunk
    from retrieval.ports import Chunk, Parsed, Tokenizer

MAX_TITLE_TOKENS: Final = 32
_FILE_NAME_PATTERN: Final = re.compile(r"\.[A-Za-z]\w{1,4}$|^[a-z][a-z0-9+.-]*://|^(?:https?:|www\.)|[\\/]\S*[\\/]")
_WORD_PATTERN: Final = re.compile(r"[^\W\d_]{2,}(?:[-'\u2019][^\W\d_]+)*|[^\W\d_](?:['\u2019-][^\W\d_]+)+")
_PROGRAM_PREFIX: Final = re.compile(r"^Microsoft (?:Word|PowerPoint|Excel) - ")


@dataclass(frozen=True, slots=True)
class TitledChunks:
    """Chunks of a document with the title, size and overlap used for them."""

    title: str
    chunks: list[Chunk]
    size: int
    overlap: int


@dataclass(frozen=True, slots=True)
class PreviousChunks:
    """Chunks of the previous version with their size and overlap."""

    pieces: Sequence[PreviousChunk]
    size: int
    overlap: int


def split_titled(
    parsed: Parsed,
    tokenizer: Tokenizer,
    requested: int,
    overlap: int,
    max_tokens: int,
    previous: PreviousChunks | None = None,
) -> TitledChunks:
    """Split a text into chunks that fit the model with their title; reuse `previous` chunks of equal settings."""
    title = title_line(parsed.title, tokenizer, max_tokens)
    line = title_tokens(title, tokenizer)
    tokens = units.read_units(parsed.text, tokenizer)
    headers = Headers.for_document(parsed, tokenizer, splitter.effective_size(requested, overlap, max_tokens - line)[0])
    # Smaller chunks only if one does not fit together with the title.
    for room in (max_tokens, max_tokens - line):
        size, shared = splitter.effective_size(requested, overlap, room)
        kept_pieces = previous.pieces if previous and (previous.size, previous.overlap) == (size, shared) else ()
        chunks = splitter.split_text(
            parsed, tokenizer, size, shared, tokens=tokens, previous=kept_pieces, headers=headers
        )
        if size + line <= max_tokens or not any(
            headers.token_cost(chunk.start) + chunk.tokens + line > max_tokens and _has_title(title, chunk)
            for chunk in chunks
        ):
            break
    return TitledChunks(title, chunks, size, shared)


def embedded_text(title: str, header: str, text: str) -> str:
    """Return the embedded text of a chunk: title, table header and chunk, without repetition."""
    names = header.rpartition("\n")[2]
    body = f"{header}\n{text}" if header and f"| {names}" not in " ".join(text.split()) else text
    if not title:
        return body
    opening = " ".join(text[: 2 * len(title) + 32].split()).lstrip("#*_= ").casefold()
    return body if opening.startswith(title.casefold()) else f"{title}\n{body}"


def _has_title(title: str, chunk: Chunk) -> bool:
    return embedded_text(title, "", chunk.text) != chunk.text


def title_line(title: str, tokenizer: Tokenizer, max_tokens: int) -> str:
    """Return the title line for chunks, shortened to an eighth of the model's token limit."""
    return usable_title(title, tokenizer, min(MAX_TITLE_TOKENS, max_tokens // 8))


def usable_title(title: str, tokenizer: Tokenizer, max_tokens: int = MAX_TITLE_TOKENS) -> str:
    """Return the title as one line of at most `max_tokens` tokens; "" for a file name, URL, hash or numbered label."""
    line = " ".join(title.split())
    parts = [part.strip(".,:;!?()[]\"'“”«»") for part in line.split(" ")]
    words = sum(_WORD_PATTERN.fullmatch(part) is not None for part in parts)
    if _FILE_NAME_PATTERN.search(_PROGRAM_PREFIX.sub("", line)) or not (words > 1 or words == len(parts) == 1):
        return ""
    (spans,) = tokenizer.spans([line])
    return line if len(spans) <= max_tokens else line[: spans[max_tokens][0]].rpartition(" ")[0]


def title_tokens(title: str, tokenizer: Tokenizer) -> int:
    """Return the tokens that the title line adds to a chunk."""
    return len(tokenizer.spans([title])[0]) + LINE_END_TOKENS if title else 0
