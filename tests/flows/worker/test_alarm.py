"""Failures of the tasks of the wake-up loop do not pass silently."""

import asyncio

from flows.worker import program
from flows.worker.program import PollTrigger
from retrieval import settings


def test_a_task_that_fails_in_an_unknown_way_is_begun_again(monkeypatch):
    monkeypatch.setattr(program, "LOOP_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(program, "CANCEL_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(program, "SLOT_FREE_SECONDS", 0.0)
    monkeypatch.delenv("RETRIEVAL_DATABASE_URL", raising=False)
    settings.load_settings.cache_clear()

    async def through():
        polled, looked = asyncio.Queue(), asyncio.Queue()

        async def poll():
            polled.put_nowait(1)
            raise RuntimeError("nobody has thought of this")

        async def look():
            looked.put_nowait(1)
            raise KeyError("nor of this")

        trigger = PollTrigger(poll, look)
        trigger.start()
        for _ in range(3):
            trigger.trigger_soon()
            await polled.get()
            await looked.get()
        await trigger.stop()

    asyncio.run(asyncio.wait_for(through(), 10))
