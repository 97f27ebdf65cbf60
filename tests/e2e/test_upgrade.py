"""An instance of the previous release starts with this version: documents, vectors and keys stay."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import COMMAND

PROJECT = Path(__file__).resolve().parents[2]
# The last commit of version 0.2.0.
PREVIOUS_RELEASE = "d944a116"
QUESTION = "who took delivery of the outdoor units?"


@pytest.fixture
def previous(tmp_path):
    """Checkout of the previous release with its packages."""
    known = subprocess.run(["git", "cat-file", "-e", PREVIOUS_RELEASE], cwd=PROJECT, check=False, capture_output=True)
    if known.returncode:
        pytest.skip("a shallow clone has no commit of the previous release: git fetch --unshallow")
    checkout = tmp_path / "previous"
    subprocess.run(["git", "clone", "--quiet", PROJECT, checkout], check=True)
    subprocess.run(["git", "checkout", "--quiet", PREVIOUS_RELEASE], cwd=checkout, check=True)
    subprocess.run(["make", "--silent", "setup"], cwd=checkout, check=True, timeout=600)
    return checkout


@pytest.mark.slow
@pytest.mark.service
@pytest.mark.timeout(1500)
def test_an_upgrade_keeps_documents_vectors_and_keys(previous, tmp_path):
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("RETRIEVAL_", "PREFECT_"))}
    ports = dict.fromkeys(("RETRIEVAL_API_PORT", "RETRIEVAL_PREFECT_PORT", "RETRIEVAL_UI_PORT"), "0")
    environment = {**usual, **ports, "RETRIEVAL_HOME": str(tmp_path / "home")}

    def run(command, *arguments):
        done = subprocess.run(
            [command, *arguments],
            cwd=previous,
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def describe(command):
        documents = map(json.loads, run(command, "documents", "--json").splitlines())
        hits = run(command, "search", QUESTION, "--top-k", "3", "--json").splitlines()
        return sorted(document["id"] for document in documents), [json.loads(hit)["content"] for hit in hits]

    old_command = previous / ".venv" / "bin" / "retrieval"
    try:
        run(old_command, "up", "--detach")
        run(old_command, "ingest", "local/corpus", "--ocr")
        before = describe(old_command)
        key = run(old_command, "key", "create", "--name", "kept").splitlines()[1]
        run(old_command, "down")
        run(COMMAND, "up", "--detach")
        assert describe(COMMAND) == before
        assert run(COMMAND, "search", QUESTION, "--key", key, "--namespace", "default")
        # Unchanged files keep their documents.
        run(COMMAND, "ingest", "local/corpus", "--ocr")
        assert describe(COMMAND) == before
        run(COMMAND, "fsck")
    finally:
        run(COMMAND, "down")
