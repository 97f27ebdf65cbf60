"""Start time and memory: per role idle, after work and during uploads.

    python -m bench.start [--rounds 3]

Each round starts a new instance twice; the second start has a warm disk. Memory is proportional (shared pages divided),
with child processes. The API's memory is sampled every 10 ms during eight uploads of 10 MB of random data.
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

from bench.harness import Instance, measure_memory, parse_options, run_instance, write_figures
from bench.ingest import PROBE_TEXT, ServiceClient

UPLOAD_COUNT, UPLOAD_BYTES = 8, 10_000_000
SETTLED_SECONDS = 15.0


def main() -> None:
    options = parse_options(__doc__, rounds=3)
    seconds: dict[str, list[float]] = {"first": [], "again": []}
    figures: dict[str, Any] = {"seconds": seconds}
    for number in range(options.rounds):
        with run_instance(started=False) as service:
            for kind, kind_seconds in seconds.items():
                kind_seconds.append(time_start(service))
                print(f"round {number + 1}: {kind} start {kind_seconds[-1]:.1f} s", flush=True)
                if kind == "first":
                    service.stop()
            if number + 1 == options.rounds:
                figures |= measure_memory_use(service)
    figures["medians"] = {kind: round(statistics.median(kind_seconds), 1) for kind, kind_seconds in seconds.items()}
    print_figures(figures)
    write_figures("start", figures)


def time_start(service: Instance) -> float:
    began = time.perf_counter()
    service.start()
    return round(time.perf_counter() - began, 2)


def measure_memory_use(service: Instance) -> dict[str, Any]:
    """Return megabytes by role: idle and after work, and the API's during uploads."""
    figures: dict[str, Any] = {"idle": measure_settled(service)}
    api = service.roles["api"]
    memory_before = measure_memory(api)
    with service.open_client() as client, sample_memory(api) as peak:
        upload_files(client, service.info["namespaceId"])
    figures["uploads"] = {"before": memory_before, "most": max(peak), "more": max(peak) - memory_before}
    service_client = ServiceClient(service)
    service_client.ingest_texts([(f"probe {n}", PROBE_TEXT.format(n)) for n in range(100)], 8)
    figures["after_work"] = measure_settled(service)
    return figures


def measure_settled(service: Instance) -> dict[str, int]:
    print(f"waiting for {SETTLED_SECONDS:.0f} s …", flush=True)
    time.sleep(SETTLED_SECONDS)
    return {**{name: measure_memory(pid) for name, pid in service.roles.items()}, "all": measure_memory(service.root)}


@contextmanager
def sample_memory(pid: int) -> Iterator[list[int]]:
    """Sample a process's megabytes every 10 ms."""
    samples, stopped = [measure_memory(pid)], threading.Event()

    def take_samples() -> None:
        while not stopped.wait(0.01):
            samples.append(measure_memory(pid))

    thread = threading.Thread(target=take_samples)
    thread.start()
    try:
        yield samples
    finally:
        stopped.set()
        thread.join()


def upload_files(client: httpx.Client, namespace: str) -> None:
    def upload_file(number: int) -> None:
        # Random data: only the upload itself is measured.
        content = f"%PDF-1.7 {number}\n".encode() + os.urandom(UPLOAD_BYTES)
        answer = client.post(
            "/v1/ingest/file",
            data={"namespaceId": namespace, "source": "FILE"},
            files={"file": (f"{number}.pdf", content, "application/pdf")},
        )
        answer.raise_for_status()

    with ThreadPoolExecutor(UPLOAD_COUNT) as pool:
        list(pool.map(upload_file, range(UPLOAD_COUNT)))


def print_figures(figures: dict[str, Any]) -> None:
    for kind, seconds in figures["medians"].items():
        print(f"{kind + ' start':<24}{seconds:8.1f} s")
    for name in figures["idle"]:
        print(f"{name:<24}{figures['idle'][name]:8} MB idle {figures['after_work'].get(name, 0):8} MB after work")
    uploads = figures["uploads"]
    print(f"API, {UPLOAD_COUNT} uploads of 10 MB  {uploads['before']} MB before, {uploads['most']} MB at most")


if __name__ == "__main__":
    main()
