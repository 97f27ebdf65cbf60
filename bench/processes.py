"""Processes of a benchmark: which descend from one, and the processor time that they have used."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def descendants(of: int) -> list[int]:
    """Of a process; each before its own children."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            children.setdefault(int(_fields(path)[1]), []).append(int(path.parent.name))
    found, at = list(children.get(of, ())), 0
    while at < len(found):
        found += children.get(found[at], ())
        at += 1
    return found


def cpu_of_tree(root: int) -> float:
    """Seconds that a process and its descendants have used, with those that ended and were waited for."""
    total = 0.0
    for pid in (root, *descendants(root)):
        with suppress(OSError):
            fields = _fields(Path(f"/proc/{pid}/stat"))
            total += sum(int(fields[place]) for place in (11, 12, 13, 14)) / TICKS
    return total


def cpu_of_this() -> float:
    """Processor seconds of this process and its children, ended ones included."""
    ended = os.times()
    running = [pid for pid in descendants(os.getpid()) if pid != os.getpid()]
    return time.process_time() + ended.children_user + ended.children_system + sum(map(cpu_of_process, running))


def cpu_of_process(pid: int) -> float:
    """Processor seconds of a process; 0 if it has ended."""
    with suppress(OSError):
        fields = _fields(Path(f"/proc/{pid}/stat"))
        return (int(fields[11]) + int(fields[12])) / TICKS
    return 0.0


def resident(root: int) -> int:
    """Megabytes of a process and its descendants, shared pages shared out among them."""
    total = 0
    for pid in (root, *descendants(root)):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return round(total / 1024)


def _fields(path: Path) -> list[str]:
    return path.read_text().rpartition(")")[2].split()
