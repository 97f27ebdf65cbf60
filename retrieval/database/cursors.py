"""Where a page of a listing ended, signed with a secret of the installation: only who gave a cursor takes it back."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field

SECRET = "cursors"  # noqa: S105  (its name, not the secret)
_MARK = 16


@dataclass(frozen=True, slots=True)
class Cursors:
    """`listing` names one listing in all that makes it: whose it is, and what it lists."""

    secret: bytes = field(repr=False)

    def write(self, listing: Sequence[str], place: str) -> str:
        data = place.encode()
        return base64.urlsafe_b64encode(self._mark(listing, data) + data).decode().rstrip("=")

    def read(self, listing: Sequence[str], cursor: str) -> str | None:
        """The place; None for what this listing has not given."""
        try:
            data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            place = data[_MARK:].decode()
        except (binascii.Error, ValueError):
            return None
        return place if hmac.compare_digest(self.write(listing, place).encode(), cursor.encode()) else None

    def _mark(self, listing: Sequence[str], place: bytes) -> bytes:
        parts = (*(part.encode("utf-8", "surrogatepass") for part in listing), place)
        what = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self.secret, what, hashlib.sha256)[:_MARK]
