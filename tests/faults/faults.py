"""The faults and a seeded plan of them."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from prefect.states import Cancelling, Suspended

from local import postgres
from tests.faults.place import LEASE, Place

KILLED = ("api", "worker", "fork server", "embedder", "child", "dispatcher", "prefect")
# Time to find a running flow run.
RUNNING_SECONDS = 60.0
STOPPED = ("api", "worker", "embedder", "child", "dispatcher", "prefect")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault from second `at` of a round, for `seconds`."""

    at: float
    name: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:5.1f} s  {self.name}" + (f" for {self.seconds:.1f} s" if self.seconds else "")


def kill(role: str) -> Callable[[Place, float], None]:
    return lambda place, _seconds: place.signal(role, signal.SIGKILL) and None


def stop(role: str) -> Callable[[Place, float], None]:
    """SIGSTOP, and SIGCONT for the same process."""

    def act(installation: Place, seconds: float) -> None:
        process = installation.roles().get(role)
        if process is not None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            process.send_signal(signal.SIGCONT)

    return act


def _postgres_killed(installation: Place, seconds: float) -> None:
    installation.postgres.kill()
    time.sleep(seconds)
    installation.postgres.start()


def _postgres_restarted(installation: Place, seconds: float) -> None:
    installation.postgres.stop()
    time.sleep(seconds)
    installation.postgres.start()


def _postgres_stopped(installation: Place, seconds: float) -> None:
    installation.postgres.signal(signal.SIGSTOP)
    time.sleep(seconds)
    installation.postgres.signal(signal.SIGCONT)


def _slow(name: str) -> Callable[[Place, float], None]:
    def act(installation: Place, seconds: float) -> None:
        network = installation.networks[name]
        network.delay = 0.05
        time.sleep(seconds)
        network.heal()

    return act


def _cut(name: str) -> Callable[[Place, float], None]:
    def act(installation: Place, seconds: float) -> None:
        network = installation.networks[name]
        network.cut()
        time.sleep(seconds)
        network.heal()

    return act


def _reset(name: str) -> Callable[[Place, float], None]:
    def act(installation: Place, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            installation.networks[name].reset()
            time.sleep(0.7)

    return act


def _prefect_killed(installation: Place, _seconds: float) -> None:
    # The supervisor restarts the bundled server; the operator restarts an own one.
    if installation.prefect is None:
        installation.signal("prefect", signal.SIGKILL)
        return
    with installation.turn:
        installation.prefect.kill()
        installation.prefect.start()


def _prefect_lost(installation: Place, _seconds: float) -> None:
    """Delete Prefect's database; register the deployments again before a dispatcher does."""
    with installation.turn:
        if installation.prefect is not None:
            installation.prefect.kill()
            installation.prefect.forget()
            installation.prefect.start()
        else:
            installation.signal("prefect", signal.SIGKILL)
            with psycopg.connect(postgres.url(installation.service.home), autocommit=True) as connection:
                connection.execute("drop database prefect with (force)")
                connection.execute("create database prefect owner prefect")
        installation.until_up()
        done = installation.service.run("register")
        assert done.returncode == 0, done.stdout + done.stderr


def _supervisor_killed(installation: Place, seconds: float) -> None:
    with installation.turn:
        installation.signal("supervisor", signal.SIGKILL)
        time.sleep(seconds)
        installation.service.up()


def _disk_full(installation: Place, seconds: float) -> None:
    """Fill the disk for files."""
    filler = installation.files / "filler"
    fill(filler)
    time.sleep(seconds)
    filler.unlink()


def _database_full(installation: Place, seconds: float) -> None:
    """Fill PostgreSQL's disk including its WAL; then free it and restart PostgreSQL if needed."""
    filler = installation.folder / "db" / "filler"
    fill(filler)
    time.sleep(seconds)
    filler.unlink()
    installation.postgres.until_up()


def fill(filler: Path) -> None:
    """Write until the disk is full."""
    with suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(1 << 20))
            file.flush()
    with suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(1 << 10))


def _refused(installation: Place, seconds: float) -> None:
    if installation.sources is not None:
        installation.sources.refuse(seconds)


def _suspended(installation: Place, seconds: float) -> None:
    """Suspend a flow run in Prefect and resume it later."""
    if run := _set_running(installation, Suspended(timeout_seconds=3600).model_dump(mode="json")):
        installation.suspended += 1
        time.sleep(seconds)
        path = f"/flow_runs/{run['id']}"
        while (flow_run := installation.call_prefect("GET", path)) and flow_run["state"]["type"] == "PAUSED":
            installation.call_prefect("POST", f"{path}/resume", {})
            time.sleep(0.2)


