"""The `warm` worker on a real Prefect server: success, failure, death, cancellation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.responses import SetStateStatus
from prefect.states import Cancelling, Suspended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from prefect.client.schemas.objects import FlowRun

PROJECT = Path(__file__).resolve().parents[3]
SAMPLES = "tests/flows/sample_flows.py"
OWN = [f"{SAMPLES}:{name}" for name in ("note", "wait", "steps", "stubborn", "fail", "no_such_flow")]


@dataclass
class Pool:
    """Work pool of one test, its workers, and the log file of its flows."""

    client: SyncPrefectClient
    name: str
    folder: Path
    environment: dict[str, str]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    def start_workers(self, count: int = 1, limit: int = 1) -> subprocess.Popen[bytes]:
        """Start workers in their own sessions; return the first."""
        for number in range(count):
            self._start_worker(number, limit)
        for number in range(count):
            eventually(
                lambda number=number: "started!" in self.log(number), 120, lambda number=number: self.log(number)
            )
        return self.workers[0]

    def _start_worker(self, number: int, limit: int) -> None:
        command = [sys.executable, "-m", "flows.worker", "--pool", self.name, "--limit", str(limit)]
        with (self.folder / f"worker-{number}.log").open("wb") as output:
            worker = subprocess.Popen(
                [*command, "--name", f"{self.name}-{number}"],
                env=self.environment | {"WARM_TEST": self.name, "RETRIEVAL_WORKER_ENTRYPOINTS": json.dumps(OWN)},
                cwd=PROJECT,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.workers.append(worker)

    def log(self, worker: int = 0) -> str:
        return (self.folder / f"worker-{worker}.log").read_text()

    def submit(self, flow: str, job_variables: dict[str, Any] | None = None, **parameters: Any) -> UUID:
        """Submit a run of a sample flow; create its deployment if needed."""
        flow_id = self.client.create_flow_from_name(flow)
        deployment = self.client.create_deployment(
            flow_id,
            name=f"{flow} {self.name}",
            work_pool_name=self.name,
            entrypoint=f"{SAMPLES}:{flow}",
            job_variables=job_variables or {},
        )
        run_parameters = {"path": str(self.notes)} | parameters
        return self.client.create_flow_run_from_deployment(deployment, parameters=run_parameters).id

    def run(self, run_id: UUID) -> FlowRun:
        return self.client.read_flow_run(run_id)

    def state(self, run_id: UUID) -> str:
        return self.run(run_id).state_name or ""

    def finish(self, run_id: UUID, seconds: float = 20) -> str:
        """The name of the run's final state."""

        def is_final() -> bool:
            state = self.run(run_id).state
            return state is not None and state.is_final()

        eventually(is_final, seconds, lambda: f"{self.state(run_id)}\n{self.log()}")
        return self.state(run_id)

    def lines(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def wait_for_lines(self, count: int) -> list[str]:
        eventually(lambda: len(self.lines()) >= count, 20, lambda: f"{self.lines()}\n{self.log()}")
        return self.lines()

    def processes(self) -> list[int]:
        """Processes of our workers, found by a mark in their environment."""
        mark = f"WARM_TEST={self.name}".encode()
        return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if mark in _read(path)]


def _read(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\0")
    except OSError:
        return []


def eventually(condition: Callable[[], bool], seconds: float, explain: Callable[[], str]) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"Not within {seconds} s: {explain()}")
        time.sleep(0.05)


def stop(worker: subprocess.Popen[bytes], seconds: float = 30) -> None:
    """Stop as a supervisor does."""
    worker.send_signal(signal.SIGTERM)
    worker.wait(seconds)


@contextmanager
def no_process_left(pool: Pool) -> Iterator[None]:
    """No process of workers or children remains."""
    try:
        yield
        for worker in pool.workers:
            if worker.poll() is None:
                stop(worker)
        eventually(lambda: not pool.processes(), 10, lambda: f"{pool.processes()} are still there")
    finally:
        for pid in pool.processes():
            os.kill(pid, signal.SIGKILL)
        for worker in pool.workers:
            worker.wait(5)


@contextmanager
def new_pool(environment: dict[str, str], folder: Path) -> Iterator[Pool]:
    """Pool with its own workers."""
    with get_client(sync_client=True) as client:
        pool = Pool(client, f"pool-{uuid.uuid4().hex[:8]}", folder, environment)
        with no_process_left(pool):
            yield pool


@pytest.fixture
def pool(prefect_server: str, prefect_server_environment: dict[str, str], tmp_path: Path) -> Iterator[Pool]:
    """Pool for a test with killed workers."""
    assert prefect_server
    with new_pool(prefect_server_environment, tmp_path) as pool:
        yield pool


