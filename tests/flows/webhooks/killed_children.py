"""Processes of `test_webhooks_killed`: a worker, a sender and an endpoint.

python -m tests.flows.webhooks.killed_children worker|sender|receiver
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path

from standardwebhooks.webhooks import Webhook

from retrieval.database.database import Database
from retrieval.jobs.queries import batches
from retrieval.network.fetch_guard import Guard
from retrieval.ports import Scope
from retrieval.security.secrets import KeyRing
from retrieval.webhooks.sending import Sender
from tests.flows.configured import Configured


def ready() -> None:
    """Report readiness of the process."""
    Path(os.environ["KILLED_LOG"]).with_name(f"ready-{os.getpid()}").touch()


def work() -> None:
    """Take all waiting work through the steps, including that of killed workers."""
    space = Configured.__new__(Configured)
    space.db, space.ring = Database(os.environ["KILLED_DATABASE"]), KeyRing.parse(os.environ["KILLED_KEYS"])
    space.scope = Scope(os.environ["KILLED_ORGANIZATION"], os.environ["KILLED_NAMESPACE"])
    ready()
    while True:
        batches.form_batches(space.db, size=64, batches=8)
        for batch in batches.undispatched_batches(space.db):
            batches.record_flow_run(space.db, batch, "run")
        for row in space.db.rows("select id, attempt from batches where finished_at is null order by created_at"):
            if lease := batches.claim_lease(space.db, row["id"], row["attempt"], seconds=1):
                space.take(lease)
        time.sleep(0.05)


def send() -> None:
    """Send events as a dispatcher does."""
    ring = KeyRing.parse(os.environ["KILLED_KEYS"])
    sender = Sender(Database(os.environ["KILLED_DATABASE"]), lambda: ring, Guard((ip_network("127.0.0.0/8"),)))
    ready()
    while True:
        sender.begin()
        time.sleep(0.01)


def receive() -> None:
    """Record each event before acknowledging it."""
    log = Path(os.environ["KILLED_LOG"]).open("a", buffering=1)  # noqa: SIM115 - until it is killed
    secrets = json.loads(os.environ["KILLED_SECRETS"])

    class Endpoint(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            secret = secrets[self.path.rpartition("/")[2]]
            body = Webhook(secret).verify(content, {name.lower(): value for name, value in self.headers.items()})
            about = {"at": time.time(), "path": self.path, "id": self.headers["webhook-id"], "type": body["type"]}
            log.write(json.dumps({**about, **body["data"]}) + "\n")
            self.send_response(204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["KILLED_PORT"])), Endpoint)
    ready()
    server.serve_forever()


if __name__ == "__main__":
    {"worker": work, "sender": send, "receiver": receive}[sys.argv[1]]()
