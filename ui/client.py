"""The one way to the API: plain HTTP with the signed-in person's key, answers as the contract's JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import IO, Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx

SECONDS = 20.0
"""How long the API may take; its own limits are shorter."""
CONNECT_SECONDS = 3.0
UPLOAD_SECONDS = 300.0
"""How long the API may take to answer an upload."""
SLOW_SECONDS = 2.0
"""After so long without an answer a page says that it waits."""

Json = dict[str, Any]
Notice = Callable[[], AbstractContextManager[None]]
"""Entered while an answer is waited for after SLOW_SECONDS."""
T = TypeVar("T")


class ApiError(Exception):
    """Error of a request that the API refused or that did not reach it. `status` is 0 without a response."""

    def __init__(
        self, status: int, code: str, message: str, *, field: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ApiResponse:
    data: Any
    message: str


class Silence:
    """Context of one run of a page. Once the API has let a request time out, the run sends no other request.

    A page would wait for each in turn otherwise. Entered around a run; what runs within another run ends with that.
    """

    def __init__(self) -> None:
        self.lasts = False
        self._depth = 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self.lasts = self.lasts and self._depth > 0


@dataclass(frozen=True, slots=True)
class Api:
    """The API as one person may use it. Two people's are never equal, so that nothing cached for one serves another."""

    base: str
    key: str = field(repr=False)
    tenant: str = ""
    notice: Notice = field(default=nullcontext, repr=False, compare=False)
    viewer: str = ""
    """The user on whose behalf it is asked; empty for the key's own."""
    silence: Silence = field(default_factory=Silence, repr=False, compare=False)

    def call(self, method: str, path: str, *, body: Json | None = None, **query: Any) -> ApiResponse:
        """Send one request and return its data. ApiError if it is refused."""
        parameters = {name: value for name, value in query.items() if value not in (None, "")}
        return self._send(method, path, json=body, params=parameters)

    def upload(
        self, path: str, form: Mapping[str, str], name: str, content: bytes | IO[bytes], media_type: str, once: str = ""
    ) -> ApiResponse:
        """A multipart form with one file, which is read as it is sent. `once`: its Idempotency-Key."""
        files = {"file": (name, content, media_type)}
        return self._send("POST", path, once=once, data=dict(form), files=files, timeout=UPLOAD_SECONDS)

    def get(self, path: str, **query: Any) -> Json:
        return _object(self.call("GET", path, **query))

    def post(self, path: str, body: Json, *, once: str = "") -> Json:
        """`once`: its Idempotency-Key; the same request again answers as the first did."""
        return _object(self._send("POST", path, once=once, json=body) if once else self.call("POST", path, body=body))

    def list_documents(
        self,
        namespace: str,
        config: Json,
        *,
        size: int = 0,
        cursor: str | None = None,
        include: Iterable[str] = (),
        facets: Iterable[str] = (),
    ) -> Json:
        """List documents that match a filter, `size` to a page; 0 for their statistics alone."""
        body = {
            "namespaceId": namespace,
            "filterConfig": config,
            "pagination": {"pageSize": size or 1, "cursor": cursor},
            "includeConfig": {"documents": size > 0, **dict.fromkeys(include, True)},
            "facets": list(facets) or None,
        }
        return self.post("/v1/documents", {name: value for name, value in body.items() if value is not None})

    def patch(self, path: str, body: Json) -> Json:
        return _object(self.call("PATCH", path, body=body))

    def delete(self, path: str, body: Json | None = None) -> ApiResponse:
        return self.call("DELETE", path, body=body)

    def file(self, link: str | None, *, most: int = 20 * 1024 * 1024) -> bytes | None:
        """Return the bytes behind a signed link of the API; None without a link, or for more than `most` bytes."""
        if not link:
            return None
        path = urlsplit(link)

        def fetch() -> bytes | None:
            with _client().stream("GET", f"{self.base}{path.path}?{path.query}") as response:
                return _limited(response, most) if response.is_success else None

        return self._asked(fetch)

    def picture(self, path: str, **query: Any) -> bytes:
        """Return a picture that the API draws, as PNG. ApiError if it is refused."""
        response = self._answered("GET", path, params=query)
        if not response.is_success:
            _read(response)
        return response.content

    def described(self) -> Json:
        response = self._answered("GET", "/openapi.json")
        return dict(response.json()) if response.is_success else _object(_read(response))

    def _send(self, method: str, path: str, **options: Any) -> ApiResponse:
        return _read(self._answered(method, path, **options))

    def _answered(self, method: str, path: str, *, once: str = "", **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"} | ({"X-Tenant-ID": self.tenant} if self.tenant else {})
        if self.viewer:
            headers["X-On-Behalf-Of"] = quote(self.viewer)
        headers |= {"Idempotency-Key": once} if once else {}
        url = self.base + quote(path, safe="/%")  # an address that people gave may hold anything
        return self._asked(partial(_client().request, method, url, headers=headers, **options))

    def _asked(self, ask: Callable[[], T]) -> T:
        """Return the result of `ask`, run in another thread. ApiError without an answer, and after a request that timed
        out."""
        silent = ApiError(0, "TIMEOUT", "The API did not answer in time. Try again in a moment.")
        if self.silence.lasts:
            raise silent
        try:
            return wait_patiently(_threads().submit(ask), self.notice)
        except httpx.TimeoutException as error:
            self.silence.lasts = True
            raise silent from error
        except httpx.HTTPError as error:
            raise ApiError(0, "UNREACHABLE", f"The API at {self.base} cannot be reached. Is it running?") from error
        except (UnicodeError, ValueError) as error:
            raise ApiError(0, "INVALID_KEY", "That is not an API key: it holds characters no key has.") from error


def wait_patiently(future: Future[T], notice: Notice) -> T:
    """The result of what runs in another thread; within the notice once it takes longer than SLOW_SECONDS."""
    if not wait([future], SLOW_SECONDS).done:
        with notice():
            return future.result()
    return future.result()


@lru_cache(maxsize=1)
def _client() -> httpx.Client:
    """One pool of connections for the process; keys travel with each request, never with the client."""
    timeout = httpx.Timeout(SECONDS, connect=CONNECT_SECONDS)
    return httpx.Client(timeout=timeout, trust_env=False, follow_redirects=False)


@lru_cache(maxsize=1)
def _threads() -> ThreadPoolExecutor:
    """Requests run here, so that a page can say that it waits for one."""
    return ThreadPoolExecutor(max_workers=128, thread_name_prefix="api")


def _limited(response: httpx.Response, most: int) -> bytes | None:
    content = bytearray()
    for piece in response.iter_bytes():
        content += piece
        if len(content) > most:
            return None
    return bytes(content)


def _read(response: httpx.Response) -> ApiResponse:
    try:
        body = response.json()
    except ValueError as error:
        raise ApiError(
            response.status_code, "NOT_JSON", "The answer was not the API's: is the address right?"
        ) from error
    if response.is_success and isinstance(body, dict):
        return ApiResponse(body.get("data", body), str(body.get("message", "")))
    problem = body.get("error") if isinstance(body, dict) else None
    if isinstance(problem, dict):
        details = problem.get("details") or {}
        message = str(problem.get("message") or body.get("message") or "The API refused.")
        raise ApiError(
            response.status_code,
            str(problem.get("code")),
            message,
            field=details.get("field"),
            reason=details.get("reason"),
        )
    raise ApiError(response.status_code, str(problem or response.status_code), str(body.get("message", "Refused.")))


def _object(answer: ApiResponse) -> Json:
    return answer.data if isinstance(answer.data, dict) else {}
