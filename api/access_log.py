"""Access log: one line for each request."""
# Errors go to structlog at once; other lines are written together, five times a second.

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

import msgspec
import structlog

from retrieval import logs
from retrieval.errors import ErrorCode
from retrieval.logs import LossyStandardError
from retrieval.metrics import catalog, counts

log = structlog.get_logger()

# Lines of a killed process are lost for this time.
FLUSH_SECONDS = 0.2
MAX_WAITING_LINES = 200
_EVENT_NAME = "request.answered"
_PLAIN_WORD = re.compile(r"[!-~]+")


class AccessLog:
    """Buffered log lines of successful requests."""

    def __init__(self, form: Literal["json", "console"], stream: TextIO | None = None, *, role: str = "api") -> None:
        self._form = form
        self._role = role
        self._stream = stream
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def add_request(
        self, request_id: str, method: str, path: str, status: int, organization: str | None, milliseconds: float
    ) -> None:
        """Log a request without an error response."""
        fields = {
            "request_id": request_id,
            "method": method,
            "path": logs.redact_urls(path),
            "status": status,
            "code": None,
            "organization": organization,
            "milliseconds": milliseconds,
        }
        self._lines.append(self._format_line(fields))
        if len(self._lines) >= MAX_WAITING_LINES:
            self.write_lines()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.write_lines)

    def write_lines(self) -> None:
        """Write waiting lines."""
        # Lines that cannot be written are dropped, so they do not pile up while a disk is full.
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            text = "\n".join(self._lines) + "\n"
            self._lines.clear()
            stream = self._stream or LossyStandardError()
            stream.write(text)
            stream.flush()

    def _format_line(self, fields: dict[str, object]) -> str:
        time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        if self._form == "json":
            whole = {"role": self._role, **fields, "event": _EVENT_NAME, "level": "info", "timestamp": time}
            return msgspec.json.encode(whole).decode()
        items = sorted({"role": self._role, **fields}.items())
        return f"{time} [info     ] {_EVENT_NAME:<30} " + " ".join(
            f"{name}={_format_value(value)}" for name, value in items
        )


def _format_value(value: object) -> str:
    """Format a value as structlog's console does; quote all but plain words, so that no value starts a new line."""
    return value if isinstance(value, str) and _PLAIN_WORD.fullmatch(value) else repr(value)


_REFUSAL_REASONS: Final[Mapping[str, str]] = {
    ErrorCode.RATE_LIMIT_EXCEEDED: "rate_limit",
    "QUOTA_EXCEEDED": "quota",
    ErrorCode.SERVICE_UNAVAILABLE: "unavailable",
}
_STATUS_CLASSES: Final = {4: "4xx", 5: "5xx"}


class RequestCounts:
    """Request counts of a process, for use in a single event loop."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int, str | None]] = Counter()

    def count_request(self, route: str | None, path: str, status: int, code: str | None) -> None:
        """Count a request by the route pattern, None without a match, and the error code."""
        self._requests[route or f"/v1/{catalog.route_label(path)}", status // 100, code] += 1

    def add_to_metrics(self) -> None:
        """Add the counts to the metrics that are written to the database; a redirect counts as a success."""
        requests, self._requests = self._requests, Counter()
        for (route, first, code), times in requests.items():
            counts.add_count(catalog.HTTP, catalog.route_label(route), _STATUS_CLASSES.get(first, "2xx"), by=times)
            if reason := _REFUSAL_REASONS.get(code or ""):
                counts.add_count(catalog.REFUSED, reason, by=times)
