"""ADRs are short records in docs/adr; code, tests and docs explain decisions without ADR numbers."""

import re
import subprocess

import pytest

from retrieval.settings import PROJECT_ROOT

RECORDS = sorted((PROJECT_ROOT / "docs" / "adr").glob("[0-9]*.md"))


def title_of(record):
    return record.read_text(encoding="utf-8").partition("\n")[0].partition(". ")[2]


def test_no_file_names_a_decision_by_an_id():
    pattern = r"\b[DH][0-9]{2,3}\b"
    # names of lint rules look like ids, and so do numbers in the documents of a collection
    command = ["git", "grep", "-nIE", pattern, ":!pyproject.toml", ":!local/prove"]
    search = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    assert not search.stdout, "Say what was decided instead of an id, or name the ADR:\n" + search.stdout[:2000]
    assert search.returncode == 1, search.stderr


def test_each_record_has_its_own_number_and_a_place_in_the_navigation():
    numbers = [record.name[:4] for record in RECORDS]
    assert len(numbers) == len(set(numbers)), "Two records have one number: give the newer one the next free number."
    navigation = (PROJECT_ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert not [record.name for record in RECORDS if f"adr/{record.name}" not in navigation], "Add these to mkdocs.yml."


def test_each_record_has_a_topic_in_the_index():
    index = (PROJECT_ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    counts = {record.name: index.count(f"| [{title_of(record)}]({record.name}) |") for record in RECORDS}
    assert set(counts.values()) == {1}, f"List these once in docs/adr/README.md: {counts}"


def test_the_index_names_each_record_that_replaces_or_amends_another():
    index = (PROJECT_ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    for record in RECORDS:
        status = record.read_text(encoding="utf-8").split("\n")[2]
        row = next(row for row in index.split("\n") if f"]({record.name}) |" in row)
        for later in re.findall(r"(?:[Rr]eplaced|Amended) by ADR ([\d and]+)", status):
            for number in re.findall(r"\d+", later):
                assert f"[{number}](" in row, f"{record.name}: name ADR {number} in its row of the index."


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem[:4])
def test_a_record_is_short_and_complete(record):
    text = record.read_text(encoding="utf-8")
    assert len(text.split()) <= 300, "An ADR has at most 300 words."
    assert re.match(
        rf"# {int(record.name[:4])}\. .+\n\nStatus: (accepted|replaced by ADR \d+), \d{{4}}-\d\d-\d\d", text
    )
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
