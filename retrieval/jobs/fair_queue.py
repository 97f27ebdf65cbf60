"""Fair queue: choice of the waiting job runs for the next batches, and of their work queue."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from retrieval.sources import STORED_SOURCES

# Organizations share the workers by the weight of their plan, and their scopes share that part. Each organization
# gets one batch, even beyond the limit; nothing limits a scope by number. Short work without external requests, for
# example a text for the local model, has a separate queue with a reserved slot in each worker.

SHORT_QUEUE: Final = "short"
# First batch of an organization.
DEFAULT_QUEUE: Final = "default"
# Further batches; they run if no organization's first batch waits.
BULK_QUEUE: Final = "bulk"
# By priority.
WORK_QUEUES: Final = (SHORT_QUEUE, DEFAULT_QUEUE, BULK_QUEUE)

# Limits of a short batch: some seconds of the local model's time.
MAX_SHORT_RUNS: Final = 8
MAX_SHORT_BYTES: Final = 32 * 1024
MAX_SHORT_BATCHES: Final = 16
# A new job run may wait this long to join a dispatched batch of its scope and source. A flow run per job run would cost
# most of a second of CPU time each.
JOIN_WAIT_SECONDS: Final = 1.0
# Batches beyond the limit, for organizations without a batch.
MAX_EXTRA_BATCHES: Final = 16


@dataclass(frozen=True, slots=True)
class QueueGroup:
    """Waiting job runs of a source and scope. `waiting_since`: Unix time of the oldest run's queueing."""

    partition: int
    source: str
    organization: str
    weight: int
    waiting_since: float
    short: bool = False
    waited_seconds: float = math.inf


@dataclass(slots=True)
class OpenBatchCounts:
    """Open batches. `growing`: open for further job runs; `polling`: groups with a batch reading the queue."""

    short: Counter[str] = field(default_factory=Counter)
    organizations: Counter[str] = field(default_factory=Counter)
    partitions: Counter[int] = field(default_factory=Counter)
    growing: Counter[tuple[int, str]] = field(default_factory=Counter)
    polling: set[tuple[int, str]] = field(default_factory=set)

    def add(self, organization: str, partition: int, queue: str, batches: int = 1) -> None:
        if queue == SHORT_QUEUE:
            self.short[organization] += batches
        else:
            self.organizations[organization] += batches
            self.partitions[partition] += batches


def choose_groups(
    groups: Iterable[QueueGroup], open_batches: OpenBatchCounts, *, remaining: int, worker_slots: int | None = None
) -> list[tuple[QueueGroup, str]]:
    """Choose groups for at most `remaining` batches, each with a queue."""
    # `remaining`: free slots, negative if too many batches are open. `worker_slots`: a group with as many growing
    # batches gets no further one, because they accept its job runs.
    chosen: list[tuple[QueueGroup, str]] = []
    candidates = []

    def take(group: QueueGroup, queue: str) -> None:
        chosen.append((group, queue))
        open_batches.add(group.organization, group.partition, queue)

    # A new short run waits to join the open short batch of its organization while its scope has other work.
    for group in sorted(groups, key=lambda group: group.waiting_since):
        key, is_new = (group.partition, group.source), group.waited_seconds < JOIN_WAIT_SECONDS
        if is_new and key in open_batches.polling:
            continue
        if (
            group.short
            and not open_batches.short[group.organization]
            and open_batches.short.total() < MAX_SHORT_BATCHES
        ):
            take(group, SHORT_QUEUE)
        elif not (
            (worker_slots is not None and open_batches.growing[key] >= worker_slots)
            or (
                group.short
                and is_new
                and open_batches.short[group.organization]
                and open_batches.partitions[group.partition]
            )
        ):
            candidates.append(group)

    def turn(group: QueueGroup) -> tuple[float, int, bool, float]:
        share = open_batches.organizations[group.organization] / group.weight
        return share, open_batches.partitions[group.partition], group.source not in STORED_SOURCES, group.waiting_since

    while candidates:
        group = min(candidates, key=turn)
        first = not open_batches.organizations[group.organization]
        if remaining <= (-MAX_EXTRA_BATCHES if first else 0):
            break
        candidates.remove(group)
        take(group, DEFAULT_QUEUE if first else BULK_QUEUE)
        remaining -= 1
    return chosen
