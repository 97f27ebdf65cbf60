"""Tables and records: whole rows per chunk, headers, and typed columns."""

from __future__ import annotations

import json
import time

import pytest

from retrieval.ingestion.chunking import row_values, structure, titles
from retrieval.ingestion.chunking.titles import embedded_text
from retrieval.ingestion.chunking.tokenizer import MINILM_MODEL, tokenizer_for
from retrieval.ports import Parsed

TOKENIZER = tokenizer_for("LOCAL", MINILM_MODEL)
COLUMN_NAMES = ("customer", "order_no", "status", "amount_eur")


def orders(count: int) -> list[tuple[str, ...]]:
    states = ("open", "shipped", "returned")
    return [(f"Kunde {n}", f"{n:06d}", states[n % 3], f"{n},{n % 100:02d}") for n in range(1, count + 1)]


def table(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (names, ("---",) * len(names), *rows)]
    return "\n".join(lines)


def cut(text: str, media_type: str = "", size: int = 1000, overlap: int = 200) -> titles.TitledChunks:
    parsed = Parsed(text, "Orders of this year", (), {"mimeType": media_type})
    return titles.split_titled(parsed, TOKENIZER, size, overlap, 254)


def test_each_chunk_of_a_long_table_embeds_the_header_before_whole_rows() -> None:
    text = f"Some words before.\n\n{table(COLUMN_NAMES, orders(400))}\n\nSome words after."
    result = cut(text)
    rows = set(text.splitlines())
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in result.chunks)
    assert all(line in rows for chunk in result.chunks for line in chunk.text.splitlines())
    assert {chunk.header for chunk in result.chunks if chunk.rows} == {"customer | order_no | status | amount_eur"}
    assert embedded_text("", result.chunks[0].header, result.chunks[0].text) == result.chunks[0].text, (
        "it has the header"
    )
    embedded = [embedded_text(result.title, chunk.header, chunk.text) for chunk in result.chunks]
    assert max(len(spans) for spans in TOKENIZER.spans(embedded)) <= 254
    assert sum(len(chunk.rows) for chunk in result.chunks) == 400, "a row is torn, lost or repeated"


RECORDS = [{"id": n, "name": f"Item {n}", "note": "word " * (n % 20), "at": {"city": "Bergen"}} for n in range(100)]


@pytest.mark.parametrize(
    ("text", "media_type"),
    [
        (json.dumps(RECORDS), "application/json"),
        (json.dumps(RECORDS, indent=2), "application/json"),
        (json.dumps({"title": "All", "data": {"items": RECORDS}}, indent=1), "application/json"),
        ("\n".join(map(json.dumps, RECORDS)), "application/x-ndjson"),
    ],
    ids=["one line", "indented", "within objects", "lines"],
)
@pytest.mark.parametrize(("size", "overlap"), [(1000, 200), (100, 20)])
def test_no_record_that_fits_a_chunk_is_torn(text: str, media_type: str, size: int, overlap: int) -> None:
    ids = [row["id"] for chunk in cut(text, media_type, size, overlap).chunks for row in chunk.rows]
    assert ids == list(range(100)), "a record stands in two chunks, or in none"


def test_a_row_longer_than_a_chunk_is_cut_and_found_in_each_of_its_parts() -> None:
    text = table(("id", "story"), [("1", "once upon a time " * 200), ("2", "short")])
    chunks = cut(text).chunks
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(text.split())
    assert all(any(row["id"] == 1 for row in chunk.rows) for chunk in chunks[1:-1])


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["3,01", "1.234,50", ""], [3.01, 1234.5, None]),
        (["3.01", "1,234.50", "-2"], [3.01, 1234.5, -2]),
        (["1,234", "12,345"], [1234, 12345]),
        (["€ 1.000,00", "€ 2,50"], [1000.0, 2.5]),
        (["12.5%", "7%"], [12.5, 7]),
        (["(1,200.50)", "3"], [-1200.5, 3]),
        (["000217", "000218"], ["000217", "000218"]),
        (["12", "n/a"], ["12", "n/a"]),
        (["3.11.7", ""], ["3.11.7", None]),
        (["3.9\u20134.5", "3.94.5"], ["3.9\u20134.5", "3.94.5"]),
        (["1.234.567", "12,5"], [1234567, 12.5]),
        (["12,34,567.50"], [1234567.5]),
        (["2026-01-02", "2026-01-03"], ["2026-01-02", "2026-01-03"]),
        (["+1-539-402-0259"], ["+1-539-402-0259"]),
        (["10", "0"], [10, 0]),
        (["9" * 400, "1"], ["9" * 400, "1"]),
        (["9" * 25], [1e25]),
    ],
)
def test_a_column_is_typed_by_all_of_its_cells(cells: list[str], values: list[object]) -> None:
    rows = row_values.typed_rows(["Amount (EUR)"], [[cell] for cell in cells])
    assert [row.get("amount_eur") for row in rows] == values


@pytest.mark.parametrize("media_type", ["application/json", "application/x-ndjson", ""])
@pytest.mark.parametrize(
    "text",
    [
        '["' + '\\"' * 400_000,
        "[" * 400_000,
        '{"a":' * 200_000,
        "{" * 400_000,
        "[" + "{}," * 600_000 + "{}]",
        "| a |\n| - |\n" + "| 1 |\n" * 600_000,
        '{"a": 1}' + " " * 400_000 + "x",
        '[{"a": ' + "9" * 10_000 + "}]",
    ],
    ids=["string without end", "arrays", "objects", "braces", "many records", "many rows", "blanks", "digits"],
)
def test_a_hostile_text_costs_seconds_and_fails_nothing(text: str, media_type: str) -> None:
    started = time.process_time()
    structured = structure.find_structure(text, media_type)
    structured.rows(0, min(len(text), 10_000))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("upper", "lower", "header"),
    [
        (
            ("Harbour", "Ships", "", "Price", ""),
            ("", "2024", "2025", "Berth", "Quay"),
            "Harbour | Ships – 2024 | Ships – 2025 | Price – Berth | Price – Quay",  # noqa: RUF001
        ),
        (
            ("", "Summer", "", "Winter", ""),
            ("Harbour", "Ships", "Crews", "Ships", "Crews"),
            "Harbour | Summer – Ships | Summer – Crews | Winter – Ships | Winter – Crews",  # noqa: RUF001
        ),
        (
            ("Harbour", "2024", "", "2025", ""),
            ("", "N", "%", "N", "%"),
            "Harbour | 2024 – N | 2024 – % | 2025 – N | 2025 – %",  # noqa: RUF001
        ),
    ],
)
def test_columns_below_a_row_of_groups_have_the_names_of_both(
    upper: tuple[str, ...], lower: tuple[str, ...], header: str
) -> None:
    rows = [lower, *((f"Port {n}", f"{n}", "340", "7.5", "11") for n in range(100))]
    chunks = cut(table(upper, rows), size=200, overlap=20).chunks
    assert {chunk.header for chunk in chunks if chunk.rows} == {header}
    assert sum(len(chunk.rows) for chunk in chunks) == 100
