"""Apply the code blocks of the connector guides to a copy of the project and run its suites."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retrieval.settings import PROJECT_ROOT

pytestmark = pytest.mark.service

COPIED = ("api", "connectors", "docs", "flows", "local", "migrations", "retrieval", "tests", "ui")
CHANGED_FILES = ("pyproject.toml", "prefect.yaml", "README.md")


def blocks():
    """Yield language, file and text of each code block with a file name."""
    guide = "\n".join((PROJECT_ROOT / "docs" / f"adding-a-{name}.md").read_text() for name in ("connector", "source"))
    return re.findall(r'^```(python|yaml|markdown|diff) title="(\S+)"\n(.*?)^```$', guide, re.MULTILINE | re.DOTALL)


def apply(language, file, text):
    """Write the file, or replace the lines removed by the diff, present exactly once."""
    if language != "diff":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return
    lines = text.splitlines(keepends=True)
    removed, added = ("".join(line[1:] or "\n" for line in lines if line[0] != sign) for sign in "+-")
    content = file.read_text()
    assert content.count(removed) == 1, f"{file.name} has no such lines: {removed}"
    file.write_text(content.replace(removed, added))


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """Copy the project and apply both guides."""
    root = tmp_path_factory.mktemp("guide")
    for name in COPIED:
        shutil.copytree(PROJECT_ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in CHANGED_FILES:
        shutil.copy(PROJECT_ROOT / name, root / name)
    for language, path, text in blocks():
        apply(language, root / path, text)
    return root


def run(copied, *command):
    environment = {**os.environ, "PYTHONPATH": str(copied)}
    return subprocess.run(
        command, cwd=copied, env=environment, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.slow
def test_a_connector_that_follows_the_guide_passes_the_suite(copied):
    tests = ("tests/connectors/sources/test_connectors.py", "tests/architecture/test_connectors_everywhere.py")
    options = ("-q", "-p", "no:cacheprovider", "-n0", "-k", "(MEMORY or NOTES or every_list) and not stands_in")
    done = run(copied, sys.executable, "-m", "pytest", *options, *tests)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 15, done.stdout


@pytest.mark.slow
def test_a_source_that_follows_the_guide_passes_the_suite(copied):
    tests = [f"tests/connectors/sources/test_described{name}.py" for name in ("", "_services")]
    options = ("-q", "-p", "no:cacheprovider", "-n0", "-k", "NOTES or every_service")
    done = run(copied, sys.executable, "-m", "pytest", *options, *tests)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 7, done.stdout


def test_its_imports_keep_to_the_walls(copied):
    done = run(copied, str(Path(sys.executable).with_name("lint-imports")), "--no-cache")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
