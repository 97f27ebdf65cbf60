"""Whether a migration may run beside the service: what it says is read, nothing is executed.

Not online is whatever holds a table's lock for as long as the table is large, changes all rows in one statement, or
takes away what processes of the release before still use (expand first, contract a release later).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

SMALL = frozenset(
    {"organizations", "tenants", "api_keys", "namespaces", "connections", "server_secrets", "dispatcher_loops"}
)
"""Tables whose rows people make, one by one: an index is built while they blink."""

_VOLATILE = re.compile(r"gen_random_uuid|uuid_generate|clock_timestamp|random\(|nextval|timeofday", re.IGNORECASE)
_SQL = (
    (
        r"\bcreate (?:unique )?index (?!concurrently)(?:if not exists )?\S+ on (\w+)",
        "builds an index on {} and locks it",
    ),
    (r"\balter table (\w+).*\balter column \w+ (?:set data )?type\b", "rewrites {} for another type"),
    (r"\balter table (\w+).*\bset not null\b", "reads all of {} under a lock for NOT NULL"),
    (
        r"\balter table (\w+).*\badd (?:constraint|primary key|foreign key|check|unique)\b(?!.*not valid)",
        "checks all of {}",
    ),
    (r"\block table (\w+)", "locks {}"),
    (r"^\s*(?:update|delete from|truncate) (\w+)", "changes the rows of {} in one statement"),
    (r"\b(?:cluster|vacuum full) (\w+)", "rewrites {}"),
)
_TAKEN = (
    (r"\balter table (\w+).*\brename\b", "renames a part of {}"),
    (r"\balter table (\w+).*\bdrop column\b", "drops a column of {}"),
    (r"\bdrop table (\w+)", "drops {}"),
)
"""What takes something away that a running process may use."""


def problems(source: str) -> list[str]:
    """Why the migration with this text is not online; nothing if it is.

    A module that names `unused_since`, the release whose processes no longer use what it takes away, may drop it.
    """
    module = ast.parse(source)
    contracts = any(
        isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "unused_since" for target in node.targets)
        for node in module.body
    )
    calls, alone = list(_calls(module)), _alone(module)
    made = {_text(call.args[0]) for name, call in calls if name == "create_table" and call.args}
    found: list[str] = []
    for name, call in calls:
        found += _of_call(name, call, made, contracts=contracts)
    old = _locked(calls, made)
    if old and "lock_timeout" not in source:
        found.append(f"alters or refers to {', '.join(sorted(old))} without a lock_timeout")
    together = _locked([one for one in calls if one[1] not in alone], made)
    if len(together) > 1:
        found.append(f"locks {' and '.join(sorted(together))} in one transaction: one by one, in an autocommit_block")
    found += [f"waits {wait} for a lock: 1s at most, then it is tried again" for wait in _long_waits(source)]
    return found


def _locked(calls: list[tuple[str, ast.Call]], made: set[str]) -> set[str]:
    """Tables that were there before and are locked by what is called, those that a new table refers to among them."""
    found: set[str] = set()
    for name, call in calls:
        if name in _ON_TABLES and not _has(call, "postgresql_concurrently"):
            found.add(_table(name, call))
        elif name == "create_table":
            found |= {target.partition(".")[0] for target in _referred(call)}
    return found - made


def _referred(call: ast.Call) -> Iterator[str]:
    """`table.column` of each foreign key of a new table."""
    for node in ast.walk(call):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "ForeignKey" and node.args:
                yield _text(node.args[0])
            elif node.func.attr == "ForeignKeyConstraint" and len(node.args) > 1 and isinstance(node.args[1], ast.List):
                yield from map(_text, node.args[1].elts)


def _long_waits(source: str) -> Iterator[str]:
    for number, unit in re.findall(r"lock_timeout\s*=\s*'?(\d+)\s*(ms|s|min|h)?", source):
        if int(number) * _MILLISECONDS[unit] > _MILLISECONDS["s"]:
            yield f"{number}{unit}"


_MILLISECONDS = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}


def _alone(module: ast.Module) -> set[ast.Call]:
    """Calls within an autocommit_block: each is a transaction of its own."""
    blocks = (
        node
        for node in ast.walk(module)
        if isinstance(node, ast.With) and any("autocommit_block" in ast.unparse(item) for item in node.items)
    )
    return {node for block in blocks for node in ast.walk(block) if isinstance(node, ast.Call)}


_ON_TABLES = {
    "add_column": 0,
    "create_index": 1,
    "drop_column": 0,
    "alter_column": 0,
    "create_foreign_key": 1,
    "create_primary_key": 1,
    "drop_constraint": 1,
}
"""Operations that lock a table, and which argument names it."""


def _of_call(name: str, call: ast.Call, made: set[str], *, contracts: bool) -> Iterator[str]:
    table = _table(name, call)
    if name == "execute":
        yield from _of_statement(_text(call.args[0]) if call.args else "", made, contracts=contracts)
    elif name == "create_index" and table not in made | SMALL and not _has(call, "postgresql_concurrently"):
        yield f"builds an index on {table} and locks it: postgresql_concurrently, in an autocommit_block"
    elif name == "add_column" and table not in made:
        yield from _of_column(table, call)
    elif name in {"create_foreign_key", "create_check_constraint", "create_unique_constraint", "create_primary_key"}:
        on = _text(call.args[1]) if len(call.args) > 1 else "?"
        if on not in made and not _has(call, "postgresql_not_valid"):
            yield f"checks all of {on} under a lock"
    elif name == "alter_column" and table not in made:
        if _has(call, "type_"):
            yield f"rewrites {table} for another type"
        if isinstance(_given(call, "nullable"), ast.Constant) and not _true(_given(call, "nullable")):
            yield f"reads all of {table} under a lock for NOT NULL"
        if _has(call, "new_column_name") and not contracts:
            yield f"renames a column of {table} that the release before uses"
    elif name in {"drop_column", "drop_table", "rename_table"} and not contracts:
        target = _text(call.args[0]) if call.args else "?"
        yield f"takes away from {target} what the release before uses: say unused_since"


def _of_column(table: str, call: ast.Call) -> Iterator[str]:
    column = call.args[1] if len(call.args) > 1 else None
    if not isinstance(column, ast.Call):
        return
    default = _given(column, "server_default")
    required = isinstance(_given(column, "nullable"), ast.Constant) and not _true(_given(column, "nullable"))
    made_up = ast.dump(column)
    if required and default is None:
        yield f"adds a column to {table} that is not null and has no default"
    if (
        (default is not None and _VOLATILE.search(ast.unparse(default)))
        or "Identity" in made_up
        or "Computed" in made_up
    ):
        yield f"rewrites {table}: the default differs from row to row"


def _of_statement(statement: str, made: set[str], *, contracts: bool) -> Iterator[str]:
    text = " ".join(statement.lower().split())
    if text.startswith(("create function", "create or replace function", "set ")):
        return
    for pattern, says in (*_SQL, *(() if contracts else _TAKEN)):
        for match in re.finditer(pattern, text):
            if match.group(1) not in made:
                yield says.format(match.group(1))


def _calls(module: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """`op.…(…)` everywhere but in `downgrade`."""
    for part in module.body:
        if isinstance(part, ast.FunctionDef) and part.name == "downgrade":
            continue
        for node in ast.walk(part):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Call) and isinstance(called, ast.Attribute) and ast.unparse(called.value) == "op":
                yield called.attr, node


def _table(name: str, call: ast.Call) -> str:
    place = _ON_TABLES.get(name, 0)
    return _text(call.args[place]) if len(call.args) > place else "?"


def _text(node: ast.expr) -> str:
    """What a string says, with `?` for what is put into it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "?" for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "?"


def _given(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _has(call: ast.Call, name: str) -> bool:
    given = _given(call, name)
    return given is not None and (not isinstance(given, ast.Constant) or bool(given.value))


def _true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)
