"""Files of a home: secrets, lock, roles and addresses of an instance.

up.lock        held by the running supervisor
state.json     supervisor, roles and addresses, without secrets
service.json   addresses and API key for clients, once ready; `service.last.json` while nothing runs
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
from local.logs import ErrorSeries
from local.processes import Process

Phase = Literal["starting", "ready", "stopping"]
# Advice for a damaged file without data to keep.
RECREATE_REMEDY = "Delete it, and `retrieval up` creates a new one."
_MAX_PORT_STEPS = 20
_MAX_PORT = 65535
RoleState = Literal["waiting", "starting", "up", "stalled", "restarting", "done", "stopped"]


@dataclass(slots=True)
class RoleRecord:
    """Role in `status`; `since` is the Unix time of its last start."""

    name: str
    state: RoleState = "waiting"
    pid: int | None = None
    started: int | None = None
    since: float | None = None
    restarts: int = 0
    address: str | None = None
    # Errors in its log since the instance started, newest first.
    errors: list[ErrorSeries] = field(default_factory=list)


@dataclass(slots=True)
class InstanceRecord:
    """Content of state.json; `addresses` has api, prefect (with /api), ui and metrics of this instance."""

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


def save_record(home: Path, record: InstanceRecord) -> None:
    write_private(home / "state.json", json.dumps(asdict(record), indent=1))


def load_record(home: Path) -> InstanceRecord | None:
    """Return the last instance of this home, alive or not; None after an orderly end."""
    state = read_json(home / "state.json")
    if not state:
        return None
    return InstanceRecord(**(state | {"roles": [_load_role(role) for role in state["roles"]]}))


def _load_role(record: dict[str, Any]) -> RoleRecord:
    return RoleRecord(**(record | {"errors": [ErrorSeries(**series) for series in record.get("errors", [])]}))


def find_running(home: Path) -> InstanceRecord | None:
    """Return the instance with a living supervisor."""
    record = load_record(home)
    return record if record and record.supervisor.is_alive() else None


def lock_home(home: Path) -> int | None:
    """Return the descriptor of the held lock; None if another supervisor holds it."""
    descriptor = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def clear_home(home: Path) -> None:
    """End processes of a dead supervisor and remove its state."""
    if record := load_record(home):
        roles = [Process(r.pid, r.started) for r in record.roles if r.pid and r.started and r.name != "postgres"]
        processes.end_processes(roles, grace=5)
        # `postgres.stop` ends PostgreSQL, so that it can flush its data.
        processes.end_processes(processes.list_carrying(record.token, excluded="postgres"), grace=2)
        (home / "state.json").unlink(missing_ok=True)
    service = home / "service.json"
    if service.exists():
        service.replace(home / "service.last.json")


def publish_service(home: Path, service: dict[str, Any]) -> None:
    """Write service.json and remove the last instance's copy."""
    write_private(home / "service.json", json.dumps(service, indent=2) + "\n")
    (home / "service.last.json").unlink(missing_ok=True)


def keep_service(home: Path, service: dict[str, Any]) -> None:
    """Store the key before service.json exists."""
    # The database shows a key only once, and the start may fail.
    write_private(home / "service.last.json", json.dumps(service))


def read_service(home: Path) -> dict[str, Any]:
    """Return the client data of the running or last instance."""
    return read_json(home / "service.json") or read_json(home / "service.last.json")


def settle_ports(
    addresses: Mapping[str, tuple[str, int]], movable: Collection[str] = (), claims: ExitStack | None = None
) -> dict[str, int]:
    """Choose a port per setting from (host, port), 0 for any free port. LocalError for an unusable port."""
    # A `movable` setting gets one of the next ports if its port is taken. `claims` reserves the ports against other
    # starting instances until it is closed.
    ports = {}
    with ExitStack() as stack:
        for name, (host, port) in addresses.items():
            last_port = min(port + _MAX_PORT_STEPS, _MAX_PORT) if name in movable and port else port
            for candidate in range(port, last_port):
                with suppress(_PortTaken):
                    ports[name] = _bind_port(stack, name, host, candidate, claims)
                    break
            else:
                ports[name] = _bind_port(stack, name, host, last_port, claims)
    return ports


def build_url(host: str, port: int) -> str:
    """Return the URL of a listener for clients on this machine."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    bracketed = f"[{reachable}]" if ":" in reachable and not reachable.startswith("[") else reachable
    return f"http://{bracketed}:{port}"


def find_ui_path(public_url: str | None) -> str:
    """Return the path of the admin app's public URL, such as `/ops`; "" if absent."""
    return urlsplit(public_url or "").path.rstrip("/")


def port_settings(addresses: Mapping[str, str | None]) -> dict[str, str]:
    """Return port settings of an instance, by its addresses."""
    ports = {name: urlsplit(address).port for name, address in addresses.items() if address}
    return {f"RETRIEVAL_{name.upper()}_PORT": str(port) for name, port in ports.items() if port}


class _PortTaken(LocalError):
    """Another program listens at the port, or another starting instance has claimed it."""


def _bind_port(stack: ExitStack, name: str, host: str, port: int, claims: ExitStack | None) -> int:
    """Bind a port until all are settled; raise _PortTaken, or LocalError for other errors."""
    # Bound until then, so that two roles never get the same port.
    probe = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM))
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((host, port))
        probe.listen(1)
        bound = int(probe.getsockname()[1])
        if claims is not None and sys.platform == "linux":
            _claim_port(claims, bound)
    except OSError as error:
        advice = f"set {name} to another port, or to 0 for any free one"
        if error.errno == errno.EADDRINUSE:
            raise _PortTaken(f"Port {port} on {host} is taken by another program: {advice}.") from error
        if error.errno == errno.EACCES:
            raise LocalError(f"Port {port} on {host} needs rights that this user does not have: {advice}.") from error
        host_setting = name.removesuffix("_PORT") + "_HOST"
        raise LocalError(f"Port {port} on {host} cannot be opened: {error.strerror}; check {host_setting}.") from error
    return bound


def _claim_port(claims: ExitStack, port: int) -> None:
    """Bind a socket named after the port, because the role listens seconds later; raise OSError if claimed."""
    # An abstract socket of Linux leaves no file and ends with the process.
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
    """Return the single line of a secret file; raise LocalError with the remedy if damaged."""
    # A full disk can leave an empty file.
    try:
        text = file.read_text().strip()
    except (UnicodeDecodeError, IsADirectoryError):
        text = ""
    if not text or not text.isprintable():
        raise LocalError(f"{file} is damaged: it does not hold one line of text. {remedy}")
    return text


def read_json(file: Path) -> dict[str, Any]:
    """Return the object of a JSON file; empty if missing or broken."""
    try:
        content = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
