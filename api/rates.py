"""Request rates of organizations and client addresses."""
# A request number is the place of a request among those of its minute. A process reserves several at once, so the limit
# holds over all processes. It reserves at most a
# hundredth of the limit and a sixteenth of the remainder: small limits, and the end of each limit, are counted one by
# one.

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

# Numbers reserved at once.
MAX_RESERVED_REQUESTS = 64
# Unused request numbers are returned after this time.
IDLE_SECONDS = 1.0
# Pause of writing after a refused write: each refusal writes a line to PostgreSQL's log.
UNWRITABLE_SECONDS = 2.0
# The window's minute is current or the next, which a concurrent request has begun. A later minute was written before
# the database's clock went back, and would block requests until then.
IS_SAME_WINDOW_SQL: LiteralString = "rate_windows.minute between excluded.minute and excluded.minute + 1"
COUNTED_MINUTE_SQL: LiteralString = f"case when {IS_SAME_WINDOW_SQL} then rate_windows.minute else excluded.minute end"
_MAX_ORGANIZATIONS = 4096
# Returns nothing after the end of the minute or a change of the limit.
_RETURN_REQUESTS: LiteralString = """
    update rate_windows w set requests = greatest(0, least(w.requests, o.requests_per_minute) - %(unused)s)
    from organizations o
    where w.caller = %(organization)s and w.minute = %(minute)s
      and o.id = w.caller and o.requests_per_minute = %(limit)s
"""

# Further requests of one call, such as the queries of a batch: all of them, or none above the limit. The request itself
# is counted with the look-up of its key (`api.auth`).
_COUNT_MORE: LiteralString = f"""
    with limits as (select id, requests_per_minute as request_limit from organizations where id = %(organization)s),
    counted as (
        insert into rate_windows (caller, minute, requests)
        select id, floor(extract(epoch from clock_timestamp()) / 60)::bigint, %(more)s::int from limits
        where request_limit >= %(more)s::int
        on conflict (caller) do update set
            requests = case when {IS_SAME_WINDOW_SQL} then rate_windows.requests else 0 end + excluded.requests,
            minute = {COUNTED_MINUTE_SQL}
        where case when {IS_SAME_WINDOW_SQL} then rate_windows.requests else 0 end + excluded.requests
              <= (select request_limit from limits)
        returning minute, requests
    )
    select request_limit, c.minute, c.requests from limits left join counted c on true
"""


class RateWindow(NamedTuple):
    """Limit of an organization, with the current minute and the requests counted."""

    request_limit: int
    minute: int | None
    requests: int | None


async def count_more(db: Database, organization: str, count: int) -> RateWindow:
    """Count further requests of a call; minute and requests are None above the limit."""
    values = {"organization": organization, "more": count}
    window = await db.async_fetch_one(RateWindow, _COUNT_MORE, values, plan_once=True)
    return window or RateWindow(0, None, None)


@dataclass(slots=True)
class ReservedNumbers:
    """Request numbers of a minute, reserved for this process."""

    minute: int = -1
    limit: int = 0
    numbers: list[int] = field(default_factory=list)  # unused, the next at the end
    reserve_count: int = 1
    used_at: float = 0.0
    is_reserving: bool = False  # concurrent requests get one number each


