"""SQL and Python evaluate conditions alike."""

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.conditions.rule import is_restrictive, matches
from retrieval.conditions.sql import condition_sql
from retrieval.errors import ServiceError
from tests.conditions import CONDITIONS, DOCS, ERROR_CODE, Doc, condition_of


def in_database(db, condition, docs):
    """Return positions of the documents matched by SQL."""
    fragment, params = condition_sql(condition, "d")
    rows = [{**vars(doc), "n": n} for n, doc in enumerate(docs)]
    matches = db.rows(
        "select d.n from jsonb_to_recordset(%(docs)s::jsonb) as d(n int, name text, source text, document_type text,"
        " error text, metadata jsonb, properties jsonb, created_at timestamptz, updated_at timestamptz)"
        " where " + fragment,
        params | {"docs": json.dumps(rows, default=datetime.isoformat)},
    )
    return {row["n"] for row in matches}


@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@given(data=CONDITIONS, docs=st.lists(DOCS, min_size=1, max_size=8))
def test_the_sql_and_the_rule_pick_the_same(db, data, docs):
    condition = condition_of(data)
    assert in_database(db, condition, docs) == {n for n, doc in enumerate(docs) if matches(condition, doc)}


@pytest.mark.parametrize(
    ("op", "value", "stored", "holds"),
    [
        ("eq", 5, 5.0, True),
        ("eq", "5", 5, False),
        ("eq", True, 1, False),
        ("eq", "a", ["b", "a"], True),
        ("ne", "a", ["b", "a"], False),
        ("ne", "5", 5, True),
        ("in", ["a", 1], 1, True),
        ("in", [], "a", False),
        ("nin", [], "a", True),
        ("gt", 4, [1, 5], True),
        ("gt", 4, "5", False),
        ("lt", "b", "a", True),
        ("lt", "a", "B", True),
        ("gte", {"date": "2026-11-01"}, "2026-11-01T01:00+01:00", True),
        ("gt", {"date": "2026-11-01"}, "2026-11-01T01:00+01:00", False),
        ("eq", {"date": "2026-11-01"}, "2026-11-01T00:00:00.0009Z", True),
        ("lt", {"date": "2026-11-01"}, "soon", False),
        ("ne", {"date": "2026-11-01"}, "soon", True),
        ("in", [{"date": "2026-11-01"}, "soon"], ["2026-11-01"], True),
        ("contains", "ar", "harbour", True),
        ("contains", "ar", ["harbour"], False),
        ("contains", 5, [4, 5], True),
        ("contains", 5, 5, False),
        ("contains", "%", "a", False),
        ("startsWith", "har", "harbour", True),
        ("endsWith", "our", "harbour", True),
        ("endsWith", "", "harbour", True),
        ("endsWith", "our", ["harbour"], False),
        ("startsWith", "har", ["harbour"], False),
        ("exists", True, [], True),
        ("exists", True, None, False),
        ("exists", False, None, True),
        ("exists", True, False, True),
        ("ne", 1, None, True),
        ("nin", [1], None, True),
        ("gt", -1, None, False),
        ("gt", -1, True, False),
    ],
)
def test_an_operator_decides(db, op, value, stored, holds):
    condition = condition_of({"field": "metadata.k", "op": op, "value": value})
    docs = [Doc(metadata={"k": stored}), Doc(metadata={} if stored is None else {"k": stored, "other": 1})]
    assert [matches(condition, doc) for doc in docs] == [holds, holds]
    assert in_database(db, condition, docs) == ({0, 1} if holds else set())


@pytest.mark.parametrize(
    ("about", "op", "value"),
    [
        ("document.createdAt", "gte", "2026-11-01T12:00:00Z"),
        ("document.createdAt", "lt", {"date": "2026-11-02"}),
        ("document.updatedAt", "eq", "2026-11-01T13:00:00+01:00"),
        ("document.modifiedAt", "lte", "2026-10-01"),
        ("document.name", "startsWith", "a n"),
        ("document.path", "contains", "/old/"),
        ("document.language", "in", ["de", "en"]),
        ("document.mimeType", "ne", "text/html"),
        ("document.fileSize", "gt", 1023.5),
        ("document.pageCount", "exists", False),
        ("document.source", "eq", "TEXT"),
        ("document.type", "in", ["TEXT", "URL"]),
        ("metadata.a.b", "eq", 1),
    ],
)
def test_every_field_can_be_asked_for(db, about, op, value):
    file_properties = {"path": "/x/old/y", "language": "de", "mimeType": "text/plain", "fileSize": 1024}
    doc = Doc(metadata={"a.b": 1}, properties={**file_properties, "modifiedAt": "2026-10-01T00:00:00Z"})
    condition = condition_of({"field": about, "op": op, "value": value})
    assert matches(condition, doc)
    assert in_database(db, condition, [doc]) == {0}
    assert in_database(db, condition_of({"not": {"field": about, "op": op, "value": value}}), [doc]) == set()


