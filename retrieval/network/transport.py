"""httpx transports over connections of the fetch guard."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, cast

import httpcore
import httpx

from retrieval.network.bounded_answers import send_bounded
from retrieval.network.egress import Proxy, ProxyRefused
from retrieval.network.fetch_guard import Guard, iter_addresses, make_trusting_guard
from retrieval.settings import load_settings

_deadline: ContextVar[float | None] = ContextVar("ends", default=None)


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Limit the total time of a thread's exchanges in the block."""
    # httpx limits single reads only: a byte per second would never time out.
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


@lru_cache(maxsize=1)
def _load_trust_store() -> ssl.SSLContext:
    # Loading all certificates takes a while.
    return httpx.create_ssl_context(trust_env=False)


# `httpx.HTTPTransport` accepts no network backend.
class Transport(httpx.BaseTransport):
    """Send requests over guarded connections. DecodingError above `max_bytes`."""

    def __init__(
        self,
        guarded: Guard,
        *,
        verify: Any = True,
        retries: int = 0,
        limits: httpx.Limits | None = None,
        max_bytes: int | None = None,
    ) -> None:
        limits = limits or httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=5)
        self._max_bytes = max_bytes
        self._connections = httpcore.ConnectionPool(
            ssl_context=_load_trust_store()
            if verify is True
            else httpx.create_ssl_context(verify=verify, trust_env=False),
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            retries=retries,
            network_backend=GuardedBackend(guarded),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._max_bytes is None:
            return self._send(request)
        return cast("httpx.Response", send_bounded(self._send, request, max_bytes=self._max_bytes))

    def close(self) -> None:
        self._connections.close()

    def _send(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        request_to_send = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=cast("Iterable[bytes]", request.stream),
            extensions=request.extensions,
        )
        try:
            answer = self._connections.handle_request(request_to_send)
        except _HTTPCORE_ERRORS as error:
            raise _httpx_error(error) from error
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_ResponseBody(answer), extensions=answer.extensions
        )


class VendorTransport(httpx.BaseTransport):
    """Transport for vendors and endpoints of the operator, through RETRIEVAL_EGRESS_PROXY."""

    def __init__(self, verify: ssl.SSLContext) -> None:
        guard = make_trusting_guard(load_settings())
        self._inner: httpx.BaseTransport = (
            httpx.HTTPTransport(verify=verify, trust_env=False) if guard is None else Transport(guard, verify=verify)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


class BoundedTransport(VendorTransport):
    """`VendorTransport` with a limit of bytes per answer and the read timeout as total."""

    def __init__(self, verify: ssl.SSLContext, *, max_bytes: int) -> None:
        super().__init__(verify)
        self._max_bytes = max_bytes

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        seconds = request.extensions.get("timeout", {}).get("read")
        answer: httpx.Response = send_bounded(
            super().handle_request, request, max_bytes=self._max_bytes, seconds=seconds
        )
        return answer


class _ResponseBody(httpx.SyncByteStream):
    """Streamed body; closing frees the connection."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from cast("Iterable[bytes]", self._answer.stream)
        except _HTTPCORE_ERRORS as error:
            raise _httpx_error(error) from error

    def close(self) -> None:
        self._answer.close()


# Errors have the same names in both libraries. Others, such as `BlockedAddress`, pass unchanged.
_HTTPCORE_ERRORS = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
    httpcore.ProtocolError,
)


def _httpx_error(error: Exception) -> httpx.TransportError:
    kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
    return kind(str(error))


class GuardedBackend(httpcore.NetworkBackend):
    """Network backend for checked addresses only."""

    def __init__(self, guarded: Guard) -> None:
        self._guard = guarded
        self._system = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        error: Exception = httpcore.ConnectTimeout("No address was dialled in time.")
        try:
            checked = self._guard.resolve(host, port)
        except OSError as failed:
            raise httpcore.ConnectError("The host name cannot be resolved.") from failed
        for _, socket_address, seconds_left in iter_addresses(
            checked, _remaining_seconds(timeout, httpcore.ConnectTimeout)
        ):
            proxy = self._guard.route(socket_address[0])
            dial_host, dial_port = (proxy.host, proxy.port) if proxy else (socket_address[0], port)
            try:
                stream = DeadlineStream(
                    self._system.connect_tcp(dial_host, dial_port, seconds_left, local_address, socket_options)
                )
                return _open_tunnel(proxy, stream, socket_address[0], port, timeout) if proxy else stream
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = failed
        raise error


def _open_tunnel(
    proxy: Proxy, stream: DeadlineStream, address: str, port: int, timeout: float | None
) -> DeadlineStream:
    try:
        proxy.open_tunnel(
            address, port, lambda head: stream.write(head, timeout), lambda max_bytes: stream.read(max_bytes, timeout)
        )
    except ProxyRefused as error:
        stream.close()
        raise httpcore.ConnectError(str(error)) from error
    except (httpcore.ReadError, httpcore.ReadTimeout, httpcore.WriteError, httpcore.WriteTimeout) as error:
        stream.close()
        raise httpcore.ConnectError("The egress proxy does not answer.") from error
    return stream


class DeadlineStream(httpcore.NetworkStream):
    """Connection with the deadline of `limit_time`."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _remaining_seconds(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _remaining_seconds(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        seconds_left = _remaining_seconds(timeout, httpcore.ConnectTimeout)
        return DeadlineStream(self._inner.start_tls(ssl_context, server_hostname, seconds_left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _remaining_seconds(timeout: float | None, late: type[Exception]) -> float | None:
    ends = _deadline.get()
    if ends is None:
        return timeout
    seconds_left = ends - time.monotonic()
    if seconds_left <= 0:
        raise late("The time for the whole exchange is up.")
    return seconds_left if timeout is None else min(timeout, seconds_left)
