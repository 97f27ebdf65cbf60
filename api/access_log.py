"""One line for each request: errors at once and by structlog, the others written together five times a second."""

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
from retrieval.logs import Lossy
from retrieval.metrics import catalog, counts

log = structlog.get_logger()

SECONDS = 0.2
"""Lines of answers below 400 wait for others so long at most; a process that is killed loses them."""

MOST = 200
"""Lines that wait at most."""

_EVENT = "request.answered"
_PLAIN = re.compile(r"[!-~]+")


class AccessLog:
    """`form` and `role` as in the rest of the log; `stream` is what it goes to."""

    def __init__(self, form: Literal["json", "console"], stream: TextIO | None = None, *, role: str = "api") -> None:
        self._form = form
        self._role = role
        self._stream = stream
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def answered(
        self, request_id: str, method: str, path: str, status: int, organization: str | None, milliseconds: float
    ) -> None:
        """A request was answered without an error."""
        fields = {
            "request_id": request_id,
            "method": method,
            "path": logs.without_query(path),
            "status": status,
            "code": None,
            "organization": organization,
            "milliseconds": milliseconds,
        }
        self._lines.append(self._line(fields))
        if len(self._lines) >= MOST:
            self.write()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SECONDS, self.write)

    def write(self) -> None:
        """Write what waits. Lines that cannot be written are lost, so that they do not pile up while a disk is full."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            text = "\n".join(self._lines) + "\n"
            self._lines.clear()
            stream = self._stream or Lossy()
            stream.write(text)
            stream.flush()

    def _line(self, fields: dict[str, object]) -> str:
        time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        if self._form == "json":
            whole = {"role": self._role, **fields, "event": _EVENT, "level": "info", "timestamp": time}
            return msgspec.json.encode(whole).decode()
        items = sorted({"role": self._role, **fields}.items())
        return f"{time} [info     ] {_EVENT:<30} " + " ".join(f"{name}={_shown(value)}" for name, value in items)


def _shown(value: object) -> str:
    """Return the value as structlog's console shows it. Anything but a plain word is quoted, so a value cannot start a
    new line."""
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else repr(value)


_REFUSALS: Final[Mapping[str, str]] = {
    ErrorCode.RATE_LIMIT_EXCEEDED: "rate_limit",
    "QUOTA_EXCEEDED": "quota",
    ErrorCode.SERVICE_UNAVAILABLE: "unavailable",
}
_CLASSES: Final = {4: "4xx", 5: "5xx"}


class RequestCounts:
    """Counts of requests of one process, used from its event loop only."""

    def __init__(self) -> None:
        self._answered: Counter[tuple[str, int, str | None]] = Counter()

    def answered(self, route: str | None, path: str, status: int, code: str | None) -> None:
        """`route`: the pattern that was matched, None where none was; `code`: of the error that was answered."""
        self._answered[route or f"/v1/{catalog.route_label(path)}", status // 100, code] += 1

    def pass_on(self) -> None:
        """Add the counts to those written to the database. A redirect counts as answered: nothing was wrong."""
        answered, self._answered = self._answered, Counter()
        for (route, first, code), times in answered.items():
            counts.add_count(catalog.HTTP, catalog.route_label(route), _CLASSES.get(first, "2xx"), by=times)
            if reason := _REFUSALS.get(code or ""):
                counts.add_count(catalog.REFUSED, reason, by=times)
