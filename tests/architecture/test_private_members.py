"""Ruff refuses private members of other modules in the product."""

import tomllib

from retrieval.settings import PROJECT_ROOT
from tests.architecture.test_budget import list_files

PYTHON_FILES = [file for file in list_files("*.py") if file.relative_to(PROJECT_ROOT).parts[0] != "tests"]


def test_ruff_refuses_private_members_everywhere_but_in_tests():
    lint = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "SLF" in lint["select"]
    assert not [rule for rule in lint["ignore"] if rule.startswith("SLF")]
    assert [glob for glob, rules in lint["per-file-ignores"].items() if "SLF001" in rules] == ["tests/**"]
    mark = "# noqa: " + "SLF001"
    assert not [file for file in PYTHON_FILES if mark in file.read_text(encoding="utf-8")]