@pytest.fixture(scope="module")
def shared_pool(
    prefect_server: str, prefect_server_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pool]:
    """Pool with one worker and one child for tests without kills."""
    assert prefect_server
    with new_pool(prefect_server_environment, tmp_path_factory.mktemp("shared")) as pool:
        pool.start_workers()
        yield pool


@pytest.fixture
def warm(shared_pool: Pool) -> Pool:
    """The shared pool with an empty file of notes."""
    shared_pool.notes.unlink(missing_ok=True)
    return shared_pool


def test_runs_complete_with_their_parameters_in_a_process_each(warm: Pool) -> None:
    assert warm.finish(warm.submit("note", text="seventeen")) == "Completed"
    second = warm.submit("note")
    assert warm.finish(second) == "Completed"
    written = [line.split(" ", 1) for line in warm.lines()]
    assert [text for _, text in written] == ["seventeen", "default"]
    assert written[0][0] != written[1][0], "each run has a process of its own"
    infrastructure = warm.run(second).infrastructure_pid or ""
    assert infrastructure.endswith(f":{written[1][0]}"), "an operator finds the process of a run"
    assert "Beginning flow run" in warm.log(), "the flow's log is the worker's output"


def test_a_failing_flow_fails_and_the_worker_goes_on(warm: Pool) -> None:
    assert warm.finish(warm.submit("fail")) == "Failed"
    assert warm.finish(warm.submit("note")) == "Completed"


def test_a_flow_that_cannot_be_loaded_crashes_with_its_reason(warm: Pool) -> None:
    assert warm.finish(warm.submit("no_such_flow")) == "Crashed"
    assert "Unexpected exception encountered when trying to load flow" in warm.log()
    assert "'no_such_flow'" in warm.log()


