"""OAuth2 of Google's services for a person."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from connectors.http import oauth
from connectors.http.oauth import OAuth, Service
from retrieval.settings import Settings

TOKEN_URL: Final = "https://oauth2.googleapis.com/token"  # noqa: S105


def make_oauth(
    connector: str, title: str, app: Mapping[str, Any], settings: Settings, *, scope: str, more: str
) -> OAuth:
    """Build the flow of a namespace's app. `more`: scope that includes `scope`."""
    service = Service(
        name=title,
        authorize="https://accounts.google.com/o/oauth2/v2/auth",
        token=TOKEN_URL,
        # `openid` grants nothing, but adds the account to the token answer.
        extra={
            "scope": f"openid {scope}",
            "access_type": "offline",
            "prompt": "consent",
            "include_granted_scopes": "true",
        },
        revoke="https://oauth2.googleapis.com/revoke",
        account="account",
        rights={scope: (more,)},
    )
    return oauth.make_oauth(connector, service, app, settings, send_token_request)


def send_token_request(flow: OAuth, url: str, content: dict[str, str]) -> Any:
    """Send a request of the flow; return the answer with the account."""
    app = {"client_id": flow.client_id, "client_secret": flow.client_secret} if "grant_type" in content else {}
    answer = oauth.post_form(flow.service.name, url, data={**content, **app})
    return {**answer, "account": _id_token_subject(answer)} if isinstance(answer, dict) else answer


def _id_token_subject(answer: Mapping[str, Any]) -> str | None:
    """Return the subject of the id token (OpenID Connect)."""
    # The token came from the token endpoint: its signature needs no check.
    try:
        claims = str(answer["id_token"]).split(".")[1]
        subject = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"]
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    return subject if isinstance(subject, str) else None
