"""Microsoft's authorization code flow by msal."""

# By itself, msal would request its endpoints, wait for rate limits and keep tokens. Here it gets the endpoints, sends
# through this service's client, and lives for one request.

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from connectors.http import oauth
from connectors.http.oauth import OAuth, Service
from retrieval.errors import Fatal, Retryable
from retrieval.settings import Settings

LOGIN_URL: Final = "https://login.microsoftonline.com"
_TENANT_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?=/)")
# For a refresh token and the account of the tokens.
IDENTITY_SCOPES: Final = ("offline_access", "openid", "profile")
# Field of the account in an answer: tenant and object id of the user.
ACCOUNT_FIELD: Final = "account"
# Only these fields of an answer reach msal.
_TOKEN_FIELDS: Final = ("access_token", "refresh_token", "expires_in", "id_token", "scope", "token_type")
_MAX_LIFETIME_SECONDS: Final = 10**9
# msal compares the state with itself; the real one is checked by its owner.
_CHECKED_STATE: Final = "checked before"


def make_oauth(
    connector: str, title: str, app: Mapping[str, Any], settings: Settings, *, scope: str, more: str, tenant: str
) -> OAuth:
    """Build the flow of a namespace's app. `scope`: scopes; the first must be granted, or `more`, which includes it."""
    # `tenant` is "common" or "organizations". An app of one tenant works only at the addresses of this tenant.
    tenant_id = app.get("tenantId") or tenant
    authority = f"{LOGIN_URL}/{tenant_id}"
    service = Service(
        name=title,
        authorize=f"{authority}/oauth2/v2.0/authorize",
        token=f"{authority}/oauth2/v2.0/token",
        extra={"scope": " ".join((scope, *IDENTITY_SCOPES)), "prompt": "select_account"},
        account=ACCOUNT_FIELD,
        nonce=True,
        rights={scope.split(maxsplit=1)[0]: (more,)},
    )
    flow = oauth.make_oauth(connector, service, app, settings, send_token_request)
    if "tenantId" not in app:
        return flow
    return replace(
        flow,
        authorize_at=_with_tenant(flow.authorize_at, tenant_id),
        token_at=_with_tenant(flow.token_at, tenant_id),
    )


def _with_tenant(url: str, tenant: str) -> str:
    # The operator may configure the address of another cloud of Microsoft.
    return re.sub("/(common|organizations)/", f"/{tenant}/", url, count=1)


def send_token_request(flow: OAuth, _url: str, content: dict[str, str]) -> Any:
    """Send a token request of the flow; None for a revocation, unsupported by Microsoft."""
    title = flow.service.name
    if "grant_type" not in content:
        return None
    try:
        answer = _request_token(flow, content)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise Retryable(f"{title}'s answer cannot be read.") from error
    except RuntimeError as error:  # The nonce of the id token differs.
        raise Fatal(
            f"{title} answered for another authorization than this one. Authorize the connection again."
        ) from error
    user, tenant = _read_account(answer)
    if tenant and _is_foreign(tenant, flow.service.token):
        raise Fatal(
            f"{title} signed in an account of another Microsoft Entra tenant than the app's tenantId. Authorize the"
            " connection again with an account of that tenant."
        )
    return {**answer, ACCOUNT_FIELD: f"{tenant}.{user}" if user and tenant else None}


def make_msal_app(flow: OAuth, credential: str | Mapping[str, str]) -> Any:
    """Return msal's app of a flow; the credential is a secret, or `private_key` and `public_certificate`."""
    import msal  # type: ignore[import-untyped]

    logging.getLogger("msal").setLevel(logging.WARNING)
    return msal.ConfidentialClientApplication(
        flow.client_id,
        client_credential=credential,
        authority=flow.service.token.removesuffix("/oauth2/v2.0/token"),
        http_client=_MsalHttpClient(flow.service, flow.token_at),
        http_cache={},
        instance_discovery=False,
        azure_region=False,
    )


def _request_token(flow: OAuth, content: Mapping[str, str]) -> dict[str, Any]:
    scopes = flow.service.extra["scope"].split()
    app = make_msal_app(flow, flow.client_secret)
    if content["grant_type"] == "refresh_token":
        own_scopes = [scope for scope in scopes if scope not in IDENTITY_SCOPES]
        token = app.acquire_token_by_refresh_token(content["refresh_token"], own_scopes)
    else:
        answer = {"code": content["code"], "state": _CHECKED_STATE}
        token = app.acquire_token_by_auth_code_flow(_flow_state(content, scopes), answer)
    return dict(token)


def _flow_state(content: Mapping[str, str], scopes: Sequence[str]) -> dict[str, Any]:
    """Return the flow's state for msal, with the PKCE challenge as nonce."""
    verifier = content.get("code_verifier", "")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    return {
        "state": _CHECKED_STATE,
        "redirect_uri": content["redirect_uri"],
        "scope": list(scopes),
        "code_verifier": verifier,
        "nonce": challenge,
    }


def _read_account(answer: Mapping[str, Any]) -> tuple[str, str]:
    """Return user and tenant of an answer; "" if absent."""
    claims = answer.get("id_token_claims")
    known_claims = claims if isinstance(claims, dict) else {}
    user, tenant = known_claims.get("oid") or known_claims.get("sub"), known_claims.get("tid")
    return (user if isinstance(user, str) else ""), (tenant if isinstance(tenant, str) else "")


def _is_foreign(tenant: str, token_url: str) -> bool:
    """Return True for another tenant than the one of a token address; False for an address without a tenant's id."""
    named = _TENANT_ID.match(token_url.removeprefix(f"{LOGIN_URL}/"))
    return named is not None and named[0].lower() != tenant.lower()


@dataclass(frozen=True, slots=True)
class _HttpResponse:
    text: str
    status_code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def raise_for_status(self) -> None:
        """Do nothing: failures were raised before."""


@dataclass(frozen=True, slots=True)
class _MsalHttpClient:
    """HTTP client for msal: fixed metadata, bounded requests to `token_at`, port errors."""

    service: Service
    token_at: str

    def get(self, _url: str, **_: Any) -> _HttpResponse:
        """Return the documented, constant metadata of the authority."""
        endpoints = {"authorization_endpoint": self.service.authorize, "token_endpoint": self.service.token}
        return _HttpResponse(json.dumps({"issuer": self.service.token.removesuffix("/oauth2/v2.0/token"), **endpoints}))

    def post(self, _url: str, *, data: Mapping[str, Any], headers: Mapping[str, str], **_: Any) -> _HttpResponse:
        """Send a token request. Fatal for a refusal, Retryable for other failures."""
        # msal signs assertions as bytes, which httpx would write with their quotes.
        form = {name: value.decode() if isinstance(value, bytes) else value for name, value in data.items()}
        body = oauth.post_form(self.service.name, self.token_at, data=form, headers=dict(headers))
        if not isinstance(body, dict) or "error" in body:
            raise Retryable(f"{self.service.name} answered without an access token.")
        lifetime = body.get("expires_in")
        is_plausible = isinstance(lifetime, int) and 0 < lifetime < _MAX_LIFETIME_SECONDS
        return _HttpResponse(
            json.dumps(
                {name: body[name] for name in _TOKEN_FIELDS if name in body and (is_plausible or name != "expires_in")}
            )
        )

    def close(self) -> None:
        """Do nothing: the client is shared."""
