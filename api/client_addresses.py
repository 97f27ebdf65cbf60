"""Client addresses: who sends a request, and how often without a valid key; counted in memory, shared in blocks."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import LiteralString

from litestar.types import HTTPScope

from api.rates import SAME_WINDOW, WINDOW
from retrieval.database.database import AWAY, Database

LIMIT = 600
"""Requests without a valid key that one client address may make in a minute."""

BLOCK = 20
"""So many requests of an address are written to the database at once, so that all processes learn of them."""

_REMEMBERED = 65_536
_COUNT: LiteralString = f"""
    insert into rate_windows as w (caller, minute, requests) values (%(caller)s, %(minute)s, %(requests)s)
    on conflict (caller) do update set
        requests = case when {SAME_WINDOW} then least(w.requests, 1000000000) else 0 end + excluded.requests,
        minute = {WINDOW}
    returning requests
"""

Networks = Sequence[IPv4Network | IPv6Network]


def client_of(scope: HTTPScope, trusted: Networks) -> str:
    """The client's address; "" where the server names none.

    X-Forwarded-For counts only where a trusted proxy sends it, and only back to the first address that is no proxy.
    """
    client = scope.get("client")
    found = _read(client[0]) if client else None
    if found is None:
        return client[0] if client else ""
    if trusted and is_within(found, trusted):
        for named in reversed(_forwarded(scope["headers"])):
            address = _read(named)
            if address is None:
                break
            found = address
            if not is_within(found, trusted):
                break
    return grouped(found)


def grouped(address: IPv4Address | IPv6Address) -> str:
    """What counts as one client: an IPv4 address, or an IPv6 network of 64 bits, which one client usually has."""
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


def is_within(address: IPv4Address | IPv6Address, networks: Networks) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def parse(text: str) -> IPv4Address | IPv6Address | None:
    """An address as a socket names it; one of IPv4 within IPv6 is one of IPv4. None if it is no address."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _read(text: str) -> IPv4Address | IPv6Address | None:
    """The same as proxies write it: `192.0.2.1`, `192.0.2.1:5000`, `2001:db8::1`, `[2001:db8::1]:5000`."""
    text = text.strip()
    if text.startswith("["):
        return parse(text[1:].partition("]")[0])
    return parse(text.partition(":")[0] if text.count(":") == 1 else text)


def _forwarded(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    sent = b",".join(value for name, value in headers if name == b"x-forwarded-for")
    return sent.decode("latin-1").split(",") if sent else []


@dataclass(slots=True)
class _Count:
    """`shared`: what the database last said of all processes; `mine`: what it was not yet told."""

    shared: int = 0
    mine: int = 0


class AddressCounts:
    """Requests of this minute by address. A process that is not alone may let through a block more than the limit."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._minute = 0
        self._counts: OrderedDict[str, _Count] = OrderedDict()

    async def add(self, address: str) -> tuple[int, int]:
        """Count one request; the minute (since 1970) and the requests in it. Nothing is written above the limit."""
        minute = int(time.time()) // 60
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
        count = self._counts.setdefault(address, _Count())
        self._counts.move_to_end(address)
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)
        was_over = count.shared + count.mine > LIMIT
        count.mine += 1
        total = count.shared + count.mine
        if not was_over and (count.mine >= BLOCK or total > LIMIT):
            total = await self._share(address, minute, count)
        return minute, total

    async def _share(self, address: str, minute: int, count: _Count) -> int:
        told, count.mine = count.mine, 0
        count.shared += told
        try:
            row = await self._db.async_row(_COUNT, {"caller": f"address:{address}", "minute": minute, "requests": told})
        except AWAY:
            return count.shared + count.mine
        count.shared = max(count.shared, row["requests"] if row else 0)
        return count.shared + count.mine
