"""Requests through the operator's proxy: names are resolved and checked here, TLS is for the real name."""

from __future__ import annotations

import socket
import ssl
from contextlib import closing

import httpx
import pytest

from connectors.google import transport as google
from connectors.http import sessions
from retrieval import settings
from retrieval.network import fetch_guard
from retrieval.network.guard_proxy import Route
from retrieval.network.transport import Transport, VendorTransport
from retrieval.setting_values import Endpoint
from tests.standins.egress_proxy import proxying
from tests.standins.secure import secured

NAME, ADDRESS = "files.example.com", "93.184.215.14"
URL = f"https://{NAME}/a"


@pytest.fixture
def resolver(monkeypatch):
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *args, **kwargs):
        numbers = {NAME: ADDRESS, "inside.example.com": "10.0.0.7"}
        return real(numbers.get(host, host), port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.fixture
def site(tmp_path):
    with secured(tmp_path, NAME) as site:
        yield site


@pytest.fixture
def proxy(site, resolver, monkeypatch):
    with proxying(site.server.server_port) as proxy:
        monkeypatch.setenv("RETRIEVAL_EGRESS_PROXY", proxy.url)
        settings.load_settings.cache_clear()
        yield proxy
    settings.load_settings.cache_clear()


def fetch_checked(site):
    verify = ssl.create_default_context(cafile=site.certificate)
    transport = Transport(fetch_guard.make_guard(settings.load_settings()), verify=verify)
    with httpx.Client(transport=transport) as client:
        return client.get(URL).text


def fetch_through_the_guard_proxy(site):
    verify = ssl.create_default_context(cafile=site.certificate)
    guard = fetch_guard.make_guard(settings.load_settings())
    with closing(Route(f"https://{NAME}", guard, verify=verify, seconds=5, max_bytes=1000)) as route:
        return httpx.get(f"{route.url}/a", headers=route.headers, trust_env=False).text


def fetch_from_vendor(site):
    with sessions.httpx_client(
        ssl.create_default_context(cafile=site.certificate), seconds=5, max_bytes=1000
    ) as client:
        return client.get(URL).text


def fetch_by_requests(site):
    with sessions.requests_session(Endpoint(ca_bundle=site.certificate), "BOX") as session:
        return session.get(URL, timeout=5).text


def fetch_by_google(site):
    with closing(google._PooledConnection(f"https://{NAME}", str(site.certificate))) as connection:
        return connection.request(URL)[1].decode()


def fetch_by_socket(site):
    guard = fetch_guard.make_trusting_guard(settings.load_settings())
    context = ssl.create_default_context(cafile=site.certificate)
    with context.wrap_socket(guard.connect(NAME, 443, 5), server_hostname=NAME) as stream:
        stream.sendall(f"GET /a HTTP/1.0\r\nHost: {NAME}\r\n\r\n".encode())
        return b"".join(iter(lambda: stream.recv(1000), b"")).decode().rpartition("\r\n")[2]


CHECKED_HERE = [fetch_checked, fetch_through_the_guard_proxy, fetch_from_vendor, fetch_by_socket]


@pytest.mark.parametrize("fetch", [*CHECKED_HERE, fetch_by_requests, fetch_by_google])
def test_each_client_is_tunnelled_with_tls_for_the_name(fetch, proxy, site):
    assert fetch(site) == site.text
    assert proxy.seen == [f"{ADDRESS if fetch in CHECKED_HERE else NAME}:443"]


def test_the_proxy_is_not_asked_for_what_the_guard_refuses(proxy):
    with (
        httpx.Client(transport=Transport(fetch_guard.make_guard(settings.load_settings()))) as client,
        pytest.raises(fetch_guard.BlockedAddress),
    ):
        client.get("https://inside.example.com/")
    with pytest.raises(fetch_guard.BlockedAddress):
        fetch_guard.make_guard(settings.load_settings()).resolve("127.0.0.1", proxy.port)
    assert proxy.seen == []


def test_private_endpoints_of_the_operator_are_reached_directly(proxy, site):
    # the certificate is not for this address: that TLS fails shows who answered
    with httpx.Client(transport=VendorTransport(ssl.create_default_context(cafile=site.certificate))) as client:
        with pytest.raises(httpx.ConnectError, match="certificate"):
            client.get(site.base)
    assert fetch_guard.find_route(settings.load_settings(), site.base) is None
    assert proxy.seen == []


def test_a_refusal_of_the_proxy_tells_no_credentials(proxy, site, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_EGRESS_PROXY", proxy.url.replace("p%40ss", "secret-word"))
    settings.load_settings.cache_clear()
    with pytest.raises(httpx.ConnectError, match="answers 407") as refused:
        fetch_from_vendor(site)
    assert "secret-word" not in f"{refused.value!r} {settings.load_settings()!r}"
    with pytest.raises(OSError, match="407"):
        fetch_by_google(site)


@pytest.mark.parametrize("url", ["socks5://a:1", "https://a:1", "http://a", "http://u:p@:1", "http://a:1/x"])
def test_what_is_no_proxy_is_refused(url, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_EGRESS_PROXY", url)
    settings.load_settings.cache_clear()
    with pytest.raises(settings.WrongSetting, match="RETRIEVAL_EGRESS_PROXY"):
        settings.load_settings()
    settings.load_settings.cache_clear()
