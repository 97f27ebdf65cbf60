"""Stalled uploads and malformed HTTP: answered or closed, other requests continue."""

from __future__ import annotations

import json
import time

import pytest

from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from tests.api import raw
from tests.api.process import running
from tests.api.support import Organization, client_of


@pytest.fixture(scope="module")
def process(api_database, ring, tmp_path_factory):
    # Default settings, except for shorter body deadlines.
    home = tmp_path_factory.mktemp("bounded")
    with running(home, api_database, ring, RETRIEVAL_BODY_SECONDS="3") as (address, _, log):
        yield address, log


@pytest.fixture(scope="module")
def good(process, api_db, ring):
    owner = organizations.create_organization(api_db, "bounded", requests_per_minute=1_000_000)
    key = api_keys.create_key(api_db, ring, owner.id, "bounded")
    with client_of(process[0], key.api_key) as client:
        yield Organization(owner.id, client, key.api_key, api_db, ring, process[0])


def upload(api_key: str, path: str = "/v1/ingest/file") -> bytes:
    """Return the head of an upload and the first bytes of the body."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {api_key}",
        "Content-Type: multipart/form-data; boundary=b",
        "Content-Length: 1000000",
        "",
        "--b",
        'Content-Disposition: form-data; name="file"; filename="a.txt"',
        "",
        "some of it",
    ]
    return "\r\n".join(lines).encode()


def test_a_stalled_upload_is_closed(process, good):
    started = time.monotonic()
    answer = raw.ask(process[0], upload(good.api_key))
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (408, "REQUEST_TIMEOUT")
    assert time.monotonic() - started < 10


def test_a_slow_upload_is_accepted(process, good):
    space = good.namespace()
    parts = [
        '--b\r\nContent-Disposition: form-data; name="namespaceId"\r\n\r\n' + space + "\r\n",
        '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nsome',
        " of",
        " it",
        "\r\n--b--\r\n",
    ]
    head = raw.request(
        "POST",
        "/v1/ingest/file",
        f"Authorization: Bearer {good.api_key}",
        "Content-Type: multipart/form-data; boundary=b",
        f"Content-Length: {sum(map(len, parts))}",
    )
    with raw.connect(process[0]) as connection:
        connection.sendall(head)
        for part in parts:
            time.sleep(1)
            connection.sendall(part.encode())
        assert raw.read(connection).status == 200


CHUNKED = ("Transfer-Encoding: chunked", "Content-Type: application/json")
HARDLY_HTTP = {
    "a chunk extension of 1 MB": raw.request("POST", "/v1/search", *CHUNKED)
    + b"5;a="
    + b"x" * 1_000_000
    + b"\r\n12345",
    "a head of 1 MB": raw.request("GET", "/v1/namespaces", "A: " + "x" * 1_000_000),
    "trailers of 1 MB": raw.request("POST", "/v1/search", *CHUNKED) + b"0\r\nA: " + b"x" * 1_000_000 + b"\r\n\r\n",
    "a chunk of no number": raw.request("POST", "/v1/search", *CHUNKED) + b"zz\r\n",
    "a negative length": raw.request("POST", "/v1/search", "Content-Length: -1"),
    "two lengths": raw.request("POST", "/v1/search", "Content-Length: 2", "Content-Length: 3") + b"{}",
    "a length and chunks": raw.request("POST", "/v1/search", "Content-Length: 2", *CHUNKED) + b"0\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a bare line feed in a field": b"GET /health HTTP/1.1\r\nHost: a\r\nA: b\nc: d\x00\r\n\r\n",
    "a NUL in a field": raw.request("GET", "/health", "A: \x00"),
    "a method nobody knows": b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("case", HARDLY_HTTP)
def test_malformed_http_gets_400_with_the_standard_body(case, process, good):
    address, log = process
    key = f"\r\nAuthorization: Bearer {good.api_key}\r\n".encode()
    for content in (HARDLY_HTTP[case], HARDLY_HTTP[case].replace(b"\r\n", key, 1)):
        answer = raw.ask(address, content)
        assert answer.status == 400, (answer.status, answer.body[:300])
        body = json.loads(answer.body)
        assert (body["success"], body["error"]["code"]) == (False, "INVALID_REQUEST")
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-request-id"]
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["connection"] == "close"
    assert "Traceback" not in log.read_text(), log.read_text()[-3000:]


def test_a_trailer_is_not_a_header(process, good):
    # Trailers must not change decisions made from the head.
    head = raw.request("POST", "/v1/tenants", *CHUNKED, f"Authorization: Bearer {good.api_key}")
    answer = raw.ask(process[0], head + b'b\r\n{"id": "a"}\r\n0\r\nIdempotency-Key: x\r\nIdempotency-Key: y\r\n\r\n')
    assert answer.status == 200, answer.body
