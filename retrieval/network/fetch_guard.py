"""Fetch guard: resolve host names and check addresses before connections on behalf of users."""

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
ResolvedAddress = tuple[socket.AddressFamily, tuple[Any, ...]]

_RESERVED_RANGES = tuple(
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
_UNICAST_RANGE = IPv6Network("2000::/3")
_RESERVED_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
# Credentials of cloud machines; refused even if allowed by the operator.
_METADATA_RANGES: tuple[Network, ...] = tuple(
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
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0:0/96"))
_ISATAP_IDENTIFIERS = (0x00005EFE, 0x02005EFE)

_NAME_PATTERN = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_NUMBER_PATTERN = re.compile(r"[0-9]+|0x[0-9a-f]*")
_WEB_PORTS = frozenset({80, 443})
# Ports above 1023 of other protocols, which could interpret an HTTP request.
_NON_WEB_PORTS = frozenset(
    {1433, 1521, 1719, 1720, 1723, 2049, 3306, 3659, 4045, 4190, 5060, 5061, 5432, 6000, 6379, 6566, 6665, 6666, 6667}
    | {6668, 6669, 6679, 6697, 9092, 10080, 11211, 27017}
)


class BlockedAddress(Fatal):
    """Refused address. The message repeats neither name nor address."""


_UNKNOWN_NAME_ERRORS = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME), socket.EAI_FAIL})
# One message for unknown and internal names, so that nobody can probe internal names.
_UNREACHABLE_MESSAGE = (
    "The host of the address does not exist, or is not on the public internet; the operator can allow its range with"
    " RETRIEVAL_FETCH_ALLOW."
)


@dataclass(frozen=True, slots=True)
class Guard:
    """Allowed ranges and own addresses, which are always refused."""

    # The checked address itself is dialled, so DNS changes cannot redirect a connection. `is_global` of ipaddress is
    # not enough: it accepts several tunnels and relays; the ranges follow IANA's registries.
    # Ranges of the operator, in addition to public addresses.
    allowed: tuple[Network, ...] = ()
    # Ports of the installation on this machine.
    own_ports: frozenset[int] = frozenset()
    own_hosts: tuple[tuple[str, int], ...] = ()
    proxy: Proxy | None = None
    # Skip checks: the operator configured the addresses.
    trusting: bool = False
    # Ports of another protocol, such as 22 for SFTP.
    extra_ports: frozenset[int] = frozenset()

    def resolve(self, host: str, port: int) -> list[ResolvedAddress]:
        """Resolve and check all addresses. Raises BlockedAddress for a refused address, OSError for a failed lookup."""
        if self.trusting:
            return [(family, address) for family, _, _, _, address in _lookup_host(host, port)]
        if port not in self.extra_ports:
            check_port(port)
        name = canonical_host(host)
        try:
            infos = _lookup_host(name, port)
        except socket.gaierror as error:
            if error.errno in _UNKNOWN_NAME_ERRORS:
                raise BlockedAddress(_UNREACHABLE_MESSAGE) from None
            raise
        try:
            for _, _, _, _, socket_address in infos:
                self._check(ip_address(socket_address[0]), port)
        except BlockedAddress:
            if ":" in name or _NUMBER_PATTERN.fullmatch(name.rpartition(".")[2]):
                raise
            raise BlockedAddress(_UNREACHABLE_MESSAGE) from None
        return [(family, socket_address) for family, _, _, _, socket_address in infos]

    def connect(self, host: str, port: int, timeout: float | None = None) -> socket.socket:
        """Connect to a checked address within `timeout` seconds. Raises OSError."""
        error: OSError = OSError("The name leads nowhere.")
        for family, socket_address, seconds_left in iter_addresses(self.resolve(host, port), timeout):
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
        """Return the proxy for an address; None for a direct connection."""
        # Private addresses are always reached directly.
        return self.proxy if self.proxy and _is_public(ip_address(address.partition("%")[0])) else None

    def check_url(self, url: str) -> None:
        """Raise BlockedAddress for a refused URL, Retryable for a failed lookup."""
        host, port = parse_host_port(url)
        try:
            self.resolve(host, port)
        except OSError as error:
            raise Retryable("The host name of the address cannot be looked up now.") from error

    def allows_plainly(self, host: str, port: int) -> bool:
        """Check that the name resolves only to allowed ranges. Raises BlockedAddress and OSError."""
        resolved = [ip_address(socket_address[0]) for _, socket_address in self.resolve(host, port)]
        return all(any(address in network for network in self.allowed) for address in resolved)

    def _check(self, address: Address, port: int) -> None:
        for reading in _list_embedded_addresses(address):
            if any(reading in network for network in _METADATA_RANGES):
                raise BlockedAddress("The address leads to a machine's own metadata, which is never fetched.")
            if not _is_public(reading) and not any(reading in network for network in self.allowed):
                raise BlockedAddress(
                    "The address is not on the public internet; the operator can allow its range with"
                    " RETRIEVAL_FETCH_ALLOW."
                )
            if self._is_own(reading, port):
                raise BlockedAddress("The address is one of this service's own, which are never fetched.")

    def _is_own(self, address: Address, port: int) -> bool:
        if port in self.own_ports and _is_local_address(address):
            return True
        hosts = [host for host, own_port in self.own_hosts if own_port == port]
        return any(_has_address(host, port, address) for host in hosts)


