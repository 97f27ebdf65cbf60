"""Files of a home: private ones, the lock and the roles of a running instance, the file that clients read.

up.lock        held by the supervisor as long as it lives
state.json     its process, its roles and their addresses; no secret
service.json   for clients, once all is ready, with the API key; `service.last.json` while nothing runs
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import sys
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from local import LocalError, processes
from local.logs import Series
from local.processes import Process

Phase = Literal["starting", "ready", "stopping"]
ANOTHER = "Delete it, and `retrieval up` makes another one."
"""The remedy for a damaged file that may be lost."""
_NEXT_PORTS = 20
RoleState = Literal["waiting", "starting", "up", "stalled", "restarting", "done", "stopped"]


@dataclass(slots=True)
class RoleRecord:
    """One role as `status` shows it. `since`: Unix seconds of its last start."""

    name: str
    state: RoleState = "waiting"
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


def save_record(home: Path, record: Record) -> None:
    write_private(home / "state.json", json.dumps(asdict(record), indent=1))


def load_record(home: Path) -> Record | None:
    """The last instance of this home, alive or not; None if there was none or it went in order."""
    state = read_json(home / "state.json")
    if not state:
        return None
    return Record(**(state | {"roles": [_role(role) for role in state["roles"]]}))


def _role(record: dict[str, Any]) -> RoleRecord:
    return RoleRecord(**(record | {"errors": [Series(**series) for series in record.get("errors", [])]}))


def find_running(home: Path) -> Record | None:
    """The instance whose supervisor lives now."""
    record = load_record(home)
    return record if record and record.supervisor.alive() else None


def lock_home(home: Path) -> int | None:
    """The descriptor of the held lock; None if another supervisor of this home has it."""
    descriptor = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def clear_home(home: Path) -> None:
    """End what a dead supervisor left behind, whole families included, and forget it."""
    if record := load_record(home):
        roles = [Process(r.pid, r.started) for r in record.roles if r.pid and r.started and r.name != "postgres"]
        processes.end_processes(roles, grace=5)
        # Postgres is never ended from here: `postgres.stop` lets it write what it holds.
        processes.end_processes(processes.list_carrying(record.token, besides="postgres"), grace=2)
        (home / "state.json").unlink(missing_ok=True)
    service = home / "service.json"
    if service.exists():
        service.replace(home / "service.last.json")


def publish_service(home: Path, service: dict[str, Any]) -> None:
    """Write service.json; the copy of the last instance goes."""
    write_private(home / "service.json", json.dumps(service, indent=2) + "\n")
    (home / "service.last.json").unlink(missing_ok=True)


def keep_service(home: Path, service: dict[str, Any]) -> None:
    """Keep a key that the database shows only once, should the start fail before service.json is written."""
    write_private(home / "service.last.json", json.dumps(service))


def read_service(home: Path) -> dict[str, Any]:
    """Last record for clients: of the running instance, else of the one before."""
    return read_json(home / "service.json") or read_json(home / "service.last.json")


def settle_ports(
    addresses: Mapping[str, tuple[str, int]], movable: Collection[str] = (), claims: ExitStack | None = None
) -> dict[str, int]:
    """A port for each setting's name, given (host, port); 0 picks a free one. LocalError names one that is taken.

    `movable`: names of settings whose port gives way to one of the next `_NEXT_PORTS` if it is taken.
    `claims`: keeps the ports from other instances that start on this machine, until it is closed."""
    ports = {}
    with ExitStack() as stack:
        for name, (host, port) in addresses.items():
            candidates = range(port, port + 1 + _NEXT_PORTS) if name in movable and port else [port, port]
            for candidate in candidates[:-1]:
                with suppress(LocalError):
                    ports[name] = _hold_port(stack, name, host, candidate, claims)
                    break
            else:
                ports[name] = _hold_port(stack, name, host, candidates[-1], claims)
    return ports


def build_url(host: str, port: int) -> str:
    """URL at which a client on this machine reaches a listener on `host`."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    bracketed = f"[{reachable}]" if ":" in reachable and not reachable.startswith("[") else reachable
    return f"http://{bracketed}:{port}"


def find_ui_path(public_url: str | None) -> str:
    """Path at which the admin app is served: that of its public URL, such as `/ops`; empty without one."""
    return urlsplit(public_url or "").path.rstrip("/")


def port_settings(addresses: Mapping[str, str | None]) -> dict[str, str]:
    """The settings that tell a role on which ports an instance listens, given its addresses by role."""
    ports = {name: urlsplit(address).port for name, address in addresses.items() if address}
    return {f"RETRIEVAL_{name.upper()}_PORT": str(port) for name, port in ports.items() if port}


def _hold_port(stack: ExitStack, name: str, host: str, port: int, claims: ExitStack | None) -> int:
    """Bind until all ports are settled, so that two roles never pick the same."""
    probe = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM))
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((host, port))
        probe.listen(1)
        bound = int(probe.getsockname()[1])
        if claims is not None and sys.platform == "linux":
            _claim_port(claims, bound)
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: "is taken by another program",
            errno.EACCES: "needs rights that this user does not have",
        }
        reason = reasons.get(error.errno or 0, f"cannot be opened ({error.strerror})")
        advice = f"set {name} to another port, or to 0 for any free one"
        raise LocalError(f"Port {port} on {host} {reason}: {advice}.") from error
    return bound


def _claim_port(claims: ExitStack, port: int) -> None:
    """Hold a socket named after the port, since its role listens seconds later. OSError if another instance holds it.

    The name is in Linux's abstract namespace: it leaves no file, and goes with the process. Other systems have none."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0retrieval-service-port-{port}")
    except OSError:
        claim.close()
        raise
    claims.enter_context(claim)


def write_private(file: Path, text: str) -> None:
    """Write atomically and durably, readable by the owner only."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    fresh.replace(file)


def read_secret(file: Path, remedy: str) -> str:
    """The one line that such a file holds; LocalError with what to do where it is damaged, as after a full disk."""
    try:
        text = file.read_text().strip()
    except (UnicodeDecodeError, IsADirectoryError):
        text = ""
    if not text or not text.isprintable():
        raise LocalError(f"{file} is damaged: it does not hold one line of text. {remedy}")
    return text


def read_json(file: Path) -> dict[str, Any]:
    """The object in a file; empty if there is none, or if it is broken, as after a full disk."""
    try:
        content = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
