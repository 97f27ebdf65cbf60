"""An operator's PostgreSQL on TCP in its own folder, with kill and restart."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

import psycopg

from local import postgres, processes
from local.database_roles import DATABASE_NAME, USER_NAME

# Time for a start including recovery.
SECONDS = 60.0


class OwnPostgres:
    """PostgreSQL with the programs and data of the embedded one."""

    def __init__(self, home: Path) -> None:
        self._home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, port: int = 0, database: str = DATABASE_NAME) -> str:
        """URL of its database, optionally through another port."""
        password = (self._home / "postgres.password").read_text().strip()
        return f"postgresql://{USER_NAME}:{password}@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Start and wait for an answer."""
        deadline = time.monotonic() + SECONDS
        while not self._started(deadline):
            assert time.monotonic() < deadline, (self._home / "postgres.log").read_text()[-2000:]
            time.sleep(0.5)

    def _started(self, deadline: float) -> bool:
        """Return False after an immediate exit; its port may be busy."""
        cluster = postgres.prepare(self._home)
        self._reap()
        with (self._home / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*postgres.build_command(cluster), "-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=cluster.identity.user,
                group=cluster.identity.group,
                extra_groups=None if cluster.identity.user is None else [],
            )
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url(database="postgres"), autocommit=True, connect_timeout=5) as connection:
                if not connection.execute("select 1 from pg_database where datname = 'retrieval'").fetchone():
                    connection.execute("create database retrieval")
        except psycopg.OperationalError:
            return False
        return True

    def until_up(self) -> None:
        """Wait for an answer; restart an exited server."""
        deadline = time.monotonic() + SECONDS
        while not self._answers() and time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                return self.start()
            time.sleep(0.5)
        return None

    def kill(self) -> None:
        """Kill all its processes."""
        for process in self._processes():
            process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        """Stop in order; open connections end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            process.send_signal(number)

    def remove(self) -> None:
        """Stop and delete."""
        self.signal(signal.SIGCONT)
        self.stop()
        postgres.stop(self._home)
        self._reap()

    def _processes(self) -> list[processes.Process]:
        return processes.list_working_in((self._home / "postgres").resolve(), "postgres")

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait(30)
            self._process = None
