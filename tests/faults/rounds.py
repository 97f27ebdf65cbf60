"""A round: clients at work, seeded faults, quiet, then the judge."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.faults import faults, judge
from tests.faults.faults import Fault
from tests.faults.place import Place
from tests.faults.stream import Stream

# A round with fewer reads proves little: wait for them, within limits.
READS = 6


@dataclass(frozen=True, slots=True)
class Result:
    """Figures and problems of a round; `ended` is in seconds."""

    seed: int
    number: int
    plan: Sequence[Fault]
    acknowledged: int
    replaced: int
    reads: int
    ended: float
    crawls: int = 0
    syncs: int = 0
    suspended: int = 0
    cancelled: int = 0
    wrong: Sequence[str] = field(default=())

    def __str__(self) -> str:
        head = (
            f"seed {self.seed}, round {self.number}: {self.acknowledged} documents and {self.replaced} replacements"
            f" acknowledged, {self.crawls} crawls, {self.syncs} synchronizations,"
            f" {self.suspended} flow runs suspended, {self.cancelled} job runs cancelled,"
            f" {self.reads} whole versions read, all job runs ended {self.ended:.1f} s after the faults"
        )
        lines = [f"  {fault}" for fault in self.plan] + [f"  WRONG: {finding}" for finding in self.wrong[:20]]
        return "\n".join([head, *lines])

    @property
    def figures(self) -> dict[str, Any]:
        """Figures as JSON."""
        return {
            "seed": self.seed,
            "round": self.number,
            "faults": [str(fault) for fault in self.plan],
            "acknowledged": self.acknowledged,
            "replaced": self.replaced,
            "crawls": self.crawls,
            "syncs": self.syncs,
            "suspended": self.suspended,
            "cancelled": self.cancelled,
            "reads": self.reads,
            "endedSeconds": round(self.ended, 1),
            "wrong": list(self.wrong),
        }


def run(
    installation: Place, seed: int, number: int, seconds: float, names: Sequence[str], patience: float = 1
) -> Result:
    """Run one round on a healthy installation."""
    planned = faults.plan(seed, number, seconds, list(names))
    errors: list[str] = []
    suspended = installation.suspended
    with Stream(installation, seed, number) as stream:
        began = time.monotonic()
        acting = [threading.Thread(target=_act, args=(installation, fault, began, errors)) for fault in planned]
        for thread in acting:
            thread.start()
        time.sleep(seconds)
        for thread in acting:
            thread.join()
        installation.heal()
        try:
            installation.until_up()
        except AssertionError as error:
            errors.append(str(error))
        stream.until_read(READS, seconds=10 * patience)
    took, cancelled, wrong = judge.judge(installation, stream, random.Random(f"{seed}/{number}/judge"), patience)
    return Result(
        seed,
        number,
        planned,
        len(stream.runs),
        len(stream.replaced),
        stream.reads,
        took,
        len(stream.crawls),
        len(stream.syncs),
        installation.suspended - suspended,
        cancelled,
        [*errors, *wrong],
    )


def _act(installation: Place, fault: Fault, began: float, errors: list[str]) -> None:
    time.sleep(max(0.0, began + fault.at - time.monotonic()))
    try:
        faults.ACTIONS[fault.name](installation, fault.seconds)
    except Exception as error:  # noqa: BLE001 - told with the round
        errors.append(f"{fault.name}: {type(error).__name__}: {error}")
