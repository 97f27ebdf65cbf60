"""Errors for vendors' answers and failures, and bounds of answers: bytes, total time, pages.

A refusal that is a vendor's own (a scope, a spoilt cursor, no credit) is read where the vendor is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from connectors.http.retries import RateLimited, Timeout, TransientError, retry_after
from retrieval.errors import Retryable, Skippable
from retrieval.network import bounded_answers

if TYPE_CHECKING:
    import requests


PASSING = frozenset({408, 425})
"""Statuses below 500 that pass by themselves everywhere: a request timeout, and "too early"."""
BUSY = frozenset({429})


def transient_error(
    service: str,
    status: int,
    headers: Mapping[str, str],
    *,
    passing: AbstractSet[int] = frozenset(),
    busy: AbstractSet[int] = frozenset(),
    busy_if_asked: AbstractSet[int] = frozenset(),
) -> RateLimited | TransientError | None:
    """Return RateLimited for 429, TransientError for 408, 425 and 5xx; None for any other answer.

    A vendor's own: more statuses that are `passing` or `busy`, or are `busy_if_asked`, with a Retry-After.
    """
    delay = retry_after(headers)
    if status in BUSY | busy or (status in busy_if_asked and delay is not None):
        return RateLimited(delay)
    if status in PASSING | passing or status >= 500:
        return TransientError(f"{service} answered with an error of its own ({status}).")
    return None


def unreadable_answer(service: str) -> TransientError:
    """The answer is not what this service answers with."""
    return TransientError(f"{service}'s answer cannot be read; another server may answer at its address.")


class AnswerTooLarge(TransientError):
    """Answer of more bytes than are read: transient, as the next one may be smaller, unless the caller knows better."""


@contextmanager
def translate_failures(service: str, seconds: float) -> Iterator[None]:
    """Raise failures of httpx as ours: Timeout for no answer within `seconds`, AnswerTooLarge, else TransientError."""
    import httpx

    try:
        yield
    except httpx.TimeoutException as error:
        raise timeout_error(service, seconds) from error
    except bounded_answers.too_large_error() as error:
        raise AnswerTooLarge(f"{service}'s answer is larger than is read.") from error
    except httpx.DecodingError as error:
        raise unreadable_answer(service) from error
    except httpx.HTTPError as error:
        raise connection_error(service) from error


@contextmanager
def reached_by_requests(service: str, seconds: float) -> Iterator[None]:
    """Raise failures of `requests` as ours. No cause is kept: it may repeat an address that opens a file."""
    import requests
    from urllib3.exceptions import HTTPError

    try:
        yield
    except requests.Timeout:
        raise timeout_error(service, seconds) from None
    except (requests.RequestException, HTTPError):
        raise connection_error(service) from None


def timeout_error(service: str, seconds: float) -> Timeout:
    """No answer in time."""
    return Timeout(f"{service} did not answer within {seconds:.0f} s.")


def connection_error(service: str) -> TransientError:
    """No connection, or one that broke off."""
    return TransientError(f"{service} could not be reached, or its answer broke off.")


CHUNK_BYTES = 64 * 1024
READ_SECONDS = 120.0
MAX_BODY_BYTES = 64 * 2**20
"""Of an answer that is no file: what it may take in all, and its bytes. A page of 2000 files has some 2 MB."""


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def too_large(most: int, what: str = "The file") -> Skippable:
    """`what` has more than `most` bytes."""
    return Skippable(f"{what} is larger than {most / 2**20:,.0f} MiB, the most that is fetched.")


def iter_within(pieces: Iterable[bytes], seconds: float, service: str, what: str = "its answer") -> Iterator[bytes]:
    """The pieces as they arrive. Timeout where they have not ended after so long."""
    ends = time.monotonic() + seconds
    for piece in pieces:
        if time.monotonic() > ends:
            raise Timeout(f"{service} did not send {what} within {seconds:.0f} s.")
        yield piece


def save_file(
    pieces: Iterable[bytes], to: Path, *, most: int, seconds: float, service: str, digest: Digest | None = None
) -> int:
    """Write a file as it arrives; its size. Skippable beyond `most` bytes, Timeout beyond `seconds`."""
    size = 0
    with to.open("wb") as file:
        for piece in iter_within(pieces, seconds, service, "the file"):
            size += len(piece)
            if size > most:
                raise too_large(most)
            if digest is not None:
                digest.update(piece)
            file.write(piece)
    return size


def read_body(
    pieces: Iterable[bytes], *, most: int = MAX_BODY_BYTES, seconds: float | None = None, service: str
) -> bytes:
    """Read a whole answer that is no file. TransientError after READ_SECONDS or beyond `most` bytes."""
    body = bytearray()
    for piece in iter_within(pieces, READ_SECONDS if seconds is None else seconds, service):
        body += piece
        if len(body) > most:
            raise TransientError(f"{service}'s answer has no end.")
    return bytes(body)


def iter_raw(raw: Any) -> Iterator[bytes]:
    """Unpack what `requests` receives, as it arrives: waiting for whole pieces of a slow answer may take hours."""
    while piece := raw.read1(CHUNK_BYTES, decode_content=True):
        yield piece


def buffer_body(answer: requests.Response, service: str) -> None:
    """Read the whole answer into memory before the SDK does. TransientError as `read_body`."""
    answer.raw = BytesIO(read_body(iter_raw(answer.raw), service=service))


IDLE_PAGES: Final = 1000
"""Pages in a row without anything new that are believed."""


class Cursors:
    """The cursors of one listing. `listing`: what it is called to people, "The vector index's listing"."""

    def __init__(self, listing: str) -> None:
        self._listing = listing
        self._seen: set[str] = set()
        self._idle = 0

    def follow(self, cursor: str, *, brought: bool) -> None:
        """Call before each next page. `brought`: whether the last page had anything new. Retryable if the cursor was
        used before, or if too many pages in a row had nothing new."""
        self._idle = 0 if brought else self._idle + 1
        if cursor in self._seen or self._idle > IDLE_PAGES:
            raise Retryable(f"{self._listing} leads in a circle, or on without anything new: it would never end.")
        self._seen.add(cursor)