def nested(levels):
    data = {"field": "metadata.k", "op": "eq", "value": 1}
    for _ in range(levels):
        data = {"not": data}
    return data


LEAF = {"field": "metadata.k", "op": "eq", "value": 1}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ([], "where"),
        ({}, "where"),
        ({"all": []}, "where.all"),
        ({"any": []}, "where.any"),
        ({"any": LEAF}, "where.any"),
        ({"not": [LEAF]}, "where.not"),
        ({"all": [LEAF], "not": LEAF}, "where"),
        ({"all": [LEAF], **LEAF}, "where"),
        ({"all": [LEAF, 5]}, "where.all[1]"),
        (nested(6), "where.not.not.not.not.not"),
        ({"all": [LEAF] * 101}, "where.all[100]"),
        ({**LEAF, "field": "k"}, "where.field"),
        ({**LEAF, "field": "document.id"}, "where.field"),
        ({**LEAF, "field": "metadata.\0"}, "where.field"),
        ({**LEAF, "field": 5}, "where.field"),
        ({**LEAF, "op": "like"}, "where.op"),
        ({"field": "metadata.k", "value": 1}, "where.op"),
        ({"field": "metadata.k", "op": "eq"}, "where.value"),
        ({**LEAF, "value": None}, "where.value"),
        ({**LEAF, "value": [1]}, "where.value"),
        ({**LEAF, "value": {"date": "soon"}}, "where.value"),
        ({**LEAF, "value": {"a": 1}}, "where.value"),
        ({**LEAF, "value": "\0"}, "where.value"),
        ({**LEAF, "value": float("inf")}, "where.value"),
        ({**LEAF, "op": "in"}, "where.value"),
        ({**LEAF, "op": "in", "value": [1, [2]]}, "where.value[1]"),
        ({**LEAF, "op": "in", "value": [1] * 1001}, "where.value"),
        ({**LEAF, "op": "gt", "value": True}, "where.value"),
        ({**LEAF, "op": "contains", "value": False}, "where.value"),
        ({**LEAF, "op": "startsWith"}, "where.value"),
        ({**LEAF, "op": "endsWith"}, "where.value"),
        ({**LEAF, "op": "exists"}, "where.value"),
        ({"field": "document.createdAt", "op": "gt", "value": "2026-02-30"}, "where.value"),
        ({"field": "document.createdAt", "op": "gt", "value": 5}, "where.value"),
        ({"field": "document.createdAt", "op": "contains", "value": "2026-11-01"}, "where.value"),
        ({"field": "document.name", "op": "eq", "value": {"date": "2026-11-01"}}, "where.value"),
    ],
)
def test_a_wrong_condition_is_refused_and_named(data, field):
    with pytest.raises(ServiceError) as caught:
        condition_of(data)
    assert (caught.value.code, caught.value.field) == (ERROR_CODE, field)


def test_five_levels_and_a_hundred_leaves_are_taken(db):
    deep = condition_of(nested(5))
    wide = condition_of({"any": [{**LEAF, "value": n} for n in range(100)]})
    assert in_database(db, wide, [Doc(metadata={"k": 99}), Doc(metadata={"k": 100})]) == {0}
    assert in_database(db, deep, [Doc(metadata={"k": 1}), Doc(metadata={"k": 2})]) == {1}


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (LEAF, True),
        ({**LEAF, "op": "ne"}, False),
        ({"not": LEAF}, False),
        ({"not": {**LEAF, "op": "ne"}}, True),
        ({"field": "document.type", "op": "exists", "value": False}, False),
        ({"field": "document.createdAt", "op": "exists", "value": True}, True),
        ({"any": [LEAF, {**LEAF, "op": "nin", "value": []}]}, False),
        ({"all": [LEAF, {**LEAF, "op": "nin", "value": []}]}, True),
        ({**LEAF, "op": "in", "value": []}, True),
    ],
)
def test_what_holds_for_a_document_without_any_field_does_not_restrict(data, names):
    assert is_restrictive(condition_of(data)) is names
