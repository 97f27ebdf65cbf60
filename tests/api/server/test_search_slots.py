"""Searches of one organization while another one sends many."""

from __future__ import annotations

import asyncio
import threading

from api.services import make_services
from retrieval.database.database import Database


def test_a_flood_of_slow_searches_leaves_threads_for_another_organization(api_settings, database_url, ring):
    database, held = Database(database_url), threading.Event()
    services = make_services(api_settings, database, ring)

    async def search_next_to_flood():
        flood = [asyncio.create_task(services.run_search("org_flooding", held.wait, 30)) for _ in range(64)]
        await asyncio.sleep(0.05)
        try:
            return await asyncio.wait_for(services.run_search("org_quiet", lambda: "found"), 5)
        finally:
            held.set()
            assert await asyncio.gather(*flood) == [True] * 64

    try:
        assert asyncio.run(search_next_to_flood()) == "found"
    finally:
        services.threads.shutdown()
        database.close()
