"""How requests were answered, counted on the event loop for a tenth of what the figures would cost each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from retrieval.errors import ErrorCode
from retrieval.metrics import catalog, counts

_REFUSALS: Final[Mapping[str, str]] = {
    ErrorCode.RATE_LIMIT_EXCEEDED: "rate_limit",
    "QUOTA_EXCEEDED": "quota",
    ErrorCode.SERVICE_UNAVAILABLE: "unavailable",
}
_CLASSES: Final = {4: "4xx", 5: "5xx"}


class RequestCounts:
    """Of one process, from its event loop alone."""

    def __init__(self) -> None:
        self._answered: Counter[tuple[str, int, str | None]] = Counter()

    def answered(self, route: str | None, path: str, status: int, code: str | None) -> None:
        """`route`: the pattern that was matched, None where none was; `code`: of the error that was answered."""
        self._answered[route or f"/v1/{catalog.route(path)}", status // 100, code] += 1

    def pass_on(self) -> None:
        """To what is written to the database. A redirect counts as answered: nothing was wrong."""
        answered, self._answered = self._answered, Counter()
        for (route, first, code), times in answered.items():
            counts.add(catalog.HTTP, catalog.route(route), _CLASSES.get(first, "2xx"), by=times)
            if reason := _REFUSALS.get(code or ""):
                counts.add(catalog.REFUSED, reason, by=times)
