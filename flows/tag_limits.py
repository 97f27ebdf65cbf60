"""Tags of task runs for concurrency limits in Prefect."""

from __future__ import annotations

import threading
import time
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Final

import structlog
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from flows.prefect_errors import NO_ANSWER_ERRORS

log = structlog.get_logger()

# A new limit takes effect within this time, as in Prefect's task engine.
LIMITS_REFRESH_SECONDS: Final = 5.0
# Maximum of Prefect's API.
MAX_LIMITS_PER_PAGE: Final = 200


class TagLimits:
    """Thread-safe cache of the tags with a concurrency limit in Prefect."""

    # For each tagged task run, Prefect's engine requests a slot, even if its tags have no limit. Tags without a limit
    # are therefore left out: one read every `LIMITS_REFRESH_SECONDS` replaces a request per step.

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_read: Future[AbstractSet[str] | None] | None = None
        self._last_read_at = 0.0

    def refresh(self) -> Future[AbstractSet[str] | None]:
        """Return the last read; start a new read in a thread if the last is too old."""
        with self._lock:
            if self._last_read is None or time.monotonic() > self._last_read_at + LIMITS_REFRESH_SECONDS:
                executor = ThreadPoolExecutor(1, thread_name_prefix="tag-limits")
                self._last_read_at = time.monotonic()
                self._last_read = executor.submit(copy_context().run, _read_limited_tags)
                executor.shutdown(wait=False)
            return self._last_read

    def filter_limited(self, tags: AbstractSet[str]) -> AbstractSet[str]:
        """Return the tags with a limit; all of them if Prefect does not answer."""
        limited_tags = self.refresh().result()
        return tags if limited_tags is None else tags & limited_tags


def _read_limited_tags() -> AbstractSet[str] | None:
    """Read all tags with a limit; None if Prefect does not answer."""
    limited_tags: set[str] = set()
    try:
        with get_client(sync_client=True) as client:
            while True:
                page = client.read_concurrency_limits(limit=MAX_LIMITS_PER_PAGE, offset=len(limited_tags))
                limited_tags.update(limit.tag for limit in page)
                if len(page) < MAX_LIMITS_PER_PAGE:
                    return limited_tags
    except NO_ANSWER_ERRORS as error:
        log.warning("tag_limits.not_read", reason=type(error).__name__)
        return None


tag_limits: Final = TagLimits()


def prefetch_limits() -> None:
    """Start the read of the limits at the beginning of a flow run."""
    if FlowRunContext.get() is not None:
        tag_limits.refresh()
