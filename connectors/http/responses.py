"""Errors for vendors' answers and failures, and limits of bytes, time and pages."""

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


# Temporary statuses below 500: a request timeout, and "too early".
PASSING = frozenset({408, 425})
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
    """Return RateLimited for 429, TransientError for 408, 425 and 5xx, else None."""
    # A vendor's further statuses are `passing` or `busy`, or `busy_if_asked` with a Retry-After.
    delay = retry_after(headers)
    if status in BUSY | busy or (status in busy_if_asked and delay is not None):
        return RateLimited(delay)
    if status in PASSING | passing or status >= 500:
        return TransientError(f"{service} answered with an error of its own ({status}).")
    return None


def unreadable_answer(service: str) -> TransientError:
    """Return the error for an unexpected format of an answer."""
    return TransientError(f"{service}'s answer cannot be read; another server may answer at its address.")


class AnswerTooLarge(TransientError):
    """Answer above the limit of bytes; transient, because the next answer may be smaller."""


@contextmanager
def translate_failures(service: str, seconds: float) -> Iterator[None]:
    """Translate failures of httpx to Timeout, AnswerTooLarge or TransientError."""
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
    """Translate failures of `requests` to Timeout or TransientError."""
    # Raised `from None`: the cause may contain a signed address.
    import requests
    from urllib3.exceptions import HTTPError

    try:
        yield
    except requests.Timeout:
        raise timeout_error(service, seconds) from None
    except (requests.RequestException, HTTPError):
        raise connection_error(service) from None


def timeout_error(service: str, seconds: float) -> Timeout:
    return Timeout(f"{service} did not answer within {seconds:.0f} s.")


def connection_error(service: str) -> TransientError:
    return TransientError(f"{service} could not be reached, or its answer broke off.")


CHUNK_BYTES = 64 * 1024
READ_SECONDS = 120.0
# Limit of an answer other than a file; a page of 2000 files has some 2 MB.
MAX_BODY_BYTES = 64 * 2**20


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def too_large(max_bytes: int, subject: str = "The file") -> Skippable:
    return Skippable(f"{subject} is larger than {max_bytes / 2**20:,.0f} MiB, the most that is fetched.")


def iter_within(pieces: Iterable[bytes], seconds: float, service: str, content: str = "its answer") -> Iterator[bytes]:
    """Yield the pieces. Timeout after `seconds`."""
    ends = time.monotonic() + seconds
    for piece in pieces:
        if time.monotonic() > ends:
            raise Timeout(f"{service} did not send {content} within {seconds:.0f} s.")
        yield piece


def save_file(
    pieces: Iterable[bytes], to: Path, *, max_bytes: int, seconds: float, service: str, digest: Digest | None = None
) -> int:
    """Write a file and return the size. Skippable beyond `max_bytes`, Timeout beyond `seconds`."""
    size = 0
    with to.open("wb") as file:
        for piece in iter_within(pieces, seconds, service, "the file"):
            size += len(piece)
            if size > max_bytes:
                raise too_large(max_bytes)
            if digest is not None:
                digest.update(piece)
            file.write(piece)
    return size


def read_body(
    pieces: Iterable[bytes], *, max_bytes: int = MAX_BODY_BYTES, seconds: float | None = None, service: str
) -> bytes:
    """Read an answer other than a file. Timeout after `seconds` (default READ_SECONDS), TransientError beyond
    `max_bytes`."""
    body = bytearray()
    for piece in iter_within(pieces, READ_SECONDS if seconds is None else seconds, service):
        body += piece
        if len(body) > max_bytes:
            raise TransientError(f"{service}'s answer has no end.")
    return bytes(body)


def iter_raw(raw: Any) -> Iterator[bytes]:
    """Unpack an answer of `requests` piece by piece."""
    # `read1` returns the bytes at hand: a full chunk of a slow answer may take hours.
    while piece := raw.read1(CHUNK_BYTES, decode_content=True):
        yield piece


def buffer_body(answer: requests.Response, service: str) -> None:
    """Read an answer into memory before the SDK. TransientError as in `read_body`."""
    answer.raw = BytesIO(read_body(iter_raw(answer.raw), service=service))


# Limit of consecutive pages without anything new.
IDLE_PAGES: Final = 1000


class Cursors:
    """Cursors of a listing; `listing` is the name in messages."""

    def __init__(self, listing: str) -> None:
        self._listing = listing
        self._followed_cursors: set[str] = set()
        self._idle = 0

    def follow(self, cursor: str, *, brought: bool) -> None:
        """Record the next cursor. Retryable for a repeated cursor or too many pages without news."""
        self._idle = 0 if brought else self._idle + 1
        if cursor in self._followed_cursors or self._idle > IDLE_PAGES:
            raise Retryable(f"{self._listing} leads in a circle, or on without anything new: it would never end.")
        self._followed_cursors.add(cursor)
