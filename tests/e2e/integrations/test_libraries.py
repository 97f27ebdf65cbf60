"""Retrievers for LangChain, LlamaIndex and Haystack on a running service."""

import os
import subprocess
from pathlib import Path

import pytest

from retrieval_client import RetrievalClient

PROJECT = Path(__file__).resolve().parents[3]
UV = PROJECT / ".uv" / "bin" / "uv"
TEXTS = {
    "pump": "The pump is oiled every eighty hours.",
    "cover": "The cover is opened with the brass key.",
    "filter": "The filter is washed in warm water once a week.",
}


@pytest.mark.slow
def test_each_library_takes_its_retriever(service, tmp_path):
    with RetrievalClient(service.info["api"], service.info["apiKey"]) as client:
        for part, text in TEXTS.items():
            client.ingest.text(service.namespace, text, name=part, metadata={"part": part}, wait=True, timeout=180)
    python = tmp_path / "environment" / "bin" / "python"
    run(UV, "venv", "--quiet", "--python", "3.11", tmp_path / "environment")
    client_with_all = f"{PROJECT / 'clients' / 'python'}[langchain,llama-index,haystack]"
    run(UV, "pip", "install", "--quiet", "--python", python, client_with_all, "langchain-tests>=1,<2", "pytest-asyncio")
    variables = {
        "RETRIEVAL_API_URL": service.info["api"],
        "RETRIEVAL_API_KEY": service.info["apiKey"],
        "RETRIEVAL_NAMESPACE": service.namespace,
        "HAYSTACK_TELEMETRY_ENABLED": "False",
    }
    child = tmp_path / "test_libraries.py"  # away from this project's own settings for pytest
    child.write_text((Path(__file__).parent / "libraries_child.py").read_text())
    options = (
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        tmp_path,
        "--allow-hosts",
        "127.0.0.1",
        "-o",
        "asyncio_mode=auto",
    )
    done = run(python, "-m", "pytest", *options, child, env=os.environ | variables)
    assert " passed" in done
    assert " skipped" not in done


def run(*command, env=None):
    done = subprocess.run(
        [str(part) for part in command], env=env, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
