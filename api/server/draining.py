"""Draining behind a load balancer: `/ready` answers 503 for some seconds before the listener closes."""

from __future__ import annotations

import asyncio
import signal
import threading
from types import FrameType


def announce_on_sigterm(ending: threading.Event, seconds: float) -> None:
    """From now on SIGTERM sets `ending`, and reaches the server after `seconds`; a second SIGTERM reaches it at once.

    To be called on the event loop once the server has installed its own handler. Nothing in a thread, which gets no
    signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop, server = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)

    def on_sigterm(number: int, frame: FrameType | None) -> None:
        pause = 0.0 if ending.is_set() else seconds
        ending.set()
        loop.call_soon_threadsafe(loop.call_later, pause, end, number, frame)

    def end(number: int, frame: FrameType | None) -> None:
        if callable(server):
            server(number, frame)
        else:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, on_sigterm)
