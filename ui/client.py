"""HTTP client of the API with the signed-in person's key."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import IO, Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx

# The API's own limits are shorter.
REQUEST_TIMEOUT_SECONDS = 20.0
CONNECT_TIMEOUT_SECONDS = 3.0
UPLOAD_TIMEOUT_SECONDS = 300.0
# The page shows a notice after this time.
SLOW_NOTICE_SECONDS = 2.0
# An answer stands for this time in its sign-in, unless the sign-in changes something.
RECENT_SECONDS = 5.0
MAX_RECENT_ANSWERS = 100
# POST requests that change nothing.
READING_PATHS = frozenset({"/v1/documents", "/v1/search", "/v1/search/hybrid"})

Json = dict[str, Any]
# Entered while a slow answer is pending.
Notice = Callable[[], AbstractContextManager[None]]
ResultT = TypeVar("ResultT")


class ApiError(Exception):
    """Request refused by the API, or without a response (`status` 0)."""

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


class TimeoutGuard:
    """Context of one page run: after a timeout, the run sends no other request."""

    # The page would wait for each request in turn. A run within another run ends with the outer one.

    def __init__(self) -> None:
        self.has_timed_out = False
        self._depth = 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self.has_timed_out = self.has_timed_out and self._depth > 0


@dataclass(frozen=True, slots=True)
class Api:
    """The API with one person's key, tenant and viewer."""

    # Never equal for two people, so that a cache cannot mix them.

    base: str
    key: str = field(repr=False)
    tenant: str = ""
    notice: Notice = field(default=nullcontext, repr=False, compare=False)
    # User for whom requests are made; "" for the key itself.
    viewer: str = ""
    silence: TimeoutGuard = field(default_factory=TimeoutGuard, repr=False, compare=False)
    # Time and answer by person and request.
    recent: dict[tuple[Api, str], tuple[float, Json]] = field(default_factory=dict, repr=False, compare=False)

    def call(self, method: str, path: str, *, body: Json | None = None, **query: Any) -> ApiResponse:
        """Send one request and return the data; ApiError if refused."""
        parameters = {name: value for name, value in query.items() if value not in (None, "")}
        return self._send(method, path, json=body, params=parameters)

    def upload(
        self, path: str, form: Mapping[str, str], name: str, content: bytes | IO[bytes], media_type: str, once: str = ""
    ) -> ApiResponse:
        """Send a multipart form with one file; `once` is the Idempotency-Key."""
        files = {"file": (name, content, media_type)}
        return self._send("POST", path, once=once, data=dict(form), files=files, timeout=UPLOAD_TIMEOUT_SECONDS)

    def get(self, path: str, **query: Any) -> Json:
        return _data_object(self.call("GET", path, **query))

    def recall(self, path: str, *, is_fresh: bool = False, **query: Any) -> Json:
        """Return the answer of `get`, at most `RECENT_SECONDS` old; `is_fresh`: of now."""
        return self._recall([path, query], partial(self.get, path, **query), is_fresh=is_fresh)

    def _recall(self, request: list[Any], ask: Callable[[], Json], *, is_fresh: bool = False) -> Json:
        question = self, json.dumps(request, sort_keys=True)
        asked_at, answer = self.recent.get(question, (0.0, {}))
        if is_fresh or time.monotonic() - asked_at > RECENT_SECONDS:
            asked_at, answer = time.monotonic(), ask()
            if len(self.recent) >= MAX_RECENT_ANSWERS:
                self.recent.clear()
            self.recent[question] = asked_at, answer
        return answer

    def post(self, path: str, body: Json, *, once: str = "") -> Json:
        """Post a body; `once` is the Idempotency-Key."""
        return _data_object(
            self._send("POST", path, once=once, json=body) if once else self.call("POST", path, body=body)
        )

    def list_documents(
        self,
        namespace: str,
        config: Json,
        *,
        size: int = 0,
        cursor: str | None = None,
        include: Iterable[str] = (),
        facets: Iterable[str] = (),
        recent: bool = False,
    ) -> Json:
        """List documents by a filter, `size` per page; 0 for statistics only. `recent`: as in `recall`."""
        body = {
            "namespaceId": namespace,
            "filterConfig": config,
            "pagination": {"pageSize": size or 1, "cursor": cursor},
            "includeConfig": {"documents": size > 0, **dict.fromkeys(include, True)},
            "facets": list(facets) or None,
        }
        body = {name: value for name, value in body.items() if value is not None}
        ask = partial(self.post, "/v1/documents", body)
        return self._recall([body], ask) if recent else ask()

    def patch(self, path: str, body: Json) -> Json:
        return _data_object(self.call("PATCH", path, body=body))

    def delete(self, path: str, body: Json | None = None) -> ApiResponse:
        return self.call("DELETE", path, body=body)

    def download_file(self, link: str | None, *, max_bytes: int = 20 * 1024 * 1024) -> bytes | None:
        """Return the file of a signed link; None without a link or above `max_bytes`."""
        if not link:
            return None
        path = urlsplit(link)

        def fetch() -> bytes | None:
            with _http_client().stream("GET", f"{self.base}{path.path}?{path.query}") as response:
                return _read_limited(response, max_bytes) if response.is_success else None

        return self._run_in_thread(fetch)

    def fetch_picture(self, path: str, **query: Any) -> bytes:
        """Return a PNG from the API; ApiError if refused."""
        response = self._request("GET", path, params=query)
        if not response.is_success:
            _parse_response(response)
        return response.content

    def read_openapi(self) -> Json:
        response = self._request("GET", "/openapi.json")
        return dict(response.json()) if response.is_success else _data_object(_parse_response(response))

    def _send(self, method: str, path: str, **options: Any) -> ApiResponse:
        return _parse_response(self._request(method, path, **options))

    def _request(self, method: str, path: str, *, once: str = "", **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"} | ({"X-Tenant-ID": self.tenant} if self.tenant else {})
        if self.viewer:
            headers["X-On-Behalf-Of"] = quote(self.viewer)
        headers |= {"Idempotency-Key": once} if once else {}
        url = self.base + quote(path, safe="/%")  # paths may contain ids typed by people
        try:
            return self._run_in_thread(partial(_http_client().request, method, url, headers=headers, **options))
        finally:
            if method != "GET" and path not in READING_PATHS:
                self.recent.clear()

    def _run_in_thread(self, call: Callable[[], ResultT]) -> ResultT:
        """Run a call in another thread; ApiError without an answer or after an earlier timeout."""
        timeout_error = ApiError(0, "TIMEOUT", "The API did not answer in time. Try again in a moment.")
        if self.silence.has_timed_out:
            raise timeout_error
        try:
            return wait_patiently(_request_threads().submit(call), self.notice)
        except httpx.TimeoutException as error:
            self.silence.has_timed_out = True
            raise timeout_error from error
        except httpx.HTTPError as error:
            raise ApiError(0, "UNREACHABLE", f"The API at {self.base} cannot be reached. Is it running?") from error
        except (UnicodeError, ValueError) as error:
            raise ApiError(0, "INVALID_KEY", "That is not an API key: it holds characters no key has.") from error


def wait_patiently(future: Future[ResultT], notice: Notice) -> ResultT:
    """Return the result of a future, with a notice after `SLOW_NOTICE_SECONDS`."""
    if not wait([future], SLOW_NOTICE_SECONDS).done:
        with notice():
            return future.result()
    return future.result()


@lru_cache(maxsize=1)
def _http_client() -> httpx.Client:
    """Return the connection pool of the process."""
    # Keys travel with each request, never with the pool.
    timeout = httpx.Timeout(REQUEST_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS)
    return httpx.Client(timeout=timeout, trust_env=False, follow_redirects=False)


@lru_cache(maxsize=1)
def _request_threads() -> ThreadPoolExecutor:
    # Requests run in threads, so that the page can show a notice.
    return ThreadPoolExecutor(max_workers=128, thread_name_prefix="api")


def _read_limited(response: httpx.Response, max_bytes: int) -> bytes | None:
    content = bytearray()
    for block in response.iter_bytes():
        content += block
        if len(content) > max_bytes:
            return None
    return bytes(content)


def _parse_response(response: httpx.Response) -> ApiResponse:
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


def _data_object(answer: ApiResponse) -> Json:
    return answer.data if isinstance(answer.data, dict) else {}
