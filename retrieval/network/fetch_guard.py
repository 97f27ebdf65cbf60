"""The fetch guard: which addresses this service connects to on behalf of users.

The address that is dialled is the one that was checked, so neither spellings nor names that change can lead elsewhere.
`ipaddress.is_global` is no guard alone: it takes several tunnels and relays for public. The ranges follow IANA's
registries of special-purpose addresses.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

import idna

from retrieval.errors import Fatal, Retryable
from retrieval.network.egress import Proxy, find_proxy
from retrieval.settings import Settings

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Dialled = tuple[socket.AddressFamily, tuple[Any, ...]]

_RESERVED = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_UNICAST = IPv6Network("2000::/3")
_RESERVED_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
_METADATA: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16",  # AWS, Google, Azure, ECS, EKS and others
        "100.100.100.200/32",  # Alibaba
        "168.63.129.16/32",  # Azure's wire server, a public address
        "192.0.0.192/32",  # Oracle
        "fd00:ec2::/32",  # AWS
        "fd20:ce::254/128",  # Google
    )
)
"""Where machines of a cloud learn their own credentials: never, whatever an operator allows."""
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0:0/96"))
_ISATAP = (0x00005EFE, 0x02005EFE)

_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORTS = frozenset({80, 443})
_OTHER_SERVICES = frozenset(
    {1433, 1521, 1719, 1720, 1723, 2049, 3306, 3659, 4045, 4190, 5060, 5061, 5432, 6000, 6379, 6566, 6665, 6666, 6667}
    | {6668, 6669, 6679, 6697, 9092, 10080, 11211, 27017}
)
"""Ports above 1023 on which no web server answers, but other services might take a request for theirs."""


class Blocked(Fatal):
    """An address that this service does not connect to. Its text repeats neither name nor address."""


_NO_SUCH_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME), socket.EAI_FAIL})
_NOT_TO_BE_HAD = (
    "The host of the address does not exist, or is not on the public internet; the operator can allow its range with"
    " RETRIEVAL_FETCH_ALLOW."
)
"""The same for a name that leads nowhere and for one that leads inside: nobody learns which names there are inside."""


@dataclass(frozen=True, slots=True)
class Guard:
    """`allowed`: the operator's ranges beside the public addresses. `own_ports`: of this installation on this machine;
    `own`: its hosts and ports elsewhere. Its own are refused whatever is allowed."""

    allowed: tuple[Network, ...] = ()
    own_ports: frozenset[int] = frozenset()
    own: tuple[tuple[str, int], ...] = ()
    proxy: Proxy | None = None
    trusting: bool = False
    """Check nothing: the operator names the addresses."""
    more_ports: frozenset[int] = frozenset()
    """Ports of another protocol than HTTP that its client may dial, such as 22 for SFTP."""

    def resolve(self, host: str, port: int) -> list[Dialled]:
        """Resolve the name and check each address: one that is not allowed blocks all. OSError: resolution failed."""
        if self.trusting:
            return [(family, address) for family, _, _, _, address in _looked_up(host, port)]
        if port not in self.more_ports:
            check_port(port)
        name = canonical_host(host)
        try:
            infos = _looked_up(name, port)
        except socket.gaierror as error:
            if error.errno in _NO_SUCH_NAME:
                raise Blocked(_NOT_TO_BE_HAD) from None
            raise
        try:
            for _, _, _, _, socket_address in infos:
                self._check(ip_address(socket_address[0]), port)
        except Blocked:
            if ":" in name or _NUMBER.fullmatch(name.rpartition(".")[2]):
                raise
            raise Blocked(_NOT_TO_BE_HAD) from None
        return [(family, socket_address) for family, _, _, _, socket_address in infos]

    def connect(self, host: str, port: int, timeout: float | None = None) -> socket.socket:
        """A connection to one of the checked addresses, within `timeout` seconds in all. OSError: none answers."""
        error: OSError = OSError("The name leads nowhere.")
        for family, socket_address, seconds_left in in_turn(self.resolve(host, port), timeout):
            if proxy := self.route(socket_address[0]):
                try:
                    return proxy.connect(socket_address[0], port, seconds_left)
                except OSError as failed:
                    error = failed
                    continue
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                connection.settimeout(seconds_left)
                connection.connect(socket_address)
            except OSError as failed:
                connection.close()
                error = failed
            else:
                return connection
        raise error

    def route(self, address: str) -> Proxy | None:
        """The proxy through which an address is reached; None: directly, as every private one is."""
        return self.proxy if self.proxy and _is_public(ip_address(address.partition("%")[0])) else None

    def check_url(self, url: str) -> None:
        """Blocked, with the reason, unless every address of the URL's host may be dialled."""
        host, port = host_and_port(url)
        try:
            self.resolve(host, port)
        except OSError as error:
            raise Retryable("The host name of the address cannot be looked up now.") from error

    def allows_plainly(self, host: str, port: int) -> bool:
        """Tell if the name resolves only to ranges that the operator allows. Blocked and OSError as in `resolve`."""
        resolved = [ip_address(socket_address[0]) for _, socket_address in self.resolve(host, port)]
        return all(any(address in network for network in self.allowed) for address in resolved)

    def _check(self, address: Address, port: int) -> None:
        for reading in _readings(address):
            if any(reading in network for network in _METADATA):
                raise Blocked("The address leads to a machine's own metadata, which is never fetched.")
            if not _is_public(reading) and not any(reading in network for network in self.allowed):
                raise Blocked(
                    "The address is not on the public internet; the operator can allow its range with"
                    " RETRIEVAL_FETCH_ALLOW."
                )
            if self._is_own(reading, port):
                raise Blocked("The address is one of this service's own, which are never fetched.")

    def _is_own(self, address: Address, port: int) -> bool:
        if port in self.own_ports and _is_here(address):
            return True
        hosts = [host for host, own_port in self.own if own_port == port]
        return any(_leads_to(host, port, address) for host in hosts)


