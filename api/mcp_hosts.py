"""HTTP rules of `/mcp`: allowed hosts and origins, and OAuth metadata."""
# The protocol requires checks of Host and Origin against DNS rebinding. Metadata follow RFC 9728, challenges RFC 6750.

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

from litestar.types import HTTPScope

from retrieval.errors import ErrorCode, ServiceError
from retrieval.settings import Settings

MCP_PATH = "/mcp"
METADATA_PATH = "/.well-known/oauth-protected-resource"
_LACKS_SCOPE = frozenset({"missing_scope", "no_role", "admins_only"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class McpHosts:
    """Accepted hosts of `/mcp`, and the identity provider."""

    public_url: str
    names: frozenset[str]  # accepted in addition to the public host and loopback
    issuer: str | None = None
    scopes: tuple[str, ...] = ()

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        names = frozenset(name.lower() for name in settings.mcp_hosts)
        return cls(settings.base_url, names, settings.oidc_issuer, tuple(settings.oidc_scopes.split()))

    @property
    def audience(self) -> str:
        """Audience of tokens for `/mcp`: its public URL."""
        return self.public_url + MCP_PATH

    def describe_resource(self) -> dict[str, Any] | None:
        """Return the metadata of the protected resource; None without an identity provider."""
        if self.issuer is None:
            return None
        return {
            "resource": self.audience,
            "resource_name": "Retrieval Service",
            "authorization_servers": [self.issuer],
            "scopes_supported": list(self.scopes),
            "bearer_methods_supported": ["header"],
        }

    def add_challenge(self, error: ServiceError) -> ServiceError:
        """Add the sign-in address or the missing scope to a refusal of `/mcp`."""
        if self.issuer is None or error.code not in {ErrorCode.UNAUTHORIZED, ErrorCode.FORBIDDEN}:
            return error
        fields = error.headers.get("WWW-Authenticate", "Bearer").removeprefix("Bearer").strip()
        if error.code is ErrorCode.FORBIDDEN:
            if error.reason not in _LACKS_SCOPE:
                return error
            fields = 'error="insufficient_scope"'
        location = f'resource_metadata="{self.public_url}{METADATA_PATH}{MCP_PATH}"'
        header = "Bearer " + ", ".join(filter(None, (fields, location)))
        return ServiceError(
            error.code,
            error.message,
            field=error.field,
            reason=error.reason,
            headers={**error.headers, "WWW-Authenticate": header},
        )

    def find_refusal(self, scope: HTTPScope) -> ServiceError | None:
        """Return FORBIDDEN for another host or a page of another origin."""
        hosts = _header_values(scope, b"host")
        if len(hosts) != 1 or not self._is_own_host(_parse_url(f"//{hosts[0]}")):
            return _forbidden("Host", "other_host")
        if any(not self._is_own_origin(origin) for origin in _header_values(scope, b"origin")):
            return _forbidden("Origin", "other_origin")
        return None

    def _is_own_host(self, address: SplitResult | None) -> bool:
        host = address and address.hostname
        return bool(host) and (
            host == urlsplit(self.public_url).hostname or host in self.names or _is_loopback(host or "")
        )

    def _is_own_origin(self, origin: str) -> bool:
        address = _parse_url(origin)
        if address is None or address.scheme not in _DEFAULT_PORTS or address.path or address.query or address.fragment:
            return False
        if address.hostname == urlsplit(self.public_url).hostname and not _is_loopback(address.hostname or ""):
            return _scheme_and_port(address) == _scheme_and_port(urlsplit(self.public_url))
        return self._is_own_host(address)


def _header_values(scope: HTTPScope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _parse_url(address: str) -> SplitResult | None:
    """Parse a URL; None if invalid."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return None if parts.username is not None else parts


def _scheme_and_port(address: SplitResult) -> tuple[str, int | None]:
    return address.scheme, address.port or _DEFAULT_PORTS.get(address.scheme)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _forbidden(header: str, reason: str) -> ServiceError:
    message = (
        f"{MCP_PATH} does not answer for this {header}. Use the address in RETRIEVAL_PUBLIC_URL, or have the name added"
        " to RETRIEVAL_MCP_HOSTS."
    )
    return ServiceError(ErrorCode.FORBIDDEN, message, field=header, reason=reason)
