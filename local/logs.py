"""The log of each role: a bounded file in the home, its last lines when something dies, and the errors it repeats.

Errors are recognized in the formats of the programs that write there: structlog (plain and JSON), Prefect, PostgreSQL,
Granian, Uvicorn and Python's own. A traceback counts if no line of level ERROR announced it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_LIMIT = 20 * 1024 * 1024
_TAIL = 16 * 1024
REPEATED = 3
"""So often within one series an error counts as repeated."""
SERIES_SECONDS = 600.0
"""A series ends after so many seconds without the error."""

_KINDS = 20
_READ_BYTES = 1024 * 1024
_SHOWN = 200

_ERROR = re.compile(
    r"\| (?:ERROR|CRITICAL)\s*\|"
    r"|\[(?:error|critical)\s*\]"
    r'|"level": ?"(?:error|critical)"'
    r"|^(?:\S+ ){0,6}(?:ERROR|CRITICAL|FATAL|PANIC): "
    r"|^\[(?:ERROR|CRITICAL)\] "
    r"|^\S+ \S+ (?:- \S+ - )?(?:ERROR|CRITICAL) "
)
_TRACEBACK = "Traceback (most recent call last)"
_PASSING = re.compile(r"FATAL:\s+(?:the database system is |terminating connection due to administrator command)")
"""What PostgreSQL tells clients that come while it starts or ends."""
_CONTENT = re.compile(
    r"Finished in state Failed\('(?:\d+ documents?: \d+ failed|Task run encountered an exception Skippable: )"
)
"""Documents that failed: their job runs say so, and no role is at fault."""
_TIME = re.compile(r"^\S*\d\d:\d\d:\d\d\S* (?:UTC )?(?:\[\d+\] )?(?:\| )?")
_VARYING = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[a-z]{1,5}_[0-9A-Za-z]{8,}|0x[0-9a-f]+|\d+")


def log_path(home: Path, role: str) -> Path:
    return home / "logs" / f"{role}.log"


def open_log(home: Path, role: str) -> BinaryIO:
    """For appending; a file that has grown is put aside as `.1` first."""
    file = log_path(home, role)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists() and file.stat().st_size > _LIMIT:
        file.replace(file.with_suffix(".log.1"))
    return file.open("ab")


def bound_logs(home: Path) -> None:
    """Copy each log that has grown past 20 MB aside and empty it in place, for its writer holds it open."""
    for file in (home / "logs").glob("*.log"):
        if file.stat().st_size > _LIMIT:
            shutil.copyfile(file, file.with_suffix(".log.1"))
            with file.open("r+b") as opened:
                opened.truncate(0)


def read_tail(home: Path, role: str, *, since: int = 0, lines: int = 8) -> str:
    """The last lines written after offset `since`, indented."""
    file = log_path(home, role)
    if not file.exists():
        return ""
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        opened.seek(max(since if since <= size else 0, size - _TAIL))
        text = opened.read().decode(errors="replace")
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])


def list_errors(text: str) -> Iterator[str]:
    """The error lines of a piece of a log, without their times; a bare traceback by its last line."""
    announced = tracing = False
    for line in text.splitlines():
        if tracing and line[:1] not in ("", " ", "\t"):
            tracing = False
            yield line
        elif _ERROR.search(line):
            announced = True
            if not _PASSING.search(line) and not _CONTENT.search(line):
                yield _TIME.sub("", line).strip()
        elif _TRACEBACK in line:
            tracing, announced = not announced and line.startswith(_TRACEBACK), False
        elif line[:1] not in ("", " ", "\t"):
            announced = announced and _is_trace(line)


def _is_trace(line: str) -> bool:
    """A line that goes between an announced error and the end of its traceback."""
    return line.startswith(("+ ", "During handling", "The above exception"))


@dataclass(slots=True)
class Series:
    """Repeated error of a role, grouped by its words without numbers and ids. `first`, `last`: Unix seconds."""

    message: str
    count: int
    first: float
    last: float

    def repeats(self, now: float) -> bool:
        return self.count >= REPEATED and now - self.last < SERIES_SECONDS


def _kind(message: str) -> str:
    return _VARYING.sub("#", message)


class Watch:
    """Follows one log from its present end."""

    def __init__(self, file: Path, series: list[Series]) -> None:
        self._file = file
        self._offset = file.stat().st_size if file.exists() else 0
        self._series = series
        self._rest = b""

    def read_errors(self, now: float) -> bool:
        """Count what was written since the last look; whether there was an error. `series` is changed in place."""
        series_by_kind = {_kind(series.message): series for series in self._series}
        has_changed = False
        for line in list_errors(self._new()):
            has_changed = True
            message = line[:_SHOWN]
            series = series_by_kind.setdefault(_kind(message), Series(message, 0, now, now))
            if now - series.last > SERIES_SECONDS:
                series.count, series.first = 0, now
            series.message, series.count, series.last = message, series.count + 1, now
        self._series[:] = sorted(series_by_kind.values(), key=lambda series: (series.last, series.count), reverse=True)[
            :_KINDS
        ]
        return has_changed

    def _new(self) -> str:
        """New whole lines; of a flood its end. A log that was emptied in place is read from its start."""
        if not self._file.exists():
            return ""
        with self._file.open("rb") as opened:
            size = opened.seek(0, 2)
            if size < self._offset:
                self._offset, self._rest = 0, b""
            opened.seek(max(self._offset, size - _READ_BYTES))
            data = self._rest + opened.read(_READ_BYTES)
            self._offset = size
        whole, _, self._rest = data.rpartition(b"\n")
        return whole.decode(errors="replace")
