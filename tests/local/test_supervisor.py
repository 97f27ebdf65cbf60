"""Supervisor with small programs as roles: deaths are reported and repaired, nothing is left behind, steps shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from local import LocalError, instance, logs, processes
from local import supervisor as module
from local.instance import InstanceRecord
from local.processes import Process
from local.supervisor import Role, Supervisor

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
    return Role(name, [sys.executable, "-c", program], environment, tmp_path, stop_seconds=1)


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
    supervisor.add_role(
        replace(plain, describe_problem=lambda: None if room.exists() else "there is no room. Make some.")
    )
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
    supervisor.add_role(replace(_role(record, tmp_path, _STAYS), ready=answers.exists, max_silent_seconds=1.0))
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


def test_a_setup_step_that_fails_stops_everything_with_its_log(
    supervisor: Supervisor, record: InstanceRecord, tmp_path: Path
) -> None:
    program = "import sys; print('no such pool', file=sys.stderr); sys.exit(7)"
    supervisor.add_role(replace(_role(record, tmp_path, program, "register"), is_setup_step=True))
    with pytest.raises(LocalError, match=r"(?s)register failed \(exit code 7\).*no such pool"):
        supervisor.wait_ready(20)


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


def _wait_for_exec(pid: int) -> None:
    """Wait until the child has replaced its copy of this process."""
    deadline = time.monotonic() + 5
    while _STAYS.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)
