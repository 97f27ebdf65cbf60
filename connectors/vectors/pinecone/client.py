"""Pinecone's SDK, with requests through the fetch guard's proxy, and errors of the ports."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

from connectors.http import sessions
from connectors.http.retries import retry_after
from retrieval.errors import Fatal, Retryable
from retrieval.metrics import catalog, counts
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import BlockedAddress, Guard

if TYPE_CHECKING:
    from pinecone import Index

    from retrieval.network.guard_proxy import Route
    from retrieval.setting_values import Endpoint

# Limit of connecting and of each read and write.
REQUEST_TIMEOUT_SECONDS = 30.0
# Limit of one answer.
MAX_ANSWER_BYTES = 64 * 2**20


class IndexNotFound(Fatal):
    """404: unknown namespace or index."""


class Throttled(Retryable):
    """429: too much at once."""


class PineconeClient:
    """Client of one index, thread-safe."""

    def __init__(self, host: str, key: str, guard: Guard, endpoint: Endpoint | None = None) -> None:
        host = host.strip()
        self._url = (host if "://" in host else f"https://{host}").rstrip("/")
        self._key = key
        self._guard = guard
        self._endpoint = endpoint
        self._lock = threading.Lock()
        # By timeout.
        self._connections: dict[float, tuple[Index, Route]] = {}

    @contextmanager
    def index(self, timeout_seconds: float | None = None) -> Iterator[Index]:
        """Yield the SDK's index for one request. Raises IndexNotFound, Throttled, Retryable or Fatal.

        `timeout_seconds`: limit of connecting and of each read and write.
        """
        timeout = timeout_seconds or REQUEST_TIMEOUT_SECONDS
        with self._lock:
            if not self._connections:
                self._require_allowed()
            if timeout not in self._connections:
                self._connections[timeout] = self._connect(timeout)
            index, route = self._connections[timeout]
        with _count_request(), _translate_errors(route):
            yield index

    def _require_allowed(self) -> None:
        """Raise Fatal for a blocked host or missing TLS, Retryable for an unresolvable host."""
        try:
            host, port = fetch_guard.parse_host_port(self._url)
            resolved = self._guard.resolve(host, port)
        except BlockedAddress as error:
            raise Fatal(str(error), field="indexHost") from error
        except OSError as error:
            raise Retryable("The host name of the vector index cannot be resolved.") from error
        addresses = [ip_address(socket_address[0]) for _, socket_address in resolved]
        is_private = all(any(address in network for network in self._guard.allowed) for address in addresses)
        # Without TLS the key would be readable on the public internet.
        if self._url.startswith("http://") and not is_private:
            message = "Without https only an index in a range that RETRIEVAL_FETCH_ALLOW names can be used."
            raise Fatal(message, field="indexHost")

    def _connect(self, timeout: float) -> tuple[Index, Route]:
        from pinecone import Index, errors

        from retrieval.network.guard_proxy import LIBRARY_SECONDS, Route

        sessions.quiet_loggers("pinecone")
        certificates = sessions.trusted_certificates(self._endpoint, "PINECONE")
        route = Route(self._url, self._guard, verify=certificates, seconds=timeout, max_bytes=MAX_ANSWER_BYTES)
        weakref.finalize(self, route.close)
        try:
            index = Index(host=route.url, api_key=self._key, additional_headers=route.headers, timeout=LIBRARY_SECONDS)
        except errors.PineconeValueError as error:
            raise Fatal("The key in apiKey holds characters that no such key has: check it.", field="apiKey") from error
        weakref.finalize(self, index.close)
        return index, route


@contextmanager
def _count_request() -> Iterator[None]:
    """Count one request by outcome."""
    outcome = "refused"
    try:
        yield
        outcome = "ok"
    except Throttled:
        outcome = "rate_limited"
        raise
    except IndexNotFound:
        outcome = "ok"  # an index knows no namespace before its first vector
        raise
    except Retryable:
        outcome = "failed"
        raise
    finally:
        counts.add_count(catalog.VENDOR, "PINECONE", outcome)


@contextmanager
def _translate_errors(route: Route) -> Iterator[None]:
    """Raise the port's error for a failed call, without the server's text."""
    from pinecone import errors

    try:
        yield
    except errors.ApiError as error:
        headers = error.headers or {}
        if failure := route.find_failure(headers):
            raise _error_of_failure(failure) from failure
        raise _error_of_status(error.status_code, headers) from error
    except (errors.PineconeConnectionError, errors.PineconeTimeoutError) as error:
        raise Retryable("The vector index cannot be reached, or broke off its answer.") from error
    except errors.ResponseParsingError as error:
        raise Retryable("The server at indexHost does not answer as a Pinecone index does.") from error
    except errors.PineconeError as error:
        raise Fatal("The vector index cannot be used with this indexHost and apiKey.", field="indexHost") from error


def _error_of_failure(failure: Exception) -> Exception:
    """Return the port error of a failed proxy request."""
    import httpx

    from retrieval.network.guard_proxy import ServerUnavailable

    if isinstance(failure, ServerUnavailable):
        return _error_of_status(failure.status, failure.headers)
    if isinstance(failure, httpx.TimeoutException):
        return Retryable("The vector index did not answer in time.")
    if isinstance(failure, httpx.HTTPError):
        return Retryable("The vector index cannot be reached, or broke off its answer.")
    if isinstance(failure, httpx.InvalidURL):
        return Fatal("The vector index cannot be used with this indexHost.", field="indexHost")
    return failure


# Message and field of the configuration.
_FATAL_STATUSES = {
    401: ("Pinecone refuses the API key.", "apiKey"),
    402: ("Pinecone asks for a payment for this account.", "apiKey"),
    403: ("Pinecone does not let this API key use the index.", "apiKey"),
}


def _error_of_status(status: int, headers: Mapping[str, str]) -> Fatal | Retryable:
    if status == 429:
        return Throttled("The vector index has too much to do.", after=retry_after(headers))
    if status in {408, 409} or status >= 500:
        return Retryable(f"The vector index failed (status {status}).", after=retry_after(headers))
    if status == 404:
        return IndexNotFound("No Pinecone index answers at indexHost.", field="indexHost")
    default = f"The vector index refused the request (status {status}).", "indexHost"
    message, field = _FATAL_STATUSES.get(status, default)
    return Fatal(message, field=field)
