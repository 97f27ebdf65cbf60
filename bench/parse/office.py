"""Documents, slides and pages of known truth: the same tables in every format, and texts as people see them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.parse.measures import Table

Written = tuple[Path, str, str, tuple[Table, ...], tuple[str, ...]]
"""A file, its kind, its words, its tables, and texts that must stand in it as they are."""
LEFT, ABOVE = "<", "^"
"""Cells that continue the one to their left, or above."""
LAYOUTS: dict[str, Sequence[Sequence[str]]] = {
    "simple": (("Berth", "Days", "Price"), ("North quay", "12", "340"), ("South quay", "7", "95")),
    "blank": (("Berth", "Days", "Price"), ("North quay", "", "340"), ("", "7", ""), ("West quay", "3", "11")),
    "groups": (
        ("Berth", "Summer", LEFT, "Winter", LEFT),
        ("", "Days", "Price", "Days", "Price"),
        ("North", "1", "2", "3", "4"),
    ),
    "labels": (
        ("Region", "Town", "Berths"),
        ("North", "Kiel", "3"),
        (ABOVE, "Husum", "5"),
        ("South", "Ulm", "8"),
        (ABOVE, "Au", "1"),
    ),
    "block": (("Area", "North", LEFT, "South"), ("Depth", "deep water", LEFT, "4 m"), ("Width", ABOVE, LEFT, "9 m")),
    "signs": (("Name", "a|b", "C & D"), ("x < y", "50 %", "₂₀ größer"), ("مرحبا", "שלום", "港口")),
    "wide": (tuple(f"Year {2000 + n}" for n in range(12)), tuple(str(7 * n + 3) for n in range(12))),
    "long": (("No.", "Vessel", "Flag"), *((str(n), f"Vessel {n}", "DK" if n % 2 else "") for n in range(1, 13))),
}
SHOWN = {
    "groups": ("| Berth | Summer | Summer | Winter | Winter |",),
    "labels": ("| North | Husum | 5 |", "| South | Au | 1 |"),
    "block": ("| Width | deep water | deep water | 9 m |",),
    "signs": ("a\\|b", "C & D", "x < y"),
}
"""Lines of the layouts that can be read alone."""
_ODF = "urn:oasis:names:tc:opendocument:xmlns:"
_SPACES = " ".join(f'xmlns:{name}="{_ODF}{name}:1.0"' for name in ("office", "text", "table", "style"))


def write(folder: Path) -> Iterator[Written]:
    """Each layout in each format, then what else is shown."""
    makers: dict[str, Callable[[Path, Sequence[Sequence[str]]], None]] = {
        "docx": _in_word, "pptx": _in_slides, "html": _in_page, "odt": _in_open_text,
    }  # fmt: skip
    for ending, make in makers.items():
        for name, rows in LAYOUTS.items():
            path = folder / f"office-{name}.{ending}"
            make(path, rows)
            words = " ".join(text for row in rows for text in row if text not in (LEFT, ABOVE))
            yield path, ending, words, (table_of(rows),), SHOWN.get(name, ())
    yield _clauses(folder / "office-clauses.docx")
    yield _columns(folder / "office-columns.pptx")
    yield _chart(folder / "office-chart.pptx")


def spans(rows: Sequence[Sequence[str]]) -> Iterator[tuple[int, int, int, int, str]]:
    """The cells of a layout: row, column, last row, last column, text."""
    for at, row in enumerate(rows):
        for column, text in enumerate(row):
            if text in (LEFT, ABOVE):
                continue
            right, down = column, at
            while right + 1 < len(row) and row[right + 1] == LEFT:
                right += 1
            while down + 1 < len(rows) and rows[down + 1][column] == ABOVE:
                down += 1
            yield at, column, down, right, text


def table_of(rows: Sequence[Sequence[str]]) -> Table:
    return Table(tuple(spans(rows)))


def _fill(table: Any, rows: Sequence[Sequence[str]]) -> None:
    for at, column, down, right, text in spans(rows):
        table.cell(at, column).text = text
        if (at, column) != (down, right):
            table.cell(at, column).merge(table.cell(down, right))


def _in_word(path: Path, rows: Sequence[Sequence[str]]) -> None:
    from docx import Document

    document = Document()
    _fill(document.add_table(len(rows), len(rows[0])), rows)
    document.save(str(path))


def _in_slides(path: Path, rows: Sequence[Sequence[str]]) -> None:
    from pptx import Presentation

    deck = Presentation()
    shapes = deck.slides.add_slide(deck.slide_layouts[6]).shapes
    _fill(shapes.add_table(len(rows), len(rows[0]), 0, 0, 9_000_000, 3_000_000).table, rows)
    deck.save(str(path))


def _in_page(path: Path, rows: Sequence[Sequence[str]]) -> None:
    lines = [""] * len(rows)
    for at, column, down, right, text in spans(rows):
        lines[at] += f"<td rowspan={down - at + 1} colspan={right - column + 1}>{escape(text)}</td>"
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    path.write_text(f"<!doctype html><meta charset=utf-8><body><table>{body}</table>", encoding="utf-8")


def _in_open_text(path: Path, rows: Sequence[Sequence[str]]) -> None:
    covered = "<table:covered-table-cell/>"
    cells = [[covered] * len(rows[0]) for _ in rows]
    for at, column, down, right, text in spans(rows):
        about = f'table:number-rows-spanned="{down - at + 1}" table:number-columns-spanned="{right - column + 1}"'
        cells[at][column] = f"<table:table-cell {about}><text:p>{escape(text)}</text:p></table:table-cell>"
    body = "".join(f"<table:table-row>{''.join(row)}</table:table-row>" for row in cells)
    text = f"<office:body><office:text><table:table>{body}</table:table></office:text></office:body>"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr("content.xml", f"<office:document-content {_SPACES}>{text}</office:document-content>")


def _clauses(path: Path) -> Written:
    """Clauses on three levels, numbered by Word, of which the second list of each starts anew."""
    from docx import Document
    from docx.oxml import parse_xml
    from docx.oxml.ns import nsdecls

    document = Document()
    forms = (("decimal", "%1."), ("decimal", "%1.%2"), ("lowerLetter", "(%3)"))
    levels = "".join(
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for at, (form, text) in enumerate(forms)
    )
    numbering = document.part.numbering_part.element
    numbering.insert(0, parse_xml(f'<w:abstractNum {nsdecls("w")} w:abstractNumId="90">{levels}</w:abstractNum>'))
    numbering.append(parse_xml(f'<w:num {nsdecls("w")} w:numId="90"><w:abstractNumId w:val="90"/></w:num>'))
    shown = (("1.", 0), ("1.1", 1), ("1.2", 1), ("(a)", 2), ("(b)", 2), ("2.", 0), ("2.1", 1), ("(a)", 2))
    for at, (_, level) in enumerate(shown):
        about = document.add_paragraph(f"Clause {at} on berths")._p.get_or_add_pPr()  # noqa: SLF001 - for its numbers
        about.append(parse_xml(f'<w:numPr {nsdecls("w")}><w:ilvl w:val="{level}"/><w:numId w:val="90"/></w:numPr>'))
    document.save(str(path))
    return path, "docx", "", (), tuple(f"{label} Clause {at} on berths" for at, (label, _) in enumerate(shown))


def _columns(path: Path) -> Written:
    """Two columns of boxes below one that spans them, drawn in another order."""
    from pptx import Presentation

    deck = Presentation()
    shapes = deck.slides.add_slide(deck.slide_layouts[6]).shapes
    places = {"right one": (5, 2), "left two": (1, 3), "across": (1, 1), "right two": (5, 3), "left one": (1, 2)}
    for words, (left, top) in places.items():
        width = 8 if words == "across" else 3
        box = shapes.add_textbox(left * 914_400, top * 914_400, width * 914_400, 700_000)
        box.text_frame.text = f"{words} of the harbour"
    deck.save(str(path))
    order = ("across", "left one", "left two", "right one", "right two")
    return path, "pptx", "", (), (" ".join(f"{words} of the harbour" for words in order),)


def _chart(path: Path) -> Written:
    from pptx import Presentation
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("Spring", (19.25, 21.4))
    data.add_series("Autumn", (22.3, 28.6))
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 5_000_000, 3_000_000, data)
    deck.save(str(path))
    return path, "pptx", "", (), ("| Spring | Autumn |", "| East | 19.25 | 22.3 |", "| West | 21.4 | 28.6 |")