def make_guard(options: Settings, extra_ports: frozenset[int] = frozenset()) -> Guard:
    """Create the guard of the settings. `extra_ports` are ports of the client's protocol."""
    ports = {options.api_port, options.ui_port, options.metrics_port or 0} | (
        set() if options.prefect_api_url else {options.prefect_port}
    )
    own_ports, hosts = frozenset(ports - {0}), tuple(_list_own_addresses(options))
    return Guard(tuple(options.fetch_allow), own_ports, hosts, find_proxy(options), extra_ports=extra_ports)


def make_trusting_guard(options: Settings) -> Guard | None:
    """Create the guard for vendors and endpoints of the operator; None without proxy."""
    proxy = find_proxy(options)
    return Guard(proxy=proxy, trusting=True) if proxy else None


def find_route(options: Settings, url: str | None) -> Proxy | None:
    """Return the proxy for a library with own proxy support. `url` None is the vendor's endpoint."""
    guard = make_trusting_guard(options)
    if guard is None or url is None:
        return guard.proxy if guard else None
    try:
        resolved = guard.resolve(*parse_host_port(url))
    except OSError:
        return guard.proxy
    return next((proxy for _, address in resolved if (proxy := guard.route(address[0]))), None)


def _list_own_addresses(options: Settings) -> Iterator[tuple[str, int]]:
    """Yield host and port of other parts of the installation."""
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


def _has_address(host: str, port: int, address: Address) -> bool:
    """Check for an address of the host, or for this machine on both sides."""
    with suppress(OSError):
        for _, _, _, _, socket_address in _lookup_host(host, port):
            host_address = ip_address(socket_address[0].partition("%")[0])
            if host_address == address or (_is_local_address(host_address) and _is_local_address(address)):
                return True
    return False


def _is_local_address(address: Address) -> bool:
    """Check for an address of this machine."""
    # The system binds only to own addresses.
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((str(address), 0))
        return True
    return False


def _lookup_host(name: str, port: int) -> list[Any]:
    return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)


def parse_host_port(url: str) -> tuple[str, int]:
    """Parse host and port of an http or https URL. Raises BlockedAddress for ambiguous hosts."""
    if re.search(r"[\x00-\x20\x7f-\x9f\\]", url):
        raise BlockedAddress("The address holds spaces, control characters or backslashes.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BlockedAddress("The address cannot be read: its host or port is malformed.") from error
    if parts.scheme not in {"http", "https"}:
        raise BlockedAddress("Only http:// and https:// addresses are fetched.")
    if not parts.hostname:
        raise BlockedAddress("The address has no host.")
    if "@" in parts.netloc:
        raise BlockedAddress("The address holds a user name or password.")
    return parts.hostname, port if port is not None else {"http": 80, "https": 443}[parts.scheme]


def canonical_host(host: str) -> str:
    """Normalize a name or address for lookup. Raises BlockedAddress for irregular numbers."""
    name = host.strip("[]") if host.startswith("[") else host
    if ":" in name:
        return str(_parse_address(name))
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode()
        except (idna.IDNAError, UnicodeError) as error:
            raise BlockedAddress("The host name cannot be read.") from error
    name = name.lower().removesuffix(".")
    if len(name) > 253 or not _NAME_PATTERN.fullmatch(name):
        raise BlockedAddress("The host name cannot be read.")
    if _NUMBER_PATTERN.fullmatch(name.rpartition(".")[2]):
        return str(_parse_address(name))
    return name


def check_port(port: int) -> None:
    """Raise BlockedAddress for ports of other services."""
    if port not in _WEB_PORTS and (not 1024 <= port <= 65535 or port in _NON_WEB_PORTS):
        raise BlockedAddress("The port of the address is not one of a web server: 80, 443 or above 1023.")


def _parse_address(text: str) -> Address:
    try:
        address = ip_address(text)
    except ValueError as error:
        raise BlockedAddress("The host is a number, but no plain internet address.") from error
    if isinstance(address, IPv6Address) and address.scope_id:
        raise BlockedAddress("The address names an interface of this machine.")
    return address


def _list_embedded_addresses(address: Address) -> Iterator[Address]:
    """Yield the address and IPv4 addresses embedded for tunnels and translators."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            yield address.ipv4_mapped
            return
        yield from _list_embedded_ipv4(address)
    yield address


def _list_embedded_ipv4(address: IPv6Address) -> Iterator[IPv4Address]:
    number = int(address)
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    if any(address in network for network in _NAT64) or (number >> 32) & 0xFFFFFFFF in _ISATAP_IDENTIFIERS:
        yield IPv4Address(number & 0xFFFFFFFF)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _RESERVED_RANGES)
    return address in _UNICAST_RANGE and not any(address in network for network in _RESERVED_6)


def iter_addresses(
    addresses: Iterable[ResolvedAddress], timeout: float | None
) -> Iterator[tuple[socket.AddressFamily, Any, Any]]:
    """Yield addresses with the remaining seconds."""
    end = None if timeout is None else time.monotonic() + timeout
    for family, socket_address in addresses:
        seconds_left = None if end is None else end - time.monotonic()
        if seconds_left is not None and seconds_left <= 0:
            return
        yield family, socket_address, seconds_left
