"""Sign-in to the admin app by OpenID Connect: a private file of the home that Streamlit reads.

The client's secret and the key of the app's cookies stand there and in no environment.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from local.environment import plain
from local.errors import LocalError
from local.private_files import ANOTHER, read_secret, write_private
from retrieval.settings import Settings

_COOKIES = "cookie.secret"


def file(settings: Settings) -> Path:
    """Path of the file, if there is one; Streamlit reads no other."""
    return settings.home.resolve() / "ui" / "secrets.toml"


def write(settings: Settings, address: str) -> None:
    """Write the file, or remove it where the app signs in by keys alone. `address`: at which browsers open the app.

    LocalError for a client without a secret.
    """
    path = file(settings)
    if not settings.oidc_issuer or not settings.oidc_client_id:
        path.unlink(missing_ok=True)
        return
    client_secret = plain(settings.oidc_client_secret)
    if client_secret is None:
        raise LocalError(
            "RETRIEVAL_OIDC_CLIENT_ID is set and RETRIEVAL_OIDC_CLIENT_SECRET is not: the admin app signs in as a "
            "confidential client. Set it, or RETRIEVAL_OIDC_CLIENT_SECRET_FILE.",
            exit_code=2,
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    public = (settings.ui_public_url or address).rstrip("/")
    discovery = settings.oidc_discovery_url or settings.oidc_issuer.rstrip("/") + "/.well-known/openid-configuration"
    content = {
        "redirect_uri": f"{public}/oauth2callback",
        "cookie_secret": plain(settings.oidc_cookie_secret) or _own_secret(path.with_name(_COOKIES)),
        "client_id": settings.oidc_client_id,
        "client_secret": client_secret,
        "server_metadata_url": discovery,
        "expose_tokens": [settings.oidc_ui_token],
    }
    lines = ["[auth]", *(f"{name} = {json.dumps(value)}" for name, value in content.items())]
    lines += ["[auth.client_kwargs]", f"scope = {json.dumps(settings.oidc_scopes)}"]
    write_private(path, "\n".join(lines) + "\n")


def _own_secret(kept: Path) -> str:
    """Made once: people stay signed in over a restart."""
    if not kept.exists():
        write_private(kept, secrets.token_urlsafe(48) + "\n")
    return read_secret(kept, ANOTHER)
