"""A table in a cell of OpenDocument or RTF is a table of its own after its row."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest

from retrieval.ports import Parsed

pytestmark = pytest.mark.service
Read = Callable[[str, bytes], Parsed]

_NAMES = "urn:oasis:names:tc:opendocument:xmlns"
PARTS = "| Part | Quantity | Price |\n| --- | --- | --- |\n| Washer | 12 | 0.80 |\n| Bolt | 7 | 1.20 |"
PUMP_TABLE = f"| Item | Parts | Weight |\n| --- | --- | --- |\n| Pump | Kit A | 5 kg |\n\nKit A:\n\n{PARTS}"


def odt(body: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        head = "".join(f' xmlns:{name}="{_NAMES}:{name}:1.0"' for name in ("office", "text", "table"))
        head += f' xmlns:draw="{_NAMES}:drawing:1.0" xmlns:svg="{_NAMES}:svg-compatible:1.0"'
        content = f"<office:body><office:text>{body}</office:text></office:body>"
        archive.writestr("content.xml", f"<office:document-content{head}>{content}</office:document-content>")
    return file.getvalue()


def odt_table(*rows: list[str]) -> str:
    cells = (
        "".join(
            f"<table:table-cell>{cell if '<' in cell else f'<text:p>{cell}</text:p>'}</table:table-cell>"
            for cell in row
        )
        for row in rows
    )
    return f"<table:table>{''.join(f'<table:table-row>{row}</table:table-row>' for row in cells)}</table:table>"


INNER_ROWS = (["Part", "Quantity", "Price"], ["Washer", "12", "0.80"], ["Bolt", "7", "1.20"])


def test_a_table_in_a_cell_of_opendocument(read: Read) -> None:
    kit = f"<text:p>Kit A</text:p>{odt_table(*INNER_ROWS)}"
    table = odt_table(["Item", "Parts", "Weight"], ["Pump", kit, "5 kg"], ["Valve", "none", "1 kg"])
    text = read("a.odt", odt(f"<text:p>Stock</text:p>{table}<text:p>End</text:p>")).text
    assert PUMP_TABLE in text
    assert "| Valve | none | 1 kg |" in text


def rtf_inner_row(cells: list[str]) -> str:
    paragraphs = "".join(rf"\pard\intbl\itap2 {cell}\nestcell" for cell in cells)
    edges = "".join(rf"\cellx{1000 * at}" for at in range(1, len(cells) + 1))
    return rf"{paragraphs}{{\*\nesttableprops\trowd{edges}\nestrow}}{{\nonesttables\par}}"


def rtf_row(*cells: str) -> str:
    edges = "".join(rf"\cellx{3000 * at}" for at in range(1, len(cells) + 1))
    return rf"\trowd{edges}" + "".join(rf"\pard\intbl {cell}\cell" for cell in cells) + r"\row" + "\n"


@pytest.mark.parametrize("after", ["", r"\pard\intbl\itap1 "])
def test_a_table_in_a_cell_of_rtf(read: Read, after: str) -> None:
    kit = r"Kit A\par" + "".join(map(rtf_inner_row, INNER_ROWS)) + after
    rows = rtf_row("Item", "Parts", "Weight") + rtf_row("Pump", kit, "5 kg") + rtf_row("Valve", "none", "1 kg")
    text = read("a.rtf", (r"{\rtf1\ansi Stock\par " + rows + r"\pard End\par}").encode()).text
    assert PUMP_TABLE in text
    assert "| Valve | none | 1 kg |" in text
    assert text.rstrip().endswith("End")


def test_a_single_row_in_a_cell_is_text_of_the_cell(read: Read) -> None:
    inner = odt_table(["12", "pieces"])
    assert "| Pump | 12 pieces |" in read("a.odt", odt(odt_table(["Item", "Stock"], ["Pump", inner]))).text
    rows = rtf_row("Item", "Stock") + rtf_row("Pump", rtf_inner_row(["12", "pieces"]))
    assert "| Pump | 12 pieces |" in read("a.rtf", (r"{\rtf1\ansi " + rows + "}").encode()).text


def test_cells_below_a_tall_cell_of_opendocument_stay_in_their_columns(read: Read) -> None:
    tall = '<table:table-cell table:number-rows-spanned="2"><text:p>Group</text:p></table:table-cell>'
    cells = [f"<table:table-cell><text:p>{word}</text:p></table:table-cell>" for word in ("Fee", "Adults", "18")]
    table = (
        f"<table:table-row>{tall}{cells[0]}</table:table-row><table:table-row>{cells[1]}{cells[2]}</table:table-row>"
    )
    assert (
        "| Group | Fee |\n| --- | --- |\n| Adults | 18 |"
        in read("a.odt", odt(f"<table:table>{table}</table:table>")).text
    )
