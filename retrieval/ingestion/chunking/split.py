"""Splits a parsed text into chunks of a maximum number of tokens at the best boundaries, with exact offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from retrieval.ingestion.chunking import former, units
from retrieval.ingestion.chunking.cutter import Cutter
from retrieval.ingestion.chunking.former import Piece
from retrieval.ingestion.chunking.headers import Headers
from retrieval.ingestion.chunking.units import Units
from retrieval.ports import Chunk, Parsed, Tokenizer


def effective_size(requested: int, overlap: int, max_tokens: int) -> tuple[int, int]:
    """Chunk size and overlap as used: a size above the model's limit is lowered to it, the overlap in proportion."""
    if requested <= max_tokens:
        return requested, overlap
    return max_tokens, overlap * max_tokens // requested


def split(
    parsed: Parsed,
    tokenizer: Tokenizer,
    size: int,
    overlap: int,
    *,
    tokens: Units | None = None,
    before: Iterable[Piece] = (),
    headers: Headers | None = None,
) -> list[Chunk]:
    """Chunks of at most `size` tokens that share at most `overlap` with the one before; blank text gives none.

    Cuts before a heading in the second half, else near the end between paragraphs, lines, sentences or words, and
    never cuts a character: one that has more than `size` tokens is a chunk of its own. `tokens`: of the text, if known.
    `before`: chunks of a former version, of this size and overlap; what the text still holds of them is kept.
    `headers`: of the text's tables, if known. Rows and records that fit are never torn.
    """
    if not 0 <= overlap < size:
        raise ValueError("The overlap must be at least 0 and less than the size.")
    if not parsed.text.strip():
        return []
    headers = headers or Headers.of(parsed, tokenizer, size)
    cutter = Cutter(parsed.text, tokens or units.read(parsed.text, tokenizer), size, overlap, headers)
    chunks: list[Chunk] = []
    for start, end in former.ranges(cutter, before):
        count = cutter.units.count(start, end)
        page = _page(parsed.pages, start)
        header, rows = headers.of_chunk(start, end), tuple(headers.structure.rows(start, end))
        chunks.append(Chunk(len(chunks), parsed.text[start:end], start, end, page, count, header, rows))
    return chunks


def _page(pages: tuple[int, ...], start: int) -> int | None:
    return max(1, bisect_right(pages, start)) if pages else None
