"""Only public names of libraries are used, also in imports, annotations, strings, subclasses and patches."""

import ast
import dis
import functools
import importlib
import inspect
import re
import tomllib

import pytest

from retrieval.settings import PROJECT_ROOT
from tests.architecture.test_budget import list_files

OWN = {
    *("api", "bench", "connectors", "deploy", "docs", "examples", "flows", "local", "migrations", "retrieval"),
    *("retrieval_client", "retrieval_service", "tests", "ui", "api_reference", "settings_reference"),
}
# Documented by Python: methods of named tuples, and `os._exit`.
PUBLIC = {"_asdict", "_exit", "_field_defaults", "_fields", "_make", "_replace"}
SETTABLE = {"os.environ", "sys.argv", "sys.stderr", "sys.stdout"}
PYTHON_FILES = [file for file in list_files("*.py") if file.relative_to(PROJECT_ROOT).parts[0] != "tests"]


def is_private(name):
    return name.startswith("_") and not name.endswith("_") and name not in PUBLIC


def is_own(module):
    return module.partition(".")[0] in OWN


class Source:
    """Module text with its imported names."""

    def __init__(self, text):
        self.nodes = list(ast.walk(ast.parse(text)))
        self.classes = {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}
        self.imports = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    root = alias.name.partition(".")[0]
                    self.imports[alias.asname or root] = alias.name if alias.asname else root
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self.imports |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}

    def dotted(self, node):
        """Return the full name of an expression on an imported name, or ""."""
        if isinstance(node, ast.Subscript):
            return self.dotted(node.value)
        if isinstance(node, ast.Attribute):
            parent = self.dotted(node.value)
            return parent and f"{parent}.{node.attr}"
        return self.imports.get(node.id, "") if isinstance(node, ast.Name) else ""

    def library_bases(self, node):
        """Yield library classes in the bases of a class, direct or inherited."""
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in self.classes and base.id != node.name:
                yield from self.library_bases(self.classes[base.id])
            elif isinstance(kind := find_object(self.dotted(base)), type):
                yield from (
                    ancestor for ancestor in kind.__mro__ if ancestor is not object and not is_own(ancestor.__module__)
                )


@functools.cache
def find_object(dotted):
    """The object of a full name, or None."""
    module, _, name = dotted.rpartition(".")
    try:
        return importlib.import_module(dotted) if dotted else None
    except ImportError:
        return getattr(find_object(module), name, None)


@functools.cache
def private_members(kind):
    """Return private members defined or set by a class."""
    functions = [member for member in vars(kind).values() if inspect.isfunction(member)]
    stored = [
        step.argval for function in functions for step in dis.get_instructions(function) if step.opname == "STORE_ATTR"
    ]
    return {name for name in (*vars(kind), *stored) if is_private(name)}


def private_uses(text):
    """Return private library names in a module with line numbers."""
    source = Source(text)
    uses = [*_named(source), *_named_by_strings(source), *_inherited(source), *_replaced(source)]
    return [f"{line}: {use}" for line, use in sorted(set(uses))]


def _named(source):
    for node in source.nodes:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [source.dotted(node)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            quoted = re.findall(r"\b[a-z][\w.]*\._[a-z]\w*\b", node.value, re.IGNORECASE)
            names = [name for name in quoted if name.partition(".")[0] in source.imports and " " not in node.value]
        for name in names:
            if not is_own(name) and any(map(is_private, name.split("."))):
                yield node.lineno, name


def _named_by_strings(source):
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"getattr", "setattr", "hasattr", "delattr"}:
            is_of_self = isinstance(node.args[0], ast.Name) and node.args[0].id == "self"
            if not is_of_self and isinstance(name := node.args[1], ast.Constant) and is_private(str(name.value)):
                yield node.lineno, ast.unparse(node)


def _inherited(source):
    for node in source.classes.values():
        inherited = {name: kind for kind in source.library_bases(node) for name in private_members(kind)}
        for inner in ast.walk(node) if inherited else ():
            name = getattr(inner, "attr", "")
            if name and not re.fullmatch(r"self|cls|super\(.*\)", ast.unparse(inner.value)):
                continue
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                name = inner.name
            if name in inherited:
                yield inner.lineno, f"{inherited[name].__module__}.{inherited[name].__qualname__}.{name}"


def _replaced(source):
    for node in source.nodes:
        target = None
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            target = node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"setattr", "delattr"}:
            target = node.args[0]
        owner = find_object(source.dotted(target)) if target else None
        of_library = (inspect.ismodule(owner) or isinstance(owner, type)) and not is_own(source.dotted(target))
        if of_library and source.dotted(node) not in SETTABLE:
            yield node.lineno, f"sets {ast.unparse(node)}"


@pytest.mark.slow
def test_no_private_name_of_a_library_is_used():
    uses = [
        f"{file.relative_to(PROJECT_ROOT)}:{use}"
        for file in PYTHON_FILES
        for use in private_uses(file.read_text("utf-8"))
    ]
    assert not uses, "Use the library's public names."


def test_ruff_refuses_private_members_everywhere_but_in_tests():
    lint = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert "SLF" in lint["select"]
    assert not [rule for rule in lint["ignore"] if rule.startswith("SLF")]
    assert [glob for glob, rules in lint["per-file-ignores"].items() if "SLF001" in rules] == ["tests/**"]
    mark = "# noqa: " + "SLF001"
    assert not [file for file in PYTHON_FILES if mark in file.read_text(encoding="utf-8")]
