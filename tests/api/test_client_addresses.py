"""Who counts as one client, and whose X-Forwarded-For is believed."""

from ipaddress import ip_network

import pytest

from api.rates import client_of
from api.server import Connections

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


class Held:
    """A connection that notes when it is dropped."""

    def __init__(self):
        self.owner = None
        self.dropped = False

    def drop(self):
        self.dropped = True


def opened(connections, host, number):
    made = [Held() for _ in range(number)]
    for connection in made:
        assert connections.admit(connection, host)
        connections.waits(connection, 10)
    return made


def test_requests_at_once_are_bounded_for_each_address_and_again_taken_once_one_is_answered():
    connections = Connections(100, 4)
    made = opened(connections, "192.0.2.1", 10)
    assert [connections.serve(connection) for connection in made] == [True] * 4 + [False] * 6
    assert connections.serve(opened(connections, "192.0.2.2", 1)[0])
    connections.rests(made[0], 10)
    connections.forget(made[1])
    assert [connections.serve(connection) for connection in made[4:]] == [True] * 2 + [False] * 4
    assert not any(connection.dropped for connection in made)


def test_the_address_with_the_most_connections_makes_room_by_what_waits_longest():
    connections = Connections(12, 4)
    others = opened(connections, "192.0.2.2", 4)
    made = opened(connections, "192.0.2.1", 20)
    assert [connection.dropped for connection in made] == [True] * 12 + [False] * 8
    assert not any(connection.dropped for connection in others)


def test_what_is_being_served_makes_no_room():
    connections = Connections(4, 4)
    for connection in opened(connections, "192.0.2.1", 4):
        connections.serve(connection)
    assert not connections.admit(Held(), "192.0.2.2")


def test_trusted_proxies_are_bounded_together_only():
    connections = Connections(100, 4, PROXIES)
    made = opened(connections, "10.0.0.1", 50)
    assert all(connections.serve(connection) for connection in made)


def test_nothing_is_kept_of_what_has_ended():
    connections = Connections(100, 4)
    for _ in range(3):
        for connection in opened(connections, "2001:db8::1", 6):
            connections.serve(connection)
            connections.forget(connection)
            connections.forget(connection)
    assert not connections._open
    assert not connections._by_owner
    assert not connections._served
    assert not connections._served_by_owner
    assert not connections._waiting
