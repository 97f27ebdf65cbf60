"""The faults: what each does to a place, and a plan of them that a seed decides."""

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
RUNNING_SECONDS = 60.0
"""In which a flow run is looked for that runs."""
STOPPED = ("api", "worker", "embedder", "child", "dispatcher", "prefect")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens `at` seconds of a round and lasts `seconds`."""

    at: float
    name: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:5.1f} s  {self.name}" + (f" for {self.seconds:.1f} s" if self.seconds else "")


def kill(role: str) -> Callable[[Place, float], None]:
    return lambda place, _seconds: place.signal(role, signal.SIGKILL) and None


def stop(role: str) -> Callable[[Place, float], None]:
    """SIGSTOP, and SIGCONT for the same process."""

    def act(place: Place, seconds: float) -> None:
        process = place.roles().get(role)
        if process is not None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            process.send_signal(signal.SIGCONT)

    return act


def _postgres_killed(place: Place, seconds: float) -> None:
    place.postgres.kill()
    time.sleep(seconds)
    place.postgres.start()


def _postgres_restarted(place: Place, seconds: float) -> None:
    place.postgres.stop()
    time.sleep(seconds)
    place.postgres.start()


def _postgres_stopped(place: Place, seconds: float) -> None:
    place.postgres.signal(signal.SIGSTOP)
    time.sleep(seconds)
    place.postgres.signal(signal.SIGCONT)


def _slow(name: str) -> Callable[[Place, float], None]:
    def act(place: Place, seconds: float) -> None:
        network = place.networks[name]
        network.delay = 0.05
        time.sleep(seconds)
        network.heal()

    return act


def _cut(name: str) -> Callable[[Place, float], None]:
    def act(place: Place, seconds: float) -> None:
        network = place.networks[name]
        network.cut()
        time.sleep(seconds)
        network.heal()

    return act


def _reset(name: str) -> Callable[[Place, float], None]:
    def act(place: Place, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            place.networks[name].reset()
            time.sleep(0.7)

    return act


def _prefect_killed(place: Place, _seconds: float) -> None:
    """The bundled one is started again by the supervisor, the operator's own by its operator."""
    if place.prefect is None:
        place.signal("prefect", signal.SIGKILL)
        return
    with place.turn:
        place.prefect.kill()
        place.prefect.start()


def _prefect_lost(place: Place, _seconds: float) -> None:
    """Prefect begins with nothing; its operator registers the deployments again, before a dispatcher does."""
    with place.turn:
        if place.prefect is not None:
            place.prefect.kill()
            place.prefect.forget()
            place.prefect.start()
        else:
            place.signal("prefect", signal.SIGKILL)
            with psycopg.connect(postgres.url(place.service.home), autocommit=True) as connection:
                connection.execute("drop database prefect with (force)")
                connection.execute("create database prefect owner prefect")
        place.until_up()
        done = place.service.run("register")
        assert done.returncode == 0, done.stdout + done.stderr


def _supervisor_killed(place: Place, seconds: float) -> None:
    with place.turn:
        place.signal("supervisor", signal.SIGKILL)
        time.sleep(seconds)
        place.service.up()


def _disk_full(place: Place, seconds: float) -> None:
    """Nothing more goes onto the disk for files."""
    filler = place.files / "filler"
    fill(filler)
    time.sleep(seconds)
    filler.unlink()


def _database_full(place: Place, seconds: float) -> None:
    """No room below PostgreSQL, its log of writes included; then its operator makes room, and starts it if it died."""
    filler = place.folder / "db" / "filler"
    fill(filler)
    time.sleep(seconds)
    filler.unlink()
    place.postgres.until_up()


def fill(filler: Path) -> None:
    """Until nothing more goes onto its disk."""
    with suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(1 << 20))
            file.flush()
    with suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(1 << 10))


def _refused(place: Place, seconds: float) -> None:
    if place.sources is not None:
        place.sources.refuse(seconds)


def _suspended(place: Place, seconds: float) -> None:
    """A person suspends a flow run in Prefect, and resumes it later."""
    if run := _set_running(place, Suspended(timeout_seconds=3600).model_dump(mode="json")):
        place.suspended += 1
        time.sleep(seconds)
        path = f"/flow_runs/{run['id']}"
        while (kept := place.call_prefect("GET", path)) and kept["state"]["type"] == "PAUSED":
            place.call_prefect("POST", f"{path}/resume", {})
            time.sleep(0.2)


def _cancelled(place: Place, _seconds: float) -> None:
    """A person cancels a flow run in Prefect."""
    _set_running(place, Cancelling().model_dump(mode="json"))


def _set_running(place: Place, state: dict[str, Any]) -> dict[str, Any] | None:
    """A flow run that was running when its state was set; None if none was for a while."""
    deadline, seen = time.monotonic() + RUNNING_SECONDS, {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}}
    change = {"state": {key: state[key] for key in ("type", "name", "state_details")}}
    while time.monotonic() < deadline:
        for run in place.call_prefect("POST", "/flow_runs/filter", seen) or ():
            if "batch_id" in run["parameters"]:
                if state["type"] == "CANCELLING":  # before an answer that may be lost
                    place.cancelled_batches.add(run["parameters"]["batch_id"])
                result = place.call_prefect("POST", f"/flow_runs/{run['id']}/set_state", change)
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
        f"{what} network to {there}": act(there)
        for there in ("prefect", "bucket")
        for what, act in (("slow", _slow), ("cut", _cut), ("reset", _reset))
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
        f"{what} network to {there}": (1.0, longest)
        for there in ("prefect", "bucket")
        for what, longest in (("slow", 6.0), ("cut", 6.0), ("reset", 4.0))
    },
    "account refuses": (1.0, 5.0),
    "disk for the database full": (2.0, 6.0),
    "suspend and resume in Prefect": (0.0, 15.0),
}
"""Seconds, at least and at most."""


def able(place: Place) -> list[str]:
    """Names of what can be done to this place."""
    lacks = {
        "disk for files full": not place.has_disk,
        "account refuses": place.sources is None,
        "disk for the database full": not place.has_database_disk,
        **{f"{what} network to prefect": place.prefect is None for what in ("slow", "cut", "reset")},
        **{f"{what} network to bucket": place.sources is None for what in ("slow", "cut", "reset")},
    }
    return [name for name in ACTIONS if not lacks.get(name)]


def plan(seed: int, number: int, seconds: float, names: list[str]) -> list[Fault]:
    """What happens in a round of so many seconds: each of these once, in an order and at moments that follow from the
    seed and the round's number."""
    dice = random.Random(f"{seed}/{number}")
    order = dice.sample(names, len(names))
    moments = sorted(dice.uniform(0, seconds) for _ in order)
    return [
        Fault(round(at, 1), name, round(dice.uniform(*LASTS.get(name, (0.0, 0.0))), 1))
        for at, name in zip(moments, order, strict=True)
    ]
