"""Every decision has a row in docs/decisions.md, every row that claims a proof has one, every mark has a row.

`python tests/architecture/test_decisions.py` says which rows to change; `--write` fills their last column.
"""

import ast
import re
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
TABLE = PROJECT / "docs" / "decisions.md"
TESTS = PROJECT / "tests"
ROW = re.compile(r"\| (?P<id>[DH]\d{2,3}) \| (?P<decision>.+?) \| (?P<why>.+?) \| (?P<test>[^|]+?) \|")
FIRST, LAST = 1, 63


def rows(text):
    """The table rows in their order, as (id, decision, why, test)."""
    found = []
    for line in text.splitlines():
        if re.match(r"\|\s*[DH]\d", line):
            row = ROW.fullmatch(line)
            assert row, f"docs/decisions.md: this row is not `| id | decision | why | test |`: {line[:60]}"
            found.append(row.group("id", "decision", "why", "test"))
    return found


def marks():
    """Decision id to the test files, relative to the project, that bear its mark; sorted."""
    found = {}
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.decision"):
                for argument in node.args:
                    found.setdefault(ast.literal_eval(argument), set()).add(path.relative_to(PROJECT).as_posix())
    return {decision: sorted(files) for decision, files in found.items()}


def files_named(cell):
    """The test files of a row's last column; none while it is planned."""
    return [] if cell == "planned" else re.findall(r"`([^`]+)`", cell)


def cell_for(files):
    return ", ".join(f"`{name}`" for name in files) or "planned"


def corrections(found, marked):
    """What to write into which row: id to the last column that the marks ask for."""
    return {row_id: cell_for(marked.get(row_id, [])) for row_id, _, _, cell in found if outdated(row_id, cell, marked)}


def outdated(row_id, cell, marked):
    """A row names at least one file that bears its mark, and no other; `planned` only while there is none."""
    named = files_named(cell)
    bearing = marked.get(row_id, [])
    return bool(bearing) != bool(named) or not set(named).issubset(bearing) or (not named and cell != "planned")


def told(changes):
    return "".join(f"\n  {row_id}: {cell}" for row_id, cell in changes.items())


def test_ids_are_unique_and_in_order():
    ids = [row_id for row_id, *_ in rows(TABLE.read_text(encoding="utf-8"))]
    assert ids == sorted(set(ids), key=lambda row_id: (row_id[0], int(row_id[1:]))), (
        "docs/decisions.md: an id stands twice or out of order"
    )


def test_no_decision_of_the_contract_is_missing():
    ids = {row_id for row_id, *_ in rows(TABLE.read_text(encoding="utf-8"))}
    wanted = {f"D{number:02}" for number in range(FIRST, LAST + 1)}
    assert wanted <= ids, f"docs/decisions.md lacks {', '.join(sorted(wanted - ids))}"


def test_every_decision_of_the_contract_is_proven():
    unproven = {row_id for row_id, _, _, cell in rows(TABLE.read_text(encoding="utf-8")) if cell == "planned"}
    unproven = {row_id for row_id in unproven if row_id.startswith("D")}
    assert not unproven, f"docs/decisions.md: no test bears the mark of {', '.join(sorted(unproven))}"


def test_each_mark_has_a_row():
    ids = {row_id for row_id, *_ in rows(TABLE.read_text(encoding="utf-8"))}
    orphans = {decision: files for decision, files in marks().items() if decision not in ids}
    assert not orphans, f"These marks have no row in docs/decisions.md: {orphans}"


def test_each_proof_is_there():
    changes = corrections(rows(TABLE.read_text(encoding="utf-8")), marks())
    assert not changes, (
        "docs/decisions.md: the last column of these rows should say (or run this file with --write)" + told(changes)
    )


def test_each_named_file_exists():
    named = {name for *_, cell in rows(TABLE.read_text(encoding="utf-8")) for name in files_named(cell)}
    gone = sorted(name for name in named if not (PROJECT / name).is_file())
    assert not gone, f"docs/decisions.md names test files that are not there: {', '.join(gone)}"


def test_each_mark_in_the_contract_has_a_row():
    ids = {row_id for row_id, *_ in rows(TABLE.read_text(encoding="utf-8"))}
    used = set(re.findall(r"\b[DH]\d{2,3}\b", (PROJECT / "docs" / "contract.md").read_text(encoding="utf-8")))
    assert used <= ids, f"docs/contract.md uses marks without a row: {', '.join(sorted(used - ids))}"


def test_each_decision_stands_in_the_contract():
    text = (PROJECT / "docs" / "contract.md").read_text(encoding="utf-8")
    wanted = [f"D{number:02}" for number in range(FIRST, LAST + 1)]
    missing = [decision for decision in wanted if not re.search(rf"\b{decision}\b", text)]
    assert not missing, f"docs/contract.md says nothing of {', '.join(missing)}"


def test_a_wrong_row_is_told():
    found = [("D01", "a", "b", "planned"), ("D02", "a", "b", "`tests/x.py`"), ("D03", "a", "b", "`tests/y.py`")]
    marked = {"D01": ["tests/x.py"], "D03": ["tests/y.py", "tests/z.py"]}
    assert corrections(found, marked) == {"D01": "`tests/x.py`", "D02": "planned"}


def write(changes):
    """Put the corrected last columns into the table."""
    lines = TABLE.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines):
        if (row := ROW.fullmatch(line)) and row["id"] in changes:
            lines[number] = f"{line[: row.start('test')]}{changes[row['id']]} |"
    TABLE.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    due = corrections(rows(TABLE.read_text(encoding="utf-8")), marks())
    if "--write" in sys.argv[1:]:
        write(due)
    sys.stdout.write(("Changed:" if "--write" in sys.argv[1:] else "To change:") + (told(due) or " nothing") + "\n")
