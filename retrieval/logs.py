"""Logs: events with fields, one line each; JSON for machines or plain for a terminal."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog

from retrieval import redaction
from retrieval.settings import Settings


class Lossy(io.TextIOBase):
    """Standard error, but what cannot be written is lost: a disk that is full must not end what is logged of it."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


def configure(settings: Settings, *, role: str) -> None:
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
            redaction.of_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.log_level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", Lossy())),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(role=role)
