"""Shared helpers of API tests: server thread, organization with client, error assertions."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import jsonschema
import uvicorn

from api.app import create_app
from api.server import StrictProtocol
from flows import steps
from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from retrieval.database.database import Database
from retrieval.ingestion.queries import results, run_documents
from retrieval.jobs.queries import batches
from tests.flows.configured import STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval.security.secrets import KeyRing
    from retrieval.settings import Settings

EMBEDDED = {
    "fileStorageConfig": {"type": "LOCAL"},
    "vectorStorageConfig": {"provider": "PGVECTOR"},
    "embeddingModelConfig": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
}


@dataclass
class Organization:
    """Organization with a key of all scopes and a client using the key."""

    id: str
    client: httpx.Client
    api_key: str
    db: Database
    ring: KeyRing
    base: str

    def key(self, **limits: Any) -> httpx.Client:
        """Client with another key of the organization."""
        created = api_keys.create_key(self.db, self.ring, self.id, "limited", **limits)
        return client_of(self.base, created.api_key)

    def namespace(self, **settings: Any) -> str:
        """Create a namespace with embedded defaults; return the id."""
        answer = self.client.post("/v1/namespaces", json={"name": "space", **EMBEDDED, **settings})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["data"]["namespace"]["id"])

    def text(self, namespace: str, text: str = "A text.", tenant: str | None = None, **config: Any) -> dict[str, Any]:
        """Ingest a text; return the answer."""
        answer = self.client.post(
            "/v1/ingest/text",
            json={"namespaceId": namespace, "ingestConfig": {"source": "TEXT", "config": {"text": text, **config}}},
            headers={"X-Tenant-ID": tenant} if tenant is not None else {},
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


class Failures:
    """Collect failures of a loop and report all at the end."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    @contextmanager
    def of(self, *case: Any) -> Iterator[None]:
        """Record the failure of a case and continue."""
        try:
            yield
        except (AssertionError, jsonschema.ValidationError) as error:
            self.texts.append(f"{' '.join(map(str, case))}: {error}"[:1000])

    def report(self) -> None:
        """Fail with all recorded failures."""
        assert not self.texts, "\n".join([f"{len(self.texts)} cases", *self.texts])


def wait_for_fresh_minute(seconds_needed: float = 12) -> None:
    """Wait for a rate-limit minute with at least `seconds_needed` left."""
    seconds_left = 60 - time.time() % 60
    if seconds_left < seconds_needed:
        time.sleep(seconds_left + 0.1)


def client_of(base: str, api_key: str) -> httpx.Client:
    return httpx.Client(
        base_url=base, headers={"Authorization": f"Bearer {api_key}"}, timeout=120, trust_env=False, verify=False
    )


@contextmanager
def serve(configured: Settings, url: str, ring: KeyRing) -> Iterator[str]:
    """Yield the address of an API on a free port."""
    app: Any = create_app(configured, Database(url, size=4), ring)
    config = uvicorn.Config(
        app, port=0, http=StrictProtocol, ws="none", log_config=None, lifespan="on", proxy_headers=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive(), "the server ended while starting"
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(15)


def process_ingestions(org: Organization) -> None:
    """Process accepted ingestions as workers do."""
    db = org.db
    batches.form_batches(db, size=64, batches=8)
    for batch in batches.undispatched_batches(db):
        batches.record_flow_run(db, batch, "run")
        lease = batches.claim_lease(db, batch.id, batch.attempt, seconds=60)
        assert lease is not None
        while windows := run_documents.list_windows(db, lease, documents=64, size=1 << 24):
            for window in windows:
                for step in STEPS:
                    step(steps.Work(db, org.ring, lease, window))
            results.settle_runs(db, lease)
        results.settle_runs(db, lease)
        batches.finish_batch(db, lease)


@contextmanager
def check_configs(configured: Settings, url: str, db: Database, ring: KeyRing) -> Iterator[Organization]:
    """Yield an organization at an API with config checks."""
    owner = organizations.create_organization(db, "checking")
    key = api_keys.create_key(db, ring, owner.id, "checking")
    checking = configured.model_copy(update={"check_configs": True})
    with serve(checking, url, ring) as base, client_of(base, key.api_key) as client:
        yield Organization(owner.id, client, key.api_key, db, ring, base)


def assert_error(answer, status: int, code: str) -> dict:
    """Assert status, code, standard body and headers of an error; return the body."""
    assert answer.status_code == status, answer.text
    body = answer.json()
    of_dify = {"error_code", "error_msg"} if "/v1/compat/dify/" in str(answer.url) else set()
    of_scim = {"schemas", "status", "scimType", "detail"} if "/scim/v2/" in str(answer.url) else set()
    assert set(body) - of_scim == {"success", "message", "error"} | of_dify
    assert body["success"] is False
    assert body["error"]["code"] == code
    assert body["error"]["message"] == body["message"] != ""
    assert body["error"]["details"]["reason"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    return body
