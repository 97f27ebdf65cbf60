"""The guarded client is bounded in bytes, time and redirects and never enters internal networks."""

import gzip
import io
import itertools
import socket
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_network

import pytest

from connectors.web.builtin import client as clients
from connectors.web.builtin.client import Bounds, FetchRequest, Throttle, WebClient
from retrieval.errors import Retryable, Skippable
from retrieval.network.fetch_guard import Guard

LOOPBACK = Guard((ip_network("127.0.0.1/32"),))


class Server:
    """Answer each request, on its own connection, with the parts from `play(path, headers)`."""

    def __init__(self, play, host="127.0.0.1"):
        self.play = play
        self.requests = []
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://{host}:{self.port}"
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.answer, args=(connection,))
            thread.start()
            self.threads.append(thread)

    def answer(self, connection):
        with connection:
            connection.settimeout(5)
            try:
                request_bytes = b""
                while b"\r\n\r\n" not in request_bytes:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    request_bytes += piece
                lines = request_bytes.decode("latin-1").split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
                self.requests.append((lines[0].split()[1], headers))
                for part in self.play(lines[0].split()[1], headers):
                    connection.sendall(part)
            except OSError:
                return

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(10)


@contextmanager
def serving(play, host="127.0.0.1"):
    server = Server(play, host)
    try:
        yield server
    finally:
        server.close()


def answer(body=b"", status="200 OK", **headers):
    headers_sent = {"content-length": str(len(body)), "connection": "close"} | headers
    lines = [
        f"HTTP/1.1 {status}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers_sent.items()),
        "",
        "",
    ]
    return [("\r\n".join(lines)).encode("latin-1") + body]


@pytest.fixture
def make(monkeypatch):
    """Return a function to make clients for 127.0.0.1 without pauses between retries."""
    monkeypatch.setattr(clients.random, "uniform", lambda *_: 0.0)
    opened = []

    def client(guard=LOOPBACK, *, size=1_000_000, seconds=5.0, **manners):
        polite = Throttle(manners.get("at_once", 8), manners.get("delay", 0.0))
        opened.append(WebClient(guard, polite, user_agent="Tester/1.0", bounds=Bounds(size, seconds)))
        return opened[-1]

    yield client
    for opened_client in opened:
        opened_client.close()


def test_a_page_is_fetched_with_an_honest_name(make):
    with serving(lambda *_: answer(b"<p>hello", content_type="text/html; charset=utf-8", etag='"1"')) as server:
        into = io.BytesIO()
        response = make().get(f"{server.url}/a?b=c#part", into)
    assert into.getvalue() == b"<p>hello"
    assert (response.status, response.size, response.url) == (200, 8, f"{server.url}/a?b=c")
    assert response.media_type == "text/html; charset=utf-8"
    assert response.headers["etag"] == '"1"'
    ((path, headers),) = server.requests
    assert path == "/a?b=c"
    assert headers["user-agent"] == "Tester/1.0"
    assert not {"cookie", "authorization", "proxy-authorization"} & headers.keys()


def test_cookies_of_one_answer_are_not_sent_with_the_next_request(make):
    with serving(lambda *_: answer(b"x", set_cookie="session=1; Path=/")) as server:
        client = make()
        client.get(server.url, io.BytesIO())
        client.get(server.url, io.BytesIO())
    assert all("cookie" not in headers for _, headers in server.requests)


def test_ten_redirects_are_followed_and_no_eleventh(make):
    def play(path, _):
        redirects_left = int(path[1:])
        return answer(b"end") if redirects_left == 0 else answer(status="301 Moved", location=f"/{redirects_left - 1}")

    with serving(play) as server:
        assert make().get(f"{server.url}/10", io.BytesIO()).url == f"{server.url}/0"
        with pytest.raises(Skippable, match="more than 10 redirects"):
            make().get(f"{server.url}/11", io.BytesIO())


def test_a_long_file_is_refused_by_its_length_and_cut_where_that_is_wished(make):
    with serving(lambda *_: answer(b"y" * 2_000_000)) as server:
        into = io.BytesIO()
        with pytest.raises(Skippable, match="larger than"):
            make().get(server.url, into)
        assert into.getvalue() == b""
        response = make().get(server.url, into, FetchRequest(cut=True))
    assert response.cut
    assert response.size == len(into.getvalue()) == 1_000_000


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data, wbits=-15)),
        ("gzip", lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:])),
        ("identity", bytes),
    ],
)
def test_packed_pages_are_unpacked(encoding, pack, make):
    page = b"".join(b"line %d\n" % number for number in range(20_000))
    with serving(lambda *_: answer(pack(page), content_encoding=encoding)) as server:
        into = io.BytesIO()
        response = make().get(server.url, into)
    assert into.getvalue() == page
    assert response.size == len(page)


