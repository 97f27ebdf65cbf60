"""Client addresses, and trusted sources of X-Forwarded-For."""

from ipaddress import ip_network

import pytest

from api.rates import find_client

PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48")]


def address_of(peer, *forwarded, trusted=PROXIES):
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    return find_client({"client": peer and (peer, 1), "headers": headers}, trusted)


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["6.6.6.6", "198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7, 10.2.2.2"], "198.51.100.7"),
        ("10.0.0.1", ["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
        ("10.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
        ("10.0.0.1", ["[2001:db8:7::5]:4711"], "2001:db8:7::/64"),
        ("10.0.0.1", ["2001:db8:7::5"], "2001:db8:7::/64"),
        ("10.0.0.1", ["6.6.6.6, unknown"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("2001:db8:1::9", ["198.51.100.7"], "198.51.100.7"),
        ("2001:db8:2::9", ["198.51.100.7"], "2001:db8:2::/64"),
        ("2001:db8:2::9%eth0", [], "2001:db8:2::/64"),
        (None, ["198.51.100.7"], ""),
        ("10.0.0.1", ["\xff\x00, ,,"], "10.0.0.1"),
    ],
)
def test_only_trusted_proxies_name_the_client(peer, forwarded, address):
    assert address_of(peer, *forwarded) == address


def test_the_header_is_ignored_without_a_trusted_proxy():
    assert address_of("10.0.0.1", "198.51.100.7", trusted=[]) == "10.0.0.1"
