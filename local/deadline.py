"""Deadlines for what blocks without one of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def call(function: Callable[[], T], seconds: float) -> T:
    """Call `function` in a thread and return what it returns. TimeoutError after `seconds`; the thread is left alone
    and does not keep the process from its end."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it is raised to the caller
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result.result(seconds)
