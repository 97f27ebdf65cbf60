"""Request rates of organizations, keys and addresses, and the address that a request came from.

Each lent number is a place in the minute's count that one request may take, so no more than the limit is ever let in,
however many processes there are. A block is at most a hundredth of the limit and a sixteenth of what is left: small
limits, and the end of every limit, are counted one by one. What was lent and is not used for a second goes back.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import LiteralString, NamedTuple

import structlog
from litestar.types import HTTPScope

from retrieval.database.database import UNAVAILABLE_ERRORS, Database

log = structlog.get_logger()

MOST = 64
"""Requests that are lent at once."""

IDLE_SECONDS = 1.0
"""What is not used for so long goes back."""

UNWRITABLE_SECONDS = 2.0
"""How long nothing is counted in a database that could not write: each attempt is a line in its log."""

SAME_WINDOW: LiteralString = "w.minute between excluded.minute and excluded.minute + 1"
"""Whether what is counted in `w` counts for a request: of its minute, or of the next, which another has just begun.
One that is further ahead was written before the database's clock went back, and would last as long as it went."""
WINDOW: LiteralString = f"case when {SAME_WINDOW} then w.minute else excluded.minute end"
"""The minute to count in."""

_REMEMBERED = 4096
_RETURN: LiteralString = """
    update rate_windows w set requests = greatest(0, least(w.requests, o.requests_per_minute) - %(unused)s)
    from organizations o
    where w.caller = %(organization)s and w.minute = %(minute)s
      and o.id = w.caller and o.requests_per_minute = %(limit)s
"""
"""Nothing is given back where the minute is over or the limit was changed meanwhile."""

_MORE: LiteralString = f"""
    with limits as (select id, requests_per_minute as most from organizations where id = %(organization)s),
    counted as (
        insert into rate_windows as w (caller, minute, requests)
        select id, floor(extract(epoch from clock_timestamp()) / 60)::bigint, %(more)s::int from limits
        where most >= %(more)s::int
        on conflict (caller) do update set
            requests = case when {SAME_WINDOW} then w.requests else 0 end + excluded.requests, minute = {WINDOW}
        where case when {SAME_WINDOW} then w.requests else 0 end + excluded.requests
              <= (select most from limits)
        returning minute, requests
    )
    select most, c.minute, c.requests from limits left join counted c on true
"""
"""All of them, or none where they exceed the limit."""


class Window(NamedTuple):
    """The limit of an organization, and its minute with the requests counted in it."""

    most: int
    minute: int | None
    requests: int | None


async def count_more(db: Database, organization: str, more: int) -> Window:
    """Count so many requests beside the one that was counted: the limit, the minute and its requests by now. Without
    the last two nothing was counted, for it would have exceeded the limit."""
    values = {"organization": organization, "more": more}
    window = await db.async_fetch_one(Window, _MORE, values, plan_once=True)
    return window or Window(0, None, None)


@dataclass(slots=True)
class Lease:
    """Request numbers lent to this process. `places`: unused numbers of `minute`, the next one last. `block`: how many
    to request next.

    `asking`: a block is being requested, so that concurrent requests get one number each.
    """

    minute: int = -1
    limit: int = 0
    places: list[int] = field(default_factory=list)
    block: int = 1
    used_at: float = 0.0
    asking: bool = False


