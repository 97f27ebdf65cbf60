"""Decompresses response bodies within a size limit."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from retrieval.errors import Retryable, Skippable

ACCEPTED = "gzip, deflate"
_PIECE = 256 * 1024
_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}


def unpacked(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The content in pieces of at most 256 KiB. Skippable for an encoding that was not asked for, or broken."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        yield from parts
        return
    if name not in _WINDOWS:
        raise Skippable("The page uses a Content-Encoding that was not requested.")
    try:
        yield from _inflated(parts, _WINDOWS[name])
    except zlib.error as error:
        raise Skippable("The page's compressed content cannot be decompressed.") from error


def _inflated(parts: Iterable[bytes], window: int) -> Iterator[bytes]:
    unpacker, begun = zlib.decompressobj(window), False
    for part in parts:
        left = part
        if window == zlib.MAX_WBITS and not begun and not _has_zlib_header(left):
            unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        begun = begun or bool(left)
        while left and not (unpacker.eof and window <= zlib.MAX_WBITS):
            if unpacker.eof:  # gzip may hold several members, one after the other
                unpacker = zlib.decompressobj(window)
            if piece := unpacker.decompress(left, _PIECE):
                yield piece
            left = unpacker.unconsumed_tail or unpacker.unused_data
            if unpacker.eof and not left.strip(b"\0"):
                break
    if begun and not unpacker.eof:
        raise Retryable("The page broke off before its end.")


def _has_zlib_header(data: bytes) -> bool:
    """Some servers send deflate without the header that the standard asks for."""
    return len(data) > 1 and data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0
