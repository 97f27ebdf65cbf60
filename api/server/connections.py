"""Bounds on clients: connections in all, requests at once by address, and how long they may keep the server waiting."""

from __future__ import annotations

import resource
import time
from asyncio import AbstractEventLoop
from collections import Counter
from typing import Protocol

from api.client_addresses import Networks, grouped, is_within, parse
from retrieval.settings import Settings

_OTHER_FILES = 256
"""File descriptors that are kept for what is no connection: the database, spooled uploads, logs."""

_LOOK_SECONDS = 1.0


class Connection(Protocol):
    """What is bounded: `owner` is who it counts for, None if for nobody; `drop` ends it at once."""

    owner: str | None

    def drop(self) -> None: ...


class Connections:
    """The connections of one server, and the requests that it serves for each address.

    A connection that waits for a request makes room for a new one; one that is served does not. The address with the
    most connections makes room first: who opens connections and leaves them idle takes them from itself.
    """

    def __init__(self, most: int, most_by_address: int, trusted_proxies: Networks = ()) -> None:
        self._most = most
        self._most_by_address = most_by_address
        self._trusted_proxies = trusted_proxies
        self._open: dict[Connection, None] = {}
        self._by_owner: Counter[str] = Counter()
        self._served: set[Connection] = set()
        self._served_by_owner: Counter[str] = Counter()
        self._waiting: dict[Connection, float] = {}
        """By deadline, the one that has waited longest first."""
        self._watched = False

    @classmethod
    def of(cls, settings: Settings) -> Connections:
        """As the settings say, but never more than the process may have files open."""
        most = min(settings.api_connections, _may_open(settings.api_connections + _OTHER_FILES) - _OTHER_FILES)
        return cls(max(16, most), settings.api_address_connections, settings.trusted_proxies)

    def admit(self, connection: Connection, host: str) -> bool:
        """Add a connection if there is room for it, made if need be by one that waits for a request."""
        connection.owner = self._owner(host)
        if len(self._open) >= self._most and not self._make_room():
            return False
        self._open[connection] = None
        if connection.owner is not None:
            self._by_owner[connection.owner] += 1
        return True

    def forget(self, connection: Connection) -> None:
        """Remove a connection that has ended; nothing happens if it was not admitted or is forgotten already."""
        self._waiting.pop(connection, None)
        self._end_service(connection)
        if connection in self._open:
            del self._open[connection]
            _subtract(self._by_owner, connection.owner)

    def serve(self, connection: Connection) -> bool:
        """Begin to serve a request, until `rests`; False if as many are served for this address as may be."""
        self._waiting.pop(connection, None)
        if connection in self._served:
            return True
        if connection.owner is not None:
            if self._served_by_owner[connection.owner] >= self._most_by_address:
                return False
            self._served_by_owner[connection.owner] += 1
        self._served.add(connection)
        return True

    def rests(self, connection: Connection, seconds: float) -> None:
        """End the service of a request; the next one is waited for so long at most."""
        self._end_service(connection)
        self.waits(connection, seconds)

    def waits(self, connection: Connection, seconds: float) -> None:
        """From now on the server waits for the client, so long at most."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = time.monotonic() + seconds

    def works(self, connection: Connection) -> None:
        """The client waits for the server."""
        self._waiting.pop(connection, None)

    def watch(self, loop: AbstractEventLoop) -> None:
        """Look each second, while there are connections, for those that have kept the server waiting for too long."""
        if not self._watched:
            self._watched = True
            loop.call_later(_LOOK_SECONDS, self._look, loop)

    def _look(self, loop: AbstractEventLoop) -> None:
        now = time.monotonic()
        for connection in [connection for connection, deadline in self._waiting.items() if deadline < now]:
            self._drop(connection)
        self._watched = False
        if self._open:
            self.watch(loop)

    def _make_room(self) -> bool:
        """Drop the connection that has waited longest, one of the address with the most connections if there is any."""
        largest = max(self._by_owner, key=self._by_owner.__getitem__, default=None)
        waiting = (connection for connection in self._waiting if connection.owner == largest)
        longest = next(waiting, None) or next(iter(self._waiting), None)
        if longest is None:
            return False
        self._drop(longest)
        return True

    def _end_service(self, connection: Connection) -> None:
        if connection in self._served:
            self._served.discard(connection)
            _subtract(self._served_by_owner, connection.owner)

    def _drop(self, connection: Connection) -> None:
        self.forget(connection)
        connection.drop()

    def _owner(self, host: str) -> str | None:
        address = parse(host)
        if address is None or is_within(address, self._trusted_proxies):
            return None
        return grouped(address)


def _subtract(counter: Counter[str], owner: str | None) -> None:
    if owner is None:
        return
    counter[owner] -= 1
    if not counter[owner]:
        del counter[owner]


def _may_open(wanted: int) -> int:
    """How many files this process may have open, once it has asked for as many as it wants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
