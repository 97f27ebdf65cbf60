"""A proxy of this process, for libraries that take the address of a server but no transport.

A library sends plain HTTP to 127.0.0.1 with the token of its route. The route sends each request on once, over
connections that the fetch guard dials, with TLS for the server's own name.
"""

from __future__ import annotations

import hmac
import os
import secrets
import ssl
import threading
import weakref
from collections.abc import Mapping
from functools import lru_cache
from http.server import BaseHTTPRequestHandler
from itertools import count
from socketserver import ThreadingTCPServer

import httpx

from retrieval.network.fetch_guard import Guard
from retrieval.network.transport import Transport, limit_time

EXCHANGE_SECONDS = 120.0
"""How long the server may take for an exchange in all."""
LIBRARY_SECONDS = EXCHANGE_SECONDS + 60
"""The time limit to set in the library: the route's own limits end first."""
IDLE_SECONDS = 30.0
_TOKEN = "Proxy-Authorization"  # noqa: S105 - libraries leave the value of this header out of their logs
_FAILURE = "Guard-Failure"
_FAILED = 599
_OF_THE_HOP = frozenset({"accept-encoding", "connection", "content-length", "host", "keep-alive", _TOKEN.lower()})
_ANSWERED = frozenset({"content-type", "retry-after"})


class Unavailable(Exception):
    """An answer with a status for which libraries repeat a request by themselves."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(f"The server answers {answer.status_code}.")
        self.status, self.headers = answer.status_code, answer.headers


class Route:
    """The way to one server. `url`, `headers`: for the library; `seconds`: of each step; `most`: bytes of an answer."""

    def __init__(self, base_url: str, guard: Guard, *, verify: ssl.SSLContext, seconds: float, most: int) -> None:
        self._base_url = base_url
        self._transport = Transport(guard, verify=verify, most=most)
        self._timeouts = httpx.Timeout(seconds).as_dict()
        self._numbers = count(1)
        self._failures: dict[str, Exception] = {}
        server = _server(os.getpid())
        name, self._secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.headers = {_TOKEN: f"Bearer {name}.{self._secret}"}
        server.routes[name] = self

    def find_failure(self, headers: Mapping[str, str]) -> Exception | None:
        """Return, once, why a request failed. `headers`: of the answer that the library received."""
        return self._failures.pop(headers.get(_FAILURE.lower(), ""), None)

    def close(self) -> None:
        self._transport.close()

    def admits(self, secret: str) -> bool:
        return hmac.compare_digest(secret.encode(), self._secret.encode())

    def send(self, method: str, path: str, headers: dict[str, str], content: bytes) -> httpx.Response:
        """Send the request on and read the answer. httpx.HTTPError, Blocked or Unavailable."""
        url, extensions = f"{self._base_url}{path}", {"timeout": self._timeouts}
        request = httpx.Request(method, url, headers=headers, content=content, extensions=extensions)
        with limit_time(EXCHANGE_SECONDS):
            answer = self._transport.handle_request(request)
            try:
                answer.read()
            finally:
                answer.close()
        if answer.status_code in {408, 425, 429} or answer.status_code >= 500:
            raise Unavailable(answer)
        return answer

    def keep_failure(self, error: Exception) -> str:
        """Keep the error for `find_failure`, and return its number."""
        number = str(next(self._numbers))
        self._failures[number] = error
        return number


class _Server(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        self.routes: weakref.WeakValueDictionary[str, Route] = weakref.WeakValueDictionary()
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, name="guard-proxy", daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """The library left before its answer, and reports that itself."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def _forward(self) -> None:
        route = self._route()
        if route is None or not self.path.startswith("/"):
            self.close_connection = True  # the body was not read
            self._answer(407 if route is None else 400, {"Connection": "close"})
            return
        content = self._read_body()
        if content is None:
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_THE_HOP}
        try:
            answer = route.send(self.command, self.path, headers, content)
        except Exception as error:  # noqa: BLE001 - raised again where the library was called
            self._answer(_FAILED, {_FAILURE: route.keep_failure(error)})
        else:
            passed = {name: value for name, value in answer.headers.items() if name in _ANSWERED}
            self._answer(answer.status_code, passed, answer.content)

    do_DELETE = do_GET = do_POST = _forward  # noqa: N815 - the names that http.server calls

    def _read_body(self) -> bytes | None:
        """Read the body; None, and no further request of the connection, if its length is not certain."""
        lengths = self.headers.get_all("Content-Length", ["0"])
        if len(lengths) > 1 or not lengths[0].isdecimal() or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self._answer(411, {"Connection": "close"})
            return None
        content = self.rfile.read(int(lengths[0]))
        if len(content) < int(lengths[0]):  # the library left
            self.close_connection = True
            return None
        return content

    def _route(self) -> Route | None:
        name, _, secret = self.headers.get(_TOKEN, "").removeprefix("Bearer ").partition(".")
        route = self.server.routes.get(name)
        return route if route is not None and route.admits(secret) else None

    def _answer(self, status: int, headers: Mapping[str, str], content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (*headers.items(), ("Content-Length", str(len(content)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@lru_cache(maxsize=1)
def _server(_process_id: int) -> _Server:
    """The server of this process. A process that was forked has none of its parent's threads, so it starts its own."""
    return _Server()
