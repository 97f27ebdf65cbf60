"""Files of a running instance in its home: its lock, its roles, and the file that clients read.

up.lock        held by the supervisor as long as it lives
state.json     its process, its roles and their addresses; no secret
service.json   for clients, once all is ready, with the API key; `service.last.json` while nothing runs
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from local import processes
from local.log_errors import Series
from local.private_files import read_json, write_private
from local.processes import Process

Phase = Literal["starting", "ready", "stopping"]
RoleState = Literal["starting", "up", "stalled", "restarting", "done", "stopped"]


@dataclass(slots=True)
class RoleRecord:
    """One role as `status` shows it. `since`: Unix seconds of its last start."""

    name: str
    state: RoleState = "starting"
    pid: int | None = None
    started: int | None = None
    since: float | None = None
    restarts: int = 0
    address: str | None = None
    errors: list[Series] = field(default_factory=list)
    """Error lines of its log since the instance started, newest first."""


@dataclass(slots=True)
class Record:
    """state.json. `addresses`: api, prefect (with /api), ui, where this instance runs them."""

    pid: int
    started: int
    token: str
    phase: Phase = "starting"
    embedded: bool = True
    addresses: dict[str, str | None] = field(default_factory=dict)
    roles: list[RoleRecord] = field(default_factory=list)

    @property
    def supervisor(self) -> Process:
        return Process(self.pid, self.started)


def save(home: Path, record: Record) -> None:
    write_private(home / "state.json", json.dumps(asdict(record), indent=1))


def load(home: Path) -> Record | None:
    """The last instance of this home, alive or not; None if there was none or it went in order."""
    state = read_json(home / "state.json")
    if not state:
        return None
    return Record(**(state | {"roles": [_role(role) for role in state["roles"]]}))


def _role(found: dict[str, Any]) -> RoleRecord:
    return RoleRecord(**(found | {"errors": [Series(**series) for series in found.get("errors", [])]}))


def running(home: Path) -> Record | None:
    """The instance whose supervisor lives now."""
    record = load(home)
    return record if record and record.supervisor.alive() else None


def lock(home: Path) -> int | None:
    """The descriptor of the held lock; None if another supervisor of this home has it."""
    descriptor = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def clear(home: Path) -> None:
    """End what a dead supervisor left behind, whole families included, and forget it."""
    if record := load(home):
        left = [Process(r.pid, r.started) for r in record.roles if r.pid and r.started and r.name != "postgres"]
        processes.end(left, grace=5)
        # Postgres is never ended from here: `postgres.stop` lets it write what it holds.
        processes.end(processes.carrying(record.token, besides="postgres"), grace=2)
        (home / "state.json").unlink(missing_ok=True)
    service = home / "service.json"
    if service.exists():
        service.replace(home / "service.last.json")


def publish(home: Path, service: dict[str, Any]) -> None:
    """Write service.json; the copy of the last instance goes."""
    write_private(home / "service.json", json.dumps(service, indent=2) + "\n")
    (home / "service.last.json").unlink(missing_ok=True)


def remember_key(home: Path, key: str) -> None:
    """Keep a key that the database shows only once, should the start fail before service.json is written."""
    write_private(home / "service.last.json", json.dumps({"apiKey": key}))


def service(home: Path) -> dict[str, Any]:
    """Last record for clients: of the running instance, else of the one before."""
    return read_json(home / "service.json") or read_json(home / "service.last.json")
