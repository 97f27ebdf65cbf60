"""Prometheus endpoint: metrics and access."""

import http.client
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from local import LocalError, metrics_server
from retrieval.database.database import Database
from retrieval.settings import Settings
from tests.retrieval.metrics.test_figures import nothing_counted, parse_samples  # noqa: F401 - a fixture


@contextmanager
def running(url, tmp_path, **settings):
    configured = Settings(home=tmp_path, metrics_port=0, **settings)
    db = Database(url, size=2, role="metrics")
    server = metrics_server.build_server(configured, db)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
        db.close()


def ask(port, path="/metrics", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def test_the_port_tells_the_figures_and_answers_to_this_machines_names_alone(database_url, tmp_path):
    with running(database_url, tmp_path) as port:
        status, body, headers = ask(port)
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert parse_samples(body)[("retrieval_database_up",)] == 1
        assert ask(port, "/")[0] == 200
        assert ask(port, "/etc/passwd")[0] == 404
        assert ask(port, method="POST")[0] == 501
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            assert ask(port, Host=host)[0] == 200
        for host in ("attacker.example", f"attacker.example:{port}", "", "127.0.0.1.attacker.example", "10.0.0.1"):
            status, body, _ = ask(port, Host=host)
            assert status == 403
            assert b"retrieval_" not in body


def test_with_a_token_only_who_sends_it_reads_the_figures(database_url, tmp_path):
    with running(database_url, tmp_path, metrics_token="long-and-random") as port:
        assert ask(port, Authorization="Bearer long-and-random", Host="metrics.internal")[0] == 200
        for wrong in ({}, {"Authorization": "Bearer long"}, {"Authorization": "Basic long-and-random"}):
            status, body, headers = ask(port, **wrong)
            assert status == 401
            assert headers["WWW-Authenticate"] == "Bearer"
            assert b"retrieval_" not in body


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "metrics.internal", ""])
def test_other_machines_are_let_in_by_a_token_alone(host, tmp_path):
    with pytest.raises(LocalError, match="RETRIEVAL_METRICS_TOKEN"):
        metrics_server.require_token(Settings(home=tmp_path, metrics_port=0, metrics_host=host))
    metrics_server.require_token(Settings(home=tmp_path, metrics_port=0, metrics_host=host, metrics_token="t"))


def test_who_holds_connections_open_keeps_nobody_from_the_figures_for_long(database_url, tmp_path, monkeypatch):
    monkeypatch.setattr(metrics_server, "CLIENT_TIMEOUT_SECONDS", 0.5)
    with running(database_url, tmp_path) as port:
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * metrics_server.MAX_CONNECTIONS)]
        try:
            status = None
            deadline = time.monotonic() + 10
            while status is None and time.monotonic() < deadline:
                try:
                    status = ask(port)[0]
                except OSError:  # no room: the server closes the connection at once
                    time.sleep(0.05)
            assert status == 200
        finally:
            for connection in idle:
                connection.close()
