"""Runs benchmarks one after another within a time, leaves nothing of them behind, and shows goals beside figures.

Each benchmark is a process with a temporary folder of its own as TMPDIR. When its time is over, or the suite gets
SIGINT or SIGTERM, it is asked to end (SIGTERM); whatever still descends from it when it has ended is ended too, and its
folder deleted. The suite adopts what such a process leaves running (PR_SET_CHILD_SUBREAPER), so daemons are found.
Folders and processes of a suite that was killed are cleared away by the next one.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench import report
from bench.goals import Goal
from bench.processes import descendants

PROJECT = Path(__file__).resolve().parent.parent
PREFIX = "rtb-"
GRACE_SECONDS = 45.0
"""For a benchmark that is asked to end: what it has started needs some of it to end in order."""
PATIENCE_SECONDS = 10.0
"""For each process that a benchmark has left running, from SIGTERM to SIGKILL."""
_ADOPT = 36


@dataclass(frozen=True, slots=True)
class Bench:
    """A script of this folder, what it tells, its arguments within the suite, and the most seconds that it may take."""

    name: str
    about: str
    arguments: tuple[str, ...] = ()
    seconds: float = 120
    command: tuple[str, ...] = ()
    """In place of the script."""
    needs: str = ""
    """A folder of the data beside the project; without it the benchmark is left out."""

    def line(self) -> list[str]:
        return [*(self.command or (sys.executable, str(PROJECT / "bench" / f"{self.name}.py"))), *self.arguments]


class Ended(BaseException):
    """The suite was told to end."""


def run(benches: Sequence[Bench], goals: Sequence[Goal], *, minutes: float) -> int:
    """All of them within so many minutes, then the table; 0 if each ended well, 130 if a signal ended the suite."""
    for which in (signal.SIGTERM, signal.SIGINT):
        signal.signal(which, _end)
    ctypes.CDLL(None, use_errno=True).prctl(_ADOPT, 1, 0, 0, 0)
    clear_leftovers()
    began, outcomes = time.time(), {}
    until = time.monotonic() + minutes * 60
    try:
        for number, bench in enumerate(benches, 1):
            left = until - time.monotonic() - GRACE_SECONDS
            print(f"\n== {number}/{len(benches)} {bench.name}: {bench.about}", flush=True)
            start = time.monotonic()
            if bench.needs and not (report.data() / bench.needs).is_dir():
                print(f"== {bench.name}: left out: {report.data() / bench.needs} is not there", flush=True)
                outcomes[bench.name] = ""
                continue
            outcomes[bench.name] = _one(bench, min(bench.seconds, left)) if left > 1 else "not run: no time was left"
            told = f"{time.monotonic() - start:.0f} s, {max(until - time.monotonic(), 0):.0f} s of the suite left"
            print(f"== {bench.name}: {outcomes[bench.name] or 'done'} ({told})", flush=True)
    except Ended:
        print("\nEnded by a signal.", flush=True)
        return 130
    _table([goal for goal in goals if goal.bench in outcomes], began)
    failed = {name: outcome for name, outcome in outcomes.items() if outcome}
    for name, outcome in failed.items():
        print(f"{name}: {outcome}")
    return 1 if failed else 0


def _one(bench: Bench, seconds: float) -> str:
    """Run it; what went wrong, or an empty text."""
    with _folder() as folder:
        environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(bench.line(), cwd=PROJECT, env=environment, start_new_session=True)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            _stop(process)
            return f"ended after {seconds:.0f} s"
        except BaseException:
            _stop(process)
            raise
        return f"exit code {code}" if code else ""


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end; what goes on after that is ended with all that descends from it."""
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)


@contextmanager
def _folder() -> Iterator[Path]:
    """A temporary folder; with it goes every process that was started meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        _end_descendants()
        shutil.rmtree(folder, ignore_errors=True)


def _end_descendants() -> None:
    for number, patience in ((signal.SIGTERM, PATIENCE_SECONDS), (signal.SIGKILL, 10.0)):
        until = time.monotonic() + patience
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        while time.monotonic() < until:
            _reap()
            if not descendants(os.getpid()):
                return
            time.sleep(0.1)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def clear_leftovers() -> None:
    """End what still runs in folders of suites that are gone, and delete those."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if not pid.isdigit() or Path(f"/proc/{pid}").exists() or folder.stat().st_uid != os.getuid():
            continue
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"TMPDIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _end(*_: object) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # once is enough: ending in order takes a while
        signal.signal(number, signal.SIG_IGN)
    raise Ended


def _table(goals: Sequence[Goal], began: float) -> None:
    found = [(goal.what, goal.goal, *goal.judge(report.read(goal.bench, since=began))) for goal in goals]
    rows = [("what", "goal", "measured", "verdict"), *found]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    print()
    for number, row in enumerate(rows):
        print(" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            print("-|-".join("-" * width for width in widths))
    verdicts = {row[0]: {"goal": row[1], "measured": row[2], "verdict": row[3]} for row in rows[1:]}
    report.write("suite", {"seconds": round(time.time() - began), "goals": verdicts})
