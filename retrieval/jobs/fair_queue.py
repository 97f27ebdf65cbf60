"""Fair queue: chooses which waiting job runs become the next batches, and their work queue.

Organizations with waiting work share the workers by the weight of their plan, and their scopes share that part. Every
organization may have at least one dispatched batch. Short work without external requests, such as a text for the local
model, has a queue of its own, for which each worker reserves a slot.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from retrieval.sources import STORED

SHORT: Final = "short"
"""Work queue of short work that needs no outside service."""
DEFAULT: Final = "default"
"""Work queue of an organization's first batch."""
BULK: Final = "bulk"
"""Work queue of further batches; they run when no organization's first batch waits."""
QUEUES: Final = (SHORT, DEFAULT, BULK)
"""In the order of their priority."""

SHORT_RUNS: Final = 8
SHORT_BYTES: Final = 32 * 1024
"""Job runs and bytes of content that a short batch holds at most: some seconds of the local model's time."""
SHORT_AT_ONCE: Final = 16
GROW_SECONDS: Final = 1.0
"""So long something may wait for a batch of its scope and source to take it up, if that is on its way to a worker or
has looked within this time; and something short, while its organization has a short batch on its way and its scope
another one. Where many clients send, a few job runs after each other would each be a flow run, most of a second of CPU
time."""
OWN_AT_ONCE: Final = 16
"""Batches beyond the room that are on their way at most, because their organizations have no other."""


@dataclass(frozen=True, slots=True)
class Group:
    """Waiting job runs of one source and scope.

    `first`: in seconds since 1970, when that one of them began to wait that waits longest; one that gave way to others
    began then.
    """

    partition: int
    source: str
    organization: str
    weight: int
    first: float
    short: bool = False
    waited: float = math.inf
    """Seconds."""


@dataclass(slots=True)
class Taken:
    """Batches that are open: short ones by organization, others by organization and by scope.

    `growing`: by scope and source, those that others may join; `looking`: where one of them takes up what waits.
    """

    short: Counter[str] = field(default_factory=Counter)
    organizations: Counter[str] = field(default_factory=Counter)
    partitions: Counter[int] = field(default_factory=Counter)
    growing: Counter[tuple[int, str]] = field(default_factory=Counter)
    looking: set[tuple[int, str]] = field(default_factory=set)

    def add(self, organization: str, partition: int, queue: str, batches: int = 1) -> None:
        if queue == SHORT:
            self.short[organization] += batches
        else:
            self.organizations[organization] += batches
            self.partitions[partition] += batches


def choose_groups(
    groups: Iterable[Group], taken: Taken, *, room: int, places: int | None = None
) -> list[tuple[Group, str]]:
    """Which groups become a batch now, each with its queue; at most one batch of each group.

    `room`: how many batches beside the short ones may be added; organizations without any have OWN_AT_ONCE more.
    `places`: so many batches of a group take up all that is sent to it; None: any number may be added.
    """
    chosen: list[tuple[Group, str]] = []
    waiting = []

    def take(group: Group, queue: str) -> None:
        chosen.append((group, queue))
        taken.add(group.organization, group.partition, queue)

    for group in sorted(groups, key=lambda group: group.first):
        key, is_new = (group.partition, group.source), group.waited < GROW_SECONDS
        if is_new and key in taken.looking:
            continue
        if group.short and not taken.short[group.organization] and taken.short.total() < SHORT_AT_ONCE:
            take(group, SHORT)
        elif not (
            (places is not None and taken.growing[key] >= places)
            or (group.short and is_new and taken.short[group.organization] and taken.partitions[group.partition])
        ):
            waiting.append(group)

    def turn(group: Group) -> tuple[float, int, bool, float]:
        share = taken.organizations[group.organization] / group.weight
        return share, taken.partitions[group.partition], group.source not in STORED, group.first

    while waiting:
        group = min(waiting, key=turn)
        first = not taken.organizations[group.organization]
        if room <= (-OWN_AT_ONCE if first else 0):
            break
        waiting.remove(group)
        take(group, DEFAULT if first else BULK)
        room -= 1
    return chosen
