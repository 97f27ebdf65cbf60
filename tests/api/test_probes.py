"""Checks of storage, index and model at creation and change of a namespace, within bounded time."""

from __future__ import annotations

import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

from api.services import MAX_CONFIG_CHECKS
from connectors import registry
from retrieval.errors import ErrorCode, Fatal, Retryable, ServiceError
from retrieval.namespaces import validation
from tests.api.support import EMBEDDED, assert_error, check_configs
from tests.registry_instances import forget_instances

# Codes of vendors: missing answers are not faults of the service.
VENDORS = {
    "fileStorageConfig": {
        "type": "S3_COMPATIBLE",
        "bucket": "papers",
        "region": "eu-central-1",
        "endpoint": "https://s3.example.com",
        "credentials": {"accessKeyId": "a", "secretAccessKey": "s"},
    },
    "vectorStorageConfig": {"provider": "PINECONE", "apiKey": "k", "indexHost": "https://i.example.com"},
    "embeddingModelConfig": {"provider": "OPENAI", "model": "text-embedding-3-small", "apiKey": "k"},
}


class Port:
    """Stand-in for a vendor with a check defined by the test."""

    dimensions = 3

    def __init__(self, outcome):
        self._outcome = outcome

    def check(self):
        self._outcome()

    def put(self, key, chunks):
        return sum(map(len, chunks))


class Switchboard:
    """Checks of the three kinds of port; no effect by default."""

    def __init__(self):
        self.files = self.vectors = self.model = lambda: None
        self.calls = []

    def port(self, name):
        def outcome():
            self.calls.append(name)
            getattr(self, name)()

        return Port(outcome)


@pytest.fixture
def ports(monkeypatch):
    board = Switchboard()
    module = types.ModuleType("probed_ports")
    module.files = lambda *_: board.port("files")
    module.vectors = lambda *_: board.port("vectors")
    module.model = lambda *_: board.port("model")
    monkeypatch.setitem(sys.modules, "probed_ports", module)
    monkeypatch.setattr(
        registry, "FILE_STORE_FACTORIES", dict.fromkeys(("LOCAL", "S3_COMPATIBLE"), "probed_ports:files")
    )
    monkeypatch.setattr(
        registry, "VECTOR_STORE_FACTORIES", dict.fromkeys(("PGVECTOR", "PINECONE"), "probed_ports:vectors")
    )
    monkeypatch.setattr(registry, "EMBEDDER_FACTORIES", dict.fromkeys(("LOCAL", "OPENAI"), "probed_ports:model"))
    forget_instances()
    yield board
    forget_instances()


@pytest.fixture
def probed(ports, api_settings, api_database, api_db, ring):
    """Organization at an API with config checks."""
    with check_configs(api_settings, api_database, api_db, ring) as org:
        yield org


def failing(error):
    def check():
        raise error

    return check


def wait_until(true):
    deadline = time.monotonic() + 4
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("port", "field", "code"),
    [
        ("files", "fileStorageConfig", "STORAGE_CONFIG_ERROR"),
        ("vectors", "vectorStorageConfig", "VECTOR_DB_CONFIG_ERROR"),
        ("model", "embeddingModelConfig", "EMBEDDING_CONFIG_ERROR"),
    ],
)
def test_a_failed_check_has_its_areas_code_and_leaves_nothing(probed, ports, port, field, code):
    for error in (Fatal("the key was refused"), Retryable("it is too busy")):
        setattr(ports, port, failing(error))
        answer = probed.client.post("/v1/namespaces", json={"name": "a", **VENDORS})
        body = assert_error(answer, 400, code)
        assert body["error"]["details"]["field"] == field
        assert str(error) in body["message"]
    assert probed.client.get("/v1/namespaces").json()["data"]["namespaces"] == []


def test_checks_that_hang_keep_no_other_request_waiting(probed, ports):
    # More checks than an organization's half of the threads; a file write, which needs a thread, still succeeds.
    space = probed.namespace()
    released = threading.Event()
    ports.files = ports.vectors = ports.model = released.wait
    try:
        with ThreadPoolExecutor(6) as clients:
            hanging = [
                clients.submit(probed.client.post, "/v1/namespaces", json={"name": "a", **VENDORS}) for _ in range(6)
            ]
            wait_until(lambda: len(ports.calls) >= MAX_CONFIG_CHECKS // 2)
            started = time.monotonic()
            form = {"data": {"namespaceId": space}, "files": {"file": ("a.txt", b"A file.")}}
            assert probed.client.post("/v1/ingest/file", **form).status_code == 200
            assert time.monotonic() - started < 3
            assert sorted(future.result().status_code for future in hanging) == 2 * [400] + 4 * [503], (
                "four found no thread"
            )
    finally:
        released.set()
    ports.files = ports.vectors = ports.model = lambda: None
    assert probed.client.post("/v1/namespaces", json={"name": "after", **VENDORS}).status_code == 200


def test_a_patch_checks_what_it_changes(probed, ports):
    space = probed.namespace()
    assert sorted(ports.calls) == ["files", "model", "vectors"]
    ports.calls.clear()
    ports.files = ports.vectors = ports.model = failing(Fatal("down"))
    path = f"/v1/namespaces/{space}"
    assert probed.client.patch(path, json={"name": "new", **EMBEDDED}).status_code == 200
    assert ports.calls == []
    changed = {"embeddingModelConfig": {"provider": "LOCAL", "model": validation.LOCAL_MODELS[1]}}
    assert_error(probed.client.patch(path, json=changed), 400, "EMBEDDING_CONFIG_ERROR")
    assert ports.calls == ["model"]
    namespace = probed.client.get(path).json()["data"]["namespace"]
    assert namespace["embeddingModelConfig"] == EMBEDDED["embeddingModelConfig"]


@pytest.mark.parametrize(
    ("setting", "config"),
    [
        ("allow_local_files", {"fileStorageConfig": {"type": "LOCAL"}}),
        ("allow_pgvector", {"vectorStorageConfig": {"provider": "PGVECTOR"}}),
        ("allow_local_embeddings", {"embeddingModelConfig": EMBEDDED["embeddingModelConfig"]}),
        ("allow_builtin_scraper", {"webScraperConfig": {"provider": "BUILTIN"}}),
    ],
)
def test_embedded_values_can_be_switched_off(api_settings, setting, config):
    validation.check_configs(api_settings, config)
    with pytest.raises(ServiceError) as refused:
        validation.check_configs(api_settings.model_copy(update={setting: False}), config)
    assert refused.value.code == ErrorCode.INVALID_NAMESPACE_CONFIG
    assert refused.value.reason == "switched_off"
