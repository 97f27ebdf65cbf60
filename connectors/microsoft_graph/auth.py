"""Authorization code flow of Microsoft, through msal.

msal would look for its endpoints on the network, wait for a full rate on its own, and keep tokens: here it gets the
endpoints, sends through our own client, and lives for one request.
"""

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

LOGIN: Final = "https://login.microsoftonline.com"
ALWAYS: Final = ("offline_access", "openid", "profile")
"""Scopes beside the one that lets files be read: a refresh token, and whose tokens these are."""
ACCOUNT: Final = "account"
"""Where `send` says whose tokens these are: the user's object id in its tenant."""
_READ: Final = ("access_token", "refresh_token", "expires_in", "id_token", "scope", "token_type")
"""Of an answer: msal is given no more, and no lifetime that makes no sense."""
_LONGEST: Final = 10**9
_STATE: Final = "checked before"
"""msal compares it with itself: ours is checked where it is stored."""


def make_oauth(
    connector: str, title: str, app: Mapping[str, Any], settings: Settings, *, scope: str, more: str, tenant: str
) -> OAuth:
    """Build the flow of a namespace's app. `scope`: the requested scope; `more`: the one that includes it.

    `tenant`: whose accounts sign in where the app names no `tenantId`, "common" or "organizations". An app of one
    tenant is refused everywhere but at that tenant's own addresses.
    """
    chosen = app.get("tenantId") or tenant
    authority = f"{LOGIN}/{chosen}"
    service = Service(
        name=title,
        authorize=f"{authority}/oauth2/v2.0/authorize",
        token=f"{authority}/oauth2/v2.0/token",
        extra={"scope": " ".join((scope, *ALWAYS)), "prompt": "select_account"},
        account=ACCOUNT,
        nonce=True,
        rights={scope: (more,)},
    )
    flow = oauth.make_oauth(connector, service, app, settings, send_token_request)
    if "tenantId" not in app:
        return flow
    return replace(flow, authorize_at=_of_tenant(flow.authorize_at, chosen), token_at=_of_tenant(flow.token_at, chosen))


def _of_tenant(url: str, tenant: str) -> str:
    """An operator's address for all tenants (another cloud of Microsoft's), for this one."""
    return re.sub("/(common|organizations)/", f"/{tenant}/", url, count=1)


def send_token_request(flow: OAuth, _url: str, content: dict[str, str]) -> Any:
    """A request of the flow, as `connectors.http.oauth.Send`. Microsoft has none that ends one authorization (None)."""
    title = flow.service.name
    if "grant_type" not in content:
        return None
    try:
        answer = _asked(flow, content)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise Retryable(f"{title}'s answer cannot be read.") from error
    except RuntimeError as error:  # the nonce of its signed word is not ours
        raise Fatal(f"{title} answered for another authorization than this one. Authorize anew.") from error
    return {**answer, ACCOUNT: _account(answer)}


def _asked(flow: OAuth, content: Mapping[str, str]) -> dict[str, Any]:
    import msal  # type: ignore[import-untyped]

    logging.getLogger("msal").setLevel(logging.WARNING)
    scopes = flow.service.extra["scope"].split()
    app = msal.ConfidentialClientApplication(
        flow.client_id,
        client_credential=flow.client_secret,
        authority=flow.service.token.removesuffix("/oauth2/v2.0/token"),
        http_client=_Door(flow.service, flow.token_at),
        http_cache={},
        instance_discovery=False,
        azure_region=False,
    )
    if content["grant_type"] == "refresh_token":
        token = app.acquire_token_by_refresh_token(content["refresh_token"], [scopes[0]])
    else:
        token = app.acquire_token_by_auth_code_flow(_begun(content, scopes), {"code": content["code"], "state": _STATE})
    return dict(token)


def _begun(content: Mapping[str, str], scopes: Sequence[str]) -> dict[str, Any]:
    """Flow state that msal expects. The nonce is derived from the PKCE challenge, as we sent it."""
    verifier = content.get("code_verifier", "")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    return {
        "state": _STATE,
        "redirect_uri": content["redirect_uri"],
        "scope": list(scopes),
        "code_verifier": verifier,
        "nonce": challenge,
    }


def _account(answer: Mapping[str, Any]) -> str | None:
    claims = answer.get("id_token_claims")
    known_claims = claims if isinstance(claims, dict) else {}
    user, tenant = known_claims.get("oid") or known_claims.get("sub"), known_claims.get("tid")
    return f"{tenant}.{user}" if isinstance(user, str) and isinstance(tenant, str) else None


@dataclass(frozen=True, slots=True)
class _Answer:
    text: str
    status_code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def raise_for_status(self) -> None:
        """Do nothing: failures have been raised before."""


@dataclass(frozen=True, slots=True)
class _Door:
    """msal's way to the network: its endpoints by heart, and bounded requests to `token_at` that end in our errors."""

    service: Service
    token_at: str

    def get(self, _url: str, **_: Any) -> _Answer:
        """The authority's metadata, which is documented and does not change."""
        ends = {"authorization_endpoint": self.service.authorize, "token_endpoint": self.service.token}
        return _Answer(json.dumps({"issuer": self.service.token.removesuffix("/oauth2/v2.0/token"), **ends}))

    def post(self, _url: str, *, data: Mapping[str, Any], headers: Mapping[str, str], **_: Any) -> _Answer:
        """Fatal: refused; Retryable: anything else that is no success."""
        body = oauth.post_form(self.service.name, self.token_at, data=dict(data), headers=dict(headers))
        if not isinstance(body, dict) or "error" in body:
            raise Retryable(f"{self.service.name} answered without an access token.")
        lasts = body.get("expires_in")
        is_plausible = isinstance(lasts, int) and 0 < lasts < _LONGEST
        return _Answer(
            json.dumps({name: body[name] for name in _READ if name in body and (is_plausible or name != "expires_in")})
        )

    def close(self) -> None:
        """There is nothing to close."""
