"""A whole service on an operator's PostgreSQL behind a faulty network.

Files are on a small mounted disk if the machine allows mounts.
"""

from __future__ import annotations

import base64
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from local import instance
from local.processes import Process
from tests.e2e.conftest import Service
from tests.faults.network import Network
from tests.faults.own_postgres import OwnPostgres
from tests.faults.own_prefect import LOGIN, OwnPrefect
from tests.faults.sources import Sources

# Seconds of a worker's lease; a round has time for several.
LEASE = 6
DISK, DATABASE_DISK = "256m", "768m"
UP_SECONDS = 90.0


class Place:
    """Roles, PostgreSQL, networks and disk of one installation.

    `sources` adds a website, an account and a bucket; `has_own_prefect` an operator's Prefect behind a network.
    """

    prefect: OwnPrefect | None = None
    prefect_network: Network | None = None

    def __init__(
        self, seed: int, sources: Sources | None = None, *, has_own_prefect: bool = False, **settings: str
    ) -> None:
        self.sources = sources
        # Held by a fault during its wait for roles.
        self.turn = threading.Lock()
        # Batches with flow runs cancelled in Prefect.
        self.cancelled_batches: set[str] = set()
        # Number of flow runs suspended in Prefect.
        self.suspended = 0
        with ExitStack() as stack:
            self.folder = Path(tempfile.mkdtemp(prefix="rt-faults-"))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.files = self.folder / "files"
            self.has_disk = self._mounted(stack, self.files, DISK)
            self.has_database_disk = self._mounted(stack, self.folder / "db", DATABASE_DISK)
            self.postgres = OwnPostgres(self.folder / "db")
            stack.callback(self.postgres.remove)
            self.postgres.start()
            self.network = stack.enter_context(Network(self.postgres.port))
            settings |= self._prefect(stack) if has_own_prefect else {}
            self.service = Service(
                self.folder / "home",
                database_url=self.postgres.url(self.network.port),
                secret_key="1:" + base64.b64encode(random.Random(seed).randbytes(32)).decode(),
                files_directory=str(self.files),
                lease_seconds=str(LEASE),
                **(sources.settings if sources else {}),
                **settings,
            )
            self.service.home.mkdir(exist_ok=True)
            self.service.expects_kills()
            stack.callback(self.service.run, "down")
            stack.callback(self.service.client.close)
            self.service.up()
            if sources:
                sources.connect(self.service)
            self._stack = stack.pop_all()

    def _mounted(self, stack: ExitStack, folder: Path, size: str) -> bool:
        """Mount a small disk at the folder; return False if impossible."""
        folder.mkdir(mode=0o755)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "faults", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            return False
        stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)
        return True

    def _prefect(self, stack: ExitStack) -> dict[str, str]:
        """Start the operator's Prefect and return its settings."""
        self.prefect = OwnPrefect(self.folder / "prefect")
        stack.callback(self.prefect.forget)
        stack.callback(self.prefect.kill)
        self.prefect.start()
        self.prefect_network = stack.enter_context(Network(self.prefect.port))
        return {
            "prefect_api_url": f"http://127.0.0.1:{self.prefect_network.port}/api",
            "prefect_login": LOGIN,
        }

    def call_prefect(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Response of Prefect's API on a working network; None for 404 or no answer in time."""
        info = self.service.info
        url, login = (
            (f"http://127.0.0.1:{self.prefect.port}/api", LOGIN)
            if self.prefect
            else (info["prefect"], info["prefectLogin"])
        )
        user, _, password = login.partition(":")
        deadline = time.monotonic() + UP_SECONDS
        while time.monotonic() < deadline:
            try:
                answer = httpx.request(method, url + path, json=body, auth=(user, password), timeout=10)
                if answer.status_code == HTTPStatus.NOT_FOUND:
                    return None
                if answer.is_success:
                    return answer.json()
            except httpx.HTTPError:
                pass
            time.sleep(0.5)
        return None

    @property
    def networks(self) -> dict[str, Network]:
        """Networks by target."""
        named_networks = {"prefect": self.prefect_network, "bucket": self.sources and self.sources.network}
        return {"postgres": self.network, **{name: network for name, network in named_networks.items() if network}}

    def heal(self) -> None:
        """Everything passes at once again, wherever."""
        for network in self.networks.values():
            network.heal()

    def keep_logs(self, folder: Path) -> None:
        """Copy the logs of all roles, PostgreSQL and Prefect."""
        shutil.copytree(self.service.home / "logs", folder, dirs_exist_ok=True)
        for log in (self.folder / "prefect.log", self.folder / "db" / "postgres.log"):
            if log.exists():
                shutil.copy(log, folder)

    def close(self) -> None:
        """Stop and delete everything from any state."""
        self.heal()
        with suppress(AssertionError, OSError):
            self.postgres.signal(signal.SIGCONT)
        for role in self.roles():
            self.signal(role, signal.SIGCONT)
        self.service.client.close()
        self._stack.close()

    def roles(self) -> dict[str, Process]:
        """Live processes by role, including the worker's `fork server`, `embedder` and `child`."""
        record = instance.load_record(self.service.home)
        processes = (
            {role.name: Process(role.pid, role.started) for role in record.roles if role.pid and role.started}
            if record
            else {}
        )
        if record:
            processes["supervisor"] = record.supervisor
        if self.prefect is not None and (process := self.prefect.process):
            processes["prefect"] = process
        if "worker" in processes:
            processes |= _of_worker(processes["worker"].pid)
        return {name: process for name, process in processes.items() if process.is_alive()}

    def signal(self, role: str, number: signal.Signals) -> bool:
        """Signal the role's process; return False if absent."""
        process = self.roles().get(role)
        if process is not None:
            process.send_signal(number)
        return process is not None

    def until_up(self) -> None:
        """Wait until the supervisor reports every role up."""
        deadline = time.monotonic() + UP_SECONDS
        while True:
            record = instance.load_record(self.service.home)
            if record and record.supervisor.is_alive() and all(role.state in {"up", "done"} for role in record.roles):
                return
            states = {role.name: role.state for role in record.roles} if record else {}
            assert time.monotonic() < deadline, f"not all roles are up {UP_SECONDS:.0f} s after the faults: {states}"
            time.sleep(0.2)


def _of_worker(pid: int) -> dict[str, Process]:
    """Processes of a worker by role."""
    children = _children(pid)
    servers = [process for process in children if b"forkserver" in _read(Path(f"/proc/{process.pid}/cmdline"))]
    listening = {line.split()[6] for line in _read(Path("/proc/net/unix")).splitlines() if b"/embed-" in line}
    embedders = [process for process in children if _sockets(process.pid) & listening]
    flow_runs = [process for process in children if process not in (*servers, *embedders)]
    roles = {"fork server": servers, "embedder": embedders, "child": flow_runs}
    return {role: processes[0] for role, processes in roles.items() if processes}


def _read(path: Path) -> bytes:
    with suppress(OSError):
        return path.read_bytes()
    return b""


def _sockets(pid: int) -> set[bytes]:
    """Inodes of the process' sockets."""
    inodes = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    inodes.add(target[8:-1].encode())
    return inodes


def _children(pid: int) -> list[Process]:
    """Python processes below a process, the youngest first."""
    processes, waiting = [], [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):
                below = [int(child_pid) for child_pid in task.read_text().split()]
                waiting += below
                processes += [child_pid for child in below if (child_pid := Process.from_pid(child))]
    return [
        child_pid
        for child_pid in sorted(processes, key=lambda child_pid: -child_pid.started)
        if _is_python(child_pid.pid)
    ]


def _is_python(pid: int) -> bool:
    with suppress(OSError):
        return "python" in Path(f"/proc/{pid}/exe").readlink().name
    return False
