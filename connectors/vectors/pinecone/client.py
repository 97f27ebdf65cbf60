"""Pinecone's SDK, opened on first use: dialled by our guard, without retries of its own, its errors as port errors."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from connectors.http.retries import retry_after
from retrieval.errors import Fatal, Retryable
from retrieval.metrics import catalog, counts
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import Blocked, Guard
from retrieval.network.transport import Transport

SECONDS = 30.0
"""How long one request may take."""
MOST_BYTES = 64 * 2**20
"""Of one answer."""


class NotThere(Fatal):
    """404: the host knows no such namespace, or is no index at all."""


class Throttled(Retryable):
    """429: too much at once."""


class PineconeClient:
    """The calls of one index. Safe in many threads."""

    def __init__(self, host: str, key: str, guard: Guard, ca_bundle: Path | None = None) -> None:
        text = host.strip()
        self._url = (text if "://" in text else f"https://{text}").rstrip("/")
        self._key = key
        self._guard = guard
        self._ca_bundle = ca_bundle
        self._lock = threading.Lock()
        self._index: Any = None

    def call(self, name: str, /, **arguments: Any) -> Any:
        """One of the SDK's calls, one request."""
        with self._lock:
            if self._index is None:
                self._require_allowed()
                self._index = self._opened()
        with _counted(), _explained():
            return getattr(self._index, name)(**arguments)

    def _require_allowed(self) -> None:
        """Fatal for addresses that are never dialled. Without TLS the key would be readable on the public internet."""
        try:
            host, port = fetch_guard.host_and_port(self._url)
            infos = self._guard.resolve(host, port)
        except Blocked as error:
            raise Fatal(str(error), field="indexHost") from error
        except OSError as error:
            raise Retryable("The host name of the vector index cannot be resolved.") from error
        addresses = [ip_address(socket_address[0]) for _, socket_address in infos]
        if self._url.startswith("http://") and not all(
            any(address in network for network in self._guard.allowed) for address in addresses
        ):
            words = "Without https only an index in a range that RETRIEVAL_FETCH_ALLOW names can be used."
            raise Fatal(words, field="indexHost")

    def _opened(self) -> Any:
        """The SDK takes no transport, so its own is replaced; what retries sits in that one and goes with it."""
        from pinecone import Index

        with _explained():
            index = Index(host=self._url, api_key=self._key, timeout=SECONDS)
            client = index._http._client  # noqa: SLF001
            client._transport.close()  # noqa: SLF001
            client._transport = Transport(self._guard, verify=self._verify(), most=MOST_BYTES)  # noqa: SLF001
            weakref.finalize(self, client.close)
            return index

    def _verify(self) -> Any:
        import ssl

        return ssl.create_default_context(cafile=self._ca_bundle) if self._ca_bundle else True


@contextmanager
def _counted() -> Iterator[None]:
    """One request, by what came of it."""
    outcome = "refused"
    try:
        yield
        outcome = "ok"
    except Throttled:
        outcome = "rate_limited"
        raise
    except NotThere:
        outcome = "ok"  # an index knows no namespace before its first vector
        raise
    except Retryable:
        outcome = "failed"
        raise
    finally:
        counts.add_count(catalog.VENDOR, "PINECONE", outcome)


@contextmanager
def _explained() -> Iterator[None]:
    """The SDK's troubles in the words of the ports; none of its own words are passed on."""
    import httpx
    from pinecone import errors

    try:
        yield
    except errors.ApiError as error:
        raise _of_status(error.status_code, dict(error.headers or {})) from error
    except errors.PineconeTimeoutError as error:
        raise Retryable("The vector index did not answer in time.") from error
    except (errors.PineconeConnectionError, httpx.HTTPError) as error:
        raise Retryable("The vector index cannot be reached, or broke off its answer.") from error
    except errors.ResponseParsingError as error:
        raise Retryable("The server at indexHost does not answer as a Pinecone index does.") from error
    except (errors.PineconeError, httpx.InvalidURL) as error:
        raise Fatal("The vector index cannot be used with this indexHost and apiKey.", field="indexHost") from error


_FATAL = {
    401: ("Pinecone refuses the API key.", "apiKey"),
    402: ("Pinecone asks for a payment for this account.", "apiKey"),
    403: ("Pinecone does not let this API key use the index.", "apiKey"),
}


def _of_status(status: int, headers: dict[str, str]) -> Fatal | Retryable:
    if status == 429:
        return Throttled("The vector index has too much to do.", after=retry_after(headers))
    if status in {408, 409} or status >= 500:
        return Retryable(f"The vector index failed (status {status}).", after=retry_after(headers))
    if status == 404:
        return NotThere("No Pinecone index answers at indexHost.", field="indexHost")
    words, field = _FATAL.get(status, (f"The vector index refused the request (status {status}).", "indexHost"))
    return Fatal(words, field=field)
