"""The `warm` worker compared with Prefect's `process` worker.

    python -m bench.worker_vs_process_pool [--runs 24] [--rounds 5]

Starts a Prefect server on an embedded PostgreSQL and both workers (limit 4, polling every 0.5 s). Measures created to
Running one run at a time, alternating, and runs per minute with a backlog. A `set_working_directory` pull step keeps
the process worker from copying the folder for every run.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from prefect.client.orchestration import SyncPrefectClient

from bench.harness import PROJECT_FOLDER, parse_options, write_figures
from local import postgres
from local.environment import prefect_database

PREFECT_COMMAND = str(Path(sys.executable).with_name("prefect"))
SERVER_COMMAND = (sys.executable, "-m", "flows.prefect_server", "--host", "127.0.0.1")
WARM_COMMAND = [sys.executable, "-m", "flows.worker"]
STARTED_AT = time.perf_counter()
WORKER_KINDS = ("warm", "process")
WORKER_LIMIT = 4
POLL_SECONDS = 0.5
RUN_TIMEOUT_SECONDS = 90
# No round begins after this time.
ROUNDS_SECONDS = 60
# Limit of the wait for the runs of a backlog.
BACKLOG_SECONDS = 60


def main() -> None:
    options = parse_options(__doc__, runs=24, rounds=5)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prefect-bench-")))
        os.environ |= make_environment(home)
        postgres.start(home)
        stack.callback(postgres.stop, home)
        os.environ |= prefect_database(postgres.prefect_url(home))
        stack.enter_context(run_process([*SERVER_COMMAND, "--port", server_port()], home))
        wait_for(is_healthy, 120, "the Prefect server")
        from prefect.client.orchestration import get_client

        client = stack.enter_context(get_client(sync_client=True))
        for kind in WORKER_KINDS:
            stack.enter_context(run_worker(kind, home))
        deployments = {kind: create_deployment(client, kind) for kind in WORKER_KINDS}
        for kind in WORKER_KINDS:
            # Warm-up.
            measure_latency(client, deployments[kind])
        latencies = measure_latencies(client, deployments, options.rounds)
        rates = {kind: measure_rate(client, deployments[kind], options.runs) for kind in WORKER_KINDS}
    write_report(latencies, rates, options.runs)


def make_environment(home: Path) -> dict[str, str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_WORKER_QUERY_SECONDS": str(POLL_SECONDS),
        "RETRIEVAL_WORKER_ENTRYPOINTS": "bench/sample_flow.py:tick",
        "DO_NOT_TRACK": "1",
    }


def server_port() -> str:
    return os.environ["PREFECT_API_URL"].removesuffix("/api").rsplit(":", 1)[1]


@contextmanager
def run_process(command: list[str], home: Path) -> Iterator[Path]:
    """Run a process and yield its log file; SIGTERM at the end, SIGKILL 20 s later."""
    log = home / f"{command[1]}-{len(list(home.glob('*.log')))}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=PROJECT_FOLDER, stdout=output, stderr=output, start_new_session=True)
    try:
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)


@contextmanager
def run_worker(kind: str, home: Path) -> Iterator[None]:
    command = [PREFECT_COMMAND, "worker", "start", "--type", kind] if kind == "process" else WARM_COMMAND
    command = [*command, "--pool", f"bench-{kind}", "--name", kind, "--limit", str(WORKER_LIMIT)]
    with run_process(command, home) as log:
        wait_for(lambda: "started!" in log.read_text(), 120, f"the {kind} worker")
        print_progress(f"{kind}: the worker is ready")
        yield


def print_progress(message: str) -> None:
    print(f"{time.perf_counter() - STARTED_AT:6.1f} s  {message}", file=sys.stderr, flush=True)


def is_healthy() -> bool:
    try:
        with urlopen(f"{os.environ['PREFECT_API_URL']}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def wait_for(condition: Callable[[], bool], seconds: float, label: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"Gave up: {label} was not ready within {seconds:.0f} s")
        time.sleep(0.1)


def create_deployment(client: SyncPrefectClient, kind: str) -> UUID:
    """Deploy the same flow to both pools."""
    pull = [{"prefect.deployments.steps.set_working_directory": {"directory": str(PROJECT_FOLDER)}}]
    return client.create_deployment(
        client.create_flow_from_name("tick"),
        name=f"tick-{kind}",
        work_pool_name=f"bench-{kind}",
        entrypoint="bench/sample_flow.py:tick",
        pull_steps=[] if kind == "warm" else pull,
    )


def measure_latencies(client: SyncPrefectClient, deployments: dict[str, UUID], rounds: int) -> dict[str, list[float]]:
    latencies: dict[str, list[float]] = {kind: [] for kind in WORKER_KINDS}
    deadline = time.monotonic() + ROUNDS_SECONDS
    for round_number in range(rounds):
        if round_number and time.monotonic() > deadline:
            break
        for kind in WORKER_KINDS:
            latencies[kind].append(measure_latency(client, deployments[kind]))
            print_progress(f"{kind}: created -> Running {latencies[kind][-1]:.2f} s")
    return latencies


def measure_latency(client: SyncPrefectClient, deployment: UUID) -> float:
    """Return seconds from created to Running by the server's clock."""
    run = client.create_flow_run_from_deployment(deployment)
    wait_for(lambda: _is_final(client, run.id), RUN_TIMEOUT_SECONDS, "a flow run")
    ended = client.read_flow_run(run.id)
    if ended.created is None or ended.start_time is None or not (ended.state and ended.state.is_completed()):
        sys.exit(f"A flow run of the benchmark ended as {ended.state}")
    return (ended.start_time - ended.created).total_seconds()


