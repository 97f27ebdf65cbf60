"""Long PDFs by ranges of pages, each within the limits of one file, joined afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from connectors.parsers.messages import Reply, Task
from retrieval.errors import Skippable

PAGES = 100
"""Of one window."""
MOST_PAGES = 10_000
MOST_WINDOWS = 15
"""How many times the seconds of one file a long one may take by the clock."""


def checked(count: int) -> int:
    """The number of pages. Skippable if there are none, or too many."""
    if not count:
        raise Skippable("The PDF has no pages. Save it again from the program that made it and upload that.")
    if count > MOST_PAGES:
        raise Skippable(
            f"The PDF has {count:,} pages; at most {MOST_PAGES:,} are read. "
            "Split it into smaller files and upload those."
        )
    return count


def joined(reply: Reply, task: Task, read: Callable[[Task], Reply], beside: int = 1) -> Reply:
    """The reply of a long PDF's first window with those that follow, `beside` of them read beside each other."""
    if not reply.following:
        return reply
    deadline = time.monotonic() + MOST_WINDOWS * task.cpu_seconds

    def window(first: int) -> Reply:
        if time.monotonic() > deadline:
            raise Skippable(
                f"Reading the file took more than {MOST_WINDOWS * task.cpu_seconds:g} s and was given up. "
                "Split it into smaller files and upload those."
            )
        return read(msgspec.structs.replace(task, first=first, unpack=None))

    pool = ThreadPoolExecutor(beside, thread_name_prefix="window")
    try:
        parts = [reply, *pool.map(window, range(reply.following, reply.count, PAGES))]
    finally:
        pool.shutdown(cancel_futures=True)
    return _together(parts)


def _together(parts: Sequence[Reply]) -> Reply:
    pages: list[int] = []
    length = 0
    for part in parts:
        pages += [length + start for start in part.pages]
        length += len(part.text)
    return msgspec.structs.replace(
        parts[0],
        text="".join(part.text for part in parts),
        pages=tuple(pages),
        pictured=tuple(page for part in parts for page in part.pictured),
        qualities=tuple(quality for part in parts for quality in part.qualities),
    )