def _cancelled(installation: Place, _seconds: float) -> None:
    """A person cancels a flow run in Prefect."""
    _set_running(installation, Cancelling().model_dump(mode="json"))


def _set_running(installation: Place, state: dict[str, Any]) -> dict[str, Any] | None:
    """Set the state of a running flow run; None if no run was found in time."""
    deadline, run_filter = time.monotonic() + RUNNING_SECONDS, {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}}
    change = {"state": {key: state[key] for key in ("type", "name", "state_details")}}
    while time.monotonic() < deadline:
        for run in installation.call_prefect("POST", "/flow_runs/filter", run_filter) or ():
            if "batch_id" in run["parameters"]:
                if state["type"] == "CANCELLING":  # before an answer that may be lost
                    installation.cancelled_batches.add(run["parameters"]["batch_id"])
                result = installation.call_prefect("POST", f"/flow_runs/{run['id']}/set_state", change)
                # Prefect sets a run without a process, as one just suspended, to Cancelled at once, and says REJECT.
                if result and (result["status"] == "ACCEPT" or result["state"]["type"] == "CANCELLED"):
                    return run
        time.sleep(0.1)
    return None


ACTIONS: dict[str, Callable[[Place, float], None]] = {
    **{f"SIGKILL {role}": _prefect_killed if role == "prefect" else kill(role) for role in KILLED},
    **{f"SIGSTOP {role}": stop(role) for role in STOPPED},
    "SIGKILL postgres": _postgres_killed,
    "restart postgres": _postgres_restarted,
    "SIGSTOP postgres": _postgres_stopped,
    "slow network": _slow("postgres"),
    "cut network": _cut("postgres"),
    "reset network": _reset("postgres"),
    "prefect database lost": _prefect_lost,
    "SIGKILL supervisor": _supervisor_killed,
    "disk for files full": _disk_full,
    **{
        f"{network_fault} network to {target}": act(target)
        for target in ("prefect", "bucket")
        for network_fault, act in (("slow", _slow), ("cut", _cut), ("reset", _reset))
    },
    "account refuses": _refused,
    "disk for the database full": _database_full,
    "suspend and resume in Prefect": _suspended,
    "cancel in Prefect": _cancelled,
}
LASTS = {
    **{f"SIGSTOP {role}": (1.0, 2.0 * LEASE) for role in STOPPED},
    "SIGKILL postgres": (0.0, 3.0),
    "restart postgres": (0.0, 3.0),
    "SIGSTOP postgres": (1.0, 5.0),
    "slow network": (2.0, 6.0),
    "cut network": (1.0, 6.0),
    "reset network": (1.0, 4.0),
    "SIGKILL supervisor": (0.0, 2.0),
    "disk for files full": (2.0, 6.0),
    **{
        f"{network_fault} network to {target}": (1.0, longest)
        for target in ("prefect", "bucket")
        for network_fault, longest in (("slow", 6.0), ("cut", 6.0), ("reset", 4.0))
    },
    "account refuses": (1.0, 5.0),
    "disk for the database full": (2.0, 6.0),
    "suspend and resume in Prefect": (0.0, 15.0),
}
"""Seconds, at least and at most."""


def able(installation: Place) -> list[str]:
    """Names of the possible faults at this installation."""
    lacks = {
        "disk for files full": not installation.has_disk,
        "account refuses": installation.sources is None,
        "disk for the database full": not installation.has_database_disk,
        **{
            f"{network_fault} network to prefect": installation.prefect is None
            for network_fault in ("slow", "cut", "reset")
        },
        **{
            f"{network_fault} network to bucket": installation.sources is None
            for network_fault in ("slow", "cut", "reset")
        },
    }
    return [name for name in ACTIONS if not lacks.get(name)]


def plan(seed: int, number: int, seconds: float, names: list[str]) -> list[Fault]:
    """Plan of a round: each fault once, in a seeded order at seeded moments."""
    dice = random.Random(f"{seed}/{number}")
    order = dice.sample(names, len(names))
    moments = sorted(dice.uniform(0, seconds) for _ in order)
    return [
        Fault(round(at, 1), name, round(dice.uniform(*LASTS.get(name, (0.0, 0.0))), 1))
        for at, name in zip(moments, order, strict=True)
    ]
