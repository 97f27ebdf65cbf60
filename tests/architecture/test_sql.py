"""SQL lives in query modules with typed rows; exceptions in budget.toml may only decrease."""

import ast
import re
import tomllib

from retrieval.settings import PROJECT_ROOT

LIMITS = tomllib.loads((PROJECT_ROOT / "budget.toml").read_text(encoding="utf-8"))["sql"]
UNTYPED = re.compile(r"\brow\[[\"']|\b_?db\.(?:async_)?rows?\(")
STATEMENT = re.compile(r"\s*(?:select|insert into|update|delete from|with(?: recursive)?)\s+(?:[a-z0-9_(%*]|$)")
# Only files with such a string are parsed.
STATEMENT_START = re.compile(r"[\"'](?:\s|\\n)*(?:select|insert into|update|delete from|with)\b")
SOURCE_TEXTS = {
    str(path.relative_to(PROJECT_ROOT)): path.read_text(encoding="utf-8")
    for package in ("api", "connectors", "flows", "local", "retrieval")
    for path in sorted((PROJECT_ROOT / package).rglob("*.py"))
    if "retrieval/database/" not in str(path)
}


def list_statements(source):
    """Return line numbers of SQL strings, docstrings excluded."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values[1:]}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose | parts
        if is_text and STATEMENT.match(node.value):
            yield node.lineno


def test_columns_are_read_from_typed_rows():
    untyped = [name for name, text in SOURCE_TEXTS.items() if UNTYPED.search(text)]
    assert not untyped, "Fetch instances of a class (retrieval.database.rows)."


def test_statements_are_in_query_modules():
    """In `queries.py`, `queries_NOUN.py` or a folder `queries` of the package."""
    scattered = {
        name: len(list(list_statements(text)))
        for name, text in SOURCE_TEXTS.items()
        if not re.search(r"/queries(?:_\w+\.py|\.py|/)", name) and STATEMENT_START.search(text)
    }
    total, limit = sum(scattered.values()), LIMITS["scattered_statements"]
    advice = (
        f"{total} statements of at most {limit} are outside query modules: write the new one in its queries.py,"
        " as a function that returns typed rows. The limit is `scattered_statements` below [sql] in budget.toml."
    )
    assert total <= limit, advice
