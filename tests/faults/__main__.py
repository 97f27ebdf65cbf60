"""Long fault suite: seeded rounds for the given minutes.

    .venv/bin/python -m tests.faults [--minutes 60] [--seed N] [--seconds 60] [--report FILE]
Exit code 1 after any problem.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import signal
import sys
import time
from pathlib import Path

from tests.faults import faults, rounds
from tests.faults.place import Place
from tests.faults.rounds import Result
from tests.faults.sources import Sources

EACH = 5
"""Faults of a round."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--seconds", type=float, default=60, help="in which the faults of a round happen")
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options.add_argument(
        "--each", action="append", default=[], choices=sorted(faults.ACTIONS), help="a fault of every round; repeatable"
    )
    options.add_argument("--processes", type=int, default=2, help="of the API")
    options.add_argument(
        "--prefect", choices=("own", "bundled"), default="own", help="own: of the operator, behind a network that fails"
    )
    options.add_argument("--patience", type=float, default=1, help="times the promised seconds that may be taken")
    options.add_argument("--logs", type=Path, help="a folder for the logs of all roles after each round that is wrong")
    options.add_argument("--report", type=Path, help="a file for the figures, as JSON")
    chosen = options.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results: list[Result] = []
    with Sources(chosen.seed) as sources:
        has_own_prefect = chosen.prefect == "own"
        installation = Place(chosen.seed, sources, has_own_prefect=has_own_prefect, api_processes=str(chosen.processes))
        try:
            ends = time.monotonic() + 60 * chosen.minutes
            while not results or time.monotonic() < ends:
                names = _names(chosen.seed, len(results), faults.able(installation), chosen.each)
                results.append(
                    rounds.run(installation, chosen.seed, len(results), chosen.seconds, names, chosen.patience)
                )
                print(results[-1], flush=True)
                if chosen.logs and results[-1].wrong:
                    installation.keep_logs(chosen.logs / f"seed{chosen.seed}-round{results[-1].number}")
        finally:
            if chosen.report:
                chosen.report.write_text(json.dumps([result.figures for result in results], indent=1) + "\n")
            if results:
                print(_table(results, disk=installation.has_disk), flush=True)
            installation.close()
    return 1 if any(result.wrong for result in results) else 0


def _names(seed: int, number: int, able: list[str], chosen_names: list[str]) -> list[str]:
    other_names = [name for name in able if name not in chosen_names]
    return chosen_names + random.Random(f"{seed}/{number}/names").sample(other_names, max(0, EACH - len(chosen_names)))


def _table(results: list[Result], *, disk: bool) -> str:
    counted = {name: sum(f.name == name for result in results for f in result.plan) for name in faults.ACTIONS}
    crawls, syncs = sum(result.crawls for result in results), sum(result.syncs for result in results)
    requests = sum(result.acknowledged + result.replaced for result in results) + crawls + syncs
    head = (
        f"{len(results)} rounds,"
        f" {requests} requests acknowledged"
        f" ({crawls} crawls, {syncs} synchronizations),"
        f" {sum(result.reads for result in results)} whole versions read, slowest end"
        f" {max(result.ended for result in results):.1f} s, {sum(len(result.wrong) for result in results)} wrong"
    )
    lines = [head, *(f"{count:4} x {name}" for name, count in counted.items())]
    lines += [] if disk else ["no disk could be mounted on this machine: it was never full"]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
