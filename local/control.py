"""`up`, `down`, `status` and `env`, as a person or a script calls them."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from local import banner, disk, dispatch_status, instance, logs, postgres, processes
from local import up as compose
from local.errors import LocalError
from local.instance import Record, RoleRecord
from local.processes import Process
from retrieval.settings import PROJECT, Settings

_DETACHED_SECONDS = 300.0
_STOP_SECONDS = 45.0
NOT_WRITING = "not writing"
"""The phase that `status` shows of an instance that is up and can store nothing."""


def say(line: str) -> None:
    """Print a line; it is lost if the output is on a full disk."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def up(settings: Settings, *, show_key: bool) -> int:
    compose.up(settings, say, show_key=show_key)
    return 0


def up_detached(settings: Settings) -> int:
    """Start an instance in a session of its own; back when it is ready, or with the reason why it is not."""
    home = settings.home.resolve()
    if instance.running(home):
        say(compose.already_running(home))
        return 0
    offset = _log_size(home)
    with logs.open_for(home, "up") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "local.cli", "up", "--for-a-log"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=PROJECT,
            start_new_session=True,
        )
    try:
        return _wait_until_ready(child, home, offset)
    except KeyboardInterrupt:
        child.send_signal(signal.SIGTERM)
        child.wait(timeout=_STOP_SECONDS)
        raise


def down(settings: Settings) -> int:
    """Stop the instance of this home, or a database that runs there alone."""
    home = settings.home.resolve()
    record = instance.load(home)
    if record is None and not home.exists():
        say(f"Nothing runs in {home}.")
        return 0
    was_running = record is not None and record.supervisor.alive()
    if record and was_running:
        processes.end([record.supervisor], first=signal.SIGTERM, grace=_STOP_SECONDS)
    lock = instance.lock(home)
    if lock is None:
        raise LocalError(f"Another `retrieval up` is starting in {home}: try again in a moment.")
    instance.clear(home)
    had_database = postgres.stop(home)
    if was_running:
        say(f"Stopped the instance in {home}.")
    else:
        say(f"Stopped the database in {home}." if had_database else f"Nothing runs in {home}.")
    return 0


def status(settings: Settings, *, as_json: bool) -> int:
    """Print the roles and the state of dispatch; 0 if all roles are up and work proceeds, else 3."""
    home = settings.home.resolve()
    record = instance.load(home)
    alive = record is not None and record.supervisor.alive()
    roles = [_seen(role, alive=alive) for role in record.roles] if record else []
    ready = alive and record is not None and record.phase == "ready"
    is_asked = ready and any(map(_dispatches, roles))
    storage = disk.look(settings, ready=ready) if alive else None
    answers = storage is None or storage.problem != disk.SILENT
    dispatch = dispatch_status.seen(settings) if is_asked and answers else None
    if dispatch and dispatch.stalled:
        roles = [{**role, "state": "stalled"} if _dispatches(role) else role for role in roles]
    full = storage.problem if storage else None
    healthy = (
        ready and all(role["state"] in ("up", "done") for role in roles) and (not is_asked or dispatch is not None)
    )
    healthy = healthy and full is None and not (dispatch and dispatch.is_held)
    if as_json:
        phase = (NOT_WRITING if full else record.phase) if record and alive else "stopped"
        dispatch_json = dispatch_status.as_json(dispatch) if dispatch else None
        whole = {"home": str(home), "phase": phase, "healthy": healthy, "roles": roles, "dispatch": dispatch_json}
        whole["disk"] = disk.as_json(storage) if storage else None
        whole["warnings"] = _warnings()
        say(json.dumps(whole, indent=2))
    elif record is None or not alive:
        say(f"Nothing runs in {home}." + (" The last instance did not end in order." if record else ""))
    else:
        say(_table(record, roles, storage))
        for line in (*_repeated(home, record), *(dispatch_status.lines(dispatch) if is_asked else ())):
            say(line)
        for warning in _warnings():
            say(f"warning: {warning}")
    return 0 if healthy else 3


