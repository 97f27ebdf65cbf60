"""Typed rows: instances of a dataclass or of a table's class, or the values of the first column."""

import asyncio
from dataclasses import dataclass

import pytest

from retrieval.database.schema.identity import RateWindow

ROWS = "select number as id, 'n' || number as name from generate_series(1, %(most)s) number order by number"


@dataclass(frozen=True, slots=True)
class Numbered:
    id: int
    name: str


def test_rows_are_instances_of_the_class(db):
    assert db.fetch(Numbered, ROWS, {"most": 2}) == [Numbered(1, "n1"), Numbered(2, "n2")]
    assert db.fetch_one(Numbered, ROWS, {"most": 2}) == Numbered(1, "n1")
    assert db.fetch_one(Numbered, ROWS, {"most": 0}) is None


def test_rows_are_instances_of_the_class_of_the_table(db):
    row = db.fetch_one(RateWindow, "select 'org_1' as caller, 7 as minute, 2 as requests")
    assert (row.caller, row.minute, row.requests) == ("org_1", 7, 2)


def test_a_plain_type_is_the_first_column(db):
    assert db.fetch(int, ROWS, {"most": 2}) == [1, 2]
    assert db.fetch_one(dict, "select '{\"a\": 1}'::jsonb") == {"a": 1}
    assert db.fetch_one(int, "select null::int") is None


def test_a_connection_and_together_answer_alike(db):
    with db.transaction() as connection:
        assert connection.fetch_one(Numbered, ROWS, {"most": 1}) == Numbered(1, "n1")
    with db.together():
        assert db.execute("create temporary table numbers on commit drop as select 1 as id, 'n1' as name") == 1
        assert db.fetch(Numbered, "select id, name from numbers") == [Numbered(1, "n1")]


def test_a_column_without_a_field_is_refused(db):
    with pytest.raises(TypeError, match="unexpected keyword"):
        db.fetch(Numbered, "select 1 as id, 'n1' as name, 2 as other")


def test_the_event_loop_has_the_same(db):
    async def on_the_loop():
        assert await db.async_fetch(Numbered, ROWS, {"most": 1}) == [Numbered(1, "n1")]
        assert await db.async_fetch_one(Numbered, ROWS, {"most": 1}, plan_once=True) == Numbered(1, "n1")
        async with db.async_together():
            await db.async_execute("create temporary table numbers on commit drop as select 1 as id, 'n1' as name")
            assert await db.async_fetch_one(int, "select id from numbers") == 1
        async with db.async_transaction() as connection:
            assert await connection.async_fetch_one(str, "select 'n1'") == "n1"
        await db.async_close()

    asyncio.run(on_the_loop())
