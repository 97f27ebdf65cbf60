"""Bounded reading of responses, by size and by total time: a timeout of a client counts from byte to byte only."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from connectors.http.retries import Late, Passing
from retrieval.errors import Skippable

if TYPE_CHECKING:
    import requests

PIECE = 64 * 1024
SECONDS = 120.0
LARGEST = 64 * 2**20
"""Of an answer that is no file: what it may take in all, and its bytes. A page of 2000 files has some 2 MB."""


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def too_large(most: int, what: str = "The file") -> Skippable:
    """`what` has more than `most` bytes."""
    return Skippable(f"{what} is larger than {most / 2**20:,.0f} MiB, the most that is fetched.")


def within(pieces: Iterable[bytes], seconds: float, service: str, what: str = "its answer") -> Iterator[bytes]:
    """The pieces as they arrive. Late where they have not ended after so long."""
    ends = time.monotonic() + seconds
    for piece in pieces:
        if time.monotonic() > ends:
            raise Late(f"{service} did not send {what} within {seconds:.0f} s.")
        yield piece


def save(
    pieces: Iterable[bytes], to: Path, *, most: int, seconds: float, service: str, digest: Digest | None = None
) -> int:
    """Write a file as it arrives; its size. Skippable beyond `most` bytes, Late beyond `seconds`."""
    size = 0
    with to.open("wb") as file:
        for piece in within(pieces, seconds, service, "the file"):
            size += len(piece)
            if size > most:
                raise too_large(most)
            if digest is not None:
                digest.update(piece)
            file.write(piece)
    return size


def read(pieces: Iterable[bytes], *, most: int = LARGEST, seconds: float | None = None, service: str) -> bytes:
    """The whole of an answer that is no file. Passing where it takes too long (SECONDS) or is over `most` bytes."""
    body = bytearray()
    for piece in within(pieces, SECONDS if seconds is None else seconds, service):
        body += piece
        if len(body) > most:
            raise Passing(f"{service}'s answer has no end.")
    return bytes(body)


def arriving(raw: Any) -> Iterator[bytes]:
    """What `requests` receives, unpacked, as it arrives: to wait for whole pieces of a slow answer may take hours."""
    while piece := raw.read1(PIECE, decode_content=True):
        yield piece


def take(answer: requests.Response, service: str) -> None:
    """Have the whole answer in memory, before the SDK reads it. Passing where it takes too long or is too large."""
    answer.raw = BytesIO(read(arriving(answer.raw), service=service))
