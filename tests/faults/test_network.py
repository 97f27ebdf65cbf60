"""The network behaves like a real one."""

import socket
import struct

import pytest

from tests.faults.network import Network


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_reset_behind_the_network_reaches_the_client(listener):
    # PostgreSQL and Prefect reset connections when killed with unread requests.
    with Network(listener.getsockname()[1]) as network, socket.create_connection(("127.0.0.1", network.port)) as client:
        client.settimeout(5)
        client.sendall(b"asked")
        accepted, _ = listener.accept()
        assert accepted.recv(1) == b"a"
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_an_end_passes_a_cut_network_only_when_it_is_healed(listener):
    with Network(listener.getsockname()[1]) as network, socket.create_connection(("127.0.0.1", network.port)) as client:
        client.sendall(b"asked")
        accepted, _ = listener.accept()
        assert accepted.recv(5) == b"asked"
        network.cut()
        client.settimeout(0.5)
        accepted.close()
        with pytest.raises(TimeoutError):
            client.recv(1)
        network.heal()
        client.settimeout(5)
        assert client.recv(1) == b""
