"""Requests to Prefect during restarts of its server or database."""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_RETRY_EXTRA_CODES, temporary_settings
from prefect.states import Pending

from local import environment
from local.environment import ResolvedAddresses
from retrieval.settings import Settings
from tests.nightly import nightly_except


@contextmanager
def restarting_server(refusals):
    """Server with 500 for the first requests, then 201."""
    statuses = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            status = 500 if len(statuses) < refusals else 201
            statuses.append(status)
            accepted = {"status": "ACCEPT", "state": {"type": "PENDING"}, "details": {"type": "accept_details"}}
            body = json.dumps({} if status == 500 else accepted).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            # The stub has no CSRF tokens.
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api", statuses
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("role", nightly_except(["worker", "dispatcher"], "worker"))
def test_a_role_asks_again_while_the_database_of_prefect_restarts(tmp_path, role):
    # A submitted flow run stayed Pending until the lease ended.
    with restarting_server(1) as (url, statuses):
        variables = environment.build_variables(role, Settings(home=tmp_path), ResolvedAddresses("", "", url))
        server_settings = {
            PREFECT_API_URL: variables["PREFECT_API_URL"],
            PREFECT_CLIENT_RETRY_EXTRA_CODES: variables["PREFECT_CLIENT_RETRY_EXTRA_CODES"],
        }
        with temporary_settings(server_settings), get_client(sync_client=True) as client:
            assert client.set_flow_run_state(uuid.uuid4(), Pending()).status.value == "ACCEPT"
    assert statuses == [500, 201]
