"""Import time of vendor SDKs does not count against the deadline of a check."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from retrieval.settings import PROJECT_ROOT
from tests.standins import embedding_server, s3_server

CODE = """
import asyncio, json, sys, time
from datetime import UTC, datetime
from types import SimpleNamespace

SLOW = {"openai", "openai.resources.embeddings", "cohere", "pinecone", "pinecone.index", "boto3",
        "connectors.s3_errors", "numpy", "tokenizers"}

class Slowly:
    def find_spec(self, name, path=None, target=None):
        if name in SLOW:
            print("imports", name)
            time.sleep(SECONDS)

SECONDS = 2.5
sys.meta_path.insert(0, Slowly())
from api import config_check
from api.services import ProbeThreads
from retrieval import settings
from retrieval.errors import ServiceError
from retrieval.namespaces import namespaces

config_check.CHECK_SECONDS = SECONDS * 0.9
area, config = json.loads(sys.stdin.read())
embedded = {**namespaces.EMBEDDED_CONFIGS, area: config}
now = datetime.now(UTC)
space = namespaces.NamespaceConfig(
    id="ns_1", organization_id="org_1", name="n", dimensions=None, created_at=now, updated_at=now,
    **namespaces.split_configs(embedded),
)
services = SimpleNamespace(settings=settings.load_settings(), probing=ProbeThreads(4), db=None)
try:
    asyncio.run(config_check.check_configs(services, space, [area]))
    print("passed")
except ServiceError as error:
    print(error.reason, error.message)
"""


def checked(area, config, endpoints):
    environment = {
        **os.environ,
        "RETRIEVAL_CHECK_CONFIGS": "true",
        "RETRIEVAL_FETCH_ALLOW": "127.0.0.0/8",
        "RETRIEVAL_ENDPOINTS": json.dumps(endpoints),
    }
    ended = subprocess.run(
        [sys.executable, "-c", CODE],
        input=json.dumps([area, config]),
        cwd=PROJECT_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ended.stdout.splitlines()


@pytest.mark.parametrize("name", ["OPENAI", pytest.param("COHERE", marks=pytest.mark.slow)])
def test_importing_the_sdk_is_not_the_models_time(name):
    with embedding_server.running(name) as vendor:
        output = checked("embeddingModelConfig", vendor.config(), {name: {"base_url": vendor.base_url}})
    assert output[-1] == "passed", output
    assert len(output) > 1, "the check imported nothing slow: the test would prove nothing"


@pytest.mark.slow
def test_importing_the_sdk_is_not_the_storages_time():
    with s3_server.running() as storage:
        output = checked("fileStorageConfig", storage.config(s3_server.bucket(storage)), {})
    assert output[-1] == "passed", output
    assert "imports boto3" in output


@pytest.mark.slow
def test_importing_the_sdk_is_not_the_indexs_time(pinecone_index):
    output = checked("vectorStorageConfig", pinecone_index(dimension=384).config(), {})
    assert output[-1] == "passed", output
    assert "imports pinecone" in output
