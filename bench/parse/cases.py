"""Parsed files with their truth: shared collections and drawn files."""

from __future__ import annotations

import json
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.parse import drawn, foreign
from bench.parse.measures import Table


@dataclass(frozen=True)
class ParseCase:
    """File with its truth; `readable` is None if not judged."""

    path: Path
    kind: str
    words: str = ""
    tables: tuple[Table, ...] = ()
    headings: tuple[str, ...] = ()
    readable: bool | None = None
    required_texts: tuple[str, ...] = ()
    ocr: bool = False


# Files of ../shared/data/cases-3: kind, readable without OCR, required texts.
SHARED_CASES = {
    "P1a-two-columns-rows.pdf": (
        "columns by rows",
        True,
        ("1 of L02 the left story", "1 of R02 the right"),
    ),
    "P2a-hebrew-visual.pdf": ("right to left", True, ("דוח רבעוני 2026", "ההכנסות עלו", "המנכל חתם על ההסכם")),
    "P3d-identityH-no-tounicode.pdf": ("ciphers", False, ()),
    "P17e-invoice-grid.pdf": ("tables, grid", True, ("| 3 | Article 03 |  | 9,50 | 21,00 |",)),
}


def iter_cases(data: Path, folder: Path, seed: int) -> Iterator[ParseCase]:
    """Yield available shared files, then drawn files."""
    yield from iter_icdar(data / "icdar-2013-eu")
    yield from shared_files(data / "files")
    for name, (kind, readable, required_texts) in SHARED_CASES.items():
        if (data / "cases-3" / name).exists():
            yield ParseCase(data / "cases-3" / name, kind, readable=readable, required_texts=required_texts)
    yield from iter_foreign(folder, seed)
    for path, drawing in drawn.draw_files(folder, seed):
        yield ParseCase(path, drawing.kind, drawing.words, drawing.tables, drawing.headings, drawing.readable)


def iter_foreign(folder: Path, seed: int) -> Iterator[ParseCase]:
    """Yield files of foreign kinds, which must be refused, and files with encoded parts."""
    for path in foreign.draw_foreign(folder, seed):
        yield ParseCase(path, "foreign kinds", readable=False)
    for path in foreign.draw_encoded(folder, seed):
        yield ParseCase(path, "encoded parts", readable=True, required_texts=(foreign.READABLE_SENTENCE,))


def iter_icdar(folder: Path) -> Iterator[ParseCase]:
    """Yield PDFs with table structures in the format of ICDAR 2013."""
    for path in sorted(folder.glob("*.pdf")):
        truth = path.with_name(f"{path.stem}-str.xml")
        if truth.exists():
            yield ParseCase(path, "ICDAR 2013", tables=tuple(_read_tables(truth)))


def _read_tables(truth: Path) -> Iterator[Table]:
    for table in ET.parse(truth).getroot().iter("table"):
        cells = []
        for region in table.iter("region"):
            down, right = int(region.get("row-increment") or 0), int(region.get("col-increment") or 0)
            for cell in region.iter("cell"):
                row, column = int(cell.get("start-row", 0)), int(cell.get("start-col", 0))
                last_row, last_column = int(cell.get("end-row") or row), int(cell.get("end-col") or column)
                content = cell.find("content")
                text = "".join(content.itertext()) if content is not None else ""
                cells.append((row + down, column + right, last_row + down, last_column + right, text))
        yield Table(tuple(cells))


def shared_files(folder: Path) -> Iterator[ParseCase]:
    """Yield files of public projects with required texts from their manifest."""
    if not (folder / "manifest.json").exists():
        return
    for case in json.loads((folder / "manifest.json").read_text())["files"]:
        if case["expect"] == "ok" and "without spaces" not in case["note"]:
            yield ParseCase(
                folder / case["file"],
                "shared files",
                required_texts=tuple(case["must"]),
                readable=True,
                ocr=case["ocr"] != "BASIC_PARSER",
            )


def contains_text(required_text: str, text: str) -> bool:
    return " ".join(unicodedata.normalize("NFKC", required_text).split()) in " ".join(
        unicodedata.normalize("NFKC", text).split()
    )
