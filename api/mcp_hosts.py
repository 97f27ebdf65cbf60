"""The check of `Host` and `Origin` at `/mcp`, as the protocol's specification demands against DNS rebinding."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self
from urllib.parse import SplitResult, urlsplit

from litestar.types import HTTPScope

from retrieval.errors import ErrorCode, ServiceError
from retrieval.settings import Settings

PATH = "/mcp"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Hosts:
    """`public`: where clients reach the API; `names`: host names that are accepted besides it and loopback."""

    public: str
    names: frozenset[str]

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(settings.base_url, frozenset(name.lower() for name in settings.mcp_hosts))

    def refusal(self, scope: HTTPScope) -> ServiceError | None:
        """FORBIDDEN for a request that names another host, or that a page of another origin sends."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or not self._is_own_host(_split(f"//{hosts[0]}")):
            return _forbidden("Host", "other_host")
        if any(not self._is_own_origin(origin) for origin in _values(scope, b"origin")):
            return _forbidden("Origin", "other_origin")
        return None

    def _is_own_host(self, address: SplitResult | None) -> bool:
        host = address and address.hostname
        return bool(host) and (host == urlsplit(self.public).hostname or host in self.names or _is_loopback(host or ""))

    def _is_own_origin(self, origin: str) -> bool:
        address = _split(origin)
        if address is None or address.scheme not in _PORTS or address.path or address.query or address.fragment:
            return False
        if address.hostname == urlsplit(self.public).hostname and not _is_loopback(address.hostname or ""):
            return _port(address) == _port(urlsplit(self.public))
        return self._is_own_host(address)


def _values(scope: HTTPScope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _split(address: str) -> SplitResult | None:
    """None for what is no address."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return None if parts.username is not None else parts


def _port(address: SplitResult) -> tuple[str, int | None]:
    return address.scheme, address.port or _PORTS.get(address.scheme)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _forbidden(header: str, reason: str) -> ServiceError:
    message = (
        f"{PATH} does not answer for this {header}. Use the address in RETRIEVAL_PUBLIC_URL, or have the name added to"
        " RETRIEVAL_MCP_HOSTS."
    )
    return ServiceError(ErrorCode.FORBIDDEN, message, field=header, reason=reason)
