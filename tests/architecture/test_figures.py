"""docs/benchmarks.md shows the figures of bench/figures.toml, and their commands name benchmarks that exist."""

import re

from bench import table


def test_the_page_has_the_figures_of_the_file():
    page = table.PAGE_PATH.read_text(encoding="utf-8")
    assert table.build_page(page) == page, "run `python -m bench table`"


def test_each_command_names_what_exists():
    commands = " ".join(row["command"] for rows in table.read_figures().values() for row in rows)
    modules = {f"bench/{name}" for name in re.findall(r"`bench\.(\w+)", commands)}
    missing = [name for name in modules if not list(table.PROJECT_FOLDER.glob(f"{name}*"))]
    missing += [
        name for name in re.findall(r"tests/[\w/]+\.py", commands) if not (table.PROJECT_FOLDER / name).exists()
    ]
    assert not missing, "Correct `command` in bench/figures.toml."
