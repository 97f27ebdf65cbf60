"""`make lint` runs every linter on every file of Python; each linter fails for a planted fault."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from retrieval.settings import PROJECT_ROOT

CONFIG = PROJECT_ROOT / "pyproject.toml"
TOOLS = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["tool"]
COMMANDS = ("mypy", "mkdocs build --strict", "ruff format --check .", "ruff check .", "lint-imports", "deptry .")
# Imports hatchling, available only in the build environment.
UNTYPED = {"deploy/wheel.py"}
UNFORMATTED = "x = {  'a':1 }\n"
# Keyed by the prefix of the rules that refuse the sample.
FAULTS = {
    "A": "def f(id): return id",
    "ARG": "def f(unused): return 1",
    "ASYNC": "import time\nasync def f(): time.sleep(1)",
    "B": "def f(x=[]): return x",
    "BLE": "try:\n    f()\nexcept Exception: f()",
    "C4": "x = list([a for a in b])",
    "D100": "x = 1",
    "D104": "x = 1",
    "DTZ": "from datetime import datetime\ndatetime.now()",
    "E": "x = y == None",
    "EXE": "#!/usr/bin/env python",
    "F": "import os",
    "FBT": "def f(x=True): return x",
    "FURB": "import re\nre.compile('a', re.I)",
    "I": "import sys\nimport os",
    "ICN": "import numpy as n",
    "INP": "x = 1",
    "ISC": "x = 'a' 'b'",
    "LOG": "import logging\nlogging.Logger('a')",
    "N": "def camelCase(): return 1",
    "PERF": "for x, _ in {}.items(): f(x)",
    "PIE": "class A:\n    x = 1\n    pass",
    "PL": "exit()",
    "PT": "import pytest\n@pytest.fixture()\ndef f(): return 1",
    "PTH": "import os\nos.path.join('a', 'b')",
    "PYI": "x: int | int",
    "Q": "x = 'a'",
    "RET": "def f():\n    x = 1\n    return x",
    "RSE": "raise ValueError()",
    "RUF": "x = list(y)[0]",
    "S": "assert x",
    "SIM": "x = True if y else False",
    "SLF": "x._y",
    "SLOT": "class A(str): x = 1",
    "T10": "breakpoint()",
    "T20": "print(1)",
    "TID": "from .. import x",
    "TRY": "raise Exception('x')",
    "UP": "from typing import List",
    "W": "x = 1 ",
    "YTT": "import sys\nsys.version[:3]",
}


def run(folder, program, *arguments):
    command = [Path(sys.executable).with_name(program), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_make_lint_runs_the_linter(command):
    make = ["env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "-u", "ARGS", "make", "--dry-run", "lint"]
    recipe = subprocess.run(make, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True).stdout
    assert f"\n.venv/bin/{command}\n" in f"\n{recipe}"


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    """Code and file of each refusal of ruff, in a folder with a file for each fault."""
    folder = tmp_path_factory.mktemp("rules")
    for prefix, fault in FAULTS.items():
        file = folder / prefix / ("__init__.py" if prefix == "D104" else "planted.py")
        file.parent.mkdir()
        file.write_text(f"{fault}\n")
    code, output = run(folder, "ruff", "check", "--no-cache", "--output-format=concise", "--config", CONFIG, ".")
    assert code == 1
    return output


@pytest.mark.parametrize("prefix", TOOLS["ruff"]["lint"]["select"])
def test_a_fault_is_refused_by_the_rules_that_are_selected(refusals, prefix):
    assert prefix in FAULTS, f'Add a line `"{prefix}": "…"` to FAULTS in tests/architecture/test_lint.py.'
    refused = [line for line in refusals.splitlines() if line.startswith(f"{prefix}/")]
    assert [line for line in refused if line.split(": ")[1].startswith(prefix)], refused


def test_a_file_that_is_not_formatted_is_refused(tmp_path):
    (tmp_path / "planted.py").write_text(UNFORMATTED)
    code, output = run(tmp_path, "ruff", "format", "--check", "--no-cache", "--config", CONFIG, ".")
    assert code == 1
    assert "1 file would be reformatted" in output


def test_an_import_that_is_not_declared_is_refused(tmp_path):
    (tmp_path / "pyproject.toml").write_text(CONFIG.read_text())
    (tmp_path / "planted.py").write_text("import numpy_financial, markupsafe, schemathesis\n")
    code, output = run(tmp_path, "deptry", "--no-ansi", ".")
    assert code == 1
    assert "DEP001 'numpy_financial' imported but missing" in output
    assert "DEP003 'markupsafe' imported but it is a transitive dependency" in output
    assert "DEP004 'schemathesis' imported but declared as a dev dependency" in output
    assert "DEP002 'litestar' defined as a dependency but not used" in output


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


def test_a_wrong_type_is_refused(tmp_path):
    config = re.sub(r"^(packages|modules) = \[.*?\]$", "", CONFIG.read_text(), flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "pyproject.toml").write_text(config)
    (tmp_path / "tests").mkdir()
    (tmp_path / "planted.py").write_text('x: int = "a"\n\n\ndef f(y):\n    return y\n')
    (tmp_path / "tests" / "test_planted.py").write_text("def test_x():\n    len()\n    no_such_name\n")
    (tmp_path / "tests" / "__init__.py").touch()
    code, output = run(tmp_path, "mypy", "--cache-dir", tmp_path / "cache", "planted.py", "tests")
    assert code == 1
    for fault in ("py:1: error: Incompatible types", "py:4: error: Function is missing a type annotation"):
        assert f"planted.{fault}" in output
    for fault in ('py:2: error: Too few arguments for "len"', 'py:3: error: Name "no_such_name" is not defined'):
        assert f"tests/test_planted.{fault}" in output
