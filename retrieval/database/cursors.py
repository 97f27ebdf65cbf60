"""Cursors of listings: where a page ended, encrypted, so that clients learn nothing of it and cannot make one up."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

SECRET = "encrypted-cursors"  # noqa: S105  (its name, not the secret)
_BLOCK = 32
"""Bytes to multiples of which a place is padded, so that a cursor's length does not tell how large a number is."""


@dataclass(frozen=True, slots=True)
class Cursors:
    """`listing` names one listing in all that makes it: whose it is, what it lists, and who looks."""

    secret: bytes = field(repr=False)

    def write(self, listing: Sequence[str], place: str) -> str:
        """The cursor of a place. The same place of the same listing has the same cursor."""
        data = place.encode()
        padded = len(data).to_bytes(2, "big") + data
        padded += bytes(-len(padded) % _BLOCK)
        return base64.urlsafe_b64encode(AESSIV(self.secret).encrypt(padded, [_name(listing)])).decode().rstrip("=")

    def read(self, listing: Sequence[str], cursor: str) -> str | None:
        """The place; None for what this listing has not given."""
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
