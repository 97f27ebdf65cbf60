"""The data plane of an index at Pinecone by HTTP: dialled by our guard, without retries, its errors as port errors."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from connectors.http import sessions
from connectors.http.retries import retry_after
from retrieval.errors import Fatal, Retryable
from retrieval.metrics import catalog, counts
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import Blocked, Guard
from retrieval.network.transport import Transport

if TYPE_CHECKING:
    from retrieval.setting_values import Endpoint

SECONDS = 30.0
"""How long one request may take."""
MOST_BYTES = 64 * 2**20
"""Of one answer."""
API_VERSION = "2026-07"


class NotThere(Fatal):
    """404: the host knows no such namespace, or is no index at all."""


class Throttled(Retryable):
    """429: too much at once."""


class IndexStats(msgspec.Struct, rename="camel"):
    dimension: int | None = None
    metric: str | None = None
    vector_type: str | None = None


class ScoredVector(msgspec.Struct):
    id: str
    score: float


class QueryAnswer(msgspec.Struct):
    matches: list[ScoredVector] = []


class UpsertAnswer(msgspec.Struct, rename="camel"):
    upserted_count: int


class UpdateAnswer(msgspec.Struct, rename="camel"):
    matched_records: int | None = None


class ListedVector(msgspec.Struct):
    id: str


class Pagination(msgspec.Struct):
    next: str | None = None


class ListPage(msgspec.Struct):
    vectors: list[ListedVector] = []
    pagination: Pagination | None = None


T = TypeVar("T")


class PineconeClient:
    """The calls of one index, each one request. Safe in many threads. Bodies have the names of Pinecone's API."""

    def __init__(self, host: str, key: str, guard: Guard, endpoint: Endpoint | None = None) -> None:
        text = host.strip()
        self._url = (text if "://" in text else f"https://{text}").rstrip("/")
        self._key = key
        self._guard = guard
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def describe_index_stats(self, *, seconds: float | None = None) -> IndexStats:
        return self._post("/describe_index_stats", {}, IndexStats, seconds)

    def upsert(self, body: Mapping[str, Any]) -> UpsertAnswer:
        return self._post("/vectors/upsert", body, UpsertAnswer)

    def query(self, body: Mapping[str, Any]) -> QueryAnswer:
        return self._post("/query", body, QueryAnswer)

    def update(self, body: Mapping[str, Any]) -> UpdateAnswer:
        return self._post("/vectors/update", body, UpdateAnswer)

    def delete(self, body: Mapping[str, Any]) -> None:
        self._post("/vectors/delete", body, dict)

    def list_page(self, parameters: Mapping[str, Any]) -> ListPage:
        return self._send("GET", "/vectors/list", ListPage, params=dict(parameters))

    def delete_namespace(self, name: str) -> None:
        self._send("DELETE", f"/namespaces/{quote(name, safe='')}", dict)

    def _post(self, path: str, body: Mapping[str, Any], kind: type[T], seconds: float | None = None) -> T:
        headers = {"Content-Type": "application/json"}
        return self._send("POST", path, kind, seconds, content=msgspec.json.encode(body), headers=headers)

    def _send(self, method: str, path: str, kind: type[T], seconds: float | None = None, **content: Any) -> T:
        with self._lock:
            if self._client is None:
                self._require_allowed()
                self._client = self._opened()
        with _counted(), _explained():
            answer = self._client.request(method, f"{self._url}{path}", timeout=seconds or SECONDS, **content)
            if not answer.is_success:
                raise _of_status(answer.status_code, answer.headers)
            return msgspec.json.decode(answer.content, type=kind)

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

    def _opened(self) -> httpx.Client:
        if not self._key.isascii() or not self._key.isprintable() or self._key != self._key.strip():
            raise Fatal("The key in apiKey holds characters that no such key has: check it.", field="apiKey")
        certificates = sessions.trusted_certificates(self._endpoint, "PINECONE")
        client = sessions.httpx_client(
            certificates,
            seconds=SECONDS,
            headers={"Api-Key": self._key, "X-Pinecone-Api-Version": API_VERSION, "Accept": "application/json"},
            transport=Transport(self._guard, verify=certificates, most=MOST_BYTES),
        )
        weakref.finalize(self, client.close)
        return client


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
    """Failures of a request as port errors; none of the server's own words are passed on."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise Retryable("The vector index did not answer in time.") from error
    except httpx.HTTPError as error:
        raise Retryable("The vector index cannot be reached, or broke off its answer.") from error
    except msgspec.DecodeError as error:
        raise Retryable("The server at indexHost does not answer as a Pinecone index does.") from error
    except httpx.InvalidURL as error:
        raise Fatal("The vector index cannot be used with this indexHost.", field="indexHost") from error


_FATAL = {
    401: ("Pinecone refuses the API key.", "apiKey"),
    402: ("Pinecone asks for a payment for this account.", "apiKey"),
    403: ("Pinecone does not let this API key use the index.", "apiKey"),
}


def _of_status(status: int, headers: Mapping[str, str]) -> Fatal | Retryable:
    if status == 429:
        return Throttled("The vector index has too much to do.", after=retry_after(headers))
    if status in {408, 409} or status >= 500:
        return Retryable(f"The vector index failed (status {status}).", after=retry_after(headers))
    if status == 404:
        return NotThere("No Pinecone index answers at indexHost.", field="indexHost")
    words, field = _FATAL.get(status, (f"The vector index refused the request (status {status}).", "indexHost"))
    return Fatal(words, field=field)