STRANGE: dict[str, tuple[dict[str, Any], str]] = {
    "another entrypoint": ({"entrypoint": "os.system"}, "entrypoint 'os.system'"),
    "another file": ({"entrypoint": "tests/flows/sample_flows.py:write"}, "entrypoint"),
    "no entrypoint": ({"entrypoint": None}, "entrypoint None"),
    "pull steps": (
        {"pull_steps": [{"prefect.deployments.steps.run_shell_script": {"script": "touch PWNED"}}]},
        "pull steps",
    ),
    "a command": ({"job_variables": {"command": "touch PWNED"}}, "job variables command"),
    "variables": ({"job_variables": {"env": {"PREFECT__STORAGE_BASE_PATH": "/"}}}, "job variables env"),
    "a storage block": ({"storage_document_id": "storage"}, "block"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", STRANGE)
def test_a_strange_deployment_in_the_pool_is_refused_with_the_reason(warm: Pool, kind: str) -> None:
    changed, reason = STRANGE[kind]
    changes = {"entrypoint": f"{SAMPLES}:note", **changed}
    if "storage_document_id" in changes:
        changes["storage_document_id"] = block_document(warm.environment["PREFECT_API_URL"])
    flow = warm.client.create_flow_from_name("strange")
    deployment = warm.client.create_deployment(flow, name=f"{kind} {warm.name}", work_pool_name=warm.name, **changes)
    run = warm.client.create_flow_run_from_deployment(deployment, parameters={"path": str(warm.notes)}).id
    assert warm.finish(run) == "Refused"
    state = warm.run(run).state
    assert state is not None
    assert (state.type.value, reason in (state.message or "")) == ("FAILED", True), state.message
    assert warm.lines() == []
    assert warm.finish(warm.submit("note")) == "Completed", "the worker goes on"


def test_a_run_of_our_own_may_not_bring_variables_either(warm: Pool) -> None:
    deployment_id = warm.run(warm.submit("note")).deployment_id
    assert deployment_id is not None
    run = warm.client.create_flow_run_from_deployment(deployment_id, job_variables={"env": {"A": "b"}}).id
    assert warm.finish(run) == "Refused"


def block_document(url: str) -> UUID:
    """Storage block as a stranger could create."""
    kind = {"name": "Strange", "slug": f"strange-{uuid.uuid4().hex[:6]}"}
    block_type_id = httpx.post(f"{url}/block_types/", json=kind).json()["id"]
    schema = {"fields": {}, "block_type_id": block_type_id, "capabilities": ["get-directory"]}
    schema_id = httpx.post(f"{url}/block_schemas/", json=schema).json()["id"]
    document = {"name": "strange", "data": {}, "block_type_id": block_type_id, "block_schema_id": schema_id}
    return uuid.UUID(httpx.post(f"{url}/block_documents/", json=document).json()["id"])


def test_a_killed_child_crashes_its_run_and_no_other(warm: Pool) -> None:
    run = warm.submit("wait", seconds=60)
    pid = int(warm.wait_for_lines(1)[0].split()[0])
    os.kill(pid, signal.SIGKILL)
    assert warm.finish(run) == "Crashed"
    state = warm.run(run).state
    assert state is not None
    assert "-9" in (state.message or "")
    assert warm.finish(warm.submit("note")) == "Completed"


def children(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


@pytest.mark.slow
def test_a_killed_fork_server_is_replaced_and_nothing_of_it_stays(pool: Pool) -> None:
    worker = pool.start_workers()
    run = pool.submit("wait", seconds=60)
    pool.wait_for_lines(1)
    (server,) = (pid for pid in children(worker.pid) if b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes())
    started = children(server)
    assert len(started) == 2, "the embedding process and the flow run"
    os.kill(server, signal.SIGKILL)
    assert pool.finish(run, 60) == "Crashed"
    assert pool.finish(pool.submit("note"), 60) == "Completed"
    eventually(lambda: not [pid for pid in started if Path(f"/proc/{pid}").exists()], 10, lambda: str(started))
    assert worker.poll() is None


@pytest.mark.parametrize(
    ("flow", "parameters"), [("wait", {"seconds": 60}), pytest.param("stubborn", {}, marks=pytest.mark.slow)]
)
def test_a_cancelled_run_is_cancelled_soon_and_its_child_is_gone(
    warm: Pool, flow: str, parameters: dict[str, Any]
) -> None:
    run = warm.submit(flow, **parameters)
    pid = int(warm.wait_for_lines(1)[0].split()[0])
    began = time.monotonic()
    warm.client.set_flow_run_state(run, Cancelling())
    assert warm.finish(run) == "Cancelled"
    assert time.monotonic() - began < 20
    eventually(lambda: not Path(f"/proc/{pid}").exists(), 3, lambda: f"{pid} lives")
    names = [state.name for state in warm.client.read_flow_run_states(run)]
    assert "Crashed" not in names, "a cancellation never looks like a crash"
    assert warm.finish(warm.submit("note")) == "Completed"
    assert warm.state(run) == "Cancelled"


@pytest.mark.slow
def test_a_suspended_run_stops_soon_and_begins_again_when_it_is_resumed(warm: Pool) -> None:
    run = warm.submit("steps", count=60)
    warm.wait_for_lines(3)
    response = warm.client.set_flow_run_state(run, Suspended(timeout_seconds=600))
    assert response.status == SetStateStatus.ACCEPT
    written = len(warm.lines())
    assert warm.finish(warm.submit("note", text="meanwhile")) == "Completed", "its child is free"
    lines_before = [line.split(" ", 1)[1] for line in warm.lines()]
    assert lines_before[-1] == "meanwhile"
    assert len(lines_before) < written + 20, "within two seconds"
    assert warm.state(run) == "Suspended"
    warm.client.resume_flow_run(run)
    assert warm.finish(run, 40) == "Completed"
    lines_after = [line.split(" ", 1)[1] for line in warm.lines()[len(lines_before) :]]
    assert lines_after == [f"step {number}" for number in range(60)]
    names = [state.name for state in warm.client.read_flow_run_states(run)]
    assert "Crashed" not in names


@pytest.mark.slow
def test_sigterm_lets_a_short_run_end_and_never_leaves_a_long_one_running(pool: Pool) -> None:
    worker = pool.start_workers(limit=3)
    long = pool.submit("wait", {"grace_seconds": 1}, seconds=60)
    deaf = pool.submit("stubborn", {"grace_seconds": 1})
    pool.wait_for_lines(2)
    short = pool.submit("wait", {"grace_seconds": 15}, seconds=3)
    pool.wait_for_lines(3)
    stop(worker)
    assert [pool.state(run) for run in (short, long, deaf)] == ["Completed", "Interrupted", "Interrupted"]


@pytest.mark.slow
def test_sigterm_leaves_nothing_running_that_was_just_claimed(pool: Pool) -> None:
    # The dispatcher finds runs without a start after a lease.
    worker = pool.start_workers(limit=2)
    runs = [pool.submit("wait", {"grace_seconds": 0}, seconds=60) for _ in range(4)]
    unclaimed = {"Scheduled", "Late"}
    eventually(lambda: any(pool.state(run) not in unclaimed for run in runs), 30, pool.log)
    stop(worker, 60)
    assert {pool.state(run) for run in runs} <= unclaimed | {"Pending", "Submitting", "Crashed", "Interrupted"}


@pytest.mark.slow
def test_sigkill_of_the_worker_leaves_neither_processes_nor_a_running_run(pool: Pool) -> None:
    worker = pool.start_workers(limit=2)
    run = pool.submit("wait", seconds=60)
    pool.wait_for_lines(1)
    worker.kill()
    assert pool.finish(run) == "Crashed"
    eventually(lambda: not pool.processes(), 10, lambda: f"{pool.processes()} are still there")
