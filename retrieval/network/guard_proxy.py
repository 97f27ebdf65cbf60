"""Local proxy for libraries without transport option, guarded by the fetch guard."""

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

# Total time of an exchange.
EXCHANGE_SECONDS = 120.0
# Time limit for the library: the route's limit ends first.
LIBRARY_SECONDS = EXCHANGE_SECONDS + 60
IDLE_SECONDS = 30.0
_TOKEN_HEADER = "Proxy-Authorization"  # noqa: S105 - libraries leave the value of this header out of their logs
_FAILURE_HEADER = "Guard-Failure"
_FAILED_STATUS = 599
_HOP_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "keep-alive", _TOKEN_HEADER.lower()}
)
_RESPONSE_HEADERS = frozenset({"content-type", "retry-after"})


class ServerUnavailable(Exception):
    """Response with a status that libraries retry."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(f"The server answers {answer.status_code}.")
        self.status, self.headers = answer.status_code, answer.headers


class Route:
    """Route to a server, with `url` and `headers` for the library."""

    # The library sends plain HTTP to 127.0.0.1 with a token; the route adds TLS for the server's name.
    def __init__(self, base_url: str, guard: Guard, *, verify: ssl.SSLContext, seconds: float, max_bytes: int) -> None:
        self._base_url = base_url
        self._transport = Transport(guard, verify=verify, max_bytes=max_bytes)
        self._timeouts = httpx.Timeout(seconds).as_dict()
        self._numbers = count(1)
        self._failures: dict[str, Exception] = {}
        server = _start_server(os.getpid())
        name, self._secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.headers = {_TOKEN_HEADER: f"Bearer {name}.{self._secret}"}
        server.routes[name] = self

    def find_failure(self, headers: Mapping[str, str]) -> Exception | None:
        """Return the error of a failed request, once, by the response headers."""
        return self._failures.pop(headers.get(_FAILURE_HEADER.lower(), ""), None)

    def close(self) -> None:
        self._transport.close()

    def is_authorized(self, secret: str) -> bool:
        return hmac.compare_digest(secret.encode(), self._secret.encode())

    def send(self, method: str, path: str, headers: dict[str, str], content: bytes) -> httpx.Response:
        """Send a request and read the response. Raises httpx.HTTPError, BlockedAddress or Unavailable."""
        url, extensions = f"{self._base_url}{path}", {"timeout": self._timeouts}
        request = httpx.Request(method, url, headers=headers, content=content, extensions=extensions)
        with limit_time(EXCHANGE_SECONDS):
            answer = self._transport.handle_request(request)
            try:
                answer.read()
            finally:
                answer.close()
        if answer.status_code in {408, 425, 429} or answer.status_code >= 500:
            raise ServerUnavailable(answer)
        return answer

    def keep_failure(self, error: Exception) -> str:
        """Store the error for `find_failure` and return its number."""
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
        # The library reports a broken connection itself.
        pass


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
            self.close_connection = True  # the body is unread
            self._answer(407 if route is None else 400, {"Connection": "close"})
            return
        content = self._read_body()
        if content is None:
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_HEADERS}
        try:
            answer = route.send(self.command, self.path, headers, content)
        except Exception as error:  # noqa: BLE001 - raised again by the caller of the library
            self._answer(_FAILED_STATUS, {_FAILURE_HEADER: route.keep_failure(error)})
        else:
            passed = {name: value for name, value in answer.headers.items() if name in _RESPONSE_HEADERS}
            self._answer(answer.status_code, passed, answer.content)

    do_DELETE = do_GET = do_POST = _forward  # noqa: N815 - the names that http.server calls

    def _read_body(self) -> bytes | None:
        """Read the body; None after an ambiguous or short length, with the connection closed."""
        lengths = self.headers.get_all("Content-Length", ["0"])
        if len(lengths) > 1 or not lengths[0].isdecimal() or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self._answer(411, {"Connection": "close"})
            return None
        content = self.rfile.read(int(lengths[0]))
        if len(content) < int(lengths[0]):  # the library disconnected
            self.close_connection = True
            return None
        return content

    def _route(self) -> Route | None:
        name, _, secret = self.headers.get(_TOKEN_HEADER, "").removeprefix("Bearer ").partition(".")
        route = self.server.routes.get(name)
        return route if route is not None and route.is_authorized(secret) else None

    def _answer(self, status: int, headers: Mapping[str, str], content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (*headers.items(), ("Content-Length", str(len(content)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


@lru_cache(maxsize=1)
def _start_server(_process_id: int) -> _Server:
    """Start the server of this process."""
    # A forked process has none of the parent's threads and starts its own.
    return _Server()