def _warnings() -> list[str]:
    from connectors import registry

    return registry.parser_warnings()


def env(settings: Settings) -> int:
    """Print lines that set up a shell for the running instance. LocalError: nothing runs in this home."""
    home = settings.home.resolve()
    if instance.running(home) is None or not (home / "service.json").exists():
        raise LocalError(f"Nothing runs in {home}: start it with `retrieval up`.", exit_code=3)
    say(banner.variables(instance.service(home)))
    return 0


def _dispatches(role: dict[str, str | int | float | None]) -> bool:
    return role["role"] == "dispatcher" and role["state"] == "up"


def _wait_until_ready(child: subprocess.Popen[bytes], home: Path, offset: int) -> int:
    deadline = time.monotonic() + _DETACHED_SECONDS
    while child.poll() is None:
        record = instance.running(home)
        if record and record.pid == child.pid and record.phase == "ready":
            say(banner.text(instance.service(home)))
            child.returncode = 0  # it goes on without us: this program no longer waits for it
            return 0
        if time.monotonic() > deadline:
            child.send_signal(signal.SIGTERM)
            raise LocalError(f"It was not ready within {_DETACHED_SECONDS:.0f} s. Its log: {logs.path(home, 'up')}")
        time.sleep(0.1)
    print(logs.tail(home, "up", since=offset, lines=20), file=sys.stderr)
    print(f"It did not start. Its log: {logs.path(home, 'up')}", file=sys.stderr)
    return child.returncode or 1


def _log_size(home: Path) -> int:
    file = logs.path(home, "up")
    return file.stat().st_size if file.exists() else 0


def _seen(role: RoleRecord, *, alive: bool) -> dict[str, Any]:
    process = Process(role.pid, role.started) if role.pid and role.started else None
    is_alive = process is not None and process.alive()
    state = role.state if (is_alive or role.state in ("done", "restarting")) and alive else "stopped"
    uptime = round(time.time() - role.since) if is_alive and role.since else None
    pid = role.pid if is_alive else None
    return {
        "role": role.name,
        "state": state,
        "pid": pid,
        "uptimeSeconds": uptime,
        "restarts": role.restarts,
        "address": role.address,
        "repeatedErrors": [asdict(series) for series in role.errors if alive and series.repeats(time.time())],
    }


def _repeated(home: Path, record: Record) -> Iterator[str]:
    """A sentence for each error that a role's log repeats."""
    clock = time.time()
    for role in record.roles:
        for series in role.errors:
            if series.repeats(clock):
                times = f"{series.count} times within {_duration(int(series.last - series.first))}"
                age = int(clock - series.last)
                yield f"\n{role.name} repeats an error ({times}, last {age} s ago):\n    {series.message}"
                yield f"  Its log: {logs.path(home, role.name)}"


def _table(record: Record, roles: list[dict[str, Any]], storage: disk.Disk | None) -> str:
    head = ("role", "state", "pid", "uptime", "restarts", "address")
    rows = [tuple("-" if value is None else str(value) for value in [*role.values()][: len(head)]) for role in roles]
    rows = [(*row[:3], row[3] if row[3] == "-" else _duration(int(row[3])), *row[4:]) for row in rows]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    return "\n".join([_first_line(record, storage), *(line.rstrip() for line in lines)])


def _first_line(record: Record, storage: disk.Disk | None) -> str:
    """Phase and disk: the first line must not show an instance that stores nothing as ready."""
    if storage is None:
        return f"{record.phase} (supervisor {record.pid})"
    if storage.problem:
        return f"{NOT_WRITING} (supervisor {record.pid}): {storage.problem}"
    return f"{record.phase} (supervisor {record.pid}), {storage.words}"


def _duration(seconds: int) -> str:
    hours, remainder = divmod(seconds, 3600)
    return f"{hours}:{remainder // 60:02}:{remainder % 60:02}"
