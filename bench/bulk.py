"""Many documents: 1,000 pages in one run beside the same steps in a plain thread pool, and 500 texts sent one by one.

    .venv/bin/python bench/bulk.py [--pages 1000] [--texts 500] [--rounds 3]

A list of URLs on loopback, one small page each, goes through the service, and by turns through the flow's own steps in
a thread pool of as many windows at once, in a process of its own with a PostgreSQL of its own: what is beyond it is
Prefect's and the service's. Nobody is polite to a site of our own (no delay, eight requests at once). Then eight
clients send texts, one in a request, and wait for the last to be searchable; beside it fewer such texts to an instance
that makes a flow run of each (RETRIEVAL_BATCH_LIMIT=1).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402
from bench.cranfield import Service  # noqa: E402
from bench.instance import NAMESPACE, Instance, instance  # noqa: E402
from bench.processes import cpu_of_tree  # noqa: E402

POLITENESS = {"FETCH_ALLOW": "127.0.0.1/32", "FETCH_HOST_LIMIT": "8", "FETCH_HOST_DELAY": "0"}
ONE_BY_ONE = 60
"""Texts of a round at most that get a flow run each: one takes as long as another."""
SCRAPER = {"provider": "BUILTIN"}
LINE = "The tide turns at the harbour wall, and the keeper writes down when and how high it stood. "


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("pages", 1000), ("texts", 500), ("rounds", 3)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--plain", metavar="ADDRESS", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    report.end_in_order()
    if chosen.plain:
        print(json.dumps(plain(chosen.plain, chosen.pages)))
        return
    with instance(POLITENESS) as service:
        found: dict[str, Any] = {}
        if chosen.pages:
            with _site(chosen.pages) as address:
                found["pages"] = pages(service, address, chosen.pages, chosen.rounds)
        if chosen.texts:
            with instance({"BATCH_LIMIT": "1"}) as single:
                found["texts"] = texts(service, single, chosen.texts, chosen.rounds)
    _show(found)
    report.write("bulk", found)


def pages(service: Instance, address: str, count: int, rounds: int) -> dict[str, Any]:
    """Seconds, and seconds of CPU, of one run and of the plain thread pool; the first round of each only warms up."""
    rows: dict[str, list[dict[str, float]]] = {"service": [], "plain": []}
    client = service.client()
    for number in range(rounds + 1):
        for kind in list(rows)[:: 1 if number % 2 else -1]:
            row = _run(service, client, address, count) if kind == "service" else _child(address, count)
            if number:
                rows[kind].append(row)
                print(f"round {number}: {kind:<8}{row['seconds']:7.1f} s, {row['cpu_s']:.1f} s of CPU", flush=True)
    return {"rows": rows, **{f"{name}_ratio": _ratio(rows, name) for name in ("seconds", "cpu_s")}}


def _ratio(rows: dict[str, list[dict[str, float]]], name: str) -> float:
    pairs = zip(rows["service"], rows["plain"], strict=True)
    return round(statistics.median(ours[name] / theirs[name] for ours, theirs in pairs), 2)


def _run(service: Instance, client: Any, address: str, count: int) -> dict[str, float]:
    made = client.post("/v1/namespaces", json={"name": "pages", **NAMESPACE, "webScraperConfig": SCRAPER})
    space = made.raise_for_status().json()["data"]["namespace"]["id"]
    body = {"source": "URLS_LIST", "config": {"urls": urls(address, count)}}
    began, before = time.perf_counter(), cpu_of_tree(service.root)
    sent = client.post("/v1/ingest/urls", json={"namespaceId": space, "ingestConfig": body}).raise_for_status()
    run = sent.json()["data"]["ingestJobRunId"]
    while True:
        told = client.get(f"/v1/ingest-job-runs/{run}", params={"namespaceId": space}).raise_for_status().json()["data"]
        if told["status"] == "COMPLETED":
            break
        time.sleep(0.1)
    if told["outcome"] != "SUCCEEDED":
        sys.exit(f"Pages failed: {json.dumps(told)[:500]}")
    seconds = time.perf_counter() - began
    return {"seconds": round(seconds, 2), "cpu_s": round(cpu_of_tree(service.root) - before, 2)}


def _child(address: str, count: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--plain", address, "--pages", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def urls(address: str, count: int) -> list[str]:
    return [f"{address}/{number}.html" for number in range(count)]


def plain(address: str, count: int) -> dict[str, float]:
    """In this process: the steps of all windows, as many at once as a flow run has; a few pages before to warm up."""
    with tempfile.TemporaryDirectory(prefix="rt-bench-") as name:
        home = Path(name)
        os.environ |= {f"RETRIEVAL_{key}": value for key, value in POLITENESS.items()} | {"RETRIEVAL_HOME": name}
        from local import postgres
        from retrieval.database.database import Database, migrate

        url = postgres.start(home)
        try:
            migrate(url)
            db = Database(url, size=8)
            _plainly(db, urls(address, 64))
            began, before = time.perf_counter(), cpu_of_tree(os.getpid())
            _plainly(db, urls(address, count))
            seconds, spent = time.perf_counter() - began, cpu_of_tree(os.getpid()) - before
            db.close()
        finally:
            postgres.stop(home)
    return {"seconds": round(seconds, 2), "cpu_s": round(spent, 2)}


def _plainly(db: Any, addresses: Sequence[str]) -> None:
    from flows import ingest, steps
    from retrieval.ingestion import items, results
    from retrieval.job_config import Ingestion
    from retrieval.jobs import batches, url_lists
    from tests.flows.configured import STEPS, Configured

    space = Configured(db, webScraperConfig=SCRAPER, embeddingModelConfig=NAMESPACE["embeddingModelConfig"])
    asked = url_lists.accept(db, space.scope, urls=addresses, config={"urls": list(addresses)}, ingestion=Ingestion())
    space.call(asked)
    lease = space.lease()

    def through(window: Any) -> None:
        for step in STEPS:
            step(steps.Work(db, space.ring, lease, window))
            results.settle(db, lease)

    windows = items.windows(db, lease, documents=ingest.WINDOW_DOCUMENTS, size=ingest.WINDOW_BYTES)
    with ThreadPoolExecutor(ingest.WINDOWS_AT_ONCE) as pool:
        list(pool.map(through, windows))
    results.settle(db, lease)
    batches.finish(db, lease)
    told = results.progress(db, lease)
    if (told.documents, told.failed) != (len(addresses), 0):
        sys.exit(f"{told}, not {len(addresses)} pages: {results.table(db, lease)[:3]}")


def texts(service: Instance, single: Instance, count: int, rounds: int) -> dict[str, Any]:
    """Texts a minute of the service, and of one that makes a flow run of each; the first round only warms up."""
    places = {
        "many in a flow run": (Service(service, "all-MiniLM-L6-v2"), count),
        "one in a flow run": (Service(single, "all-MiniLM-L6-v2"), min(count, ONE_BY_ONE)),
    }
    rates: dict[str, list[float]] = {name: [] for name in places}
    for number in range(rounds + 1):
        for name, (place, many) in list(places.items())[:: 1 if number % 2 else -1]:
            sent = [(f"{number} {n}", f"Entry {number} of {n}. " + LINE * 10) for n in range(many)]
            rate = round(many / place.ingest(sent, 8)["ingest_s"] * 60)
            if number:
                rates[name].append(rate)
                print(f"round {number}: {name:<20} {rate} texts a minute", flush=True)
    pairs = zip(*rates.values(), strict=True)
    return {"a_minute": rates, "ratio": round(statistics.median(ours / theirs for ours, theirs in pairs), 1)}


@contextmanager
def _site(count: int) -> Iterator[str]:
    """Small pages that a process of its own serves."""
    folder = Path(tempfile.mkdtemp(prefix="rt-bench-site-"))
    for number in range(count):
        text = f"<h1>Entry {number}</h1>" + "".join(f"<p>Watch {number}, line {n}. {LINE}</p>" for n in range(8))
        page = f"<html><head><title>{number}</title></head><body><main>{text}</main></body></html>"
        (folder / f"{number}.html").write_text(page)
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout
        yield "http://127.0.0.1:" + process.stdout.readline().split(" port ")[1].split()[0]
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _show(found: dict[str, Any]) -> None:
    if part := found.get("pages"):
        print(
            f"one run takes {part['seconds_ratio']} times as long as the thread pool, {part['cpu_s_ratio']} of its CPU"
        )
    if part := found.get("texts"):
        print(f"{part['ratio']} times the texts a minute of one flow run each")


if __name__ == "__main__":
    main()
