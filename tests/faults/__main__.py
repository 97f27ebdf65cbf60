"""The long suite of faults: round after round, for as many minutes as one likes.

    .venv/bin/python -m tests.faults [--minutes 60] [--seed N] [--seconds 60] [--report FILE]

Prints each round as it ends, and a table in the end that `docs/reliability.md` keeps. Exit code 1 if anything was
wrong. The same seed gives the same faults at the same moments.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from pathlib import Path

from tests.faults import faults, rounds
from tests.faults.place import Place
from tests.faults.rounds import Result

EACH = 5
"""Faults of a round."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--seconds", type=float, default=60, help="in which the faults of a round happen")
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options.add_argument("--processes", type=int, default=2, help="of the API")
    options.add_argument("--report", type=Path, help="a file for the figures, as JSON")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    place = Place(chosen.seed, api_processes=str(chosen.processes))
    results: list[Result] = []
    try:
        ends = time.monotonic() + 60 * chosen.minutes
        while not results or time.monotonic() < ends:
            names = _names(chosen.seed, len(results), has_disk=place.has_disk)
            results.append(rounds.run(place, chosen.seed, len(results), chosen.seconds, names))
            print(results[-1], flush=True)
    finally:
        place.close()
    if chosen.report:
        chosen.report.write_text(json.dumps([one.figures for one in results], indent=1) + "\n")
    print(_table(results, disk=place.has_disk))
    return 1 if any(one.wrong for one in results) else 0


def _names(seed: int, number: int, *, has_disk: bool) -> list[str]:
    able = [name for name in faults.ACTIONS if has_disk or name != "disk for files full"]
    return random.Random(f"{seed}/{number}/names").sample(able, EACH)


def _table(results: list[Result], *, disk: bool) -> str:
    counted = {name: sum(f.name == name for one in results for f in one.plan) for name in faults.ACTIONS}
    head = (
        f"{len(results)} rounds, {sum(one.acknowledged + one.replaced for one in results)} requests acknowledged,"
        f" {sum(one.reads for one in results)} whole versions read, slowest end"
        f" {max(one.ended for one in results):.1f} s, {sum(len(one.wrong) for one in results)} wrong"
    )
    lines = [head, *(f"{count:4} x {name}" for name, count in counted.items())]
    return "\n".join(lines if disk else [*lines, "no disk could be mounted on this machine: it was never full"])


if __name__ == "__main__":
    raise SystemExit(main())
