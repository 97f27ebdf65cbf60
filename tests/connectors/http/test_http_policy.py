"""HTTP policy of every vendor: retries, bounds of answers, isolation of clients."""

from contextlib import contextmanager

import pytest

from connectors.http import responses, sessions
from connectors.http.retries import RateLimited, TransientError
from retrieval.errors import Fatal
from retrieval.setting_values import Endpoint
from tests.standins.faults import Handler, served


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


@contextmanager
def leading_on():
    """Serve redirects with a cookie; yield the base URL and the requests."""
    requests = []

    class Leading(Handler):
        def do_GET(self):  # noqa: N802 - the name that http.server calls
            requests.append((self.path, self.headers.get("cookie"), self.headers.get("authorization")))
            self.reply(302, b"", {"Location": "/elsewhere", "Set-Cookie": "a=b"})

    with served(Leading) as port:
        yield f"http://127.0.0.1:{port}", requests


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
