"""Connection pools replace connections that died while idle, and detect a silent host within seconds."""

import asyncio

import psycopg
import pytest

from retrieval.database import tcp_keepalive
from retrieval.database.database import Database

URL = "postgresql://name@127.0.0.1/retrieval"


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


def test_a_silent_host_is_found_out_unless_the_address_says_otherwise():
    """By the system's own limits the dispatcher waited for 15 minutes, and whoever only listened for two hours."""
    assert tcp_keepalive.connection_options(URL) == tcp_keepalive.DEFAULT_OPTIONS
    assert tcp_keepalive.DEFAULT_OPTIONS["tcp_user_timeout"] <= 20_000
    idle, interval, count = (
        tcp_keepalive.DEFAULT_OPTIONS[f"keepalives_{name}"] for name in ("idle", "interval", "count")
    )
    assert idle + interval * count <= 25
    assert "keepalives_idle" not in tcp_keepalive.connection_options(URL + "?keepalives_idle=60")
    assert "connect_timeout" not in tcp_keepalive.connection_options("host=db connect_timeout=3")
