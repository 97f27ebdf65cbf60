"""The files that are parsed, and the truth of each: shared collections, and what is drawn here."""

from __future__ import annotations

import json
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.parse import drawn
from bench.parse.measures import Table


@dataclass(frozen=True)
class Case:
    """A file and its truth. `readable` is None where it is not judged; `must` are texts that stand in it."""

    path: Path
    kind: str
    words: str = ""
    tables: tuple[Table, ...] = ()
    headings: tuple[str, ...] = ()
    readable: bool | None = None
    must: tuple[str, ...] = ()
    ocr: bool = False


THREE = {
    "P1a-two-columns-rows.pdf": (
        "columns by rows",
        True,
        ("1 of L02 the left story", "1 of R02 the right"),
    ),
    "P2a-hebrew-visual.pdf": ("right to left", True, ("דוח רבעוני 2026", "ההכנסות עלו", "המנכל חתם על ההסכם")),
    "P3d-identityH-no-tounicode.pdf": ("ciphers", False, ()),
    "P17e-invoice-grid.pdf": ("tables, grid", True, ("| 3 | Article 03 |  | 9,50 | 21,00 |",)),
}
"""Of ../shared/data/cases-3: the kind, whether it can be read without OCR, and what must stand in the text."""


def every(data: Path, folder: Path, seed: int) -> Iterator[Case]:
    """Those of the shared data that are there, then the drawn ones, which are written to the folder."""
    yield from icdar(data / "icdar-2013-eu")
    yield from shared_files(data / "files")
    for name, (kind, readable, must) in THREE.items():
        if (data / "cases-3" / name).exists():
            yield Case(data / "cases-3" / name, kind, readable=readable, must=must)
    for path, drawing in drawn.draw(folder, seed):
        yield Case(path, drawing.kind, drawing.words, drawing.tables, drawing.headings, drawing.readable)


def icdar(folder: Path) -> Iterator[Case]:
    """PDFs with the true structure of their tables, in the format of the ICDAR 2013 competition."""
    for path in sorted(folder.glob("*.pdf")):
        truth = path.with_name(f"{path.stem}-str.xml")
        if truth.exists():
            yield Case(path, "ICDAR 2013", tables=tuple(_tables(truth)))


def _tables(truth: Path) -> Iterator[Table]:
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


def shared_files(folder: Path) -> Iterator[Case]:
    """Files of public projects with texts that must stand in them, by their manifest."""
    if not (folder / "manifest.json").exists():
        return
    for case in json.loads((folder / "manifest.json").read_text())["files"]:
        if case["expect"] == "ok" and "without spaces" not in case["note"]:
            must = tuple(case["must"])
            yield Case(
                folder / case["file"], "shared files", must=must, readable=True, ocr=case["ocr"] != "BASIC_PARSER"
            )


def stands(must: str, text: str) -> bool:
    return " ".join(unicodedata.normalize("NFKC", must).split()) in " ".join(
        unicodedata.normalize("NFKC", text).split()
    )
