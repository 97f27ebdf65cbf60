"""HTTP policy of every vendor: retries, bounds of answers, isolation of clients."""

import hashlib
import http.server
import threading
from contextlib import contextmanager

import httpx
import pytest

from connectors.http import responses, sessions
from connectors.http.retries import RateLimited, Timeout, TransientError
from retrieval.errors import Fatal, Skippable
from retrieval.setting_values import Endpoint


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (200, {}, None),
        (400, {}, None),
        (401, {}, None),
        (403, {}, None),
        (404, {}, None),
        (408, {}, TransientError),
        (409, {}, None),
        (425, {}, TransientError),
        (429, {}, RateLimited),
        (429, {"Retry-After": "7"}, RateLimited),
        (500, {}, TransientError),
        (503, {}, TransientError),
        (503, {"Retry-After": "7"}, TransientError),
        (599, {}, TransientError),
    ],
)
def test_what_is_tried_again_at_every_vendor(status, headers, kind):
    error = responses.transient_error("Acme", status, headers)
    assert (type(error) if error else None) is kind
    if kind is RateLimited:
        assert error.after == (7 if headers else None)
    if kind is TransientError:
        assert str(error) == f"Acme answered with an error of its own ({status})."


def test_what_a_vendor_adds():
    assert isinstance(responses.transient_error("Acme", 409, {}, passing={409}), TransientError)
    assert isinstance(responses.transient_error("Acme", 509, {}, busy={509}), RateLimited)
    assert isinstance(responses.transient_error("Acme", 529, {"retry-after": "1"}, busy_if_asked={529}), RateLimited)
    assert isinstance(responses.transient_error("Acme", 529, {}, busy_if_asked={529}), TransientError)


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (httpx.ReadTimeout("secret"), Timeout, "Acme did not answer within 30 s."),
        (httpx.ConnectError("secret"), TransientError, "Acme could not be reached, or its answer broke off."),
    ],
)
def test_failures_have_our_own_messages(raised, kind, message):
    with pytest.raises(kind) as caught, responses.translate_failures("Acme", 30):
        raise raised
    assert str(caught.value) == message


def test_a_file_is_written_hashed_and_measured(tmp_path):
    digest = hashlib.sha256()
    size = responses.save_file([b"ab", b"c"], tmp_path / "f", max_bytes=3, seconds=10, service="Acme", digest=digest)
    assert (size, (tmp_path / "f").read_bytes()) == (3, b"abc")
    assert digest.digest() == hashlib.sha256(b"abc").digest()


def test_a_file_beyond_the_cap_is_left_out_with_the_cap(tmp_path):
    with pytest.raises(Skippable, match="larger than 1 MiB, the most that is fetched"):
        responses.save_file([b"x" * 2**20, b"x"], tmp_path / "f", max_bytes=2**20, seconds=10, service="Acme")


def test_what_never_ends_is_given_up(tmp_path, monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(responses.time, "monotonic", lambda: next(clock))
    with pytest.raises(Timeout, match=r"Acme did not send the file within 5 s\."):
        responses.save_file((b"." for _ in range(1000)), tmp_path / "f", max_bytes=2**20, seconds=5, service="Acme")
    with pytest.raises(TransientError, match="has no end"):
        responses.read_body((b"." for _ in range(100)), max_bytes=10, seconds=5000, service="Acme")


@contextmanager
def leading_on():
    """Serve redirects with a cookie; yield the base URL and the requests."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append((self.path, self.headers.get("cookie"), self.headers.get("authorization")))
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Set-Cookie", "a=b")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_clients_follow_no_redirect_keep_no_cookie_and_use_no_proxy_or_netrc_of_the_machine(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password of-the-machine\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with leading_on() as (base, requests), sessions.requests_session(None, "ACME") as session:
        with sessions.httpx_client(sessions.trusted_certificates(None, "ACME"), seconds=5) as client:
            for get in (session.get, client.get):
                assert [get(f"{base}/here").status_code for _ in range(2)] == [302, 302]
    assert requests == [("/here", None, None)] * 4


def test_an_unreadable_certificate_is_reported_with_the_service(tmp_path):
    (tmp_path / "bundle.pem").write_text("no certificate")
    for bundle in (tmp_path / "bundle.pem", tmp_path / "none.pem"):
        endpoint = Endpoint.model_construct(base_url="https://box.test", ca_bundle=bundle)
        for make_client in (sessions.trusted_certificates, sessions.requests_session):
            with pytest.raises(Fatal, match="ca_bundle that RETRIEVAL_ENDPOINTS names for BOX cannot be read"):
                make_client(endpoint, "BOX")


def test_an_endpoint_of_the_operator_comes_first():
    assert sessions.base_url(None, "https://api.acme.test") == "https://api.acme.test"
    assert (
        sessions.base_url(Endpoint(base_url="https://gateway.test/acme/"), "https://a") == "https://gateway.test/acme"
    )
