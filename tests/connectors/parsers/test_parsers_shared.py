"""Shared parsing cases: files of public projects with the expectations of their manifest."""

from __future__ import annotations

import json
import shutil
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from connectors.parsers.parser import document_parser
from retrieval.errors import Skippable
from retrieval.ports import OcrStrategy, Parsed, RawContent
from retrieval.settings import PROJECT_ROOT

pytestmark = pytest.mark.service
"""Starts parser children."""

FILES = PROJECT_ROOT.parent / "shared" / "data" / "files"
MANIFEST = FILES / "manifest.json"

Case = dict[str, Any]


def cases() -> list[Any]:
    if not MANIFEST.exists():
        missing = pytest.mark.skip(reason=f"the shared test data is not beside the project: no {MANIFEST}")
        return [pytest.param({}, marks=missing, id="no shared data")]
    files: list[Case] = json.loads(MANIFEST.read_text())["files"]
    return [pytest.param(case, id=f"{case['file']}-{case['ocr']}", marks=marks_of(case)) for case in files]


def marks_of(case: Case) -> list[pytest.MarkDecorator]:
    # Recognition of the vertical page takes 16 s of CPU; test_ocr.py recognises smaller ones.
    return [pytest.mark.slow] if case["file"] == "un_jpn-vert.jpeg" and case["ocr"] == "STANDARD_OCR" else []


def plain(text: str, case: Case) -> str:
    joint = "" if "without spaces" in case["note"] else " "
    return joint.join(unicodedata.normalize("NFKC", text).split())


def outcome(case: Case, folder: Path) -> Parsed | str:
    """Parse a copy: the parser unpacks next to the file."""
    path = folder / case["file"]
    shutil.copyfile(FILES / case["file"], path)
    raw = RawContent(path=path, name=case["file"], media_type="", size=path.stat().st_size)
    try:
        return document_parser().parse(raw, OcrStrategy(case["ocr"]))
    except Skippable as error:
        return str(error)


@pytest.mark.shared
@pytest.mark.parametrize("case", cases())
def test_a_shared_case(case: Case, tmp_path: Path) -> None:
    parsed = outcome(case, tmp_path)
    expected = case["expect"]
    if isinstance(parsed, str):
        assert len(parsed) > 40, "a refusal says what is wrong and what to do"
        assert expected != "ok", parsed
        return
    assert expected != "fail", parsed.text[:200]
    assert parsed.text.strip()
    assert "\0" not in parsed.text
    text = plain(parsed.text, case)
    if expected in ("ok", "ok_or_stretch"):
        assert [words for words in case["must"] if plain(words, case) not in text] == []
    assert [words for words in case["must_not"] if words in parsed.text] == []
    assert list(parsed.pages) == sorted(parsed.pages)
    if case["kind"] == "pdf":
        assert len(parsed.pages) == parsed.properties["pageCount"]


@pytest.mark.shared
@pytest.mark.skipif(not MANIFEST.exists(), reason=f"the shared test data is not beside the project: no {MANIFEST}")
def test_each_page_of_a_shared_pdf_starts_with_its_own_words(tmp_path: Path) -> None:
    parsed = outcome({"file": "dl_multi_page.pdf", "ocr": "BASIC_PARSER"}, tmp_path)
    assert not isinstance(parsed, str)
    starts = [
        "The Evolution of",
        "Other notable software",
        "Specialized Word",
        "Accessibility",
        "The journey of the word",
    ]
    assert [
        words for words, start in zip(starts, parsed.pages, strict=True) if words not in parsed.text[start : start + 40]
    ] == []
