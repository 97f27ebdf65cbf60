"""Flows for the worker's tests: deployed by their file, run in real child processes."""

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

from prefect import flow, task
from prefect.cache_policies import NO_CACHE


@task(cache_policy=NO_CACHE)
def write(path: str, text: str) -> None:
    """Append a line to the log of runs."""
    with Path(path).open("a") as file:
        file.write(text + "\n")


@flow(name="note")
async def note(path: str, text: str = "default") -> None:
    """Writes the process id and a text."""
    write(path, f"{os.getpid()} {text}")


@flow(name="wait")
async def wait(path: str, seconds: float) -> None:
    """Write a line before and after a wait."""
    write(path, f"{os.getpid()} began")
    await asyncio.sleep(seconds)
    write(path, f"{os.getpid()} ended")


@flow(name="steps")
async def steps(path: str, count: int) -> None:
    """Run tasks of a tenth of a second in sequence."""
    for number in range(count):
        write(path, f"{os.getpid()} step {number}")
        await asyncio.sleep(0.1)


@flow(name="stubborn")
def stubborn(path: str) -> None:
    """Hears no signal, as a long call into a library in C may not."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    write(path, f"{os.getpid()} began")
    time.sleep(60)


@flow(name="linger")
async def linger(path: str, seconds: float) -> None:
    """Raise; the process exits later."""
    threading.Thread(target=time.sleep, args=(seconds,)).start()
    write(path, f"{os.getpid()} began")
    raise ValueError("this flow always fails")


@flow(name="fail")
async def fail(path: str) -> None:
    """Raises."""
    write(path, f"{os.getpid()} began")
    raise ValueError("this flow always fails")
