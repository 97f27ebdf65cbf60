"""Guarded requests end, fail and release connections like httpx."""

import socketserver
import threading
from contextlib import ExitStack
from ipaddress import ip_network

import httpx
import pytest

from retrieval.network.fetch_guard import Guard
from retrieval.network.transport import Transport

LOOPBACK = Guard((ip_network("127.0.0.0/8"),))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


@pytest.fixture
def serve():
    """Start a server with a fixed response; `connections` has the requests by connection."""
    with ExitStack() as servers:

        def start(answer, *, hang_up=False):
            class Handler(socketserver.BaseRequestHandler):
                def handle(self):
                    requests = []
                    server.connections.append(requests)
                    while data := self.request.recv(65536):
                        requests.append(data)
                        self.request.sendall(answer)
                        if hang_up:
                            return

            server = servers.enter_context(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler))
            server.daemon_threads, server.connections = True, []
            server.url = f"http://127.0.0.1:{server.server_address[1]}/"
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            servers.callback(server.shutdown)
            return server

        yield start


def make_client(**options):
    return httpx.Client(transport=Transport(LOOPBACK, **options), trust_env=False, timeout=0.3)


@pytest.mark.parametrize(
    ("answer", "hang_up", "error"),
    [
        (b"", False, httpx.ReadTimeout),
        (b"", True, httpx.RemoteProtocolError),
        (b"SSH-2.0-OpenSSH\r\n", True, httpx.RemoteProtocolError),
        (HEAD + b"0123", True, httpx.RemoteProtocolError),
        (HEAD + b"0123", False, httpx.ReadTimeout),
    ],
    ids=["silence", "hang-up", "another protocol", "body cut off", "body stalls"],
)
@pytest.mark.parametrize("max_bytes", [None, 100])
def test_a_failing_server_raises_the_error_of_httpx(serve, answer, hang_up, error, max_bytes):
    server = serve(answer, hang_up=hang_up)
    with make_client(max_bytes=max_bytes) as client, pytest.raises(error) as caught:
        client.get(server.url)
    assert caught.type is error
    assert str(caught.value.request.url) == server.url
