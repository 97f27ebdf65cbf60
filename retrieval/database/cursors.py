"""Encrypted cursors of listings, which clients can neither read nor forge."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

SECRET_NAME = "encrypted-cursors"  # noqa: S105  (its name, not the secret)
# Positions are padded to multiples of this, so that a cursor's length reveals no number.
_PADDING_BYTES = 32


@dataclass(frozen=True, slots=True)
class Cursors:
    """Cursors under a secret. `listing` identifies owner, filter and viewer."""

    secret: bytes = field(repr=False)

    def write(self, listing: Sequence[str], position: str) -> str:
        """Encrypt a position; deterministic per listing."""
        data = position.encode()
        padded = len(data).to_bytes(2, "big") + data
        padded += bytes(-len(padded) % _PADDING_BYTES)
        return base64.urlsafe_b64encode(AESSIV(self.secret).encrypt(padded, [_name(listing)])).decode().rstrip("=")

    def read(self, listing: Sequence[str], cursor: str) -> str | None:
        """Decrypt a position; None for a cursor of another listing."""
        try:
            sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
            padded = AESSIV(self.secret).decrypt(sealed, [_name(listing)])
        except (binascii.Error, ValueError, InvalidTag):
            return None
        position = padded[2 : 2 + int.from_bytes(padded[:2], "big")].decode()
        return position if self.write(listing, position) == cursor else None


def _name(listing: Sequence[str]) -> bytes:
    parts = [part.encode("utf-8", "surrogatepass") for part in listing]
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
