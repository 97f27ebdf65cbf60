"""HTTP rules of `/mcp`: the refusal of other hosts and origins, and the metadata by which OAuth clients sign in.

`Host` and `Origin` are checked as the protocol's specification demands against DNS rebinding. The metadata of the
protected resource are those of RFC 9728, the challenges those of RFC 6750.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

from litestar.types import HTTPScope

from retrieval.errors import ErrorCode, ServiceError
from retrieval.settings import Settings

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"
_LACKS_SCOPE = frozenset({"missing_scope", "no_role", "admins_only"})
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Hosts:
    """`public`: where clients reach the API; `names`: host names that are accepted besides it and loopback; `issuer`:
    of the identity provider, None without one."""

    public: str
    names: frozenset[str]
    issuer: str | None = None
    scopes: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Self:
        names = frozenset(name.lower() for name in settings.mcp_hosts)
        return cls(settings.base_url, names, settings.oidc_issuer, tuple(settings.oidc_scopes.split()))

    @property
    def resource(self) -> str:
        """The audience of tokens for `/mcp`: its address as clients reach it, whatever proxies are between."""
        return self.public + PATH

    def describe_resource(self) -> dict[str, Any] | None:
        """Return the metadata of the protected resource; None without an identity provider."""
        if self.issuer is None:
            return None
        return {
            "resource": self.resource,
            "resource_name": "Retrieval Service",
            "authorization_servers": [self.issuer],
            "scopes_supported": list(self.scopes),
            "bearer_methods_supported": ["header"],
        }

    def challenge(self, error: ServiceError) -> ServiceError:
        """Add to a refusal of `/mcp` where to sign in, or that the token lacks a scope."""
        if self.issuer is None or error.code not in {ErrorCode.UNAUTHORIZED, ErrorCode.FORBIDDEN}:
            return error
        fields = error.headers.get("WWW-Authenticate", "Bearer").removeprefix("Bearer").strip()
        if error.code is ErrorCode.FORBIDDEN:
            if error.reason not in _LACKS_SCOPE:
                return error
            fields = 'error="insufficient_scope"'
        location = f'resource_metadata="{self.public}{METADATA}{PATH}"'
        header = "Bearer " + ", ".join(filter(None, (fields, location)))
        return ServiceError(
            error.code,
            error.message,
            field=error.field,
            reason=error.reason,
            headers={**error.headers, "WWW-Authenticate": header},
        )

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
