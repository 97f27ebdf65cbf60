"""Logs: events with fields, one line each; JSON for machines or plain for a terminal; URLs without their secrets."""

from __future__ import annotations

import io
import logging
import re
import sys
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

from retrieval.settings import Settings

_URL = re.compile(
    r"""\b([a-z][a-z0-9+.-]{1,9}://)(?:[^\s/?#"'<>]*@)?([^\s?#"'<>]*)(?:[?#][^\s"'<>]*)?""", re.IGNORECASE
)


def without_query(text: str) -> str:
    """Every address in a text without user, query and fragment; the rest stays."""
    return _URL.sub(r"\1\2", text) if "://" in text else text


def of_event(_logger: Any, _method: str, event: Any) -> Any:
    """A structlog processor: the same for every field of an event that is a text."""
    return {name: without_query(value) if isinstance(value, str) else value for name, value in event.items()}


class _Lossy(io.FileIO):
    """A descriptor that loses what it cannot take."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data).cast("B"))


def lose_what_does_not_fit() -> None:
    """Discard, from now on in this process, output that does not fit on a full disk, so that writers to standard output
    and standard error, libraries included, continue.

    For programs whose lines are written by others than `configure` sets up.
    """
    sys.stdout, sys.stderr = _lossy(sys.stdout), _lossy(sys.stderr)


def _lossy(stream: TextIO) -> TextIO:
    raw = cast("io.RawIOBase", _Lossy(stream.fileno(), "wb", closefd=False))
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True, write_through=True
    )


class Lossy(io.TextIOBase):
    """Standard error, but what cannot be written is lost: a disk that is full must not end what is logged of it."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


def configure_logs(settings: Settings, *, role: str) -> None:
    """Once a process. Every line carries its role, and what was bound: a request id, a job run id."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            of_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.log_level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", Lossy())),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(role=role)
