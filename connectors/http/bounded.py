"""Bounded reading of responses for SDKs that use `requests`: by size and by total time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any

from connectors.http.retries import Passing

if TYPE_CHECKING:
    import requests

PIECE = 64 * 1024
SECONDS = 120.0
LARGEST = 64 * 2**20
"""Of an answer that is no file: what it may take in all, and its bytes. A page of 2000 files has some 2 MB."""


def pieces(raw: Any, seconds: float, service: str) -> Iterator[bytes]:
    """What arrives, unpacked. Passing where it has not ended after so long."""
    ends = time.monotonic() + seconds
    while piece := raw.read1(PIECE, decode_content=True):
        if time.monotonic() > ends:
            raise Passing(f"{service} did not send its answer within {seconds:.0f} s.")
        yield piece


def take(answer: requests.Response, service: str) -> None:
    """Have the whole answer in memory, before the SDK reads it. Passing where it takes too long or is too large."""
    body = bytearray()
    for piece in pieces(answer.raw, SECONDS, service):
        body += piece
        if len(body) > LARGEST:
            raise Passing(f"{service}'s answer has no end.")
    answer.raw = BytesIO(body)
