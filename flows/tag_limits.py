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
LIMITS_SECONDS: Final = 5.0
# Prefect's largest page.
PAGE_SIZE: Final = 200


class TagLimits:
    """Tags with a concurrency limit in Prefect, read again every `LIMITS_SECONDS`. Thread-safe."""

    # Prefect requests a slot for the tags of each task run, also without any limit: one read replaces a request per
    # step.

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: Future[AbstractSet[str] | None] | None = None
        self._read_at = 0.0

    def start_read(self) -> Future[AbstractSet[str] | None]:
        """Start a read in a thread if the last one is too old."""
        with self._lock:
            if self._read is None or time.monotonic() > self._read_at + LIMITS_SECONDS:
                reader = ThreadPoolExecutor(1, thread_name_prefix="tag-limits")
                self._read_at, self._read = time.monotonic(), reader.submit(copy_context().run, _read_limited_tags)
                reader.shutdown(wait=False)
            return self._read

    def choose_tags(self, tags: AbstractSet[str]) -> AbstractSet[str]:
        """Return the tags with a limit; all of them if Prefect does not answer."""
        limited_tags = self.start_read().result()
        return tags if limited_tags is None else tags & limited_tags


def _read_limited_tags() -> AbstractSet[str] | None:
    limited_tags: set[str] = set()
    try:
        with get_client(sync_client=True) as client:
            while True:
                page = client.read_concurrency_limits(limit=PAGE_SIZE, offset=len(limited_tags))
                limited_tags.update(limit.tag for limit in page)
                if len(page) < PAGE_SIZE:
                    return limited_tags
    except NO_ANSWER_ERRORS as error:
        log.warning("tag_limits.not_read", reason=type(error).__name__)
        return None


tag_limits: Final = TagLimits()


def start_early() -> None:
    """Read the limits while a flow run claims its batch."""
    if FlowRunContext.get() is not None:
        tag_limits.start_read()
