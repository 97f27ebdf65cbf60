"""One API process beside several on the same PostgreSQL, each with its part of the clients.

    .venv/bin/python bench/api_processes.py [--processes 2] [--rounds 3] [--seconds 2] [--clients 8]

Both take turns. Results go to bench/results/api_processes.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import report
from bench.api import KINDS, Server, database, free_port, measure, ours, process


def another(stack: ExitStack, home: Path, first: Server) -> Server:
    """One more API process with the settings of the first."""
    port = free_port()
    mine = Path(f"/proc/{first.pid}/environ").read_bytes().decode().split("\0")
    environment = dict(one.split("=", 1) for one in mine if "=" in one) | {"RETRIEVAL_API_PORT": str(port)}
    started = stack.enter_context(process([sys.executable, "-m", "api"], environment, home / f"{port}.log", port))
    return Server("ours", port, started.pid, first.key, first.namespace)


def beside(servers: list[Server], kind: str, postgres: int, clients: int, seconds: float) -> dict[str, float]:
    """Requests a second of all together, and CPU of one: each server has its part of the clients."""
    with ThreadPoolExecutor(len(servers)) as pool:
        rounds = list(pool.map(lambda one: measure(one, kind, postgres, clients // len(servers), seconds), servers))
    count = sum(one.requests for one in rounds)
    own = sum(one.cpu * one.requests for one in rounds) / count
    return {"per_second": sum(one.per_second for one in rounds), "cpu_ms": own, "p95_ms": max(r.p95 for r in rounds)}


def scale(stack: ExitStack, home: Path, first: Server, postmaster: int, told: argparse.Namespace) -> None:
    """One process and several, in turn."""
    servers = [first, *(another(stack, home, first) for _ in range(told.processes - 1))]
    rows: dict[str, dict[str, list[dict[str, float]]]] = {}
    for kind in KINDS:
        rows[kind] = {"1": [], str(told.processes): []}
        beside(servers, kind, postmaster, told.clients, 1)
        for _ in range(told.rounds):
            for name, some in (("1", servers[:1]), (str(told.processes), servers)):
                rows[kind][name].append(beside(some, kind, postmaster, told.clients, told.seconds))
                print(f"{kind} {name}: {rows[kind][name][-1]['per_second']:.0f}/s", flush=True)
        one, more = (statistics.median(row["per_second"] for row in part) for part in rows[kind].values())
        print(f"{kind}: 1 process {one:.0f}/s, {told.processes} processes {more:.0f}/s: {more / one:.2f} times")
    report.write("api_processes", {"processes": told.processes, "rounds": rows})


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=2)
    options.add_argument("--clients", type=int, default=8)
    told = options.parse_args()
    report.end_in_order()
    with ExitStack() as stack:
        home, url, postmaster = database(stack)
        scale(stack, home, ours(stack, home, url), postmaster, told)


if __name__ == "__main__":
    main()
