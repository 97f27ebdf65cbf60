"""The Idempotency-Key header: validated, and bound to its caller and the whole request."""

from __future__ import annotations

import hashlib
import re

from litestar.types import HTTPScope

from api.auth import Caller
from retrieval.accounts.idempotency import HEADER, IdempotentRequest
from retrieval.errors import ErrorCode, ServiceError

PATTERN = "^[!-~]([ -~]{0,253}[!-~])?$"
_KEY = re.compile(PATTERN.encode().replace(b"$", rb"\Z"))
_NAME = HEADER.lower().encode()


def asked(
    scope: HTTPScope, caller: Caller, tenant: str, content: bytes, invalid: ErrorCode, principal: str | None
) -> IdempotentRequest | None:
    """None without the header. Two tenants, two API keys and two users never see each other's answers."""
    sent = [value for name, value in scope["headers"] if name == _NAME]
    if not sent:
        return None
    if len(sent) > 1 or not _KEY.match(sent[0]):
        raise ServiceError(
            invalid,
            f"{HEADER} has 1 to 255 printable ASCII characters, and is sent once.",
            field=HEADER,
            reason="invalid_idempotency_key",
        )
    what = [scope["method"].encode(), scope["path"].encode(), scope["query_string"], content]
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in what)).digest()
    who = f"{caller.key_id}/{tenant}" if principal is None else f"{caller.key_id}/{tenant}/{principal}"
    return IdempotentRequest(who, sent[0].decode("ascii"), digest)
