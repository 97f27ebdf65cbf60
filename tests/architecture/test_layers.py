"""Import rules at start-up and rules for file contents."""

import re
import subprocess
import sys

import pytest

from retrieval.settings import PROJECT_ROOT

PRODUCT_PACKAGES = ("api", "connectors", "flows", "local", "retrieval")
SOURCE_FILES = [path for package in PRODUCT_PACKAGES for path in sorted((PROJECT_ROOT / package).rglob("*.py"))]


HEAVY = (
    "prefect",
    "numpy",
    "onnxruntime",
    "tokenizers",
    "boto3",
    "pinecone",
    "openai",
    "liteparse",
    "googleapiclient",
)


@pytest.mark.service
def test_the_api_starts_without_prefect_models_or_vendors():
    code = "import sys, api.app; print([name for name in sys.argv[1:] if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code, *HEAVY], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]", "Import these inside the functions that use them."


@pytest.mark.service
def test_flows_start_without_vendors_or_models():
    code = "import sys, flows.sources; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = (
        "onnxruntime",
        "onnx",
        "wordllama",
        "boto3",
        "pinecone",
        "openai",
        "liteparse",
        "googleapiclient",
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *heavy], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]", "Import these inside the functions that use them."


READS_ENVIRONMENT = re.compile(r"\bgetenv\b|\benviron\b(?!\.(?:setdefault|update)\(|\[[^\]]+\]\s*=[^=])")


def test_only_the_settings_read_the_environment():
    """`local` passes an environment to its processes; other packages use the settings."""
    readers = [
        str(path.relative_to(PROJECT_ROOT))
        for path in SOURCE_FILES
        if path.relative_to(PROJECT_ROOT).parts[0] != "local" and READS_ENVIRONMENT.search(path.read_text())
    ]
    assert not readers, "Add a setting to retrieval/settings.py and read that."


def test_no_module_is_longer_than_400_lines():
    long = {
        str(path.relative_to(PROJECT_ROOT)): n
        for path in SOURCE_FILES
        if (n := len(path.read_text().splitlines())) > 400
    }
    assert not long, "Move a part into a module of its own."
