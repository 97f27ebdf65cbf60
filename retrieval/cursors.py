"""Where a page of a listing ended, with a check mark that fits one listing of one scope. It grants nothing."""

from __future__ import annotations

import base64
import binascii
import hashlib

from retrieval.errors import ErrorCode, ServiceError
from retrieval.ports import Scope


def write(scope: Scope, listing: str, place: int | str) -> str:
    data = str(place).encode()
    return base64.urlsafe_b64encode(_mark(scope, listing, data) + data).decode().rstrip("=")


def read(scope: Scope, listing: str, cursor: str, invalid: ErrorCode) -> int:
    """The place, a number; ServiceError `invalid` for what this listing has not given."""
    try:
        return int(read_text(scope, listing, cursor, invalid))
    except ValueError as error:
        raise _refused(invalid) from error


def read_text(scope: Scope, listing: str, cursor: str, invalid: ErrorCode) -> str:
    """The same for a place that is no number."""
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place = data[8:].decode()
    except (binascii.Error, ValueError) as error:
        raise _refused(invalid) from error
    if data[:8] != _mark(scope, listing, data[8:]):
        raise _refused(invalid)
    return place


def _refused(invalid: ErrorCode) -> ServiceError:
    message = "The cursor is not one that this listing gave; start again without it."
    return ServiceError(invalid, message, field="cursor", reason="bad_cursor")


def _mark(scope: Scope, listing: str, data: bytes) -> bytes:
    owner = f"{scope.organization}/{scope.namespace}/{scope.tenant}/{listing}".encode()
    return hashlib.blake2b(data, digest_size=8, key=hashlib.sha256(owner).digest()).digest()
