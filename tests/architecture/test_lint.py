"""`make lint` runs every linter, mypy reads every file of Python, and ruff refuses private members of others."""

import subprocess
import tomllib

import pytest

from retrieval.settings import PROJECT_ROOT
from tests.architecture.test_budget import list_files

CONFIG = PROJECT_ROOT / "pyproject.toml"
TOOLS = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["tool"]
COMMANDS = ("mypy", "mkdocs build --strict", "ruff format --check .", "ruff check .", "lint-imports", "deptry .")
# Imports hatchling, available only in the build environment.
UNTYPED = {"deploy/wheel.py"}


@pytest.mark.parametrize("command", COMMANDS)
def test_make_lint_runs_the_linter(command):
    make = ["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "-u", "ARGS", "make", "--dry-run", "lint"]
    recipe = subprocess.run(make, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True).stdout
    assert f"\n.venv/bin/{command}\n" in f"\n{recipe}"


def test_every_file_is_typed():
    config = TOOLS["mypy"]
    roots = [PROJECT_ROOT, *(PROJECT_ROOT / folder for folder in config["mypy_path"].split(":"))]
    typed = {file for root in roots for name in config["modules"] if (file := root / f"{name}.py").is_file()}
    folders = [folder for root in roots for name in config["packages"] if (folder := root / name).is_dir()]
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True)
    untyped = {
        name
        for name in tracked.stdout.splitlines()
        if (file := PROJECT_ROOT / name) not in typed and not any(folder in file.parents for folder in folders)
    }
    assert untyped == UNTYPED, "Add these to `packages` or `modules` below [tool.mypy] in pyproject.toml."


def test_ruff_refuses_private_members_everywhere_but_in_tests():
    lint = TOOLS["ruff"]["lint"]
    assert "SLF" in lint["select"]
    assert not [rule for rule in lint["ignore"] if rule.startswith("SLF")]
    assert [glob for glob, rules in lint["per-file-ignores"].items() if "SLF001" in rules] == ["tests/**"]
    files = [file for file in list_files("*.py") if file.relative_to(PROJECT_ROOT).parts[0] != "tests"]
    mark = "# noqa: " + "SLF001"
    assert not [file for file in files if mark in file.read_text(encoding="utf-8")]
