"""What counting for Prometheus costs: the same API process with it and without, a quarter of a second each by turns.

    .venv/bin/python bench/counting.py [--seconds 40] [--clients 8]

One API process with the settings that people use, on an embedded PostgreSQL, under load from a process of its own. A
signal has it replace the functions that count by ones that do nothing, another has it put them back: nothing else
differs, memory and connections neither, and what else the machine does falls on both. Told are milliseconds of the
API process's CPU for a request, and the ratio of all turns with to all turns without, with the 95 % interval of a
bootstrap over pairs of turns. Results go to bench/results/counting.json.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import uvloop

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import api, report  # noqa: E402

COUNTS, COUNTS_NOT = signal.SIGUSR1, signal.SIGUSR2
KINDS = ("GET", "POST")
TURN = 0.25
"""Seconds."""
WARM = 2.0
Turn = tuple[float, int]
"""CPU seconds and requests."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=40)
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--load", type=int, help=argparse.SUPPRESS)
    told = options.parse_args()
    if told.serve:
        _serve()
        return
    if told.load:
        _load(told.load, told.clients, told.seconds)
        return
    report.end_in_order()
    figures: dict[str, Any] = {}
    with ExitStack() as stack:
        home, url, _ = api.database(stack)
        server = api.ours(stack, home, url, [sys.executable, __file__, "--serve"])
        for kind in KINDS:
            figures[kind] = _figures(kind, _turns(server, kind, told.clients, told.seconds))
    report.write("counting", {"options": {"seconds": told.seconds, "clients": told.clients}, **figures})


def _turns(server: api.Server, kind: str, clients: int, seconds: float) -> list[tuple[Turn, Turn]]:
    """Pairs of turns, with counting and without, in an order that changes from pair to pair."""
    head, body = api.request(server, kind)
    command = [sys.executable, __file__, "--load", str(server.port), "--clients", str(clients)]
    command += ["--seconds", str(WARM + seconds)]
    marks: list[tuple[float, float]] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        load.stdin.write(head + b"\n@@@@\n" + body)
        load.stdin.close()
        load.stdout.readline()
        time.sleep(WARM)
        pairs = int(seconds / (2 * TURN)) - 1
        for number in range(2 * pairs):
            os.kill(server.pid, COUNTS if _counts(number) else COUNTS_NOT)
            marks.append((time.perf_counter(), _cpu(server.pid)))
            time.sleep(TURN)
        marks.append((time.perf_counter(), _cpu(server.pid)))
        answered: list[float] = json.loads(load.stdout.read())
    turns = []
    for (begun, before), (ended, after) in itertools.pairwise(marks):
        turns.append((after - before, bisect.bisect(answered, ended) - bisect.bisect(answered, begun)))
    both = [(turns[number], turns[number + 1]) for number in range(0, len(turns), 2)]
    return [pair if _counts(2 * number) else pair[::-1] for number, pair in enumerate(both)]


def _counts(turn: int) -> bool:
    return turn % 4 in {0, 3}


def _cpu(pid: int) -> float:
    """Seconds that a process and its threads have run, by the scheduler."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def _figures(kind: str, pairs: list[tuple[Turn, Turn]]) -> dict[str, Any]:
    dice = random.Random(1)
    again = sorted(_ratio(dice.choices(pairs, k=len(pairs))) for _ in range(2000))
    requests = sum(turn[1] for pair in pairs for turn in pair)
    counted, plain = (_each(pairs, side) for side in (0, 1))
    low, high = again[50], again[-51]
    print(
        f"{kind}: {counted:.4f} ms of CPU with counting, {plain:.4f} without; ratio {counted / plain:.4f}"
        f" ({low:.4f} to {high:.4f}), {len(pairs)} pairs of turns, {requests} requests",
        flush=True,
    )
    return {
        "ratio": round(counted / plain, 4),
        "ci95": [round(low, 4), round(high, 4)],
        "pairs": len(pairs),
        "requests": requests,
        "cpu": round(counted, 4),
        "cpuWithout": round(plain, 4),
    }


def _ratio(pairs: list[tuple[Turn, Turn]]) -> float:
    return _each(pairs, 0) / _each(pairs, 1)


def _each(pairs: list[tuple[Turn, Turn]], side: int) -> float:
    """Milliseconds of CPU of a request."""
    return 1000 * sum(pair[side][0] for pair in pairs) / sum(pair[side][1] for pair in pairs)


class _Client(api.Client):
    """Notes when it was answered."""

    answered: list[float]

    def ask(self) -> None:
        self.answered.append(time.perf_counter())
        super().ask()


def _load(port: int, clients: int, seconds: float) -> None:
    """The times of all answers, in order, after a line that says that it begins."""
    head, _, body = sys.stdin.buffer.read().partition(b"\n@@@@\n")
    answered: list[float] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        deadline = time.perf_counter() + seconds
        made = [_Client(head, body, deadline, loop.create_future()) for _ in range(clients)]
        for client in made:
            client.answered = answered
        waiting = iter(made)
        for _ in made:
            await loop.create_connection(lambda: next(waiting), "127.0.0.1", port)
        await asyncio.gather(*(client.ended for client in made))

    print(flush=True)
    uvloop.run(run())
    print(json.dumps(answered))


def _serve() -> None:
    """`python -m api` whose counting can be switched."""
    from api import __main__ as program
    from api.request_counts import RequestCounts
    from retrieval.metrics import counts

    async def async_nothing(*_: object, **__: object) -> None:
        """As one that has nothing to write."""

    def nothing(*_: object, **__: object) -> None:
        """Instead of counting."""

    changes = [
        (RequestCounts, "answered", nothing),
        (RequestCounts, "pass_on", nothing),
        (counts, "add", nothing),
        (counts, "observe", nothing),
        (counts, "async_write", async_nothing),
    ]
    own = [(holder, name, getattr(holder, name)) for holder, name, _ in changes]

    def switch(functions: list[tuple[Any, str, Any]]) -> None:
        for holder, name, function in functions:
            setattr(holder, name, function)

    signal.signal(COUNTS, lambda *_: switch(own))
    signal.signal(COUNTS_NOT, lambda *_: switch(changes))
    program.main()


if __name__ == "__main__":
    main()
