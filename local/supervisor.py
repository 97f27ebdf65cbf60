"""Supervisor: starts roles in dependency order, restarts dead ones, ends all in order."""
# One thread, one loop; the kernel ends the children with this process.

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from local import REFUSED_EXIT_CODE, LocalError, instance, logs, processes
from local.instance import InstanceRecord, RoleRecord, RoleState
from local.logs import LogWatch
from local.processes import Identity, Process

_TICK_SECONDS = 0.1
_READY_STATES = ("up", "done")
_DEATHS_WINDOW_SECONDS = 60.0
_MAX_DEATHS = 6
_MAX_DEATHS_BEFORE_READY = 3
_MAX_PAUSE_SECONDS = 8.0
_DEPENDENCY_CHECK_SECONDS = 1.0
_BOUND_LOGS_SECONDS = 30.0
_READ_LOGS_SECONDS = 2.0
# Interval of probes of a running role.
_PROBE_SECONDS = 5.0


class StopRequested(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Role:
    """Program of a role with its dependencies and probes."""

    name: str
    command: list[str]
    environment: dict[str, str]
    folder: Path
    ready: Callable[[], bool] = lambda: True
    # Roles that must be up or done first.
    after: tuple[str, ...] = ()
    # Setup steps that must be done first.
    after_done: tuple[str, ...] = ()
    # Ends by itself and is not restarted; another exit code than 0 stops everything.
    is_setup_step: bool = False
    address: str | None = None
    stop_signal: int = signal.SIGTERM
    # Wait between the stop signal and SIGKILL.
    stop_seconds: float = 4.0
    # Seconds of life before it counts as ready.
    settle_seconds: float = 0.0
    identity: Identity = field(default_factory=Identity)
    # Runs before each restart.
    prepare: Callable[[], object] | None = None
    # Returns a problem that a person must solve, as a sentence; the role restarts afterwards.
    describe_problem: Callable[[], str | None] | None = None
    # Seconds without readiness after which a running role is killed; None: never.
    max_silent_seconds: float | None = None


@dataclass(slots=True)
class _Child:
    role: Role
    record: RoleRecord
    watch: LogWatch
    process: subprocess.Popen[bytes] | None = None
    log_offset: int = 0
    was_ready: bool = False
    deaths: deque[float] = field(default_factory=deque)
    restart_at: float = 0.0
    probe_at: float = 0.0
    shown_problem: str | None = None
    silent_since: float | None = None


class Supervisor:
    """Children of a home; only the main thread may call, because children end with their thread."""

    def __init__(self, home: Path, record: InstanceRecord, say: Callable[[str], None]) -> None:
        self._home = home
        self._record = record
        self._say = say
        self._children: dict[str, _Child] = {}
        self._stop_requests = 0
        self._next_bound = 0.0
        self._next_read = 0.0
        self._is_saved = True

    def handle_signals(self) -> None:
        """Handle signals: the first requests an orderly end, the second a quick one."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def add_role(self, role: Role) -> None:
        """Add a role, to start when its dependencies are ready."""
        record = RoleRecord(role.name, address=role.address)
        self._record.roles.append(record)
        self._children[role.name] = _Child(role, record, LogWatch(logs.log_path(self._home, role.name), record.errors))

    def wait_ready(self, seconds: float, report: Callable[[Sequence[RoleRecord]], None] = lambda _: None) -> None:
        """Wait until every role is up or done; raise LocalError for a late role."""
        # `report` receives all roles after each check.
        deadline = time.monotonic() + seconds
        while pending := [child for child in self._children.values() if not _is_started(child)]:
            if time.monotonic() > deadline:
                name = next((child for child in pending if child.process), pending[0]).role.name
                raise LocalError(f"{name} was not ready within {seconds:.0f} s.\n{self._describe_end(name)}")
            self.check_roles()
            report(self._record.roles)

    def watch_roles(self) -> None:
        """Watch the roles; raise StopRequested or, for a role that died too often, LocalError."""
        while True:
            self.check_roles()

    def check_roles(self) -> None:
        """Check every child once; start and restart due ones."""
        time.sleep(_TICK_SECONDS)
        if self._stop_requests:
            raise StopRequested
        for child in self._children.values():
            self._check_child(child)
        clock = time.monotonic()
        if clock > self._next_read:
            self._next_read = clock + _READ_LOGS_SECONDS
            changes = [child.watch.read_errors(time.time()) for child in self._children.values()]
            if any(changes):
                self._save_record()
        if clock > self._next_bound:
            self._next_bound = clock + _BOUND_LOGS_SECONDS
            if not self._is_saved:
                self._save_record()
            logs.bound_logs(self._home)

    def stop_roles(self, report: Callable[[str], None] = lambda _: None) -> None:
        """End the roles within their grace, then remaining processes; a second signal ends at once."""
        # `report` receives the name of the ending role.
        self._record.phase = "stopping"
        self._save_record()
        for child in reversed(self._children.values()):
            if child.process is not None:
                self._end_child(child, child.process, report)
        processes.end_processes(processes.list_carrying(self._record.token), grace=1)

    def _end_child(self, child: _Child, process: subprocess.Popen[bytes], report: Callable[[str], None]) -> None:
        stop_requests = max(self._stop_requests, 1)
        if process.poll() is None and not child.role.is_setup_step:
            process.send_signal(child.role.stop_signal)
            deadline = time.monotonic() + child.role.stop_seconds
            while process.poll() is None and time.monotonic() < deadline and self._stop_requests <= stop_requests:
                report(child.role.name)
                time.sleep(0.05)
        _kill_group(process)
        process.wait()
        child.record.pid = None
        if child.record.state != "done":
            self._set_state(child, "stopped")

    def _check_child(self, child: _Child) -> None:
        role, clock = child.role, time.monotonic()
        if child.process is None:
            if child.record.state == "waiting" and self._may_start(role):
                self._spawn(child)
            elif child.record.state == "restarting" and clock >= child.restart_at:
                self._restart(child)
        elif (code := child.process.poll()) is not None:
            self._on_exit(child, child.process, code)
        elif child.record.state == "starting":
            if time.time() - (child.record.since or 0) >= role.settle_seconds and role.ready():
                child.was_ready = True
                self._set_state(child, "up")
                if child.record.restarts:
                    self._say(f"{role.name} is up again.")
        elif role.max_silent_seconds and clock >= child.probe_at:
            child.probe_at = clock + _PROBE_SECONDS
            self._probe_child(child, child.process, role.max_silent_seconds)

    def _may_start(self, role: Role) -> bool:
        is_after = all(self._children[name].record.state in _READY_STATES for name in role.after)
        return is_after and all(self._children[name].record.state == "done" for name in role.after_done)

    def _probe_child(self, child: _Child, process: subprocess.Popen[bytes], max_silent_seconds: float) -> None:
        """Kill a role without an answer for `max_silent_seconds` seconds; its death is handled as any other."""
        if child.role.ready():
            child.silent_since = None
            self._set_state(child, "up")
            return
        clock = time.monotonic()
        if child.silent_since is None:
            child.silent_since = clock
        elif clock - child.silent_since < max_silent_seconds:
            self._set_state(child, "stalled")
        else:
            child.silent_since = None
            self._say(
                f"{child.role.name} has not answered for {max_silent_seconds:.0f} s: it is ended and started again."
            )
            _kill_group(process)

    def _restart(self, child: _Child) -> None:
        """Restart a role; with a missing dependency, check again soon."""
        # Without its dependency it would die repeatedly, and that stops everything.
        problem = child.role.describe_problem() if child.role.describe_problem else None
        if problem and problem != child.shown_problem:
            self._say(f"{child.role.name} is not started: {problem}")
        child.shown_problem = problem
        if problem:
            child.restart_at = time.monotonic() + _DEPENDENCY_CHECK_SECONDS
            child.deaths.clear()
            return
        if child.role.prepare:
            child.role.prepare()
        child.record.restarts += 1
        self._spawn(child)

    def _on_exit(self, child: _Child, process: subprocess.Popen[bytes], code: int) -> None:
        name, clock = child.role.name, time.monotonic()
        _kill_group(process)
        child.process = child.record.pid = None
        if child.role.is_setup_step:
            self._set_state(child, "stopped" if code else "done")
            if code == REFUSED_EXIT_CODE:
                raise LocalError(logs.read_tail(self._home, name, offset=child.log_offset, lines=1).strip())
            if code:
                raise LocalError(
                    f"{name} failed ({_describe_exit(code)}).\n{self._describe_end(name, child.log_offset)}"
                )
            return
        child.deaths.append(clock)
        while child.deaths[0] < clock - _DEATHS_WINDOW_SECONDS:
            child.deaths.popleft()
        story = f"{name} died ({_describe_exit(code)}).\n{logs.read_tail(self._home, name, offset=child.log_offset)}"
        limit = _MAX_DEATHS if child.was_ready else _MAX_DEATHS_BEFORE_READY
        if len(child.deaths) >= limit and not (child.role.describe_problem and child.role.describe_problem()):
            raise LocalError(
                f"{story}\n  It died {len(child.deaths)} times within a minute; everything is stopped. "
                f"Its log: {logs.log_path(self._home, name)}"
            )
        pause = min(_MAX_PAUSE_SECONDS, 0.5 * 2 ** (len(child.deaths) - 1))
        child.restart_at = clock + pause
        self._set_state(child, "restarting")
        self._say(f"{story}\n  It is started again in {pause:g} s.")

    def _spawn(self, child: _Child) -> None:
        role, record = child.role, child.record
        with logs.open_log(self._home, role.name) as log:
            child.log_offset = log.tell()
            child.process = subprocess.Popen(
                role.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=role.folder,
                env=role.environment,
                start_new_session=True,
                **role.identity.process_options,
                # Safe here: this program has one thread, and its children do nothing else before exec.
                preexec_fn=processes.make_parent_death_hook(role.stop_signal),  # noqa: PLW1509
            )
        started = Process.from_pid(child.process.pid)
        record.pid, record.started = child.process.pid, started.started if started else None
        record.since = time.time()
        child.probe_at = 0.0
        self._set_state(child, "starting")

    def _describe_end(self, name: str, since: int = 0) -> str:
        return f"{logs.read_tail(self._home, name, offset=since)}\n  Its log: {logs.log_path(self._home, name)}"

    def _set_state(self, child: _Child, state: RoleState) -> None:
        if child.record.state != state:
            child.record.state = state
            self._save_record()

    def _save_record(self) -> None:
        """Save the record; a full disk keeps the last state until there is room."""
        try:
            instance.save_record(self._home, self._record)
            self._is_saved = True
        except OSError:
            self._is_saved = False

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stop_requests += 1


def _is_started(child: _Child) -> bool:
    return child.record.state == ("done" if child.role.is_setup_step else "up")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _describe_exit(code: int) -> str:
    """Describe a return code, a signal by its name."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
