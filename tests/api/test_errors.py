"""Errors have a single shape and status, without internal details."""

from __future__ import annotations

import re
import socket
import time

import pytest

from api.errors import to_service_error
from retrieval.errors import ErrorCode
from tests.api.support import assert_error


def test_an_unexpected_error_reveals_no_details():
    error = to_service_error(RuntimeError("password=hunter2"), unexpected_code=ErrorCode.SEARCH_FAILED)
    assert error.code == ErrorCode.SEARCH_FAILED
    assert "hunter2" not in error.message


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "NOT_FOUND"),
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("PUT", "/v1/namespaces", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/v1/namespaces/%00", 404, "NAMESPACE_NOT_FOUND"),
        ("GET", "/v1/namespaces/%ff%fe", 404, "NAMESPACE_NOT_FOUND"),
        ("GET", f"/v1/namespaces/{'x' * 5000}", 404, "NAMESPACE_NOT_FOUND"),
        ("GET", "/v1/ingest-job-runs/ijr_x?namespaceId=%00", 400, "INVALID_REQUEST"),
        ("GET", "/v1/ingest-job-runs/ijr_x", 400, "INVALID_REQUEST"),
    ],
)
def test_errors_without_a_body(org, method, path, status, code):
    assert_error(org.client.request(method, path), status, code)


def test_a_method_that_is_not_taken_is_answered_with_those_that_are(org):
    answer = org.client.put("/v1/namespaces")
    assert_error(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "GET, POST"


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", None])
def test_json_by_any_of_its_names_is_read(org, content_type):
    headers = {"Content-Type": content_type} if content_type else {}
    answer = org.client.post("/v1/search", content=b'{"query": "a", "namespaceId": "x"}', headers=headers)
    assert_error(answer, 404, "NAMESPACE_NOT_FOUND")


def test_a_body_over_the_cap_is_refused_announced_or_not(org, api_settings):
    big = b" " * (api_settings.max_body_bytes + 1)
    headers = {"Content-Type": "application/json"}
    assert_error(org.client.post("/v1/search", content=big, headers=headers), 413, "PAYLOAD_TOO_LARGE")
    pieces = (big[start : start + 65536] for start in range(0, len(big), 65536))
    assert_error(org.client.post("/v1/search", content=pieces, headers=headers), 413, "PAYLOAD_TOO_LARGE")


def test_a_slow_body_is_given_up(org, base, api_settings):
    host, port = base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as wire:
        wire.sendall(
            f"POST /v1/search HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {org.api_key}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
        )
        started = time.monotonic()
        answer = b"".join(iter(lambda: wire.recv(65536), b"")).decode()
    assert answer.startswith("HTTP/1.1 408 ")
    assert '"REQUEST_TIMEOUT"' in answer
    assert time.monotonic() - started < api_settings.body_seconds + 5


def test_the_clients_request_id_is_kept_if_it_is_sane(org):
    for request_id, is_kept in (("abc-123", True), ("a b", False), ("x" * 200, False), ("<script>", False)):
        got = org.client.get("/v1/namespaces", headers={"X-Request-Id": request_id}).headers["x-request-id"]
        assert (got == request_id) is is_kept
        assert re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", got)


def test_no_answer_repeats_what_was_sent(org):
    canary = "canary-7f3a9c"
    bodies = [
        {"query": "a", "namespaceId": canary},
        {"query": "a", "namespaceId": "x", "searchType": canary},
        {"query": "a", "namespaceId": "x", "topK": canary},
        {"query": "a", "namespaceId": "x", "filter": canary},
    ]
    for body in bodies:
        assert canary not in org.client.post("/v1/search", json=body).text
    assert canary not in org.client.get(f"/v1/namespaces/{canary}").text
    assert canary not in org.client.get(f"/v1/{canary}").text