def make_guard(options: Settings, more_ports: frozenset[int] = frozenset()) -> Guard:
    """The guard that the operator's settings ask for. `more_ports`: of the client's own protocol."""
    ports = {options.api_port, options.ui_port, options.metrics_port or 0} | (
        set() if options.prefect_api_url else {options.prefect_port}
    )
    own_ports, hosts = frozenset(ports - {0}), tuple(_own(options))
    return Guard(tuple(options.fetch_allow), own_ports, hosts, find_proxy(options), more_ports=more_ports)


def make_trusting_guard(options: Settings) -> Guard | None:
    """What dials vendors and the operator's endpoints where a proxy is set; None without one."""
    proxy = find_proxy(options)
    return Guard(proxy=proxy, trusting=True) if proxy else None


def find_route(options: Settings, url: str | None) -> Proxy | None:
    """The proxy for a library that speaks with it itself. `url`: the operator's endpoint; None: the vendor's own."""
    guard = make_trusting_guard(options)
    if guard is None or url is None:
        return guard.proxy if guard else None
    try:
        resolved = guard.resolve(*host_and_port(url))
    except OSError:
        return guard.proxy
    return next((proxy for _, address in resolved if (proxy := guard.route(address[0]))), None)


def _own(options: Settings) -> Iterator[tuple[str, int]]:
    """Return the addresses of other parts of the installation, as far as the settings contain them."""
    databases = [secret.get_secret_value() for secret in (options.database_url, options.prefect_database_url) if secret]
    databases += [options.egress_proxy.get_secret_value()] if options.egress_proxy else []
    addresses = [options.prefect_api_url or "", options.ui_api_url or ""]
    for url in (*databases, *addresses, *(f"tcp://{address}" for address in options.own_addresses)):
        try:
            parts = urlsplit(url)
            port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 5432)
        except ValueError:
            continue
        if parts.hostname:
            yield parts.hostname, port


def _leads_to(host: str, port: int, address: Address) -> bool:
    """Tell if the host has this address, or both are this machine: a part may listen on all interfaces."""
    with suppress(OSError):
        for _, _, _, _, socket_address in _looked_up(host, port):
            host_address = ip_address(socket_address[0].partition("%")[0])
            if host_address == address or (_is_here(host_address) and _is_here(address)):
                return True
    return False


def _is_here(address: Address) -> bool:
    """Tell if it is an address of this machine: the system binds to no other."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((str(address), 0))
        return True
    return False


def _looked_up(name: str, port: int) -> list[Any]:
    return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)


def host_and_port(url: str) -> tuple[str, int]:
    """Parse the host and port of an http or https URL. Blocked if parsers could disagree about the host."""
    if re.search(r"[\x00-\x20\x7f-\x9f\\]", url):
        raise Blocked("The address holds spaces, control characters or backslashes.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Blocked("The address cannot be read: its host or port is malformed.") from error
    if parts.scheme not in {"http", "https"}:
        raise Blocked("Only http:// and https:// addresses are fetched.")
    if not parts.hostname:
        raise Blocked("The address has no host.")
    if "@" in parts.netloc:
        raise Blocked("The address holds a user name or password.")
    return parts.hostname, port if port is not None else {"http": 80, "https": 443}[parts.scheme]


def canonical_host(host: str) -> str:
    """The one spelling of a name or address that is looked up. Blocked for numbers that are no plain address."""
    name = host.strip("[]") if host.startswith("[") else host
    if ":" in name:
        return str(_address(name))
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode()
        except (idna.IDNAError, UnicodeError) as error:
            raise Blocked("The host name cannot be read.") from error
    name = name.lower().removesuffix(".")
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise Blocked("The host name cannot be read.")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return str(_address(name))
    return name


def check_port(port: int) -> None:
    """Blocked for ports where other services than web servers listen."""
    if port not in _PORTS and (not 1024 <= port <= 65535 or port in _OTHER_SERVICES):
        raise Blocked("The port of the address is not one of a web server: 80, 443 or above 1023.")


def _address(text: str) -> Address:
    try:
        address = ip_address(text)
    except ValueError as error:
        raise Blocked("The host is a number, but no plain internet address.") from error
    if isinstance(address, IPv6Address) and address.scope_id:
        raise Blocked("The address names an interface of this machine.")
    return address


def _readings(address: Address) -> Iterator[Address]:
    """The address, and each IPv4 address that a tunnel or translator would make of it."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            yield address.ipv4_mapped
            return
        yield from _embedded(address)
    yield address


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    number = int(address)
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    if any(address in network for network in _NAT64) or (number >> 32) & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFFFFFF)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _RESERVED)
    return address in _UNICAST and not any(address in network for network in _RESERVED_6)


def in_turn(addresses: Iterable[Dialled], timeout: float | None) -> Iterator[tuple[socket.AddressFamily, Any, Any]]:
    """Yield each address with the remaining seconds of the timeout."""
    end = None if timeout is None else time.monotonic() + timeout
    for family, socket_address in addresses:
        seconds_left = None if end is None else end - time.monotonic()
        if seconds_left is not None and seconds_left <= 0:
            return
        yield family, socket_address, seconds_left
