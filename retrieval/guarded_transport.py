"""An httpx transport whose connections are all dialled by the fetch guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from retrieval.fetch_guard import Guard, in_turn


class Transport(httpx.HTTPTransport):
    """httpx offers no way to name the network backend, so the pool is ours; everything else stays its own."""

    def __init__(
        self, guarded: Guard, *, verify: Any = True, retries: int = 0, limits: httpx.Limits | None = None
    ) -> None:
        limits = limits or httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=5)
        super().__init__(verify=verify, trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(verify=verify, trust_env=False),
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            retries=retries,
            network_backend=Backend(guarded),
        )


class Backend(httpcore.NetworkBackend):
    """Dials the numbers that the guard has checked; no name reaches the system after that."""

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
        for _, where, left in in_turn(checked, timeout):
            try:
                return self._system.connect_tcp(where[0], port, left, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failed:
                error = failed
        raise error
