"""Tables of docs/benchmarks.md, built from bench/figures.toml.

python -m bench table
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from bench.harness import PROJECT_FOLDER

FIGURES_PATH = PROJECT_FOLDER / "bench" / "figures.toml"
PAGE_PATH = PROJECT_FOLDER / "docs" / "benchmarks.md"
REQUIRED_KEYS = {"what", "figure", "command", "date", "verdict"}
OPTIONAL_KEYS = {"goal", "interval", "load", "note"}
VERDICT_NAMES = {"reached", "missed", "partly", "reported"}
_TABLE_HEAD = (
    "| What | Goal | Measured | 95 % interval | Command | Date | Load | Verdict |\n|---|---|---|---|---|---|---|---|"
)


def read_figures() -> dict[str, list[dict[str, Any]]]:
    """Read rows by section; ValueError for an invalid row."""
    sections = tomllib.loads(FIGURES_PATH.read_text(encoding="utf-8"))
    for row in (row for rows in sections.values() for row in rows):
        lacks, unknown = REQUIRED_KEYS - row.keys(), row.keys() - REQUIRED_KEYS - OPTIONAL_KEYS
        if lacks or unknown or row["verdict"] not in VERDICT_NAMES or (row["verdict"] == "reported") == ("goal" in row):
            raise ValueError(f"{row.get('what')}: lacks {lacks}, has {unknown}, or its verdict and goal do not agree")
    return sections


def build_page(page: str) -> str:
    """Fill the sections of the page; KeyError for a section without rows."""
    sections = read_figures()
    for name in re.findall(r"<!-- figures: (\w+) -->", page):
        start, end = f"<!-- figures: {name} -->\n", "<!-- /figures -->"
        page_head, _, page_tail = page.partition(start)
        rows = "\n".join(map(_build_row, sections.pop(name)))
        page = f"{page_head}{start}{_TABLE_HEAD}\n{rows}\n{end}{page_tail.partition(end)[2]}"
    if sections:
        raise ValueError(f"{PAGE_PATH} has no place for {', '.join(sections)}")
    return page


def _build_row(row: dict[str, Any]) -> str:
    verdict = f"{row['verdict']}: {row['note']}" if "note" in row else row["verdict"]
    cells = (*(row.get(key, "") for key in ("what", "goal", "figure", "interval", "command", "date", "load")), verdict)
    return f"| {' | '.join(cells)} |"


def main() -> int:
    PAGE_PATH.write_text(build_page(PAGE_PATH.read_text(encoding="utf-8")), encoding="utf-8")
    return 0
