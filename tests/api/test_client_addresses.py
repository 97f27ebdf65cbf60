"""Who counts as one client, and whose X-Forwarded-For is believed."""

from ipaddress import ip_network

import pytest

from api.client_addresses import client_of
from api.server.connections import Connections

PROXIES = [ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48")]


def seen(peer, *forwarded, trusted=PROXIES):
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    return client_of({"client": peer and (peer, 1), "headers": headers}, trusted)


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
def test_the_client_is_told_by_trusted_proxies_alone(peer, forwarded, address):
    assert seen(peer, *forwarded) == address


def test_without_a_trusted_proxy_the_header_says_nothing():
    assert seen("10.0.0.1", "198.51.100.7", trusted=[]) == "10.0.0.1"


class One:
    """A connection that notes whether it was dropped."""

    def __init__(self):
        self.owner = None
        self.dropped = False

    def drop(self):
        self.dropped = True


def opened(connections, host, number, *, waits=True):
    made = [One() for _ in range(number)]
    admitted = []
    for one in made:
        admitted.append(connections.admit(one, host))
        if admitted[-1] and waits:
            connections.waits(one, 10)
    return made, admitted


def test_what_waits_longest_makes_room_for_the_same_address():
    connections = Connections(100, 4)
    others, _ = opened(connections, "192.0.2.2", 4)
    made, admitted = opened(connections, "192.0.2.1", 10)
    assert all(admitted)
    assert [one.dropped for one in made] == [True] * 6 + [False] * 4
    assert not any(one.dropped for one in others)


def test_what_is_being_served_makes_no_room():
    connections = Connections(100, 4)
    opened(connections, "192.0.2.1", 4, waits=False)
    _, admitted = opened(connections, "192.0.2.1", 2)
    assert admitted == [False, False]
    assert opened(connections, "192.0.2.2", 1)[1] == [True]


def test_all_together_are_bounded_too():
    connections = Connections(20, 4)
    first, _ = opened(connections, "192.0.2.1", 4)
    for number in range(2, 8):
        assert all(opened(connections, f"192.0.2.{number}", 4)[1])
    assert all(one.dropped for one in first)


def test_trusted_proxies_are_bounded_together_only():
    connections = Connections(100, 4, PROXIES)
    made, admitted = opened(connections, "10.0.0.1", 50)
    assert all(admitted)
    assert not any(one.dropped for one in made)


def test_nothing_is_kept_of_what_has_ended():
    connections = Connections(100, 4)
    for _ in range(3):
        made, admitted = opened(connections, "2001:db8::1", 4)
        assert all(admitted)
        for one in made:
            connections.forget(one)
            connections.forget(one)
    assert not connections._open
    assert not connections._by_owner
    assert not connections._waiting
