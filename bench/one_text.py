"""One text to searchable, moment by moment, and what each role uses while nothing is asked of the service.

    .venv/bin/python bench/one_text.py [--rounds 15] [--idle 60]

Starts an instance of its own in a temporary home. Moments come from the service's tables and from Prefect, in seconds
after the request was sent; what is told of each is its median over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402
from bench.instance import NAMESPACE, Instance, instance  # noqa: E402
from bench.processes import cpu_of_tree, resident  # noqa: E402

TEXT = "Latency probe number {}. " + "Wing flutter at transonic speed was observed. " * 42
MOMENTS = """
    select r.created_at as accepted, b.created_at as "batch formed", b.dispatched_at as dispatched,
           b.started_at as claimed, r.started_at as begun, r.finished_at as searchable, b.finished_at as "batch closed",
           b.flow_run_id, r.timings
    from job_runs r join batches b on b.id = r.batch_id where r.id = %s
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--idle", type=float, default=60, help="seconds for which nothing is asked of it")
    chosen = options.parse_args()
    report.end_in_order()
    with instance() as service:
        found = {"one_text": moments(service, chosen.rounds)}
        print(f"idle for {chosen.idle + 10:.0f} s …", flush=True)
        found["idle"] = idle(service, chosen.idle)
    _show(found)
    report.write("one_text", found)


def moments(service: Instance, rounds: int) -> dict[str, Any]:
    """Median seconds after sending of each moment, and of the whole in `searched` with its worst."""
    with (
        service.client() as api,
        service.prefect() as prefect,
        psycopg.connect(service.database, autocommit=True) as connection,
    ):
        made = api.post("/v1/namespaces", json={"name": "probes", **NAMESPACE}).raise_for_status()
        namespace = made.json()["data"]["namespace"]["id"]
        rows = []
        for number in range(rounds + 2):
            rows.append(_one(api, prefect, connection, namespace, number))
            time.sleep(0.5)
    names = list(dict.fromkeys(name for row in rows[2:] for name in row))
    medians = {name: round(statistics.median([row[name] for row in rows[2:] if name in row]), 3) for name in names}
    whole = sorted(row["found by its client"] for row in rows[2:])
    return {
        "moments": dict(sorted(medians.items(), key=lambda pair: pair[1])),
        "median": medians["found by its client"],
        "worst": round(whole[-1], 3),
    }


def _one(
    api: httpx.Client, prefect: httpx.Client, connection: psycopg.Connection[Any], namespace: str, number: int
) -> dict[str, float]:
    sent = time.time()
    body = {"source": "TEXT", "config": {"text": TEXT.format(number), "name": f"probe {number}"}}
    answer = api.post("/v1/ingest/text", json={"namespaceId": namespace, "ingestConfig": body}).raise_for_status()
    run = answer.json()["data"]["ingestJobRunId"]
    while True:
        told = api.get(f"/v1/ingest-job-runs/{run}", params={"namespaceId": namespace}).raise_for_status().json()
        if told["data"]["status"] == "COMPLETED":
            break
        time.sleep(0.01)
    found = {"found by its client": time.time() - sent}
    time.sleep(1)
    row = connection.execute(MOMENTS, (run,)).fetchone()
    assert row
    names = ("accepted", "batch formed", "dispatched", "claimed", "begun", "searchable", "batch closed")
    found |= {name: moment.timestamp() - sent for name, moment in zip(names, row, strict=False)}
    found |= {f"  seconds of {step}": seconds for step, seconds in row[8].items()}
    for state in prefect.get("/flow_run_states/", params={"flow_run_id": row[7]}).raise_for_status().json():
        found[f"Prefect: {state['name']}"] = datetime.fromisoformat(state["timestamp"]).timestamp() - sent
    wanted = {"flow_runs": {"id": {"any_": [row[7]]}}}
    for task in prefect.post("/task_runs/filter", json=wanted).raise_for_status().json():
        if task["start_time"]:
            name = f"Prefect: task {task['name'].split()[0]}"
            found[name] = datetime.fromisoformat(task["start_time"]).timestamp() - sent
    return found


def idle(service: Instance, seconds: float) -> dict[str, Any]:
    """Of each role and its children, while nothing is asked: percent of a core and megabytes."""
    root, roots = service.root, service.roles
    time.sleep(10)
    before, began = {name: cpu_of_tree(pid) for name, pid in roots.items()}, time.perf_counter()
    whole = cpu_of_tree(root)
    time.sleep(seconds)
    took = time.perf_counter() - began
    roles = {
        name: {
            "percent_of_a_core": round((cpu_of_tree(pid) - before[name]) / took * 100, 2),
            "megabytes": resident(pid),
        }
        for name, pid in roots.items()
    }
    total = round((cpu_of_tree(root) - whole) / took * 100, 2)
    return {"percent_of_a_core": total, "megabytes": resident(root), "roles": roles}


def _show(found: dict[str, Any]) -> None:
    for name, seconds in found["one_text"]["moments"].items():
        print(f"{seconds:8.3f} s  {name}")
    for name, row in found["idle"]["roles"].items():
        print(f"{name:<12} {row['percent_of_a_core']:6.2f} % of a core {row['megabytes']:6} MB")
    print(f"{'all':<12} {found['idle']['percent_of_a_core']:6.2f} % of a core {found['idle']['megabytes']:6} MB")


if __name__ == "__main__":
    main()
