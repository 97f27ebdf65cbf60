"""The set-up uses only the uv of the pinned version and hash."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.service

PROJECT = Path(__file__).resolve().parents[2]
PINNED = re.search(r"^uv==(\S+)", (PROJECT / "local" / "uv.txt").read_text(), re.MULTILINE)[1]


@pytest.fixture
def project(tmp_path):
    """Return a project with only the set-up script, without network, and a folder on PATH."""
    (tmp_path / "local").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("setup.sh", "uv.txt"):
        shutil.copy(PROJECT / "local" / name, tmp_path / "local" / name)
    return tmp_path


def uv(folder: Path, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "uv"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "uv {version} (test)" || echo "ran $0 $*"\n')
    program.chmod(0o755)


def set_up(project: Path) -> subprocess.CompletedProcess[str]:
    path = f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}"
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(project / "wheels"), "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(
        ["sh", "local/setup.sh"],
        cwd=project,
        env=os.environ | {"PATH": path} | offline,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("folder", ["bin", ".uv/bin"])
def test_the_pinned_version_is_used_where_it_is(project, folder):
    uv(project / folder, PINNED)
    done = set_up(project)
    assert done.returncode == 0, done.stderr
    assert f"ran {project / folder / 'uv'} sync --frozen" in done.stdout
    assert (project / ".uv" / "bin" / "uv").resolve() == project / folder / "uv"


@pytest.mark.slow
def test_a_package_with_another_hash_is_refused(project):
    (project / "wheels").mkdir()
    info = f"uv-{PINNED}.dist-info"
    with zipfile.ZipFile(project / "wheels" / f"uv-{PINNED}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: uv\nVersion: {PINNED}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    done = set_up(project)
    assert done.returncode == 1
    assert "HASHES" in done.stderr
    assert not (project / ".uv" / "bin").exists()
