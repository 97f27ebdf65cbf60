"""Rows of tables and records are searched with their header and filtered by their fields."""

from __future__ import annotations

import io
import json

import openpyxl
import pytest

from connectors import registry
from retrieval.database.database import Database
from retrieval.documents import documents, facets
from retrieval.errors import ErrorCode
from retrieval.filters import parse_filter
from retrieval.search import search
from retrieval.search.search import Query
from tests.flows.configured import Configured
from tests.library import clear_queue

INVALID = ErrorCode.INVALID_FILTER_CONFIG
STATES = ("open", "shipped", "returned")
ORDERS = [(f"Kunde {n}", f"{n:06d}", STATES[n % 3], f"{n},{n % 100:02d}") for n in range(1, 401)]
CSV = "customer;order_no;status;amount_eur\n" + "\n".join(";".join(order) for order in ORDERS)
JSONL = "\n".join(json.dumps({"sku": f"A-{n}", "stock": n, "status": "open"}) for n in range(50))


@pytest.fixture(scope="module")
def db(database_url):
    opened = Database(database_url)
    yield opened
    opened.close()


def workbook() -> bytes:
    """The berths of a harbour: codes and prices by their number formats, below a title."""
    book = openpyxl.Workbook()
    for row in (["Berths of the harbour"], [], ["berth", "code", "price"]):
        book.active.append(row)
    for number in range(1, 401):
        book.active.append([f"Quay {number}", number, number * 1.5])
        book.active.cell(number + 3, 2).number_format = "00000"
        book.active.cell(number + 3, 3).number_format = '#,##0.00 "€"'
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


@pytest.fixture(scope="module")
def house(db):
    clear_queue(db)
    house = Configured(db)
    for name, data in {"orders.csv": CSV, "stock.jsonl": JSONL, "notes.txt": "Nothing is open on Sundays."}.items():
        house.file(name, data.encode())
    house.file("berths.xlsx", workbook())
    house.work()
    return house


def find(house, query, where_filter=None, *, semantic=0.5, top_k=10):
    filtered = None if where_filter is None else parse_filter({"where": where_filter}, INVALID)
    config = house.config
    search_query = Query(query, top_k, document_filter=filtered, semantic_weight=semantic, keyword_weight=1 - semantic)
    vectors = registry.make_vector_store(config, house.db)
    return search.run_search(
        house.db, house.scope, search_query, viewer=None, embedder=registry.make_embedder(config), vectors=vectors
    ).hits


@pytest.mark.parametrize("number", [17, 399])
def test_a_row_of_a_long_table_is_found_by_its_number_and_shows_the_header(house, number):
    hits = find(house, f"status of order {number:06d}", top_k=3)
    hit = next(hit for hit in hits if f"{number:06d}" in hit.content)
    assert hit.header == "customer | order_no | status | amount_eur"


@pytest.mark.parametrize("number", [399])
def test_a_row_of_a_workbook_is_found_by_its_code_as_shown(house, number):
    hits = find(house, f"price of berth code {number:05d}", top_k=3)
    hit = next(hit for hit in hits if f"| Quay {number} | {number:05d} | {number * 1.5:.2f} € |" in hit.content)
    assert hit.header == "berth | code | price"
    (hit,) = find(house, "price", {"row.code": f"{number:05d}", "row.price": number * 1.5})
    assert f"| {number:05d} |" in hit.content


@pytest.mark.parametrize("semantic", [0.0, 1.0])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"row.order_no": "000217"}, {"Kunde 217"}),
        ({"row.order_no": ["000217", "000003"]}, {"Kunde 217", "Kunde 3"}),
        ({"row.amount_eur": {"gte": 398, "lt": 400}}, {"Kunde 398", "Kunde 399"}),
        ({"row.status": "open", "row.amount_eur": {"gt": 390, "lt": 397}}, {"Kunde 393", "Kunde 396"}),
        ({"field": "row.order_no", "op": "eq", "value": "000005"}, {"Kunde 5"}),
        ({"all": [{"row.status": "open"}, {"row.order_no": {"startsWith": "00039"}}]}, {"Kunde 390", "Kunde 399"}),
        ({"row.order_no": "000217", "document.name": "stock.jsonl"}, set()),
        ({"row.customer": "Kunde 1", "row.order_no": "000002"}, set()),
    ],
)
def test_a_search_is_narrowed_to_chunks_with_a_row_that_matches(house, where, expected, semantic):
    hits = find(house, "order status open Kunde", where, semantic=semantic)
    lines = [line for hit in hits for line in hit.content.splitlines()]
    assert {name for name in expected if not any(f"| {name} |" in line for line in lines)} == set()
    assert bool(hits) is bool(expected)
    assert len(hits) <= len(expected), "a chunk without such a row is shown"


def test_documents_are_listed_by_their_rows_and_facets_count_rows(house):
    document_filter = parse_filter({"where": {"row.status": "open"}}, INVALID)
    page = house.call(documents.list_page(house.db, house.scope, document_filter, viewer=None))
    assert {row.name for row in page.items} == {"orders.csv", "stock.jsonl"}
    fields = facets.parse_fields(["row.status", "document.name"], INVALID, path="facets")
    everything = parse_filter({}, INVALID)
    counts = house.call(facets.count_values(house.db, house.scope, everything, fields, viewer=None))
    assert [(count.value, count.documents) for count in counts["row.status"]] == [
        ("open", 133 + 50),
        ("shipped", 134),
        ("returned", 133),
    ]
    few = parse_filter({"where": {"row.amount_eur": {"lte": 10}}}, INVALID)
    counts = house.call(facets.count_values(house.db, house.scope, few, fields, viewer=None))
    assert sum(count.documents for count in counts["row.status"]) == 9


def test_a_file_sent_again_is_not_embedded_again(house):
    embeddings_before = house.db.row("select count(*) as n from embeddings")
    house.file("orders.csv", (CSV + "\nKunde 401;000401;open;1,00").encode())
    house.work()
    embeddings_after = house.db.row("select count(*) as n from embeddings")
    assert embeddings_after["n"] - embeddings_before["n"] <= 1
    assert find(house, "Kunde 401", {"row.order_no": "000401"})
