"""Supervisor: starts each role once those before it are ready, restarts a role that dies, and ends all in order.

One thread, one loop, and child processes that the kernel ends with this one.
"""

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

from local import REFUSED, LocalError, instance, logs, processes
from local.instance import Record, RoleRecord, RoleState
from local.logs import Watch
from local.processes import Identity, Process

_TICK = 0.1
_READY = ("up", "done")
_DEATHS_WINDOW = 60.0
_DEATHS = 6
_DEATHS_BEFORE_READY = 3
_LONGEST_PAUSE = 8.0
_LOOK_AGAIN = 1.0
_BOUND_LOGS_EVERY = 30.0
_READ_LOGS_EVERY = 2.0
_ASK_EVERY = 5.0
"""Seconds between two questions to a role that is up whether it still answers."""


class Stopped(Exception):
    """Request to stop the instance."""


@dataclass(frozen=True, slots=True)
class Role:
    """Program of a role. `ready` is called until True; `grace`: seconds it may take to end before it is killed."""

    name: str
    command: list[str]
    environment: dict[str, str]
    folder: Path
    ready: Callable[[], bool] = lambda: True
    after: tuple[str, ...] = ()
    """Roles that must be up, or done, before it is started for the first time."""
    after_end: tuple[str, ...] = ()
    """Errands that must be done before that."""
    is_setup_step: bool = False
    """It ends by itself, such as the migrations, and is not restarted; any exit code but 0 stops everything."""
    address: str | None = None
    stop_signal: int = signal.SIGTERM
    grace: float = 4.0
    settle: float = 0.0
    """Seconds it must have lived to count as ready."""
    identity: Identity = field(default_factory=Identity)
    prepare: Callable[[], object] | None = None
    """Runs before each restart."""
    lacks: Callable[[], str | None] | None = None
    """What it cannot run without and a person has to see to, as a sentence; it is restarted once that is there."""
    silent_for: float | None = None
    """Seconds without a yes from `ready` after which a role that was up is killed and restarted; None: never."""


@dataclass(slots=True)
class _Child:
    role: Role
    record: RoleRecord
    watch: Watch
    process: subprocess.Popen[bytes] | None = None
    log_offset: int = 0
    was_ready: bool = False
    deaths: deque[float] = field(default_factory=deque)
    due: float = 0.0
    """When to restart it, or to ask it again."""
    lacked: str | None = None
    silent_since: float | None = None


