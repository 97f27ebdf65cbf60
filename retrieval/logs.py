"""Structured logs, one line per event, as JSON or for a terminal; URLs without secrets."""

from __future__ import annotations

import io
import logging
import re
import sys
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

from retrieval.settings import Settings

_URL_PATTERN = re.compile(
    r"""\b([a-z][a-z0-9+.-]{1,9}://)(?:[^\s/?#"'<>]*@)?([^\s?#"'<>]*)(?:[?#][^\s"'<>]*)?""", re.IGNORECASE
)


def redact_urls(text: str) -> str:
    """Remove user, query and fragment from all URLs in a text."""
    return _URL_PATTERN.sub(r"\1\2", text) if "://" in text else text


def redact_event(_logger: Any, _method: str, event: Any) -> Any:
    """Redact URLs in all text fields of an event (structlog processor)."""
    return {name: redact_urls(value) if isinstance(value, str) else value for name, value in event.items()}


class _LossyFile(io.FileIO):
    """File descriptor that drops failed writes."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data).cast("B"))


def drop_failed_output() -> None:
    """Make standard output and standard error drop failed writes, such as on a full disk, including writes of
    libraries."""
    sys.stdout, sys.stderr = _lossy(sys.stdout), _lossy(sys.stderr)


def _lossy(stream: TextIO) -> TextIO:
    raw = cast("io.RawIOBase", _LossyFile(stream.fileno(), "wb", closefd=False))
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, line_buffering=True, write_through=True
    )


class LossyStandardError(io.TextIOBase):
    """Standard error without failed writes: a full disk must not stop the service."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


def configure_logs(settings: Settings, *, role: str) -> None:
    """Configure logging once per process. Each line has the role and bound fields."""
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
            redact_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.log_level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", LossyStandardError())),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(role=role)
