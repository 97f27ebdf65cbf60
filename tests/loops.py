"""One event loop for the coroutines of synchronous tests. It keeps its connections to PostgreSQL: a pool for each call
would take 15 ms of CPU."""

import asyncio
import contextvars
import functools
import threading
from concurrent.futures import ThreadPoolExecutor

from retrieval.database.database import Database
from retrieval.database.pools import Pools


def _running_loop():
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class LoopPools(Pools):
    """Pools of a database that several event loops use: each loop has its own."""

    def __init__(self, **shared):
        self._by_loop = {}
        super().__init__(**shared)

    @property
    def loop(self):
        return self._by_loop.get(_running_loop())

    @loop.setter
    def loop(self, pool):
        if pool is None:
            self._by_loop.pop(_running_loop(), None)
        else:
            self._by_loop[_running_loop()] = pool


@functools.cache
def _shared_loop():
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="shared loop of tests", daemon=True).start()
    return loop


def open_database(url) -> Database:
    """Open a database for several tests, whose connections on the shared loop stay open until `close_database`."""
    database = Database(url)
    pools = database._pools
    database._pools = LoopPools(
        loop_transaction=pools.loop_transaction, thread_transaction=pools.thread_transaction, opening=pools.opening
    )
    database._viewer_pools = LoopPools()
    return database


def close_database(database) -> None:
    """Close its connections of threads and of the shared loop."""
    run_coroutine(database, database.async_close())
    database.close()


def run_coroutine(database, coroutine):
    """Return the result of a coroutine that uses the database. Without `open_database` its connections are closed."""
    if isinstance(database._pools, LoopPools):
        start = asyncio.run_coroutine_threadsafe
        return contextvars.Context().run(start, coroutine, _shared_loop()).result()

    async def run():
        try:
            return await coroutine
        finally:
            await database.async_close()

    with ThreadPoolExecutor(1) as thread:  # a loop may already run in this one
        return thread.submit(asyncio.run, run()).result()