class Supervisor:
    """Holds the children of one home. Only the main thread may call it: the children end with that thread."""

    def __init__(self, home: Path, record: Record, say: Callable[[str], None]) -> None:
        self._home = home
        self._record = record
        self._say = say
        self._children: dict[str, _Child] = {}
        self._stop_requests = 0
        self._next_bound = 0.0
        self._next_read = 0.0
        self._is_saved = True

    def handle_signals(self) -> None:
        """Handle SIGINT and SIGTERM: the first asks for an orderly end, a second one for a quick one."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def add(self, role: Role) -> None:
        """Start a role as soon as those it comes after are ready. Roles end in the reverse order of their addition."""
        record = RoleRecord(role.name, address=role.address)
        self._record.roles.append(record)
        self._children[role.name] = _Child(role, record, Watch(logs.log_path(self._home, role.name), record.errors))

    def wait_ready(self, seconds: float, report: Callable[[Sequence[RoleRecord]], None] = lambda _: None) -> None:
        """Wait until every role is up, or done; LocalError names one that is not in time.

        `report` is called with all roles after each look at them.
        """
        deadline = time.monotonic() + seconds
        while late := [child for child in self._children.values() if not _is_started(child)]:
            if time.monotonic() > deadline:
                name = next((child for child in late if child.process), late[0]).role.name
                raise LocalError(f"{name} was not ready within {seconds:.0f} s.\n{self._last_words(name)}")
            self.tick()
            report(self._record.roles)

    def watch(self) -> None:
        """Watch the roles until a stop is requested (Stopped) or a role cannot be kept alive (LocalError)."""
        while True:
            self.tick()

    def tick(self) -> None:
        """Look at every child once; start and restart what is due."""
        time.sleep(_TICK)
        if self._stop_requests:
            raise Stopped
        for child in self._children.values():
            self._look_at(child)
        clock = time.monotonic()
        if clock > self._next_read:
            self._next_read = clock + _READ_LOGS_EVERY
            changes = [child.watch.read_errors(time.time()) for child in self._children.values()]
            if any(changes):
                self._save()
        if clock > self._next_bound:
            self._next_bound = clock + _BOUND_LOGS_EVERY
            if not self._is_saved:
                self._save()
            logs.bound_logs(self._home)

    def stop(self, report: Callable[[str], None] = lambda _: None) -> None:
        """End the roles, each in its grace, then whatever they left; a second signal shortens it.

        `report` is called with the name of the role that is waited for.
        """
        self._record.phase = "stopping"
        self._save()
        for child in reversed(self._children.values()):
            if child.process is not None:
                self._end(child, child.process, report)
        processes.end_processes(processes.list_carrying(self._record.token), grace=1)

    def _end(self, child: _Child, process: subprocess.Popen[bytes], report: Callable[[str], None]) -> None:
        stop_requests = max(self._stop_requests, 1)
        if process.poll() is None and not child.role.is_setup_step:
            process.send_signal(child.role.stop_signal)
            deadline = time.monotonic() + child.role.grace
            while process.poll() is None and time.monotonic() < deadline and self._stop_requests <= stop_requests:
                report(child.role.name)
                time.sleep(0.05)
        _kill_group(process)
        process.wait()
        child.record.pid = None
        if child.record.state != "done":
            self._mark(child, "stopped")

    def _look_at(self, child: _Child) -> None:
        role, clock = child.role, time.monotonic()
        if child.process is None:
            if child.record.state == "waiting" and self._may_start(role):
                self._spawn(child)
            elif child.record.state == "restarting" and clock >= child.due:
                self._restart(child)
        elif (code := child.process.poll()) is not None:
            self._on_exit(child, child.process, code)
        elif child.record.state == "starting":
            if time.time() - (child.record.since or 0) >= role.settle and role.ready():
                child.was_ready = True
                self._mark(child, "up")
                if child.record.restarts:
                    self._say(f"{role.name} is up again.")
        elif role.silent_for and clock >= child.due:
            child.due = clock + _ASK_EVERY
            self._ask(child, child.process, role.silent_for)

    def _may_start(self, role: Role) -> bool:
        is_after = all(self._children[name].record.state in _READY for name in role.after)
        return is_after and all(self._children[name].record.state == "done" for name in role.after_end)

    def _ask(self, child: _Child, process: subprocess.Popen[bytes], silent_for: float) -> None:
        """Kill a role that has not answered for `silent_for` seconds; its death is then handled as any other."""
        if child.role.ready():
            child.silent_since = None
            self._mark(child, "up")
            return
        clock = time.monotonic()
        if child.silent_since is None:
            child.silent_since = clock
        elif clock - child.silent_since < silent_for:
            self._mark(child, "stalled")
        else:
            child.silent_since = None
            self._say(f"{child.role.name} has not answered for {silent_for:.0f} s: it is ended and started again.")
            _kill_group(process)

    def _restart(self, child: _Child) -> None:
        """Restart a role. If a dependency is missing, look again soon: it would die of the same, and then everything
        would be stopped."""
        lacks = child.role.lacks() if child.role.lacks else None
        if lacks and lacks != child.lacked:
            self._say(f"{child.role.name} is not started: {lacks}")
        child.lacked = lacks
        if lacks:
            child.due = time.monotonic() + _LOOK_AGAIN
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
            self._mark(child, "stopped" if code else "done")
            if code == REFUSED:
                raise LocalError(logs.read_tail(self._home, name, since=child.log_offset, lines=1).strip())
            if code:
                raise LocalError(f"{name} failed ({_reason(code)}).\n{self._last_words(name, child.log_offset)}")
            return
        child.deaths.append(clock)
        while child.deaths[0] < clock - _DEATHS_WINDOW:
            child.deaths.popleft()
        story = f"{name} died ({_reason(code)}).\n{logs.read_tail(self._home, name, since=child.log_offset)}"
        limit = _DEATHS if child.was_ready else _DEATHS_BEFORE_READY
        if len(child.deaths) >= limit and not (child.role.lacks and child.role.lacks()):
            raise LocalError(
                f"{story}\n  It died {len(child.deaths)} times within a minute; everything is stopped. "
                f"Its log: {logs.log_path(self._home, name)}"
            )
        pause = min(_LONGEST_PAUSE, 0.5 * 2 ** (len(child.deaths) - 1))
        child.due = clock + pause
        self._mark(child, "restarting")
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
                preexec_fn=processes.end_with_parent(role.stop_signal),  # noqa: PLW1509
            )
        started = Process.of(child.process.pid)
        record.pid, record.started = child.process.pid, started.started if started else None
        record.since = time.time()
        self._mark(child, "starting")

    def _last_words(self, name: str, since: int = 0) -> str:
        return f"{logs.read_tail(self._home, name, since=since)}\n  Its log: {logs.log_path(self._home, name)}"

    def _mark(self, child: _Child, state: RoleState) -> None:
        if child.record.state != state:
            child.record.state = state
            self._save()

    def _save(self) -> None:
        """On a full disk the last state stays; what happens next is written when there is room again."""
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


def _reason(code: int) -> str:
    """A return code in words: a signal by its name."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