def _is_final(client: SyncPrefectClient, run_id: UUID) -> bool:
    state = client.read_flow_run(run_id).state
    return state is not None and state.is_final()


def measure_rate(client: SyncPrefectClient, deployment: UUID, count: int) -> float:
    """Return runs per minute with a backlog, from the first creation to the last end."""
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    ids = [client.create_flow_run_from_deployment(deployment).id for _ in range(count)]
    print_progress(f"{count} runs are submitted")
    deadline = time.monotonic() + BACKLOG_SECONDS
    while True:
        runs = client.read_flow_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=ids)))
        ended = [run.end_time for run in runs if run.end_time]
        if len(ended) == count or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    if not ended:
        sys.exit(f"No run of the backlog ended within {BACKLOG_SECONDS} s: is the machine busy with something else?")
    seconds = (max(ended) - min(run.created for run in runs if run.created)).total_seconds()
    print_progress(f"{len(ended)} of {count} runs ended in {seconds:.1f} s")
    return len(ended) / seconds * 60


def write_report(latencies: dict[str, list[float]], rates: dict[str, float], count: int) -> None:
    warm, stock = (statistics.median(latencies[kind]) for kind in WORKER_KINDS)
    rounds = len(latencies["warm"])
    rows = [
        (f"created -> Running, median of {rounds}, s", f"{warm:.2f}", f"{stock:.2f}", f"{stock / warm:.1f} x sooner"),
        (
            f"runs a minute, {count} runs, limit {WORKER_LIMIT}",
            *(f"{rates[k]:.0f}" for k in WORKER_KINDS),
            f"{rates['warm'] / rates['process']:.1f} x",
        ),
    ]
    print("Prefect server of this run: on the embedded PostgreSQL; both workers poll every 0.5 s")
    print(f"{'':<42}{'warm':>8}{'process':>9}  ratio")
    for name, warm_text, process_text, ratio in rows:
        print(f"{name:<42}{warm_text:>8}{process_text:>9}  {ratio}")
    results: dict[str, Any] = {
        "prefect_database": "postgresql",
        "limit": WORKER_LIMIT,
        "poll_seconds": POLL_SECONDS,
        "created_to_running_seconds": {kind: [round(value, 3) for value in latencies[kind]] for kind in WORKER_KINDS},
        "created_to_running_median": {
            "warm": round(warm, 3),
            "process": round(stock, 3),
            "ratio": round(stock / warm, 2),
        },
        "runs_a_minute": {kind: round(rates[kind], 1) for kind in WORKER_KINDS},
        "runs_a_minute_ratio": round(rates["warm"] / rates["process"], 2),
    }
    write_figures("worker_vs_process_pool", results)


if __name__ == "__main__":
    main()
