"""Start and memory: seconds until the service is ready; megabytes of each role, idle, after work and amid uploads.

    python -m bench.start [--rounds 3]

Each round starts an instance in a home of its own for the first time, ends it, and starts it again: the disk is warm,
but for what the first round reads. Megabytes are proportional (shared pages shared out), of a role with its children;
those of the API while eight files of 10 MB are uploaded at once are looked at every 10 ms. The files are no real PDFs,
so that nothing but the upload itself is measured.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx

from bench.harness import Instance, instance, parse_options, resident, write
from bench.ingest import PROBE, Service

UPLOADS, UPLOAD_BYTES = 8, 10_000_000
SETTLED_SECONDS = 15.0


def main() -> None:
    options = parse_options(__doc__, rounds=3)
    seconds: dict[str, list[float]] = {"first": [], "again": []}
    found: dict[str, Any] = {"seconds": seconds}
    for number in range(options.rounds):
        with instance(started=False) as service:
            for kind, took in seconds.items():
                took.append(_start(service))
                print(f"round {number + 1}: {kind} start {took[-1]:.1f} s", flush=True)
                if kind == "first":
                    service.stop()
            if number + 1 == options.rounds:
                found |= memory(service)
    found["medians"] = {kind: round(statistics.median(took), 1) for kind, took in seconds.items()}
    _show(found)
    write("start", found)


def _start(service: Instance) -> float:
    began = time.perf_counter()
    service.start()
    return round(time.perf_counter() - began, 2)


def memory(service: Instance) -> dict[str, Any]:
    """Megabytes by role: idle, after the uploads and after texts were ingested; the API's while files come in."""
    found: dict[str, Any] = {"idle": _settled(service)}
    api = service.roles["api"]
    before = resident(api)
    with service.client() as client, _peak(api) as peak:
        _upload(client, service.info["namespaceId"])
    found["uploads"] = {"before": before, "most": max(peak), "more": max(peak) - before}
    place = Service(service)
    place.ingest([(f"probe {n}", PROBE.format(n)) for n in range(100)], 8)
    found["after_work"] = _settled(service)
    return found


def _settled(service: Instance) -> dict[str, int]:
    print(f"waiting for {SETTLED_SECONDS:.0f} s …", flush=True)
    time.sleep(SETTLED_SECONDS)
    return {**{name: resident(pid) for name, pid in service.roles.items()}, "all": resident(service.root)}


@contextmanager
def _peak(pid: int) -> Iterator[list[int]]:
    """Megabytes of a process, looked at every 10 ms."""
    seen, over = [resident(pid)], threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            seen.append(resident(pid))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _upload(client: httpx.Client, namespace: str) -> None:
    def one(number: int) -> None:
        content = f"%PDF-1.7 {number}\n".encode() + os.urandom(UPLOAD_BYTES)
        answer = client.post(
            "/v1/ingest/file",
            data={"namespaceId": namespace, "source": "FILE"},
            files={"file": (f"{number}.pdf", content, "application/pdf")},
        )
        answer.raise_for_status()

    with ThreadPoolExecutor(UPLOADS) as pool:
        list(pool.map(one, range(UPLOADS)))


def _show(found: dict[str, Any]) -> None:
    for kind, seconds in found["medians"].items():
        print(f"{kind + ' start':<24}{seconds:8.1f} s")
    for name in found["idle"]:
        print(f"{name:<24}{found['idle'][name]:8} MB idle {found['after_work'].get(name, 0):8} MB after work")
    uploads = found["uploads"]
    print(f"API, {UPLOADS} uploads of 10 MB  {uploads['before']} MB before, {uploads['most']} MB at most")


if __name__ == "__main__":
    main()
