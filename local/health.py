"""Health of an instance: probes of roles, `retrieval ready` and `retrieval status`."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg

from local import LocalError, environment, instance, logs, postgres, probes
from local.instance import InstanceRecord, RoleRecord
from local.processes import Process
from retrieval import readiness
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.readiness import DispatchState, roles
from retrieval.settings import Settings

ResultT = TypeVar("ResultT")
STATUS_SECONDS: Final = 5.0
DATABASE_SILENT: Final = "The database does not answer."
# Phase of a running instance that cannot store data.
NOT_WRITING_PHASE = "not writing"
# Names and probe paths; the API is probed as by a load balancer.
SERVER_PROBES = {
    "api": ("The API", "/ready?for=requests"),
    "prefect": ("Prefect", "/api/health"),
    "ui": ("The admin app", "/_stcore/health"),
}
PROBED_ROLES = (*SERVER_PROBES, "dispatcher", "worker")
# File with the role that was last started by its own command.
_STARTED_ROLE_FILE = "role"


def remember_role(home: Path, role: str) -> None:
    """Store the default role of `probe_role`."""
    if role in PROBED_ROLES:
        (home / _STARTED_ROLE_FILE).write_text(role)


def probe_role(options: Namespace, settings: Settings) -> int:
    """Print `ready` and return 0, or print the reasons and return 3."""
    role = options.role
    if role is None:
        file = settings.home / _STARTED_ROLE_FILE
        role = file.read_text() if file.exists() else ""
        if role not in PROBED_ROLES:
            message = f"No role was started by its own command in {settings.home}: name one, such as"
            raise LocalError(f"{message} `retrieval ready api`.", exit_code=2)
    reasons = _probe_server(role, settings) if role in SERVER_PROBES else _probe_database_role(role, settings)
    print("\n".join(reasons) or "ready")
    return 3 if reasons else 0


def _probe_server(role: str, settings: Settings) -> tuple[str, ...]:
    running = instance.find_running(settings.home)
    host, port = getattr(settings, f"{role}_host"), getattr(settings, f"{role}_port")
    own_address = instance.build_url(host, port) + (
        instance.find_ui_path(settings.ui_public_url) if role == "ui" else ""
    )
    address = (running.addresses.get(role) if running else None) or own_address
    name, path = SERVER_PROBES[role]
    address = address.removesuffix("/api") if role == "prefect" else address
    return () if probes.is_answering(address + path) else (f"{name} at {address} is not ready.",)


def _probe_database_role(role: str, settings: Settings) -> tuple[str, ...]:
    is_worker = role == "worker"
    resolved = environment.resolve_addresses(settings, needs_prefect=is_worker)
    try:
        with closing(Database(resolved.database_url, size=1)) as db:
            reasons = (roles.worker_problems if is_worker else roles.dispatcher_problems)(db, settings)
    except (*UNAVAILABLE_ERRORS, psycopg.Error):
        return (DATABASE_SILENT,)
    if is_worker and not reasons:
        prefect, host = resolved.prefect_api_url or "", os.uname().nodename
        login = environment.build_variables("worker", settings, resolved)
        if not probes.is_worker_online(prefect, settings.work_pool, f"{host}-", login, datetime.fromtimestamp(0, UTC)):
            return (f"Prefect at {prefect} lists no worker of {host} as online in the pool {settings.work_pool}.",)
    return reasons


def print_status(options: Namespace, settings: Settings) -> int:
    """Print the roles and the state of dispatch; return 0 if all is well, else 3."""
    home = settings.home.resolve()
    record = instance.load_record(home)
    if record is None or not record.supervisor.is_alive():
        if options.json:
            states = [_describe_role(role, alive=False) for role in record.roles] if record else []
            _print_json(home, "stopped", states, {"healthy": False, "dispatch": None, "disk": None})
        else:
            print(f"Nothing runs in {home}." + (" The last instance was not stopped cleanly." if record else ""))
        return 3
    states = [_describe_role(role, alive=True) for role in record.roles]
    ready = record.phase == "ready"
    is_dispatching = ready and any(role["role"] == "dispatcher" and role["state"] == "up" for role in states)
    free, problem = check_disk(settings, ready=ready)
    dispatch = _read_dispatch(settings) if is_dispatching and problem != DATABASE_SILENT else None
    for role in states:
        if role["role"] == "dispatcher" and role["state"] == "up" and dispatch and dispatch.stalled:
            role["state"] = "stalled"
    healthy = ready and problem is None and all(role["state"] in ("up", "done") for role in states)
    if is_dispatching:
        healthy = healthy and dispatch is not None and not dispatch.is_held
    if options.json:
        details = {"healthy": healthy, "dispatch": dispatch and _dispatch_json(dispatch)}
        details["disk"] = {"freeBytes": free, "problem": problem}
        _print_json(home, NOT_WRITING_PHASE if problem else record.phase, states, details)
    else:
        supervisor = f"(supervisor {record.pid})"
        free_words = f"{record.phase} {supervisor}, {free / 1e9:.1f} GB free"
        print(f"{NOT_WRITING_PHASE} {supervisor}: {problem}" if problem else free_words)
        print(_format_table(states))
        for line in (*_repeated_errors(home, record), *(_describe_dispatch(dispatch) if is_dispatching else ())):
            print(line)
        for warning in _warnings():
            print(f"warning: {warning}")
    return 0 if healthy else 3


def _print_json(home: Path, phase: str, states: list[dict[str, Any]], details: dict[str, Any]) -> None:
    head = {"home": str(home), "phase": phase, "healthy": details["healthy"], "roles": states}
    print(json.dumps(head | details | {"warnings": _warnings()}, indent=2))


def _warnings() -> list[str]:
    from connectors import registry

    return registry.list_parser_warnings()


def check_disk(settings: Settings, *, ready: bool = True) -> tuple[int, str | None]:
    """Return free bytes and the reason why nothing can be stored, or None, within STATUS_SECONDS."""
    # `ready`: the database is expected to answer.
    data = settings.home / "postgres"
    folder = data if data.exists() else settings.home
    free = shutil.disk_usage(folder).free
    if free < postgres.RECOVERY_BYTES:
        return free, f"The disk of {folder} is full: {free >> 20} MB are free. Nothing can be stored: make room."
    try:
        return free, _query_in_time(settings, roles.write_problem)
    except (TimeoutError, *UNAVAILABLE_ERRORS):
        return free, DATABASE_SILENT if ready else None
    except (LocalError, psycopg.Error):
        return free, None


def _read_dispatch(settings: Settings) -> DispatchState | None:
    """Return the state of dispatch; None without an answer within STATUS_SECONDS."""
    try:
        return _query_in_time(settings, readiness.read_dispatch)
    except (TimeoutError, LocalError, *UNAVAILABLE_ERRORS, psycopg.Error):
        return None


def _query_in_time(settings: Settings, query: Callable[[Database], ResultT]) -> ResultT:
    """Query the database in a daemon thread; raise TimeoutError after STATUS_SECONDS."""
    result: Future[ResultT] = Future()

    def run() -> None:
        try:
            with closing(Database(environment.resolve_addresses(settings).database_url, size=1)) as db:
                result.set_result(query(db))
        except BaseException as error:  # noqa: BLE001 - it is raised to the caller
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result.result(STATUS_SECONDS)


def _dispatch_json(dispatch: DispatchState) -> dict[str, Any]:
    """Return dispatch as JSON, with ages in seconds."""
    return {
        "stalled": dispatch.stalled,
        "held": dispatch.is_held,
        "levers": [lever.effect for lever in dispatch.levers],
        "reasons": list(dispatch.reasons),
        "oldestWaitingSeconds": None if dispatch.waiting is None else round(dispatch.waiting, 1),
        "openBreakers": dispatch.breakers,
        "loops": [
            {"loop": loop.name, "lastSuccessSeconds": round(loop.age, 1), "late": loop.late, "reason": loop.reason}
            for loop in dispatch.loops
        ],
    }


def _describe_dispatch(dispatch: DispatchState | None) -> Iterator[str]:
    """Yield lines on dispatch: stalls, late loops, waiting work."""
    if dispatch is None:
        yield "dispatch: unknown, since the database does not answer"
        return
    state = "held in Prefect" if dispatch.is_held else "stalled" if dispatch.stalled else "running"
    waits = "" if dispatch.waiting is None else f", the oldest job run has waited for {dispatch.waiting:.0f} s"
    yield f"dispatch: {state}{waits}"
    yield from (f"  {lever.effect}" for lever in dispatch.levers)
    yield from (f"  {reason}" for reason in dispatch.reasons)
    if dispatch.breakers:
        yield f"  Vendors and sites that do not respond; their job runs wait: {dispatch.breakers}"
    yield from (f"  {loop}" for loop in dispatch.late if str(loop) not in dispatch.reasons)


def _describe_role(role: RoleRecord, *, alive: bool) -> dict[str, Any]:
    process = Process(role.pid, role.started) if role.pid and role.started else None
    is_alive = process is not None and process.is_alive()
    state = role.state if alive and (is_alive or role.state in ("waiting", "done", "restarting")) else "stopped"
    return {
        "role": role.name,
        "state": state,
        "pid": role.pid if is_alive else None,
        "uptimeSeconds": round(time.time() - role.since) if is_alive and role.since else None,
        "restarts": role.restarts,
        "address": role.address,
        "repeatedErrors": [asdict(series) for series in role.errors if alive and series.is_repeated(time.time())],
    }


def _repeated_errors(home: Path, record: InstanceRecord) -> Iterator[str]:
    """Yield a sentence for each repeated error in a role's log."""
    clock = time.time()
    for role in record.roles:
        for series in role.errors:
            if series.is_repeated(clock):
                times = f"{series.count} times within {_format_duration(int(series.last - series.first))}"
                age = int(clock - series.last)
                yield f"\n{role.name} repeats an error ({times}, last {age} s ago):\n    {series.message}"
                yield f"  Its log: {logs.log_path(home, role.name)}"


def _format_table(states: list[dict[str, Any]]) -> str:
    rows = [["role", "state", "pid", "uptime", "restarts", "address"]]
    for state in states:
        cells = ["-" if value is None else str(value) for value in list(state.values())[:6]]
        uptime = state["uptimeSeconds"]
        rows.append([*cells[:3], "-" if uptime is None else _format_duration(uptime), *cells[4:]])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _format_duration(seconds: int) -> str:
    hours, remainder = divmod(seconds, 3600)
    return f"{hours}:{remainder // 60:02}:{remainder % 60:02}"
