"""Supervisor with small programs as roles: deaths are reported and repaired, nothing is left behind, steps shown."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import pytest

from local import REFUSED_EXIT_CODE, LocalError, instance, logs, processes
from local import supervisor as module
from local.console import Console
from local.instance import InstanceRecord, RoleRecord
from local.processes import Process
from local.supervisor import Role, StopRequested, Supervisor
from retrieval_client.cli.output import ProgressLine

pytestmark = pytest.mark.service

_STAYS = "import time; print('here', flush=True); time.sleep(60)"
_TOKEN = "0123456789abcdef"


@pytest.fixture
def messages() -> list[str]:
    return []


@pytest.fixture
def record() -> InstanceRecord:
    me = Process.from_pid(os.getpid())
    assert me is not None
    return InstanceRecord(me.pid, me.started, _TOKEN + str(os.getpid()))


@pytest.fixture
def supervisor(tmp_path: Path, record: InstanceRecord, messages: list[str]) -> Iterator[Supervisor]:
    started = Supervisor(tmp_path, record, messages.append)
    yield started
    started.stop_roles()
    assert processes.list_carrying(record.token) == []


def _role(record: InstanceRecord, tmp_path: Path, program: str, name: str = "sample") -> Role:
    environment = dict(os.environ) | {processes.TOKEN_VARIABLE: record.token}
    return Role(name, [sys.executable, "-c", program], environment, tmp_path, grace=1)


def _until(supervisor: Supervisor, fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not fact():
        assert time.monotonic() < deadline
        supervisor.check_roles()


def test_a_killed_role_is_started_again_and_its_death_is_told(
    supervisor: Supervisor, record: InstanceRecord, messages: list[str], tmp_path: Path
) -> None:
    supervisor.add_role(_role(record, tmp_path, _STAYS))
    supervisor.wait_ready(10)
    _until(supervisor, lambda: "here" in logs.read_tail(tmp_path, "sample"))
    first = record.roles[0].pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    _until(supervisor, lambda: record.roles[0].restarts == 1 and record.roles[0].state == "up")
    assert record.roles[0].pid != first
    assert "sample died (killed by SIGKILL)." in messages[0]
    assert "here" in messages[0]
    assert messages[-1] == "sample is up again."


def test_a_role_that_keeps_dying_stops_everything_with_its_last_words(
    supervisor: Supervisor, record: InstanceRecord, tmp_path: Path
) -> None:
    supervisor.add_role(_role(record, tmp_path, "raise SystemExit('the disk is full')"))
    with pytest.raises(LocalError, match=r"(?s)sample died \(exit code 1\).*the disk is full.*[36] times.*sample\.log"):
        _until(supervisor, lambda: False)


def test_a_role_that_lacks_something_is_waited_for_and_stops_nothing(
    supervisor: Supervisor, record: InstanceRecord, messages: list[str], tmp_path: Path
) -> None:
    # PostgreSQL on a full disk died six times in a minute and took the service down.
    room = tmp_path / "room"
    program = f"import pathlib, time; assert pathlib.Path({str(room)!r}).exists(), 'no room'; time.sleep(60)"
    plain = _role(record, tmp_path, program)
    supervisor.add_role(replace(plain, lacks=lambda: None if room.exists() else "there is no room. Make some."))
    _until(supervisor, lambda: record.roles[0].state == "restarting")
    ends = time.monotonic() + 5
    _until(supervisor, lambda: time.monotonic() > ends)
    assert record.roles[0].restarts == 0
    assert [line for line in messages if "not started" in line] == [
        "sample is not started: there is no room. Make some."
    ]
    room.touch()
    _until(supervisor, lambda: record.roles[0].restarts == 1 and record.roles[0].state == "up")


def test_a_role_that_does_not_answer_any_more_is_started_again(
    supervisor: Supervisor, record: InstanceRecord, messages: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A hung Prefect server keeps its process alive.
    monkeypatch.setattr(module, "_PROBE_SECONDS", 0.1)
    answers = tmp_path / "answers"
    answers.touch()
    supervisor.add_role(replace(_role(record, tmp_path, _STAYS), ready=answers.exists, silent_for=1.0))
    supervisor.wait_ready(10)
    first = record.roles[0].pid
    answers.unlink()
    _until(supervisor, lambda: record.roles[0].state == "stalled")
    assert record.roles[0].pid == first
    _until(supervisor, lambda: record.roles[0].restarts == 1)
    answers.touch()
    _until(supervisor, lambda: record.roles[0].state == "up")
    assert record.roles[0].pid != first
    assert "sample has not answered for 1 s: it is ended and started again." in messages


def test_a_role_starts_once_what_it_waits_for_is_up_or_done(
    supervisor: Supervisor, record: InstanceRecord, tmp_path: Path
) -> None:
    up = tmp_path / "up"
    supervisor.add_role(replace(_role(record, tmp_path, _STAYS, "server"), ready=up.exists))
    step = f"import pathlib; assert pathlib.Path({str(up)!r}).exists()"
    supervisor.add_role(replace(_role(record, tmp_path, step, "step"), is_setup_step=True, after=("server",)))
    supervisor.add_role(replace(_role(record, tmp_path, _STAYS, "last"), after_end=("step",)))
    _until(supervisor, lambda: record.roles[0].state == "starting")
    supervisor.check_roles()
    assert [role.state for role in record.roles] == ["starting", "waiting", "waiting"]
    up.touch()
    supervisor.wait_ready(20)
    assert [role.state for role in record.roles] == ["up", "done", "up"]
    assert record.roles[1].pid is None


def test_a_setup_step_that_fails_stops_everything_with_its_log(
    supervisor: Supervisor, record: InstanceRecord, tmp_path: Path
) -> None:
    program = "import sys; print('no such pool', file=sys.stderr); sys.exit(7)"
    supervisor.add_role(replace(_role(record, tmp_path, program, "register"), is_setup_step=True))
    with pytest.raises(LocalError, match=r"(?s)register failed \(exit code 7\).*no such pool"):
        supervisor.wait_ready(20)


def test_a_setup_step_that_refuses_is_told_by_its_last_line_alone(
    supervisor: Supervisor, record: InstanceRecord, tmp_path: Path
) -> None:
    program = f"import sys; print('...'); print('Set the key.', file=sys.stderr); sys.exit({REFUSED_EXIT_CODE})"
    supervisor.add_role(replace(_role(record, tmp_path, program, "migrate"), is_setup_step=True))
    with pytest.raises(LocalError, match=r"^Set the key\.$"):
        supervisor.wait_ready(20)


def test_what_is_not_ready_in_time_is_named(supervisor: Supervisor, record: InstanceRecord, tmp_path: Path) -> None:
    supervisor.add_role(replace(_role(record, tmp_path, _STAYS), ready=lambda: False))
    supervisor.add_role(replace(_role(record, tmp_path, _STAYS, "next"), after=("sample",)))
    with pytest.raises(LocalError, match="sample was not ready within 0 s"):
        supervisor.wait_ready(0.3)


def test_stopping_ends_the_children_of_children_and_those_that_will_not_go(
    supervisor: Supervisor, record: InstanceRecord, tmp_path: Path
) -> None:
    program = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True);"
        "print('here', flush=True); time.sleep(60)"
    )
    supervisor.add_role(_role(record, tmp_path, program))
    _until(supervisor, lambda: "here" in logs.read_tail(tmp_path, "sample"))
    assert len(processes.list_carrying(record.token)) == 2
    supervisor.stop_roles()
    assert processes.list_carrying(record.token) == []


def test_what_a_killed_supervisor_left_is_ended_and_nothing_else(record: InstanceRecord, tmp_path: Path) -> None:
    environment = dict(os.environ) | {processes.TOKEN_VARIABLE: record.token}
    with (
        subprocess.Popen([sys.executable, "-c", _STAYS], env=environment, stdout=subprocess.DEVNULL) as orphan,
        subprocess.Popen([sys.executable, "-c", _STAYS], stdout=subprocess.DEVNULL) as foreign,
    ):
        assert orphan.pid
        record.roles.append(instance.RoleRecord("api", pid=foreign.pid, started=1))
        instance.save_record(tmp_path, record)
        _wait_for_exec(orphan.pid)
        instance.clear_home(tmp_path)
        assert orphan.wait(timeout=5) == -signal.SIGTERM
        assert foreign.poll() is None, "a reused process id was taken for ours"
        foreign.kill()
    assert instance.load_record(tmp_path) is None


def test_a_request_to_stop_interrupts_the_wait(supervisor: Supervisor, record: InstanceRecord, tmp_path: Path) -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        supervisor.handle_signals()
        supervisor.add_role(_role(record, tmp_path, _STAYS))
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(StopRequested):
            supervisor.watch_roles()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_a_log_that_has_grown_is_put_aside(tmp_path: Path) -> None:
    file = logs.log_path(tmp_path, "api")
    file.parent.mkdir()
    file.write_bytes(b"x" * (21 * 1024 * 1024))
    with file.open("ab") as writer:
        logs.bound_logs(tmp_path)
        writer.write(b"after\n")
    assert file.read_bytes() == b"after\n"
    assert file.with_suffix(".log.1").stat().st_size == 21 * 1024 * 1024


def _wait_for_exec(pid: int) -> None:
    """Wait until the child has replaced its copy of this process."""
    deadline = time.monotonic() + 5
    while _STAYS.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_each_step_of_a_start_is_reported_once_in_the_order_of_its_end(
    supervisor: Supervisor, record: InstanceRecord, tmp_path: Path
) -> None:
    supervisor.add_role(_role(record, tmp_path, _STAYS, "postgres"))
    supervisor.add_role(replace(_role(record, tmp_path, "", "migrate"), is_setup_step=True, after=("postgres",)))
    stream = io.StringIO()
    supervisor.wait_ready(20, Console(stream).report_start)
    assert re.fullmatch(r"  PostgreSQL … \d\.\d s\n  Database schema … \d\.\d s\n", stream.getvalue())


def test_a_role_that_takes_its_time_to_end_is_named_and_a_second_signal_ends_it(
    supervisor: Supervisor, record: InstanceRecord, tmp_path: Path
) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(60)"
    )
    supervisor.handle_signals()
    supervisor.add_role(replace(_role(record, tmp_path, deaf, "worker"), grace=30))
    supervisor.wait_ready(20)
    _until(supervisor, lambda: "here" in logs.read_tail(tmp_path, "worker"))
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(StopRequested):
        supervisor.check_roles()
    slow_roles: list[str] = []

    def report(name: str) -> None:
        slow_roles.append(name)
        if len(slow_roles) == 5:
            os.kill(os.getpid(), signal.SIGINT)

    begin = time.monotonic()
    supervisor.stop_roles(report)
    assert set(slow_roles) == {"worker"}
    assert time.monotonic() - begin < 10


class Clock:
    """Clock advanced by the test."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    """Return a terminal and a descriptor that reads its output."""
    person, program = os.openpty()
    with os.fdopen(program, "w") as stream:
        yield stream, person
    os.close(person)


def _read_until(person: int, end: str) -> str:
    """Read terminal output until `end`."""
    output = ""
    while not output.endswith(end):
        output += os.read(person, 10_000).decode()
    return output


def _watch(progress: ProgressLine, clock: Clock, seconds: int) -> None:
    for tenth in range(seconds * 10 + 1):
        clock.seconds = tenth / 10
        progress.show(f"{clock.seconds:.1f} s")


def test_progress_is_one_line_that_changes_once_a_second_on_a_terminal(
    terminal: tuple[TextIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream, person = terminal
    clock = Clock()
    _watch(ProgressLine(stream, clock), clock, 10)
    output = _read_until(person, "10.0 s\x1b[?7h")
    assert [part.partition("s")[0] + "s" for part in output.split("\x1b[?7l")[1:]] == [f"{n}.0 s" for n in range(1, 11)]
    assert "\n" not in output


def test_progress_is_a_line_once_a_minute_without_a_terminal() -> None:
    stream, clock = io.StringIO(), Clock()
    _watch(ProgressLine(stream, clock), clock, 185)
    assert stream.getvalue() == "60.0 s\n120.0 s\n180.0 s\n"


def test_a_terminal_without_control_sequences_gets_plain_lines(
    terminal: tuple[TextIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream, person = terminal
    clock = Clock()
    _watch(ProgressLine(stream, clock), clock, 61)
    assert _read_until(person, "\n") == "60.0 s\r\n"


def test_a_result_takes_the_place_of_the_line_of_progress(
    terminal: tuple[TextIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream, person = terminal
    clock = Clock()
    console = Console(stream, clock)
    clock.seconds = 3
    console.report_start([RoleRecord("prefect", "starting"), RoleRecord("api", "waiting")])
    console.say("API is up again.")
    output = _read_until(person, "\n")
    assert "Waiting for Prefect … 3 s" in output
    assert "API … " not in output
    assert output.endswith("\r\x1b[2K\x1b[?7l\x1b[?7hAPI is up again.\r\n")


def test_what_is_waited_for_is_named_once_a_minute_in_a_log() -> None:
    stream, clock = io.StringIO(), Clock()
    console = Console(stream, clock)
    for seconds in range(61):
        clock.seconds = seconds
        console.report_start([RoleRecord("register", "starting"), RoleRecord("worker")])
    console.restart_clock()
    for seconds in range(60, 122):
        clock.seconds = seconds
        console.report_stop("worker")
    start, stop = stream.getvalue().splitlines()
    assert start == "  Waiting for Deployments in Prefect … 60 s"
    assert stop.startswith("  Waiting for Worker to end")
    assert stop.endswith("… 60 s")
