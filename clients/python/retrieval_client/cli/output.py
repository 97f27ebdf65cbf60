"""Output of the client commands: results on stdout, progress on stderr, and reasons in the command's own words."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from retrieval_client import Record, RetrievalError

PROGRESS_SECONDS = 60.0
"""Between two lines of progress without a terminal."""
_TERMINAL_SECONDS = 1.0
"""Between two updates of the line of progress on a terminal."""
_LINE = "\r\x1b[2K\x1b[?7l{}\x1b[?7h"
"""Replaces the terminal's line without wrapping: a wrapped line could not be replaced."""
_OPTIONS_BY_FIELD = (
    (re.compile(r"with the OCR strategy STANDARD_OCR \(ocrConfig\)"), "with --ocr"),
    (
        re.compile(r"The namespace has no webScraperConfig; set one, for instance [^.]*\."),
        "The namespace has no webScraperConfig: set one, or use a namespace that `namespaces create` made.",
    ),
)
"""Words of the API that stand for an option of the command line."""


def translate_reason(text: str | None) -> str:
    """A reason as the API gives it, with the options of the command line in place of fields of the API."""
    message = text or "No reason was given."
    for pattern, words in _OPTIONS_BY_FIELD:
        message = pattern.sub(words, message)
    return message


def explain_error(error: RetrievalError, url: str) -> str:
    """A failed request in the words of the command line; `url`: the server that it was sent to."""
    if error.code == "CONNECTION_FAILED":
        cause = error.__cause__
        reason = "nothing listens there" if "refused" in str(cause) or "Errno 111" in str(cause) else str(cause)
        return explain_silence(url, reason)
    if error.status == 401:
        return f"{url} refuses the key: it is wrong or revoked. Check --key and RETRIEVAL_API_KEY."
    return f"{error.code}: {translate_reason(error.message)}"


def explain_silence(url: str, reason: str) -> str:
    """A sentence for a server that does not answer."""
    return f"{url} does not answer ({reason}): start it with `retrieval up`, or check --url and RETRIEVAL_API_URL."


class CommandError(Exception):
    """Error in plain words. Exit codes: 1 it failed, 2 the command was called wrongly."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ProgressLine:
    """Line that replaces itself once a second on a terminal; elsewhere a line once a minute."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._is_visible = False
        self._last = clock()

    def show(self, line: str) -> None:
        """Show how far it is, unless the last line is too recent."""
        if self._clock() - self._last < (_TERMINAL_SECONDS if self._is_terminal else PROGRESS_SECONDS):
            return
        self._last = self._clock()
        line = " ".join(line.splitlines())
        print(
            _LINE.format(line) if self._is_terminal else line, end="" if self._is_terminal else "\n", file=self._stream
        )
        self._stream.flush()
        self._is_visible = self._is_terminal

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._is_visible:
            print(_LINE.format(""), end="", file=self._stream, flush=True)
        self._is_visible = False


class Output:
    """Lines for people, or JSON objects for programs; progress on stderr."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._progress = ProgressLine(sys.stderr)

    def result(self, record: dict[str, Any], line: str) -> None:
        """Print one result."""
        self.clear()
        print(json.dumps(record, ensure_ascii=False) if self._as_json else line, flush=True)

    def progress(self, line: str) -> None:
        """Show how far it is."""
        self._progress.show(line)

    def clear(self) -> None:
        """Remove the line of progress from a terminal."""
        self._progress.clear()


def print_records(records: Iterable[Record], row: Any, *heads: str, as_json: bool) -> None:
    """Print a JSON object for each record, or a table."""
    if as_json:
        for record in records:
            print(json.dumps(record.raw, ensure_ascii=False))
    else:
        print_table([row(record) for record in records], *heads)


def print_table(rows: Sequence[Sequence[object]], *heads: str) -> None:
    """Print rows in columns below their heads."""
    cells = [list(heads), *([" ".join(str(cell).split()) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
