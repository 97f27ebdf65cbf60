"""Logs of roles: bounded files, their tails, and repeated errors."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MAX_LOG_BYTES = 20 * 1024 * 1024
_TAIL_BYTES = 16 * 1024
# Occurrences in a series from which an error is repeated.
REPEATED_COUNT = 3
# A series ends after this time without the error.
SERIES_SECONDS = 600.0
_MAX_SERIES = 20
_READ_BYTES = 1024 * 1024
_MAX_MESSAGE_LENGTH = 200

# Errors of structlog (plain and JSON), Prefect, PostgreSQL, Granian, Uvicorn and Python.
_ERROR_PATTERN = re.compile(
    r"\| (?:ERROR|CRITICAL)\s*\|"
    r"|\[(?:error|critical)\s*\]"
    r'|"level": ?"(?:error|critical)"'
    r"|^(?:\S+ ){0,6}(?:ERROR|CRITICAL|FATAL|PANIC): "
    r"|^\[(?:ERROR|CRITICAL)\] "
    r"|^\S+ \S+ (?:- \S+ - )?(?:ERROR|CRITICAL) "
)
_TRACEBACK_START = "Traceback (most recent call last)"
# PostgreSQL refuses clients while it starts or ends.
_TRANSIENT_PATTERN = re.compile(
    r"FATAL:\s+(?:the database system is |terminating connection due to administrator command)"
)
# Failed documents are reported by their job runs; no role is at fault.
_DOCUMENT_FAILURE_PATTERN = re.compile(
    r"Finished in state Failed\('(?:\d+ documents?: \d+ failed|Task run encountered an exception Skippable: )"
)
_TIME_PATTERN = re.compile(r"^\S*\d\d:\d\d:\d\d\S* (?:UTC )?(?:\[\d+\] )?(?:\| )?")
_VARIABLE_PATTERN = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[a-z]{1,5}_[0-9A-Za-z]{8,}|0x[0-9a-f]+|\d+")


def log_path(home: Path, role: str) -> Path:
    return home / "logs" / f"{role}.log"


def open_log(home: Path, role: str) -> BinaryIO:
    """Open a log for appending; rename a large one to `.1` first."""
    file = log_path(home, role)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if file.exists() and file.stat().st_size > _MAX_LOG_BYTES:
        file.replace(file.with_suffix(".log.1"))
    return file.open("ab")


def bound_logs(home: Path) -> None:
    """Copy each large log to `.1` and empty it."""
    # Its writer holds the file open: a renamed file would grow further.
    for file in (home / "logs").glob("*.log"):
        if file.stat().st_size > _MAX_LOG_BYTES:
            shutil.copyfile(file, file.with_suffix(".log.1"))
            with file.open("r+b") as opened:
                opened.truncate(0)


def read_tail(home: Path, role: str, *, offset: int = 0, lines: int = 8) -> str:
    """Return the last lines after the byte `offset`, indented."""
    file = log_path(home, role)
    if not file.exists():
        return ""
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        # A log shorter than the offset was emptied.
        first = offset if offset <= size else 0
        opened.seek(max(first, size - _TAIL_BYTES))
        text = opened.read().decode(errors="replace")
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])


def list_errors(text: str) -> Iterator[str]:
    """Yield error lines without timestamps; for a traceback without an error line, its last line."""
    # An error line announces the traceback after it: that one is no error of its own.
    is_announced = is_in_traceback = False
    for line in text.splitlines():
        is_indented = line[:1] in ("", " ", "\t")
        if is_in_traceback and not is_indented:
            is_in_traceback = False
            yield line
        elif _ERROR_PATTERN.search(line):
            is_announced = True
            if not _TRANSIENT_PATTERN.search(line) and not _DOCUMENT_FAILURE_PATTERN.search(line):
                yield _TIME_PATTERN.sub("", line).strip()
        elif _TRACEBACK_START in line:
            is_in_traceback = not is_announced and line.startswith(_TRACEBACK_START)
            is_announced = False
        elif not is_indented:
            is_announced = is_announced and _is_between_tracebacks(line)


def _is_between_tracebacks(line: str) -> bool:
    """Check for a line between an error and its traceback, or between chained tracebacks."""
    return line.startswith(("+ ", "During handling", "The above exception"))


@dataclass(slots=True)
class ErrorSeries:
    """Occurrences of one error of a role, equal except for numbers and ids; times in Unix seconds."""

    message: str
    count: int
    first: float
    last: float

    def is_repeated(self, timestamp: float) -> bool:
        return self.count >= REPEATED_COUNT and timestamp - self.last < SERIES_SECONDS


def _group_key(message: str) -> str:
    return _VARIABLE_PATTERN.sub("#", message)


class LogWatch:
    """Reader of lines that are written to a log from now on."""

    def __init__(self, file: Path, series: list[ErrorSeries]) -> None:
        self._file = file
        self._offset = file.stat().st_size if file.exists() else 0
        self._series = series
        self._partial_line = b""

    def read_errors(self, timestamp: float) -> bool:
        """Add new errors to the series; return whether there were any."""
        series_by_key = {_group_key(series.message): series for series in self._series}
        has_changed = False
        for line in list_errors(self._read_new_lines()):
            has_changed = True
            message = line[:_MAX_MESSAGE_LENGTH]
            series = series_by_key.setdefault(_group_key(message), ErrorSeries(message, 0, timestamp, timestamp))
            if timestamp - series.last > SERIES_SECONDS:
                series.count, series.first = 0, timestamp
            series.message, series.count, series.last = message, series.count + 1, timestamp
        newest_first = sorted(series_by_key.values(), key=lambda series: (series.last, series.count), reverse=True)
        self._series[:] = newest_first[:_MAX_SERIES]
        return has_changed

    def _read_new_lines(self) -> str:
        """Return new complete lines, at most the last megabyte; a truncated log is read from its start."""
        if not self._file.exists():
            return ""
        with self._file.open("rb") as opened:
            size = opened.seek(0, 2)
            if size < self._offset:
                self._offset, self._partial_line = 0, b""
            opened.seek(max(self._offset, size - _READ_BYTES))
            data = self._partial_line + opened.read(_READ_BYTES)
            self._offset = size
        whole, _, self._partial_line = data.rpartition(b"\n")
        return whole.decode(errors="replace")
