"""Idle processes of one machine keep few modules in memory."""

import subprocess
import sys

import pytest

from retrieval.settings import PROJECT_ROOT

pytestmark = pytest.mark.unit


def run_python(program):
    return subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
    )


def test_the_supervisor_imports_no_database_modules():
    program = "import sys, local.up; print(sorted({'sqlalchemy', 'psycopg', 'structlog'} & sys.modules.keys()))"
    result = run_python(program)
    assert result.stdout == "[]\n", result.stderr
