"""Signatures of webhook deliveries by Standard Webhooks (HMAC-SHA256, scheme `v1`)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

_SIGNING_PREFIX = "whsec_"
_RANDOM_BYTES = 32


def create_secret() -> str:
    """Return a new secret: `whsec_` and 32 random bytes in base64."""
    return _SIGNING_PREFIX + base64.b64encode(secrets.token_bytes(_RANDOM_BYTES)).decode()


def sign_headers(signing_secrets: Sequence[str], event_id: str, timestamp: int, content: bytes) -> dict[str, str]:
    """Return the headers of a delivery with a signature per secret. `timestamp`: seconds since 1970."""
    message = f"{event_id}.{timestamp}.".encode() + content
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{_sign(secret, message)}" for secret in signing_secrets),
    }


def _sign(secret: str, message: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_SIGNING_PREFIX))
    return base64.b64encode(hmac.digest(key, message, hashlib.sha256)).decode()
