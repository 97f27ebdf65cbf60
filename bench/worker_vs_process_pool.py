"""Our `warm` worker against Prefect's own `process` worker, side by side in one run.

Starts a Prefect server of its own (on an embedded PostgreSQL) and both workers, at limit 4 on a pool each, polling
every 0.5 s. Measures created -> Running one run at a time (the two alternate) and runs a minute with a backlog. The
process worker gets a `set_working_directory` pull step: without it, it copies the whole folder for every run. Results
go to bench/results/worker_vs_process_pool.json. Run: python -m bench.worker_vs_process_pool [--runs 24] [--rounds 5]
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

from bench.harness import PROJECT, parse_options, write
from local import postgres
from local.environment import prefect_database

PREFECT = str(Path(sys.executable).with_name("prefect"))
SERVER = (sys.executable, "-m", "flows.prefect_server", "--host", "127.0.0.1")
WARM = [sys.executable, "-m", "flows.worker"]
BEGAN = time.perf_counter()
KINDS = ("warm", "process")
LIMIT = 4
POLL_SECONDS = 0.5
RUN_SECONDS = 90
"""The longest that a single run may take before the benchmark gives up."""
ROUNDS_SECONDS = 60
"""No further round of single runs after this, so that a busy machine ends in time as well."""
BACKLOG_SECONDS = 60
"""A backlog is counted when it is done, at the latest after this."""


def main() -> None:
    options = parse_options(__doc__, runs=24, rounds=5)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prefect-bench-")))
        os.environ |= _environment(home)
        postgres.start(home)
        stack.callback(postgres.stop, home)
        os.environ |= prefect_database(postgres.prefect_url(home))
        stack.enter_context(_process([*SERVER, "--port", _port()], home))
        _wait(_healthy, 120, "the Prefect server")
        from prefect.client.orchestration import get_client

        client = stack.enter_context(get_client(sync_client=True))
        for kind in KINDS:
            stack.enter_context(_worker(kind, home))
        deployments = {kind: _deploy(client, kind) for kind in KINDS}
        for kind in KINDS:
            _latency(client, deployments[kind])
        latencies = _alternate(client, deployments, options.rounds)
        rates = {kind: _rate(client, deployments[kind], options.runs) for kind in KINDS}
    _report(latencies, rates, options.runs)


def _environment(home: Path) -> dict[str, str]:
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


def _port() -> str:
    return os.environ["PREFECT_API_URL"].removesuffix("/api").rsplit(":", 1)[1]


@contextmanager
def _process(command: list[str], home: Path) -> Iterator[Path]:
    """A process of this benchmark and the file that it logs to; SIGTERM at the end, SIGKILL 20 s later."""
    log = home / f"{command[1]}-{len(list(home.glob('*.log')))}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=PROJECT, stdout=output, stderr=output, start_new_session=True)
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
def _worker(kind: str, home: Path) -> Iterator[None]:
    command = [PREFECT, "worker", "start", "--type", kind] if kind == "process" else WARM
    command = [*command, "--pool", f"bench-{kind}", "--name", kind, "--limit", str(LIMIT)]
    with _process(command, home) as log:
        _wait(lambda: "started!" in log.read_text(), 120, f"the {kind} worker")
        _say(f"{kind}: the worker is ready")
        yield


def _say(what: str) -> None:
    print(f"{time.perf_counter() - BEGAN:6.1f} s  {what}", file=sys.stderr, flush=True)


def _healthy() -> bool:
    try:
        with urlopen(f"{os.environ['PREFECT_API_URL']}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"Gave up: {what} was not ready within {seconds:.0f} s")
        time.sleep(0.1)


def _deploy(client: SyncPrefectClient, kind: str) -> UUID:
    """The same flow for both; the stock pool copies the whole folder without its pull step, the warm one has none."""
    pull = [{"prefect.deployments.steps.set_working_directory": {"directory": str(PROJECT)}}]
    return client.create_deployment(
        client.create_flow_from_name("tick"),
        name=f"tick-{kind}",
        work_pool_name=f"bench-{kind}",
        entrypoint="bench/sample_flow.py:tick",
        pull_steps=[] if kind == "warm" else pull,
    )


def _alternate(client: SyncPrefectClient, deployments: dict[str, UUID], rounds: int) -> dict[str, list[float]]:
    latencies: dict[str, list[float]] = {kind: [] for kind in KINDS}
    deadline = time.monotonic() + ROUNDS_SECONDS
    for done in range(rounds):
        if done and time.monotonic() > deadline:
            break
        for kind in KINDS:
            latencies[kind].append(_latency(client, deployments[kind]))
            _say(f"{kind}: created -> Running {latencies[kind][-1]:.2f} s")
    return latencies


def _latency(client: SyncPrefectClient, deployment: UUID) -> float:
    """Seconds from created to Running, by the server's clock; waits until the run has ended."""
    run = client.create_flow_run_from_deployment(deployment)
    _wait(lambda: _is_final(client, run.id), RUN_SECONDS, "a flow run")
    ended = client.read_flow_run(run.id)
    if ended.created is None or ended.start_time is None or not (ended.state and ended.state.is_completed()):
        sys.exit(f"A flow run of the benchmark ended as {ended.state}")
    return (ended.start_time - ended.created).total_seconds()


def _is_final(client: SyncPrefectClient, run_id: UUID) -> bool:
    state = client.read_flow_run(run_id).state
    return state is not None and state.is_final()


def _rate(client: SyncPrefectClient, deployment: UUID, count: int) -> float:
    """Runs a minute with a backlog of `count`, by the server's clock: from the first created to the last that ended."""
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    ids = [client.create_flow_run_from_deployment(deployment).id for _ in range(count)]
    _say(f"{count} runs are submitted")
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
    _say(f"{len(ended)} of {count} runs ended in {seconds:.1f} s")
    return len(ended) / seconds * 60


def _report(latencies: dict[str, list[float]], rates: dict[str, float], count: int) -> None:
    warm, stock = (statistics.median(latencies[kind]) for kind in KINDS)
    rounds = len(latencies["warm"])
    rows = [
        (f"created -> Running, median of {rounds}, s", f"{warm:.2f}", f"{stock:.2f}", f"{stock / warm:.1f} x sooner"),
        (
            f"runs a minute, {count} runs, limit {LIMIT}",
            *(f"{rates[k]:.0f}" for k in KINDS),
            f"{rates['warm'] / rates['process']:.1f} x",
        ),
    ]
    print("Prefect server of this run: on the embedded PostgreSQL; both workers poll every 0.5 s")
    print(f"{'':<42}{'warm':>8}{'process':>9}  ratio")
    for name, ours, theirs, ratio in rows:
        print(f"{name:<42}{ours:>8}{theirs:>9}  {ratio}")
    results: dict[str, Any] = {
        "prefect_database": "postgresql",
        "limit": LIMIT,
        "poll_seconds": POLL_SECONDS,
        "created_to_running_seconds": {kind: [round(value, 3) for value in latencies[kind]] for kind in KINDS},
        "created_to_running_median": {
            "warm": round(warm, 3),
            "process": round(stock, 3),
            "ratio": round(stock / warm, 2),
        },
        "runs_a_minute": {kind: round(rates[kind], 1) for kind in KINDS},
        "runs_a_minute_ratio": round(rates["warm"] / rates["process"], 2),
    }
    write("worker_vs_process_pool", results)


if __name__ == "__main__":
    main()