def test_a_gzip_bomb_stops_at_the_bound(make):
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
    with serving(lambda *_: answer(bomb, content_encoding="gzip")) as server:
        into = io.BytesIO()
        with pytest.raises(Skippable, match="larger than"):
            make().get(server.url, into)
    assert len(into.getvalue()) <= 1_000_000


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "gzip,gzip,gzip", "compress", "x"])
def test_an_unrequested_encoding_is_refused(encoding, make):
    with serving(lambda *_: answer(gzip.compress(gzip.compress(b"x")), content_encoding=encoding)) as server:
        with pytest.raises(Skippable, match="Content-Encoding"):
            make().get(server.url, io.BytesIO())


def test_a_length_that_lies_is_a_broken_answer(make):
    with serving(lambda *_: answer(b"short", content_length="500")) as server:
        with pytest.raises(Retryable, match="broke off"):
            make().get(server.url, io.BytesIO())
        assert len(server.requests) == clients.MAX_ATTEMPTS
    with serving(lambda *_: answer(b"long enough", content_length="4")) as server:
        into = io.BytesIO()
        with pytest.raises(Retryable, match="broke off"):
            make().get(server.url, into)
    assert into.getvalue() in (b"", b"long")


def drip(*parts):
    """Send one byte of the last part every tenth of a second."""

    def play(*_):
        yield from parts[:-1]
        for byte in parts[-1]:
            time.sleep(0.1)
            yield bytes([byte])

    return play


@pytest.mark.parametrize(
    "parts",
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", b"x" * 100),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100,),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 4,),
    ],
)
def test_an_answer_that_drips_ends_in_time(parts, make, monkeypatch):
    monkeypatch.setattr(clients, "MAX_ATTEMPTS", 1)
    started = time.monotonic()
    with serving(drip(*parts)) as server:
        with pytest.raises(Retryable, match="in time"):
            make(seconds=1.0).get(server.url, io.BytesIO())
        assert time.monotonic() - started < 2


def test_trouble_that_passes_is_tried_again(make):
    turns = iter([answer(status="500 Oops"), [], answer(b"there")])
    with serving(lambda *_: next(turns)) as server:
        into = io.BytesIO()
        assert make().get(server.url, into).status == 200
    assert into.getvalue() == b"there"
    assert len(server.requests) == 3


@pytest.mark.parametrize("dated", [False, True])
def test_a_long_retry_after_is_handed_to_the_caller(dated, make):
    stamp = format_datetime(datetime.now(UTC) + timedelta(seconds=120), usegmt=True) if dated else "120"
    with serving(lambda *_: answer(status="503 Busy", retry_after=stamp)) as server:
        client = make()
        for _ in range(2):
            with pytest.raises(Retryable) as raised:
                client.get(server.url, io.BytesIO())
            assert raised.value.after == pytest.approx(120, abs=10)
    assert len(server.requests) == 1, "asked again a host that wanted to be left alone"


def test_proxy_variables_and_passwords_of_the_machine_are_not_used(make, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.9:9")
    with serving(lambda *_: answer(b"ok")) as server:
        make().get(server.url, io.BytesIO())
    assert server.requests[0][0] == "/"
    assert "authorization" not in server.requests[0][1]


def test_one_host_gets_few_requests_at_once_and_none_too_soon(make):
    running, busiest, starts, lock = 0, 0, [], threading.Lock()

    def play(*_):
        nonlocal running, busiest
        with lock:
            running, busiest = running + 1, max(busiest, running + 1)
            starts.append(time.monotonic())
        time.sleep(0.15)
        with lock:
            running -= 1
        return answer(b"ok")

    with serving(play) as server:
        client = make(at_once=2, delay=0.2)
        threads = [threading.Thread(target=client.get, args=(server.url, io.BytesIO())) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    starts.sort()
    assert len(starts) == 6
    assert busiest <= 2
    assert min(later - earlier for earlier, later in itertools.pairwise(starts)) > 0.1


def test_pages_of_a_site_with_a_long_crawl_delay_wait_for_their_turns(make, monkeypatch):
    """Four at once with 30 s each are 90 s for the last one, more than a pause that the site may ask for."""
    monkeypatch.setattr(clients, "LONGEST_WAIT", 0.3)
    with serving(lambda *_: answer(b"ok")) as server:
        client = make(at_once=4)
        request = FetchRequest(delay=0.2)
        with ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(client.get, server.url, io.BytesIO(), request) for _ in range(4)]
        for future in answers:
            future.result()
    assert len(server.requests) == 4


def test_a_server_that_is_not_there_may_come_back(make):
    with socket.create_server(("127.0.0.1", 0)) as closed_socket:
        port = closed_socket.getsockname()[1]
    with pytest.raises(Retryable, match="cannot be reached"):
        make().get(f"http://127.0.0.1:{port}/", io.BytesIO())


def test_reasons_hold_nothing_that_the_site_sent(make):
    with serving(lambda *_: answer(b"canary", status="404 canary", x_canary="canary")) as server:
        with pytest.raises(Skippable) as raised:
            make().get(f"{server.url}/canary", io.BytesIO())
    assert "canary" not in str(raised.value)
