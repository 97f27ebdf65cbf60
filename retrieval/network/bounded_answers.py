"""Response bodies of bounded size for httpx.

Uncompressed bodies are requested and compressed ones refused: a few kilobytes can expand to gigabytes, which the client
would decompress at once.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any


def send_bounded(send: Callable[[Any], Any], request: Any, *, most: int, seconds: float | None = None) -> Any:
    """Send the request and return the response. DecodingError for compressed bodies and those of more than
    `most` bytes, ReadTimeout for a body that takes longer than `seconds`, however slowly it drips."""
    import httpx

    request.headers["Accept-Encoding"] = "identity"
    answer = send(request)
    ends = None if seconds is None else time.monotonic() + seconds
    if answer.headers.get("Content-Encoding", "").strip().lower() not in {"", "identity"}:
        answer.close()
        raise httpx.DecodingError("The answer is packed, which was not asked for.", request=request)
    answer.stream = _stream()(answer.stream, most, ends, request)
    return answer


@cache
def bounded_transport() -> type[Any]:
    """Return a transport with bounded answers: by `most` bytes, and by the time that a request gives one read."""

    from retrieval.network.transport import VendorTransport

    class Bounded(VendorTransport):
        def __init__(self, verify: ssl.SSLContext, *, most: int) -> None:
            super().__init__(verify)
            self._most = most

        def handle_request(self, request: Any) -> Any:
            seconds = request.extensions.get("timeout", {}).get("read")
            return send_bounded(super().handle_request, request, most=self._most, seconds=seconds)

    return Bounded


@cache
def too_large_error() -> type[Any]:
    """Return the DecodingError of a body of too many bytes."""
    import httpx

    class TooLarge(httpx.DecodingError):
        pass

    return TooLarge


@cache
def _stream() -> type[Any]:
    import httpx

    class Stream(httpx.SyncByteStream):
        def __init__(self, inner: Any, most: int, ends: float | None, request: Any) -> None:
            self._inner, self._most, self._ends, self._request = inner, most, ends, request

        def __iter__(self) -> Iterator[bytes]:
            remaining = self._most
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
