"""OAuth 2 of described services: a person authorizes an app, or the app has access of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from connectors.http import responses, sessions
from connectors.http.no_authorizer import NoAuthorizer
from connectors.http.oauth import Auth, OAuth, make_oauth
from connectors.http.oauth import Service as OAuthService
from connectors.sources.described.description import Description
from connectors.sources.described.editions import CLIENT_NAMES, OAuth2
from connectors.sources.described.fields import fill_address
from connectors.sources.described.service import Site, open_site
from retrieval.errors import AppRefused, Fatal
from retrieval.network import fetch_guard
from retrieval.ports import Tokens

if TYPE_CHECKING:
    import httpx

    from retrieval.network.fetch_guard import Guard
    from retrieval.settings import Settings

PERSON: Final = "authorization_code"
APP: Final = "client_credentials"


def start_grant(name: str, site: Site, config: Mapping[str, Any], settings: Settings) -> Tokens | None:
    """Return the tokens of a config before the first exchange; None without OAuth 2. ValueError without an app."""
    about, credentials = site.edition.oauth2, config.get("credentials") or {}
    if about is None or credentials.keys() - CLIENT_NAMES:
        return None
    if not credentials and not _has_app(name, about, settings):
        return None
    by_app = APP in about.grants and bool(credentials)
    url = site.location["url"]
    document = {**config, "url": url, "credentials": dict(credentials), "grant": APP if by_app else PERSON}
    # Expired tokens are requested before their first use.
    expires_at = datetime.now(UTC) if by_app else None
    return Tokens(json.dumps(document), expires_at=expires_at, account=url, by_person=not by_app)


def _has_app(name: str, about: OAuth2, settings: Settings) -> bool:
    # An address of a request must not receive the operator's secret. The operator's app only signs people in: by its
    # own access, every organization could read the accounts that any organization opened to it.
    is_fixed = not about.token_url.startswith("{")
    return name in settings.oauth_apps and is_fixed and PERSON in about.grants


@dataclass(frozen=True, slots=True)
class DescribedAuthorizer:
    """Authorizer of the connection with this access token; `find`: name and description for a URL, or ValueError."""

    find: Callable[[str], tuple[str, Description]]
    settings: Settings
    access_token: str = field(default="{}", repr=False)

    def with_access_token(self, access_token: str) -> DescribedAuthorizer:
        return replace(self, access_token=access_token)

    @property
    def pkce(self) -> bool:
        return self._flow(self.access_token).pkce

    def authorize_url(self, *, redirect_uri: str, state: str, challenge: str | None) -> str:
        return self._flow(self.access_token).authorize_url(redirect_uri=redirect_uri, state=state, challenge=challenge)

    def exchange_code(self, code: str, *, redirect_uri: str, verifier: str | None) -> Tokens:
        flow = self._flow(self.access_token)
        tokens = flow.exchange_code(code, redirect_uri=redirect_uri, verifier=verifier)
        return _store(tokens, json.loads(self.access_token))

    def refresh(self, tokens: Tokens) -> Tokens:
        """Return new tokens, of an app by its own credentials. Fatal after a refusal."""
        flow, document = self._flow(tokens.access_token), json.loads(tokens.access_token)
        if isinstance(flow, OAuth) and document["grant"] == APP:
            return _store(flow.request_own(), document)
        return _store(flow.refresh(tokens), document)

    def revoke(self, tokens: Tokens) -> None:
        secret = (json.loads(tokens.access_token).get("credentials") or {}).get("token")
        if secret:  # absent before the authorization
            self._flow(tokens.access_token).revoke(replace(tokens, access_token=secret))

    def _flow(self, access_token: str) -> OAuth | NoAuthorizer:
        """Return the flow of a connection, without one for credentials of a config."""
        document = json.loads(access_token)
        if "grant" not in document:
            return NoAuthorizer()
        try:
            name, description = self.find(document["url"])
        except ValueError as error:
            raise Fatal(f"The connection's address {error.args[-1]}.") from error
        site = open_site(name, description, document["url"], self.settings)
        if site is None or (about := site.edition.oauth2) is None:
            raise Fatal("The service's description names no OAuth 2: send the connection's config again.")
        client = self._find_client(name, about, document["credentials"])
        is_by_app = document["grant"] == APP
        scopes = about.separator.join(about.client_scopes if is_by_app else about.scopes)
        auth = Auth.CLIENT if about.basic else Auth.FORM
        service = OAuthService(
            name=description.title,
            authorize=fill_address(about.authorization_url, site.location),
            token=fill_address(about.token_url, site.location),
            revoke=fill_address(about.revoke_url, site.location) or None,
            extra={**({about.scope_name: scopes} if scopes else {}), **about.parameters},
            pkce=about.pkce,
            auth=auth,
            revoke_auth=auth,
            rights=dict.fromkeys(about.required_scopes, ()),
        )
        flow = make_oauth(name, service, client, self.settings)
        if not (site.guarded and about.token_url.startswith("{")):
            return flow
        guard = fetch_guard.make_guard(self.settings)
        sessions.require_private_without_tls(guard, flow.token_at, title=service.name, field="config.url")
        return replace(flow, open_transport=lambda: _open_transport(guard))

    def _find_client(self, name: str, about: OAuth2, credentials: Mapping[str, str]) -> Mapping[str, str]:
        """Return the app of a connection, else the operator's app. Fatal without both."""
        if credentials.keys() >= CLIENT_NAMES:
            return credentials
        if PERSON not in about.grants:
            raise AppRefused("An app is missing: send the connection's config with its clientId and clientSecret.")
        if not _has_app(name, about, self.settings):
            raise AppRefused(f"The operator's app of {name} is missing in RETRIEVAL_OAUTH_APPS: set it again.")
        app = self.settings.oauth_apps[name]
        return {"clientId": app.client_id, "clientSecret": app.client_secret.get_secret_value()}


def _open_transport(guard: Guard) -> httpx.BaseTransport:
    from retrieval.network.transport import Transport

    return Transport(guard, max_bytes=responses.MAX_BODY_BYTES)


def _store(tokens: Tokens, document: Mapping[str, Any]) -> Tokens:
    """Return tokens with the connection's document as access token, as expected by the engine."""
    credentials = {**document["credentials"], "token": tokens.access_token}
    text = json.dumps({**document, "credentials": credentials})
    is_by_person = document["grant"] == PERSON
    return replace(tokens, access_token=text, account=document["url"], by_person=is_by_person)
