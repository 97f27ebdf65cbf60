"""The generated Python client matches the OpenAPI description."""

import subprocess
import sys

import pytest

from retrieval.settings import PROJECT_ROOT

pytestmark = pytest.mark.service


def test_the_client_is_as_the_api_describes_itself():
    # `python clients/python/generate.py` writes the client.
    command = [sys.executable, "clients/python/generate.py", "--check"]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
