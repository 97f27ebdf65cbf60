"""Secrets of endpoints and the headers of Standard Webhooks (v1) made with them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

_PREFIX = "whsec_"
_BYTES = 32


def new_secret() -> str:
    """`whsec_` and 32 random bytes in base64."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def headers(keys: Sequence[str], event_id: str, timestamp: int, content: bytes) -> dict[str, str]:
    """A signature for each secret; `timestamp`: of this attempt, in seconds since 1970."""
    signed = f"{event_id}.{timestamp}.".encode() + content
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{_sign(key, signed)}" for key in keys),
    }


def _sign(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