class RateNumbers:
    """Request numbers reserved for this process, by organization."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._numbers: OrderedDict[str, ReservedNumbers] = OrderedDict()
        self._returning: asyncio.Task[None] | None = None
        self._unwritable_until = 0.0
        self._local_counts: tuple[int, Counter[str]] = (-1, Counter())

    @property
    def is_writable(self) -> bool:
        """Return whether counts may be written to the database again."""
        return time.monotonic() >= self._unwritable_until

    def count_locally(self, organization: str, minute: int) -> int:
        """Count a request in this process while the database is read-only; return the number in the minute."""
        if self._local_counts[0] != minute:
            self._local_counts = minute, Counter()
        self._local_counts[1][organization] += 1
        return self._local_counts[1][organization]

    def note_unwritable(self, error: Exception) -> None:
        """Count in this process for UNWRITABLE_SECONDS after a failed write."""
        if self.is_writable:
            log.warning("rates.counted_here_only", reason=type(error).__name__)
        self._unwritable_until = time.monotonic() + UNWRITABLE_SECONDS

    def use_reserved(self, organization: str) -> tuple[int, int] | None:
        """Return a minute and a reserved request number, or None. The caller uses or returns it."""
        reserved = self._numbers.get(organization)
        if reserved is None or not reserved.numbers:
            return None
        reserved.used_at = time.monotonic()
        return reserved.minute, reserved.numbers.pop()

    def return_reserved(self, organization: str, minute: int, number: int) -> None:
        reserved = self._numbers.get(organization)
        if reserved is not None and reserved.minute == minute:
            reserved.numbers.append(number)

    def begin_reserving(self, organization: str | None) -> int:
        """Return the count of numbers to reserve next, which grows while they last less than a second."""
        reserved = self._numbers.get(organization) if organization else None
        if reserved is None or reserved.is_reserving or reserved.reserve_count == 1:
            return 1
        reserved.is_reserving = True
        return reserved.reserve_count

    def end_reserving(self, organization: str | None, count: int) -> None:
        """Mark the request for reserved numbers as finished, successful or not."""
        reserved = self._numbers.get(organization) if organization else None
        if reserved is not None and count > 1:
            reserved.is_reserving = False

    def add_reserved(self, organization: str, minute: int, last: int, count: int, limit: int) -> int:
        """Store the reserved numbers up to `last`; return the first one, for this request."""
        first = last - count + 1
        reserved = self._numbers.get(organization)
        if reserved is None:
            reserved = self._numbers[organization] = ReservedNumbers()
            self._forget_old()
        self._numbers.move_to_end(organization)
        timestamp = time.monotonic()
        if (reserved.minute, reserved.limit) != (minute, limit):
            reserved.numbers.clear()
            reserved.minute = minute
        reserved.numbers[:0] = range(min(last, limit), first, -1)
        was_quick = timestamp - reserved.used_at < IDLE_SECONDS
        largest = max(1, min(MAX_RESERVED_REQUESTS, limit // 100, (limit - last) // 16))
        reserved.reserve_count = min(largest, reserved.reserve_count * 2 if was_quick else 1)
        reserved.limit, reserved.used_at = limit, timestamp
        if reserved.numbers and (self._returning is None or self._returning.done()):
            self._returning = asyncio.create_task(self._return_idle())
        return first

    async def close(self) -> None:
        """Return all unused numbers."""
        if self._returning is not None:
            self._returning.cancel()
        await self._return_unused(float("inf"))

    def _forget_old(self) -> None:
        for organization in list(self._numbers)[: max(0, len(self._numbers) - _MAX_ORGANIZATIONS)]:
            if not self._numbers[organization].numbers:
                del self._numbers[organization]

    async def _return_idle(self) -> None:
        while any(reserved.numbers for reserved in self._numbers.values()):
            await asyncio.sleep(IDLE_SECONDS / 2)
            await self._return_unused(time.monotonic() - IDLE_SECONDS)

    async def _return_unused(self, deadline: float) -> None:
        """Return numbers unused since the deadline; stop while the database is away."""
        # Each statement would wait for its timeout.
        for organization, reserved in list(self._numbers.items()):
            if not reserved.numbers or reserved.used_at >= deadline:
                continue
            unused, reserved.numbers, reserved.reserve_count = len(reserved.numbers), [], 1
            parameters = {
                "organization": organization,
                "minute": reserved.minute,
                "unused": unused,
                "limit": reserved.limit,
            }
            try:
                await self._db.async_execute(_RETURN_REQUESTS, parameters, plan_once=True)
            except UNAVAILABLE_ERRORS as error:
                log.warning("rates.not_returned", reason=type(error).__name__)
                return


# Requests without a valid key, by client address and minute.
ADDRESS_REQUESTS_PER_MINUTE = 600
# Requests of an address that are written together; other processes count them from then on.
ADDRESS_BLOCK_SIZE = 20
_MAX_ADDRESSES = 65_536
_COUNT_ADDRESS: LiteralString = f"""
    insert into rate_windows (caller, minute, requests) values (%(caller)s, %(minute)s, %(requests)s)
    on conflict (caller) do update set
        requests = case when {IS_SAME_WINDOW_SQL} then least(rate_windows.requests, 1000000000) else 0 end
            + excluded.requests,
        minute = {COUNTED_MINUTE_SQL}
    returning requests
