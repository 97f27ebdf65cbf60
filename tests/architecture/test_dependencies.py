"""Every imported package is declared with version bounds."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from retrieval.settings import PROJECT_ROOT

OWN_PACKAGES = ("retrieval_service", "api", "connectors", "flows", "local", "migrations", "retrieval", "ui")
CLIENT = "clients/python/retrieval_client"
METADATA = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]
DECLARED = [*METADATA["dependencies"], *METADATA["optional-dependencies"]["openvino"]]
DISTRIBUTIONS = packages_distributions()
# Next major versions of these packages broke the service before.
BREAKING = ("prefect", "fastapi", "starlette", "sqlalchemy", "anyio", "litestar", "msgspec", "sqlmodel", "psycopg")


def name_of(requirement: str) -> str:
    return re.split(r"[ ;\[<>=!~]", requirement, maxsplit=1)[0].lower()


HARMLESS = set(sys.stdlib_module_names) | {*OWN_PACKAGES, Path(CLIENT).name}
IMPORT = re.compile(r"^ *(?:import|from)\s+(\w+)", re.MULTILINE)


def imported() -> set[str]:
    """Return the third-party modules imported by the packages."""
    modules = set()
    files = (file for package in (*OWN_PACKAGES, CLIENT) for file in (PROJECT_ROOT / package).rglob("*.py"))
    for path in (file for file in files if file.parent.name != "integrations"):  # extras of the client's own package
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if set(IMPORT.findall(source)) - HARMLESS else ():
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
    return modules - HARMLESS


def test_every_imported_package_is_declared():
    declared = {name_of(package_name).replace("_", "-") for package_name in DECLARED}
    missing = {
        module
        for module in imported()
        if not declared
        & {package_name.lower().replace("_", "-") for package_name in DISTRIBUTIONS.get(module, [module])}
    }
    assert missing == set(), "Add the packages of these to `dependencies` below [project] in pyproject.toml."


@pytest.mark.parametrize("package", BREAKING)
def test_what_breaks_with_its_next_version_is_bounded(package):
    (requirement,) = [candidate for candidate in DECLARED if name_of(candidate) == package]
    assert "<" in requirement, f"Bound it in pyproject.toml: `{requirement},<…`."
