"""One event loop for coroutines of synchronous tests, with persistent connections: a pool per call costs 15 ms of
CPU."""

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
    """Database pools per event loop."""

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
    """Open a database and keep its connections on the shared loop until `close_database`."""
    database = Database(url)
    pools = database._pools
    database._pools = LoopPools(
        loop_transaction=pools.loop_transaction, thread_transaction=pools.thread_transaction, opening=pools.opening
    )
    database._viewer_pools = LoopPools()
    return database


def close_database(database) -> None:
    """Close the database's connections of threads and of the shared loop."""
    run_coroutine(database, database.async_close())
    database.close()


def run_coroutine(database, coroutine):
    """Run a coroutine and return its result; close connections of databases not opened by `open_database`."""
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
