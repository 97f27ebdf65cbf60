"""A thread and database connections for one background loop, so that loops cannot stall each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from retrieval.database.database import Database

P = ParamSpec("P")
T = TypeVar("T")


class Lane:
    """Serial queue of work with at most two connections. Callers of a busy lane wait for their turn."""

    def __init__(self, name: str, db: Database) -> None:
        self.db = db.sibling(size=2, role="dispatcher")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, function: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The function on the lane's database. If the caller gives up meanwhile, the lane stays busy until it ends."""
        work: partial[Any] = partial(function, self.db, *args, **kwargs)
        result: T = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        return result

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
        self.db.close()