class RateLeases:
    """Numbers lent to this process, by organization."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._leases: OrderedDict[str, Lease] = OrderedDict()
        self._returning: asyncio.Task[None] | None = None
        self._unwritable_until = 0.0
        self._here: tuple[int, Counter[str]] = (-1, Counter())

    @property
    def writable(self) -> bool:
        """Counting in the database may be tried: it has not failed to write within `UNWRITABLE_SECONDS`."""
        return time.monotonic() >= self._unwritable_until

    def count_here(self, organization: str, minute: int) -> int:
        """Count one request in this process alone, while the database takes no writes; its place in the minute."""
        if self._here[0] != minute:
            self._here = minute, Counter()
        self._here[1][organization] += 1
        return self._here[1][organization]

    def note_unwritable(self, error: Exception) -> None:
        """The database could not write a count: requests are counted in this process for some seconds."""
        if self.writable:
            log.warning("rates.counted_here_only", reason=type(error).__name__)
        self._unwritable_until = time.monotonic() + UNWRITABLE_SECONDS

    def take(self, organization: str) -> tuple[int, int] | None:
        """Return a minute and a number in it, if one is at hand. The caller uses it or puts it back."""
        lease = self._leases.get(organization)
        if lease is None or not lease.places:
            return None
        lease.used_at = time.monotonic()
        return lease.minute, lease.places.pop()

    def put_back(self, organization: str, minute: int, position: int) -> None:
        """Return an unused number."""
        lease = self._leases.get(organization)
        if lease is not None and lease.minute == minute:
            lease.places.append(position)

    def ask(self, organization: str | None) -> int:
        """Return how many numbers to request: more each time that a block did not last for a second."""
        lease = self._leases.get(organization) if organization else None
        if lease is None or lease.asking or lease.block == 1:
            return 1
        lease.asking = True
        return lease.block

    def asked(self, organization: str | None, count: int) -> None:
        """Mark the request for a block as ended, whatever its outcome."""
        lease = self._leases.get(organization) if organization else None
        if lease is not None and count > 1:
            lease.asking = False

    def lend(self, organization: str, minute: int, last: int, count: int, limit: int) -> int:
        """Keep the places up to `last` that were just counted, but the first of them, which is the answer."""
        first = last - count + 1
        lease = self._leases.get(organization)
        if lease is None:
            lease = self._leases[organization] = Lease()
            self._forget_old()
        self._leases.move_to_end(organization)
        timestamp = time.monotonic()
        if (lease.minute, lease.limit) != (minute, limit):
            lease.places.clear()
            lease.minute = minute
        lease.places[:0] = range(min(last, limit), first, -1)
        was_quick = timestamp - lease.used_at < IDLE_SECONDS
        largest = max(1, min(MOST, limit // 100, (limit - last) // 16))
        lease.block = min(largest, lease.block * 2 if was_quick else 1)
        lease.limit, lease.used_at = limit, timestamp
        if lease.places and (self._returning is None or self._returning.done()):
            self._returning = asyncio.create_task(self._return_idle())
        return first

    async def close(self) -> None:
        """Give everything back."""
        if self._returning is not None:
            self._returning.cancel()
        await self._return(float("inf"))

    def _forget_old(self) -> None:
        for organization in list(self._leases)[: max(0, len(self._leases) - _REMEMBERED)]:
            if not self._leases[organization].places:
                del self._leases[organization]

    async def _return_idle(self) -> None:
        while any(lease.places for lease in self._leases.values()):
            await asyncio.sleep(IDLE_SECONDS / 2)
            await self._return(time.monotonic() - IDLE_SECONDS)

    async def _return(self, before: float) -> None:
        """Return numbers last used before that time. Stops if the database is away: each statement would wait long."""
        for organization, lease in list(self._leases.items()):
            if not lease.places or lease.used_at >= before:
                continue
            unused, lease.places, lease.block = len(lease.places), [], 1
            parameters = {"organization": organization, "minute": lease.minute, "unused": unused, "limit": lease.limit}
            try:
                await self._db.async_execute(_RETURN, parameters, plan_once=True)
            except UNAVAILABLE_ERRORS as error:
                log.warning("rates.not_returned", reason=type(error).__name__)
                return


LIMIT = 600
"""Requests without a valid key that one client address may make in a minute."""

BLOCK = 20
"""So many requests of an address are written to the database at once, so that all processes learn of them."""

_REMEMBERED_ADDRESSES = 65_536
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
    client_address = _read(client[0]) if client else None
    if client_address is None:
        return client[0] if client else ""
    if trusted and is_within(client_address, trusted):
        for hop in reversed(_forwarded(scope["headers"])):
            address = _read(hop)
            if address is None:
                break
            client_address = address
            if not is_within(client_address, trusted):
                break
    return client_key(client_address)


def client_key(address: IPv4Address | IPv6Address) -> str:
    """Return the key of one client: an IPv4 address, or an IPv6 network of 64 bits, which one client usually has."""
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


def is_within(address: IPv4Address | IPv6Address, networks: Networks) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """An address as a socket names it; one of IPv4 within IPv6 is one of IPv4. None if it is no address."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _read(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address as proxies write it: `192.0.2.1`, `192.0.2.1:5000`, `2001:db8::1`, `[2001:db8::1]:5000`."""
    text = text.strip()
    if text.startswith("["):
        return parse_address(text[1:].partition("]")[0])
    return parse_address(text.partition(":")[0] if text.count(":") == 1 else text)


def _forwarded(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    joined = b",".join(value for name, value in headers if name == b"x-forwarded-for")
    return joined.decode("latin-1").split(",") if joined else []


@dataclass(slots=True)
class _Count:
    """Requests of one address. `shared`: of all processes, by the last answer of the database; `mine`: not yet added
    there."""

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
        if len(self._counts) > _REMEMBERED_ADDRESSES:
            self._counts.popitem(last=False)
        was_over = count.shared + count.mine > LIMIT
        count.mine += 1
        total = count.shared + count.mine
        if not was_over and (count.mine >= BLOCK or total > LIMIT):
            total = await self._share(address, minute, count)
        return minute, total

    async def _share(self, address: str, minute: int, count: _Count) -> int:
        pending, count.mine = count.mine, 0
        count.shared += pending
        try:
            values = {"caller": f"address:{address}", "minute": minute, "requests": pending}
            requests = await self._db.async_fetch_one(int, _COUNT, values)
        except UNAVAILABLE_ERRORS:
            return count.shared + count.mine
        count.shared = max(count.shared, requests or 0)
        return count.shared + count.mine
