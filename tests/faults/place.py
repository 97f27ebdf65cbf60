"""What faults are done to: a whole service on a PostgreSQL of the operator's, behind a network that can fail.

Files lie on a small disk of their own where this machine lets one be mounted, so that it can be full.
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

LEASE = 6
"""Seconds of a worker's lease, so that a round has time for several."""
DISK, DATABASE_DISK = "256m", "768m"
UP_SECONDS = 90.0


class Place:
    """The parts, by name: roles of the instance, its PostgreSQL, the network between them, the disk for files.

    With `sources` there are a website, an account and a bucket too. With `has_own_prefect` Prefect is the operator's,
    and reached through a network that can fail; otherwise it is the bundled one.
    """

    prefect: OwnPrefect | None = None
    prefect_network: Network | None = None

    def __init__(
        self, seed: int, sources: Sources | None = None, *, has_own_prefect: bool = False, **settings: str
    ) -> None:
        self.sources = sources
        self.turn = threading.Lock()
        """Held by a fault that waits for roles to be up again."""
        self.cancelled_batches: set[str] = set()
        """Batches whose flow runs were cancelled in Prefect."""
        self.suspended = 0
        """Flow runs that were suspended in Prefect."""
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
        """Whether the folder is a small disk of its own now."""
        folder.mkdir(mode=0o755)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "faults", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            return False
        stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)
        return True

    def _prefect(self, stack: ExitStack) -> dict[str, str]:
        """The operator's own, and the settings that lead there."""
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
        """The answer of Prefect's API to a person, whose network works; None for 404, and if none came for a while."""
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
        """By what is behind them."""
        others = {"prefect": self.prefect_network, "bucket": self.sources and self.sources.network}
        return {"postgres": self.network, **{name: one for name, one in others.items() if one}}

    def heal(self) -> None:
        """Everything passes at once again, wherever."""
        for network in self.networks.values():
            network.heal()

    def keep_logs(self, folder: Path) -> None:
        """A copy of those of all roles, PostgreSQL's and Prefect's."""
        shutil.copytree(self.service.home / "logs", folder, dirs_exist_ok=True)
        for log in (self.folder / "prefect.log", self.folder / "db" / "postgres.log"):
            if log.exists():
                shutil.copy(log, folder)

    def close(self) -> None:
        """End everything, whatever state it is in, and leave nothing."""
        self.heal()
        with suppress(AssertionError, OSError):
            self.postgres.signal(signal.SIGCONT)
        for role in self.roles():
            self.signal(role, signal.SIGCONT)
        self.service.client.close()
        self._stack.close()

    def roles(self) -> dict[str, Process]:
        """Living processes by role; of the worker's own `fork server`, `embedder`, and `child`, which runs a flow."""
        record = instance.load_record(self.service.home)
        found = (
            {one.name: Process(one.pid, one.started) for one in record.roles if one.pid and one.started}
            if record
            else {}
        )
        if record:
            found["supervisor"] = record.supervisor
        if self.prefect is not None and (process := self.prefect.process):
            found["prefect"] = process
        if "worker" in found:
            found |= _of_worker(found["worker"].pid)
        return {name: process for name, process in found.items() if process.is_alive()}

    def signal(self, role: str, number: signal.Signals) -> bool:
        """Whether there was such a process."""
        process = self.roles().get(role)
        if process is not None:
            process.send_signal(number)
        return process is not None

    def until_up(self) -> None:
        """Until the supervisor says that every role is up."""
        deadline = time.monotonic() + UP_SECONDS
        while True:
            record = instance.load_record(self.service.home)
            if record and record.supervisor.is_alive() and all(one.state in {"up", "done"} for one in record.roles):
                return
            states = {one.name: one.state for one in record.roles} if record else {}
            assert time.monotonic() < deadline, f"not all roles are up {UP_SECONDS:.0f} s after the faults: {states}"
            time.sleep(0.2)


def _of_worker(pid: int) -> dict[str, Process]:
    """The processes that a worker starts, by role."""
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
    found, waiting = [], [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):
                below = [int(one) for one in task.read_text().split()]
                waiting += below
                found += [one for child in below if (one := Process.from_pid(child))]
    return [one for one in sorted(found, key=lambda one: -one.started) if _is_python(one.pid)]


def _is_python(pid: int) -> bool:
    with suppress(OSError):
        return "python" in Path(f"/proc/{pid}/exe").readlink().name
    return False
