"""Politeness towards a host: concurrent requests, delay between them, pauses."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from retrieval.errors import Retryable

LONGEST_WAIT = 60.0
_HOSTS = 2000


@dataclass
class _Host:
    room: threading.Semaphore
    lock: threading.Lock = field(default_factory=threading.Lock)
    free_at: float = 0.0


class Politeness:
    """Shared by all threads of a process: each worker process keeps its own."""

    def __init__(self, at_once: int, delay: float) -> None:
        self._at_once = at_once
        self._delay = delay
        self._hosts: OrderedDict[str, _Host] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, host: str, delay: float = 0.0) -> Iterator[float]:
        """Wait for this host's turn and hold it; gives the seconds that it took.

        `delay`: seconds between requests, if the host asks for more than our own.
        """
        asked = time.monotonic()
        known = self._host(host)
        with known.room:
            with known.lock:
                now = time.monotonic()
                starts = max(now, known.free_at)
                if starts - now > LONGEST_WAIT:
                    raise Retryable("The site asked for a pause (Retry-After).", after=starts - now)
                known.free_at = starts + max(self._delay, delay)
            time.sleep(starts - now)
            yield time.monotonic() - asked

    def leave_alone(self, host: str, seconds: float) -> None:
        """Send no request to the host for `seconds`, as it asked by Retry-After."""
        known = self._host(host)
        with known.lock:
            known.free_at = max(known.free_at, time.monotonic() + seconds)

    def _host(self, name: str) -> _Host:
        with self._lock:
            known = self._hosts.pop(name, None) or _Host(threading.Semaphore(self._at_once))
            self._hosts[name] = known
            while len(self._hosts) > _HOSTS:
                self._hosts.popitem(last=False)
            return known
