"""Documents a second by the number of worker processes on one work pool, each bound to one processor core.

    .venv/bin/python bench/workers.py [--workers 1 2 4] [--texts 400] [--rounds 2]

Starts a service of its own with one flow run a worker (RETRIEVAL_WORKER_LIMIT=1). A worker and its children run on one
core, in turn over the cores: the database, Prefect, the dispatcher, the API and this client share the same cores, so
what is missing to linear up to the cores is theirs. Texts of 1 kB for all-MiniLM-L6-v2 are posted to four namespaces
while the dispatcher stands still; measured is from its going on to the last text searchable, workers being warm. Rounds
go up and down the numbers of workers.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402
from bench.cranfield import Service  # noqa: E402
from bench.instance import COMMAND, instance  # noqa: E402
from bench.processes import cpu_of_tree, descendants  # noqa: E402

NAMESPACES = 4
SENTENCE = "The tide turns at the harbour wall, and the keeper writes down when and how high it stood. "


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    options.add_argument("--texts", type=int, default=400)
    options.add_argument("--rounds", type=int, default=2)
    chosen = options.parse_args()
    report.end_in_order()
    rows: dict[int, list[dict[str, float]]] = {count: [] for count in chosen.workers}
    with ExitStack() as stack:
        place = Place(stack)
        for number in range(chosen.rounds):
            for count in chosen.workers if number % 2 == 0 else chosen.workers[::-1]:
                place.have(count)
                row = place.ingest(chosen.texts)
                rows[count].append(row)
                spent = 1000 * row["cpu_s"] / chosen.texts
                told = f"{row['documents_per_s']:.1f} documents/s, {spent:.0f} ms of CPU each"
                print(f"round {number + 1}: {count} workers: {told}", flush=True)
    report.write("workers", figures(rows))


class Place:
    """A service, its own worker and those beside it."""

    def __init__(self, stack: ExitStack) -> None:
        place = stack.enter_context(instance({"WORKER_LIMIT": "1"}))
        self.home, self.environment, self.root = place.home, place.environment, place.root
        self.dispatcher = place.roles["dispatcher"]
        self.services = [Service(place, "all-MiniLM-L6-v2") for _ in range(NAMESPACES)]
        self.workers: list[int] = [place.roles["worker"]]
        self.more: list[subprocess.Popen[bytes]] = []
        self.number = 0
        stack.callback(self.end)

    def have(self, count: int) -> None:
        """Start or end workers until there are so many, each on a core of its own as far as there are cores."""
        if len(self.workers) > count:
            self.end()
        while len(self.workers) < count:
            log = self.home / f"worker-{len(self.workers)}-{time.monotonic_ns()}.log"
            with log.open("wb") as output:
                started = subprocess.Popen([COMMAND, "worker"], env=self.environment, stdout=output, stderr=output)
            self.more.append(started)
            self.workers.append(started.pid)
            until = time.monotonic() + 90
            while "started!" not in log.read_text():
                if started.poll() is not None or time.monotonic() > until:
                    sys.exit(f"A worker did not start: {log.read_text()[-2000:]}")
                time.sleep(0.2)
        self.ingest(40 * count)  # until all are warm
        for place, pid in enumerate(self.workers):
            for one in (pid, *descendants(pid)):
                for thread in Path(f"/proc/{one}/task").glob("[0-9]*"):
                    with suppress(ProcessLookupError):
                        os.sched_setaffinity(int(thread.name), {place % (os.cpu_count() or 1)})

    def end(self) -> None:
        """End those beside the service's own."""
        while self.more:
            self.workers.pop()
            process = self.more.pop()
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()

    def ingest(self, count: int) -> dict[str, float]:
        """A backlog of texts in all namespaces, posted while the dispatcher stands still, and then done."""
        self.number += 1
        texts = [(f"{self.number} {n}", f"Entry {self.number} of {n}. " + SENTENCE * 10) for n in range(count)]
        os.kill(self.dispatcher, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(8) as pool:
                runs = list(pool.map(self._post, enumerate(texts)))
        finally:
            os.kill(self.dispatcher, signal.SIGCONT)
        began, before = time.perf_counter(), self._cpu()
        for which, service in enumerate(self.services):
            service.wait(runs[which::NAMESPACES][::-1], pause=0.25)
        seconds = time.perf_counter() - began
        spent = round(self._cpu() - before, 1)
        return {"documents_per_s": round(count / seconds, 1), "cpu_s": spent, "seconds": round(seconds, 1)}

    def _post(self, numbered: tuple[int, tuple[str, str]]) -> str:
        number, (name, text) = numbered
        return self.services[number % NAMESPACES].text(name, text, {})

    def _cpu(self) -> float:
        return cpu_of_tree(self.root) + sum(cpu_of_tree(one.pid) for one in self.more)


def figures(rows: dict[int, list[dict[str, float]]]) -> dict[str, Any]:
    """Medians by number of workers; of_linear: the rate over that of one worker times workers, at most the cores."""
    rates = {count: statistics.median(row["documents_per_s"] for row in part) for count, part in rows.items()}
    least = min(rates)
    cores = os.cpu_count() or 1
    of_linear = {
        str(count): round(rate / (rates[least] / min(least, cores) * min(count, cores)), 2)
        for count, rate in rates.items()
    }
    print(f"{'workers':>8}{'documents/s':>13}{'of linear':>11}   (linear up to {cores} cores)")
    for count, rate in rates.items():
        print(f"{count:>8}{rate:>13.1f}{of_linear[str(count)]:>11}")
    return {"documents_per_s": rates, "of_linear": of_linear, "rows": rows}


if __name__ == "__main__":
    main()
