"""Single statements on the event loop: values, errors, cancellation, lost connections and how many there are."""

from __future__ import annotations

import asyncio
import os
import socket
import time

import psycopg
import pytest
import uvloop

from retrieval.database.database import UNAVAILABLE_ERRORS, Database


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
