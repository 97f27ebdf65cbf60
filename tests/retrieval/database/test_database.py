"""Connection pools replace connections that died while idle."""

import asyncio

import psycopg
import pytest

from retrieval.database.database import Database


def end_all_others(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where pid <> pg_backend_pid() and datname = current_database() and backend_type = 'client backend'"
        )


@pytest.fixture
def own_database(fresh_database):
    return fresh_database("pools")


def test_the_first_statement_after_a_restart_of_the_server_works(own_database):
    db = Database(own_database)
    assert db.row("select 1 as one") == {"one": 1}
    end_all_others(own_database)
    assert db.row("select 1 as one") == {"one": 1}
    db.close()

    async def on_the_loop():
        assert await db.async_row("select 1 as one") == {"one": 1}
        await asyncio.to_thread(end_all_others, own_database)
        assert await db.async_row("select 1 as one") == {"one": 1}
        await db.async_close()

    asyncio.run(on_the_loop())
