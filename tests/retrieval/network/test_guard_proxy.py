"""Library requests pass through the process's proxy: with a token, to checked addresses."""

import socket
import ssl
import time
from contextlib import ExitStack, closing
from ipaddress import ip_network

import httpx
import pytest

from retrieval.network import guard_proxy
from retrieval.network.fetch_guard import BlockedAddress, Guard
from retrieval.network.guard_proxy import Route, ServerUnavailable
from tests.standins.faults import Handler, packed, served, slow, status

LOOPBACK = Guard((ip_network("127.0.0.0/8"),))
VERIFY = ssl.create_default_context()
MAX_ANSWER_BYTES = 1000


class Server:
    def __init__(self):
        self.seen, self.fault, self.body = [], None, b"an answer"


@pytest.fixture
def server():
    upstream = Server()

    class Recording(Handler):
        def do_POST(self):  # noqa: N802 - the name that http.server calls
            upstream.seen.append((self.path, dict(self.headers), self.read_body()))
            if upstream.fault is None or not upstream.fault(self):
                self.reply(200, upstream.body, {"X-Other": "1"})

    with served(Recording) as port:
        upstream.url = f"http://localhost:{port}"
        yield upstream


@pytest.fixture
def make_route(server):
    with ExitStack() as routes:

        def make(guard=LOOPBACK, seconds=5.0):
            route = Route(f"{server.url}/base", guard, verify=VERIFY, seconds=seconds, max_bytes=MAX_ANSWER_BYTES)
            return routes.enter_context(closing(route))

        yield make


def post(route, headers=None, path="/a?b=%2F"):
    with httpx.Client(trust_env=False) as client:
        return client.post(
            f"{route.url}{path}", content=b"words", headers={"Api-Key": "k"} | (headers or route.headers)
        )


def failure_of(route):
    answer = post(route)
    assert (answer.status_code, answer.content) == (599, b"")
    failure = route.find_failure(answer.headers)
    assert route.find_failure(answer.headers) is None
    return failure


def test_a_request_and_its_answer_are_passed_on(server, make_route):
    answer = post(make_route())
    assert (answer.status_code, answer.content) == (200, b"an answer")
    ((path, headers, body),) = server.seen
    assert (path, body, headers["Api-Key"]) == ("/base/a?b=%2F", b"words", "k")
    assert headers["Host"] == server.url.removeprefix("http://")
    assert "Proxy-Authorization" not in headers


def test_a_wrong_token_is_refused(server, make_route):
    route, other_route = make_route(), make_route()
    name, _, secret = route.headers["Proxy-Authorization"].partition(".")
    others_secret = other_route.headers["Proxy-Authorization"].partition(".")[2]
    for token in ("", name, f"{name}.", f"{name}.{others_secret}", f"{name}.{secret}x", f"Bearer .{secret}", "\u00e9"):
        headers = {"Proxy-Authorization": token.encode("latin-1")}
        assert post(route, headers).status_code == 407
    assert server.seen == []


def test_the_token_of_a_route_that_is_gone_is_refused():
    route = Route("http://localhost", LOOPBACK, verify=VERIFY, seconds=5, max_bytes=MAX_ANSWER_BYTES)
    headers, url = route.headers, route.url
    del route
    assert httpx.post(f"{url}/a", headers=headers, trust_env=False).status_code == 407


@pytest.mark.parametrize("target", ["localhost:443", "http://localhost/a"])
def test_only_the_server_of_the_route_is_reached(server, make_route, target):
    route = make_route()
    method, status_line = ("CONNECT", b" 501 ") if "/" not in target else ("POST", b" 400 ")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in route.headers.items()), "", ""]
    with socket.create_connection(("127.0.0.1", httpx.URL(route.url).port), 5) as connection:
        connection.sendall("\r\n".join(lines).encode())
        assert status_line in connection.recv(1000).splitlines()[0]
    assert server.seen == []


def test_an_address_that_is_not_allowed_is_not_dialled(server, make_route):
    assert isinstance(failure_of(make_route(Guard())), BlockedAddress)
    assert server.seen == []


def test_a_name_that_leads_elsewhere_later_is_checked_again(server, make_route):
    class Rebound(Guard):
        def resolve(self, host, port):
            return (Guard() if server.seen else LOOPBACK).resolve(host, port)

    route = make_route(Rebound())
    server.fault = lambda handler: setattr(handler, "close_connection", True)
    assert post(route).status_code == 200
    assert isinstance(failure_of(route), BlockedAddress)
    assert len(server.seen) == 1


@pytest.mark.parametrize("fault", [None, packed(b" " * 10_000)], ids=["long", "packed"])
def test_an_answer_of_too_many_bytes_is_not_passed_on(server, make_route, fault):
    server.body, server.fault = b"x" * (MAX_ANSWER_BYTES + 1), fault
    assert isinstance(failure_of(make_route()), httpx.DecodingError)


def test_a_slow_answer_is_given_up(server, make_route):
    server.fault = slow(1)
    assert isinstance(failure_of(make_route(seconds=0.2)), httpx.ReadTimeout)


def test_an_answer_that_drips_is_given_up(server, make_route, monkeypatch):
    def drip(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(20):
            handler.wfile.write(b"x")
            time.sleep(0.1)
        return True

    monkeypatch.setattr(guard_proxy, "EXCHANGE_SECONDS", 0.3)
    server.fault = drip
    assert isinstance(failure_of(make_route()), httpx.ReadTimeout)


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503, 504, 529])
def test_a_status_for_which_libraries_repeat_requests_is_not_passed_on(server, make_route, code):
    server.fault = status(code, Retry_After="7")
    failure = failure_of(make_route())
    assert isinstance(failure, ServerUnavailable)
    assert (failure.status, failure.headers["Retry-After"]) == (code, "7")


@pytest.mark.parametrize("code", [302, 400, 401, 404])
def test_other_statuses_are_passed_on(server, make_route, code):
    server.fault = status(code, "the reason")
    answer = post(make_route())
    assert (answer.status_code, answer.json()["message"]) == (code, "the reason")


@pytest.mark.parametrize(
    ("length", "body"),
    [
        ("Transfer-Encoding: chunked", b"5\r\nwords\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5", b"5\r\nwords\r\n0\r\n\r\n"),
        ("Content-Length: -1", b"words"),
        ("Content-Length: five", b"words"),
        ("Content-Length: 5\r\nContent-Length: 0", b"words"),
        ("Content-Length: 50", b"words"),
    ],
)
def test_a_request_whose_body_has_no_certain_length_is_not_passed_on(server, make_route, length, body):
    route = make_route()
    lines = ["POST /a HTTP/1.1", *(f"{name}: {value}" for name, value in route.headers.items()), length, "", ""]
    with socket.create_connection(("127.0.0.1", httpx.URL(route.url).port), 5) as connection:
        connection.sendall("\r\n".join(lines).encode() + body)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(1000), b""))
    assert answer.count(b"HTTP/1.1") <= 1
    assert answer == b"" or b" 411 " in answer.splitlines()[0]
    assert server.seen == []
