"""Tables of docs/benchmarks.md, from bench/figures.toml.

python -m bench table
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from bench.harness import PROJECT

FIGURES = PROJECT / "bench" / "figures.toml"
PAGE = PROJECT / "docs" / "benchmarks.md"
REQUIRED = {"what", "figure", "command", "date", "verdict"}
OPTIONAL = {"goal", "interval", "load", "note"}
VERDICTS = {"reached", "missed", "partly", "reported"}
_HEAD = (
    "| What | Goal | Measured | 95 % interval | Command | Date | Load | Verdict |\n|---|---|---|---|---|---|---|---|"
)


def read_figures() -> dict[str, list[dict[str, Any]]]:
    """Rows by section. ValueError names a row that is not of the form at the file's top."""
    sections = tomllib.loads(FIGURES.read_text(encoding="utf-8"))
    for row in (row for rows in sections.values() for row in rows):
        lacks, unknown = REQUIRED - row.keys(), row.keys() - REQUIRED - OPTIONAL
        if lacks or unknown or row["verdict"] not in VERDICTS or (row["verdict"] == "reported") == ("goal" in row):
            raise ValueError(f"{row.get('what')}: lacks {lacks}, has {unknown}, or its verdict and goal do not agree")
    return sections


def build_page(page: str) -> str:
    """The page with the rows of each section between its marks. KeyError: a section that has no rows."""
    sections = read_figures()
    for name in re.findall(r"<!-- figures: (\w+) -->", page):
        start, end = f"<!-- figures: {name} -->\n", "<!-- /figures -->"
        before, _, rest = page.partition(start)
        rows = "\n".join(map(_build_row, sections.pop(name)))
        page = f"{before}{start}{_HEAD}\n{rows}\n{end}{rest.partition(end)[2]}"
    if sections:
        raise ValueError(f"{PAGE} has no place for {', '.join(sections)}")
    return page


def _build_row(row: dict[str, Any]) -> str:
    verdict = f"{row['verdict']}: {row['note']}" if "note" in row else row["verdict"]
    cells = (*(row.get(key, "") for key in ("what", "goal", "figure", "interval", "command", "date", "load")), verdict)
    return f"| {' | '.join(cells)} |"


def main() -> int:
    PAGE.write_text(build_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0
