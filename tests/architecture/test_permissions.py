"""docs/contract.md shows the table of api/permissions.py, as it is.

`python tests/architecture/test_permissions.py` writes it there.
"""

import re
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from api.permissions import PERMISSIONS  # noqa: E402

CONTRACT = PROJECT / "docs" / "contract.md"
HEAD = "| Operation | Scope | A key bound to a namespace gets | A key bound to a tenant gets |\n|---|---|---|---|\n"


def table():
    rows = (
        f"| {name} | {f'`{said.scope}`' if said.scope else 'any'} | {said.namespace_bound} | {said.tenant_bound} |\n"
        for name, said in PERMISSIONS.items()
    )
    return HEAD + "".join(rows)


def test_the_contract_shows_the_table_of_the_code():
    assert table() + "\n" in CONTRACT.read_text(encoding="utf-8")


if __name__ == "__main__":
    text = CONTRACT.read_text(encoding="utf-8")
    written = re.sub(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: table(), text)
    CONTRACT.write_text(written, encoding="utf-8")