"""

Networks = Sequence[IPv4Network | IPv6Network]


def find_client(scope: HTTPScope, trusted: Networks) -> str:
    """Return the client's address; "" for a server without one."""
    # X-Forwarded-For counts only from a trusted proxy, back to the first address outside the trusted networks.
    client = scope.get("client")
    client_address = _parse_proxy_address(client[0]) if client else None
    if client_address is None:
        return client[0] if client else ""
    if trusted and is_within(client_address, trusted):
        for hop in reversed(_forwarded_hops(scope["headers"])):
            address = _parse_proxy_address(hop)
            if address is None:
                break
            client_address = address
            if not is_within(client_address, trusted):
                break
    return client_key(client_address)


def client_key(address: IPv4Address | IPv6Address) -> str:
    """Return the IPv4 address, or the /64 network of an IPv6 address."""
    # One client usually has a whole /64.
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


def is_within(address: IPv4Address | IPv6Address, networks: Networks) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse a socket's address, IPv4-mapped IPv6 as IPv4; None for other text."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _parse_proxy_address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse `192.0.2.1`, `192.0.2.1:5000`, `2001:db8::1` or `[2001:db8::1]:5000`."""
    text = text.strip()
    if text.startswith("["):
        return parse_address(text[1:].partition("]")[0])
    return parse_address(text.partition(":")[0] if text.count(":") == 1 else text)


def _forwarded_hops(headers: Iterable[tuple[bytes, bytes]]) -> list[str]:
    joined = b",".join(value for name, value in headers if name == b"x-forwarded-for")
    return joined.decode("latin-1").split(",") if joined else []


@dataclass(slots=True)
class _AddressCount:
    """Requests of an address in this minute."""

    shared: int = 0  # of all processes, as last read from the database
    pending: int = 0  # of this process, not written yet


class AddressCounts:
    """Requests of this minute by address; each process may exceed the limit by ADDRESS_BLOCK_SIZE."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._minute = 0
        self._counts: OrderedDict[str, _AddressCount] = OrderedDict()

    async def count_request(self, address: str) -> tuple[int, int]:
        """Count a request; return the minute since 1970 and its number of requests."""
        # Nothing is written above the limit, so a flood costs no statements.
        minute = int(time.time()) // 60
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
        count = self._counts.setdefault(address, _AddressCount())
        self._counts.move_to_end(address)
        if len(self._counts) > _MAX_ADDRESSES:
            self._counts.popitem(last=False)
        was_over = count.shared + count.pending > ADDRESS_REQUESTS_PER_MINUTE
        count.pending += 1
        total = count.shared + count.pending
        if not was_over and (count.pending >= ADDRESS_BLOCK_SIZE or total > ADDRESS_REQUESTS_PER_MINUTE):
            total = await self._write_pending(address, minute, count)
        return minute, total

    async def _write_pending(self, address: str, minute: int, count: _AddressCount) -> int:
        pending, count.pending = count.pending, 0
        count.shared += pending
        try:
            values = {"caller": f"address:{address}", "minute": minute, "requests": pending}
            requests = await self._db.async_fetch_one(int, _COUNT_ADDRESS, values)
        except UNAVAILABLE_ERRORS:
            return count.shared + count.pending
        count.shared = max(count.shared, requests or 0)
        return count.shared + count.pending
