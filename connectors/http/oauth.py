"""Run the OAuth2 code flow for all content services."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx
import msgspec

from connectors.http import responses, sessions
from connectors.http.retries import TransientError, retry_after
from retrieval.errors import AppRefused, Fatal, Retryable
from retrieval.network import fetch_guard
from retrieval.ports import Tokens
from retrieval.settings import Settings

# Seconds for a whole answer.
TOKEN_TIMEOUT_SECONDS = 10.0

_ACCEPT = {"Accept": "application/json"}
_ANSWER_BYTES = 64 * 1024
_REFUSALS = frozenset({400, 401, 403})
# Temporary errors of RFC 6749, and rate limits: Microsoft and Google send some with status 400 or 403.
_PASSING = frozenset({"temporarily_unavailable", "server_error", "rate_limit_exceeded", "rate_limited", "slow_down"})


# Errors that need a new authorization (RFC 6749); others concern the app.
_MICROSOFT_ENDED = frozenset({"interaction_required", "consent_required", "login_required"})
_GITHUB_ENDED = frozenset({"bad_refresh_token", "bad_verification_code"})
_SLACK_ENDED = frozenset({"invalid_refresh_token", "invalid_code", "code_already_used", "token_revoked"})
_ENDED = frozenset({"invalid_grant", "access_denied"}) | _MICROSOFT_ENDED | _GITHUB_ENDED | _SLACK_ENDED

# Tokens before the first exchange.
NONE = Tokens("")


class Auth(Enum):
    """Authentication of a token request."""

    FORM = "client id and secret in the form"
    BASIC = "a JSON body, client id and secret as Basic"
    CLIENT = "the form, client id and secret as Basic"
    TOKEN = "the token in the form, and nothing else"  # noqa: S105
    BEARER = "the token as Bearer, no body"


@dataclass(frozen=True, slots=True)
class Service:
    """OAuth settings of a content service."""

    # `account`: field of the token answer with the account's id; `nonce`: tokens are bound to one
    # authorization (OpenID Connect); `rights`: required scopes, with the scopes that include them; `sharing`: overrides
    # entries of `extra` to read item permissions.

    name: str
    authorize: str
    token: str
    extra: Mapping[str, str] = field(default_factory=dict)
    pkce: bool = True
    auth: Auth = Auth.FORM
    revoke: str | None = None
    revoke_auth: Auth = Auth.TOKEN
    account: str | None = None
    nonce: bool = False
    rights: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sharing: Mapping[str, str] = field(default_factory=dict)


# Sends a request by a vendor's SDK: returns JSON or None, and raises port errors.
Send = Callable[["OAuth", str, dict[str, str]], Any]


def make_oauth(
    connector: str, service: Service, app: Mapping[str, Any], settings: Settings, send: Send | None = None
) -> OAuth:
    """Build the flow of a namespace's app; the app's authorizationUrl and endpoints of the settings precede."""
    endpoints = settings.oauth_endpoints.get(connector)
    authorize = app.get("authorizationUrl") or (endpoints and endpoints.authorize) or service.authorize
    token, revoke = (endpoints and endpoints.token) or service.token, (endpoints and endpoints.revoke) or service.revoke
    return OAuth(service, app["clientId"], app["clientSecret"], authorize, token, revoke, send)


@dataclass(frozen=True, slots=True)
class OAuth:
    """`Authorizer` over plain HTTP, or by `send`; thread-safe."""

    service: Service
    client_id: str
    client_secret: str = field(repr=False)
    authorize_at: str
    token_at: str
    revoke_at: str | None
    send: Send | None = field(default=None, repr=False)
    # Transport of token requests, by default that of vendors.
    open_transport: Callable[[], httpx.BaseTransport] | None = field(default=None, repr=False)

    @property
    def pkce(self) -> bool:
        return self.service.pkce

    def with_sharing(self) -> OAuth:
        """Return the flow with the scopes for item permissions."""
        return replace(self, service=replace(self.service, extra={**self.service.extra, **self.service.sharing}))

    def authorize_url(self, *, redirect_uri: str, state: str, challenge: str | None) -> str:
        """Build the authorization URL; parameters of the base URL stay unless overridden."""
        own_parameters = {
            **self.service.extra,
            "client_id": self.client_id,
            "response_type": "code",
            "redirect_uri": redirect_uri,
            "state": state,
        }
        if challenge is not None:
            own_parameters |= {"code_challenge": challenge, "code_challenge_method": "S256"}
        if challenge is not None and self.service.nonce:
            own_parameters["nonce"] = hashlib.sha256(challenge.encode()).hexdigest()
        parts = urlsplit(self.authorize_at)
        parameters = [(name, value) for name, value in parse_qsl(parts.query) if name not in own_parameters]
        return urlunsplit(parts._replace(query=urlencode([*parameters, *own_parameters.items()])))

    def exchange_code(self, code: str, *, redirect_uri: str, verifier: str | None) -> Tokens:
        content = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        if verifier is not None:
            content["code_verifier"] = verifier
        answer = self._post(self.token_at, self.service.auth, content)
        tokens = self._tokens(answer)
        if missing := _missing(self.service.rights, answer.get("scope")):
            raise Fatal(
                f"{self.service.name} was not allowed all that is needed: authorize again and grant {missing} too."
            )
        return tokens

    def refresh(self, tokens: Tokens) -> Tokens:
        if tokens.refresh_token is None:
            raise Fatal(f"{self.service.name} no longer accepts the authorization: authorize the connection again.")
        content = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        return self._tokens(self._post(self.token_at, self.service.auth, content), tokens)

    def request_own(self) -> Tokens:
        """Return tokens of the app itself, by its client credentials."""
        content = {"grant_type": "client_credentials", **self.service.extra}
        return self._tokens(self._post(self.token_at, self.service.auth, content))

    def revoke(self, tokens: Tokens) -> None:
        if self.revoke_at is None or tokens.is_config:
            return
        if self.service.revoke_auth is Auth.BEARER:
            if tokens.refresh_token and tokens.expires_at and tokens.expires_at < datetime.now(UTC):
                tokens = self.refresh(tokens)
            self._post(self.revoke_at, Auth.BEARER, {"token": tokens.access_token})
        else:
            lasting = tokens.refresh_token if self.service.revoke_auth is not Auth.BASIC else None
            self._post(self.revoke_at, self.service.revoke_auth, {"token": lasting or tokens.access_token})

    def _tokens(self, answer: Any, before: Tokens = NONE) -> Tokens:
        access = answer.get("access_token") if isinstance(answer, dict) else None
        if not access and isinstance(answer, dict) and isinstance(answer.get("error"), str):
            # GitHub and Slack refuse with status 200.
            raise error_of_refusal(self.service.name, 400, answer, None)
        if not isinstance(access, str) or not access:
            raise Retryable(f"{self.service.name} answered without an access token.")
        refresh, lasts = answer.get("refresh_token"), answer.get("expires_in")
        account = answer.get(self.service.account) if self.service.account else None
        is_plausible = isinstance(lasts, int | float) and 0 < lasts < 10**9
        return Tokens(
            access_token=access,
            refresh_token=refresh if isinstance(refresh, str) and refresh else before.refresh_token,
            expires_at=datetime.now(UTC) + timedelta(seconds=lasts) if is_plausible else None,
            account=account if isinstance(account, str) else before.account,
        )

    def _post(self, url: str, auth: Auth, content: dict[str, str]) -> Any:
        """Return the JSON of a successful answer, or None; Fatal for a refusal, else Retryable."""
        if self.send is not None:
            return self.send(self, url, content)
        transport = self.open_transport and self.open_transport()
        return post_form(self.service.name, url, transport, **self._request(auth, content))

    def _request(self, auth: Auth, content: dict[str, str]) -> dict[str, Any]:
        app = {"client_id": self.client_id, "client_secret": self.client_secret}
        requests: Mapping[Auth, dict[str, Any]] = {
            Auth.FORM: {"data": {**content, **app}},
            Auth.BASIC: {"json": content, "auth": (self.client_id, self.client_secret)},
            Auth.CLIENT: {"data": content, "auth": (self.client_id, self.client_secret)},
            Auth.TOKEN: {"data": content},
            Auth.BEARER: {"headers": {"Authorization": f"Bearer {content.get('token', '')}"}},
        }
        return requests[auth]


def post_form(name: str, url: str, transport: httpx.BaseTransport | None = None, **request: Any) -> Any:
    """Return the JSON of a successful answer, or None; Fatal for a refusal, else Retryable."""
    options: dict[str, Any] = {"transport": transport} if transport else {}
    try:
        with (
            sessions.httpx_client(
                sessions.trusted_certificates(None, name), seconds=TOKEN_TIMEOUT_SECONDS, headers=_ACCEPT, **options
            ) as client,
            client.stream("POST", url, **request) as answer,
        ):
            body = _read(answer, name)
    except httpx.HTTPError as error:
        raise Retryable(f"{name} cannot be reached right now.") from error
    except fetch_guard.BlockedAddress as error:
        # No statement about the tokens: the connection stays ACTIVE.
        raise AppRefused(str(error)) from error
    if answer.is_success:
        return body
    raise error_of_refusal(name, answer.status_code, body, retry_after(answer.headers))


def error_of_refusal(name: str, status: int, body: Any, after: float | None) -> Fatal | Retryable:
    """Return the error for a failed answer, from the JSON body; `after` is the requested wait in seconds."""
    # A refusal has an error code (RFC 6749); an answer without a code is from a gateway or another API.
    code = (body.get("error") or body.get("code")) if isinstance(body, dict) else None
    if status in _REFUSALS and isinstance(code, str) and code not in _PASSING:
        if code in _ENDED:
            return Fatal(
                f"{name} refused: the authorization is used, expired or withdrawn. Authorize the connection again."
            )
        return AppRefused(
            f"{name} does not accept the app: correct the client id and secret in the namespace, or the app at {name}."
            " No new authorization is needed."
        )
    return Retryable(f"{name} cannot answer right now (status {status}).", after=after)


def _missing(rights: Mapping[str, Sequence[str]], granted: Any) -> str:
    """Return the withheld scopes."""
    # A service without `scope` in the answer granted all.
    if not isinstance(granted, str):
        return ""
    granted_scopes = {_scope(scope) for scope in granted.replace(",", " ").split()}
    return ", ".join(
        name for name, alternatives in rights.items() if not granted_scopes & {_scope(name), *map(_scope, alternatives)}
    )


def _scope(name: str) -> str:
    """Normalize a scope."""
    # Microsoft's scopes come with and without the address of Graph, in any case.
    return name.lower().removeprefix("https://graph.microsoft.com/")


def _read(answer: httpx.Response, name: str) -> Any:
    """Return the JSON, or None for an oversized, slow or invalid answer."""
    try:
        body = responses.read_body(
            answer.iter_bytes(), max_bytes=_ANSWER_BYTES, seconds=TOKEN_TIMEOUT_SECONDS, service=name
        )
        return msgspec.json.decode(body)
    except (TransientError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
