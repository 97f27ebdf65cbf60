"""Single statements on the event loop: values, errors, cancellation, lost connections and how many there are."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from datetime import UTC, datetime

import psycopg
import pytest
import uvloop

from retrieval.database.database import UNAVAILABLE_ERRORS, Database

SAMPLE_VALUES = {
    "text": "it's 100 %",
    "nothing": None,
    "whole": 7,
    "bytes": b"\x00\xff",
    "list": ["a", None, 'b"'],
    "when": datetime(2026, 11, 22, tzinfo=UTC),
    "json": '{"a": [1, 2]}',
    "yes": True,
}
ECHO = (
    "select %(text)s::text as text, %(nothing)s::text as nothing, %(whole)s::bigint as whole, %(bytes)s::bytea as bytes"
    ", %(list)s::text[] as list, %(when)s::timestamptz as when, %(json)s::jsonb as json, %(yes)s as yes"
    ", 10 %% 3 as rest, %(text)s::text as again"
)


@pytest.fixture
def loop_db(fresh_database, request):
    return Database(fresh_database(f"s{abs(hash(request.node.name))}"), size=3, role="api")


def run(db: Database, work, runner=asyncio.run) -> None:
    async def all_of_it() -> None:
        try:
            await work()
        finally:
            await db.async_close()

    runner(all_of_it())


def test_values_are_those_of_psycopg_each_time(loop_db):
    async def work() -> None:
        expected = {**SAMPLE_VALUES, "json": {"a": [1, 2]}, "rest": 1, "again": SAMPLE_VALUES["text"]}
        for _ in range(3):
            (row,) = await loop_db.async_rows(ECHO, SAMPLE_VALUES)
            assert row == expected
        async with loop_db.async_together():
            assert await loop_db.async_rows(ECHO, SAMPLE_VALUES) == [expected]
        assert await loop_db.async_rows("create table t (a int)", {}) == []
        assert await loop_db.async_rows("insert into t values (%(a)s), (null)", {"a": 1}) == []
        assert await loop_db.async_rows("select a from t where a = %(a)s", {"a": 2}) == []
        assert await loop_db.async_rows("select a from t order by a", {}) == [{"a": 1}, {"a": None}]

    run(loop_db, work)


def test_errors_are_those_of_psycopg_and_the_connection_goes_on(loop_db):
    async def work() -> None:
        for _ in range(2):
            with pytest.raises(psycopg.errors.UndefinedTable):
                await loop_db.async_rows("select %(a)s from nowhere", {"a": 1})
            with pytest.raises(psycopg.errors.DivisionByZero) as division:
                await loop_db.async_rows("select 1 / %(a)s::int", {"a": 0})
            assert division.value.sqlstate == "22012"
        await loop_db.async_rows("create table u (a int primary key)", {})
        await loop_db.async_rows("insert into u values (%(a)s)", {"a": 1})
        with pytest.raises(psycopg.errors.UniqueViolation):
            await loop_db.async_rows("insert into u values (%(a)s)", {"a": 1})
        assert await loop_db.async_row("select count(*) as n, pg_backend_pid() > %(a)s as up from u", {"a": 0}) == {
            "n": 1,
            "up": True,
        }

    run(loop_db, work)


def test_many_at_once_share_the_connections_with_transactions(loop_db):
    async def work() -> None:
        async def statement(number: int) -> int:
            row = await loop_db.async_row("select %(a)s::int as a, pg_sleep(0.01)", {"a": number})
            assert row is not None
            return int(row["a"])

        async def transaction(number: int) -> int:
            async with loop_db.async_transaction() as connection:
                row = await (await connection.execute("select %(a)s::int as a", {"a": number})).fetchone()
                assert row is not None
                return int(row["a"])

        work = [(statement, transaction)[number % 2](number) for number in range(60)]
        assert await asyncio.gather(*work) == list(range(60))
        row = await loop_db.async_row(
            "select count(*) as n from pg_stat_activity where datname = current_database()"
            " and backend_type = %(a)s and pid <> pg_backend_pid()",
            {"a": "client backend"},
        )
        assert row is not None
        assert row["n"] <= 2

    run(loop_db, work)


def test_a_cancelled_statement_ends_in_the_server_too(loop_db):
    async def work() -> None:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await loop_db.async_rows("select pg_sleep(%(a)s)", {"a": 30})
        query = "select count(*) as n from pg_stat_activity where query like %(a)s and state = 'active'"
        while (row := await loop_db.async_row(query, {"a": "select pg_sleep($%"})) and row["n"]:
            assert time.monotonic() - began < 10
            await asyncio.sleep(0.05)
        assert await loop_db.async_row("select %(a)s::int as a", {"a": 1}) == {"a": 1}

    run(loop_db, work)


def test_a_connection_that_is_lost_while_a_statement_runs_is_away(loop_db):
    async def work() -> None:
        await loop_db.async_row("select %(a)s::int as a", {"a": 1})
        running = asyncio.create_task(loop_db.async_rows("select pg_sleep(%(a)s)", {"a": 30}))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(_end_all, loop_db.url)
        with pytest.raises(UNAVAILABLE_ERRORS):
            await running
        await asyncio.sleep(0.1)
        assert await loop_db.async_row("select %(a)s::int as a", {"a": 1}) == {"a": 1}

    run(loop_db, work)


@pytest.mark.parametrize("seconds", [0.0, 0.2], ids=["before the statement", "during the statement"])
@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_socket_that_dies_ends_the_wait_on_every_loop(loop_db, runner, seconds):
    # uvloop reports a socket error once and stops polling.

    async def work() -> None:
        async def lose() -> None:
            async with asyncio.timeout(10), loop_db.async_transaction() as connection:
                with socket.socket(fileno=os.dup(connection.fileno())) as server_side:
                    asyncio.get_running_loop().call_later(seconds, server_side.shutdown, socket.SHUT_RDWR)
                    await asyncio.sleep(0 if seconds else 0.05)
                    await connection.execute("select pg_sleep(30), length(%(text)s)", {"text": "x" * 10_000_000})

        with pytest.raises(UNAVAILABLE_ERRORS):
            await lose()
        assert await loop_db.async_row("select %(a)s::int as a", {"a": 1}) == {"a": 1}

    run(loop_db, work, runner)


def _end_all(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid <> pg_backend_pid()"
            " and datname = current_database() and backend_type = 'client backend'"
        )
