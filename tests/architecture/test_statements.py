"""SQL statements are composed; text replacement could lose a condition."""

import ast
import re
from pathlib import Path

import retrieval

PACKAGE = Path(retrieval.__file__).parent
# Placeholder of a statement part, or a table alias.
MARK = re.compile(r"[A-Z_]{3,}|\w{1,2}\.\w*")
CONSTANT = re.compile(r"_?[A-Z][A-Z_]+")


def replacements(tree):
    """Return calls of `replace` on a module constant or with a placeholder."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
            former = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
            if CONSTANT.fullmatch(ast.unparse(node.func.value)) or MARK.fullmatch(str(former)):
                yield node.lineno


def test_no_statement_is_made_by_replacing_text():
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "database"
        for line in replacements(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not wrong, "Compose the statement by a function that takes the part."
