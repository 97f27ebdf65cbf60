"""Bound the size and duration of httpx responses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any


def send_bounded(send: Callable[[Any], Any], request: Any, *, max_bytes: int, seconds: float | None = None) -> Any:
    """Send a request. DecodingError above `max_bytes` or for compression, ReadTimeout after `seconds`."""
    import httpx

    # Compressed bodies are refused: kilobytes can expand to gigabytes, and httpx decompresses at once.
    request.headers["Accept-Encoding"] = "identity"
    answer = send(request)
    deadline = None if seconds is None else time.monotonic() + seconds
    if answer.headers.get("Content-Encoding", "").strip().lower() not in {"", "identity"}:
        answer.close()
        raise httpx.DecodingError("The answer is packed, which was not asked for.", request=request)
    answer.stream = _stream()(answer.stream, max_bytes, deadline, request)
    return answer


@cache
def too_large_error() -> type[Any]:
    """Return the DecodingError of an oversized body."""
    import httpx

    class TooLarge(httpx.DecodingError):
        pass

    return TooLarge


@cache
def _stream() -> type[Any]:
    import httpx

    class Stream(httpx.SyncByteStream):
        def __init__(self, inner: Any, max_bytes: int, ends: float | None, request: Any) -> None:
            self._inner, self._max_bytes, self._ends, self._request = inner, max_bytes, ends, request

        def __iter__(self) -> Iterator[bytes]:
            remaining = self._max_bytes
            for part in self._inner:
                remaining -= len(part)
                if remaining < 0:
                    raise too_large_error()("The answer is too large.", request=self._request)
                if self._ends is not None and time.monotonic() > self._ends:
                    raise httpx.ReadTimeout("The answer did not end in time.", request=self._request)
                yield part

        def close(self) -> None:
            self._inner.close()

    return Stream
