"""Response bodies of bounded size: for httpx, and for httpx2, which the SDK of one vendor uses.

Uncompressed bodies are requested and compressed ones refused: a few kilobytes can expand to gigabytes, which the client
would decompress at once.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any


def send_bounded(
    http: ModuleType, send: Callable[[Any], Any], request: Any, *, most: int, seconds: float | None = None
) -> Any:
    """Send the request and return the response. DecodingError of `http` for compressed bodies and those of more than
    `most` bytes, ReadTimeout for a body that takes longer than `seconds`, however slowly it drips."""
    request.headers["Accept-Encoding"] = "identity"
    answer = send(request)
    ends = None if seconds is None else time.monotonic() + seconds
    if answer.headers.get("Content-Encoding", "").strip().lower() not in {"", "identity"}:
        answer.close()
        raise http.DecodingError("The answer is packed, which was not asked for.", request=request)
    answer.stream = _stream(http)(answer.stream, most, ends, request)
    return answer


@lru_cache(maxsize=2)
def bounded_transport(http: ModuleType) -> type[Any]:
    """A transport of `http` with bounded answers: by `most` bytes, and by the time that a request gives one read."""

    class Bounded(http.HTTPTransport):  # type: ignore[misc, name-defined]
        def __init__(self, verify: ssl.SSLContext, *, most: int) -> None:
            super().__init__(verify=verify, trust_env=False)
            self._most = most

        def handle_request(self, request: Any) -> Any:
            seconds = request.extensions.get("timeout", {}).get("read")
            return send_bounded(http, super().handle_request, request, most=self._most, seconds=seconds)

    return Bounded


@lru_cache(maxsize=2)
def _stream(http: ModuleType) -> type[Any]:
    class Stream(http.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, inner: Any, most: int, ends: float | None, request: Any) -> None:
            self._inner, self._most, self._ends, self._request = inner, most, ends, request

        def __iter__(self) -> Iterator[bytes]:
            remaining = self._most
            for part in self._inner:
                remaining -= len(part)
                if remaining < 0:
                    raise http.DecodingError("The answer is too large.", request=self._request)
                if self._ends is not None and time.monotonic() > self._ends:
                    raise http.ReadTimeout("The answer did not end in time.", request=self._request)
                yield part

        def close(self) -> None:
            self._inner.close()

    return Stream
