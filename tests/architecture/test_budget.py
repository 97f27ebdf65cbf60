"""Sizes stay within budget.toml, and .gitattributes lists every generated file."""

import re
import subprocess
import tomllib
from itertools import takewhile

import pytest

from retrieval.settings import PROJECT_ROOT

BUDGET = tomllib.loads((PROJECT_ROOT / "budget.toml").read_text(encoding="utf-8"))
CHANGELOG_LINES = 40
GENERATED_MARK = re.compile(r"(?i)\b(?:generated|written) (?:by|from) `")


def list_files(*patterns):
    """List tracked files and new files not ignored by git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [PROJECT_ROOT / name for name in sorted(set(names)) if name and (PROJECT_ROOT / name).is_file()]


@pytest.mark.parametrize("package", BUDGET["packages"])
def test_a_package_keeps_to_its_budget(package):
    files = list_files(f"{package}/*.py")
    lines = sum(file.read_text(encoding="utf-8").count("\n") for file in files)
    budget = BUDGET["packages"][package]
    advice = (
        f"Make {package} smaller: it has {lines} lines in {len(files)} files. A release may raise the line"
        f" `{package} = …` below [packages] in budget.toml, with 5 % room and the reason."
    )
    assert lines <= budget["lines"], advice
    assert len(files) <= budget["files"], advice


MAX_PAGE_WORDS = 2000
# Longer pages, until they are divided.
LONG_PAGES = {"docs/architecture.md", "docs/benchmarks.md", "docs/connectors.md", "docs/search.md"}


def test_a_page_of_the_documentation_is_read_in_ten_minutes():
    pages = {
        page.relative_to(PROJECT_ROOT).as_posix(): page.read_text(encoding="utf-8").split()
        for page in list_files("docs/*.md")
    }
    long_pages = {page for page, words in pages.items() if len(words) > MAX_PAGE_WORDS}
    assert long_pages <= LONG_PAGES, (
        f"Divide {sorted(long_pages - LONG_PAGES)} into pages of at most {MAX_PAGE_WORDS} words."
    )


def test_the_documentation_keeps_to_its_budget():
    pages = [page for page in list_files("docs/*.md") if "adr" not in page.parts]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    advice = (
        f"Shorten the pages: a release may raise `words` below [docs] in budget.toml, with its reason; now {words}."
    )
    assert words <= BUDGET["docs"]["words"], advice


def test_a_release_has_few_lines_in_the_changelog():
    """Releases after 0.1.0 have one line per user-visible change."""
    text = (PROJECT_ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for release in takewhile(lambda part: not part.startswith("[0.1.0]"), text.split("\n## ")[1:]):
        lines = [line for line in release.splitlines()[1:] if line.strip()]
        assert len(lines) <= CHANGELOG_LINES, (
            f"Shorten {release.partition(']')[0]}] in CHANGELOG.md: {len(lines)} lines."
        )


def test_generated_files_are_listed():
    generated = subprocess.run(
        ["git", "ls-files", ":(attr:linguist-generated)"], cwd=PROJECT_ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    marked = {
        str(file.relative_to(PROJECT_ROOT))
        for file in list_files("*.py", "*.md", "*.ts", "*.json", "*.toml", ".env.example")
        if GENERATED_MARK.search(file.read_text(encoding="utf-8")[:300])
    }
    unlisted = sorted(marked - set(generated))
    assert not unlisted, "Add a line `FILE linguist-generated` for each of these to .gitattributes."
