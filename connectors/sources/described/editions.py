"""Description of a service's editions: addresses, credentials, OAuth 2 and rate limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from connectors.sources.described.fields import find_names

CLIENT_NAMES: Final = frozenset({"clientId", "clientSecret"})
"""Credentials of an app in a connection's config."""


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer to requests beyond a quota, besides 429."""

    status: int
    # Header whose value matches the pattern `value`.
    header: str = ""
    value: str = ".*"
    # Pattern of the text.
    body: str = ""
    # Header or field with the seconds to wait, after Retry-After.
    seconds: str = ""
    # Header with the end of the wait, as Unix time or ISO 8601.
    until: str = ""


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requests per minute and at once, and the service's answers to more."""

    per_minute: float = 600
    burst: int = 10
    limits: tuple[Limit, ...] = ()


class OAuth2(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """OAuth 2 of an edition; addresses are templates over the groups of its `url`."""

    token_url: str
    authorization_url: str = ""
    # RFC 7009.
    revoke_url: str = ""
    scopes: tuple[str, ...] = ()
    # Scopes without which the connection fails.
    required_scopes: tuple[str, ...] = ()
    grants: tuple[Literal["authorization_code", "client_credentials"], ...] = ("authorization_code",)
    # Scopes of client credentials.
    client_scopes: tuple[str, ...] = ()
    # Further parameters of the authorization URL, such as `access_type`.
    parameters: Mapping[str, str] = {}
    scope_name: str = "scope"
    separator: str = " "
    pkce: bool = True
    # Client id and secret as Basic, in place of the form.
    basic: bool = False
    # The app accepts `http://localhost` as redirect URI, but not `http://127.0.0.1`.
    localhost: bool = False

    @property
    def names(self) -> set[str]:
        """Names in the addresses."""
        return set[str]().union(*map(find_names, (self.token_url, self.authorization_url, self.revoke_url)))


class Edition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Edition of a service, such as its cloud."""

    # Pattern of a connection's URL; its groups are names in templates.
    url: str
    # Base of all requests; the fetch guard checks a host from a group.
    api: str
    name: str = ""
    # Credentials of each request, by header.
    headers: Mapping[str, str] = {}
    # Text of basic authentication, before encoding.
    basic: str = ""
    # Sends its access token as {token}.
    oauth2: OAuth2 | None = None
    # Readable without credentials too.
    public: bool = False
    # Pattern of the rest of an address in a browser.
    rest: str = "[/?#].*"

    @property
    def credentials(self) -> set[str]:
        """Names of the credentials that a connection sends."""
        return set[str]().union(*map(find_names, (self.basic, *self.headers.values())))

    @property
    def config_names(self) -> set[str]:
        """Names of the credentials in a connection's config."""
        return self.credentials | (CLIENT_NAMES if self.oauth2 else set())
