"""Stored secrets: AES-256-GCM, bound to their row, with key ids for rotation."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

if TYPE_CHECKING:  # the settings import this module, and the supervisor needs no database
    from retrieval.database.database import Database

PEPPER_NAME = "api-key-pepper"


def server_secret(db: Database, keys: KeyRing, name: str) -> bytes:
    """Return the installation's 32 random bytes of this name, created once. Raises SecretError."""
    sealed = db.fetch_one(bytes, "select sealed from server_secrets where name = %(name)s", {"name": name})
    if sealed is None:
        rows = db.fetch(
            bytes,
            "insert into server_secrets (name, sealed) values (%(name)s, %(sealed)s)"
            " on conflict (name) do update set name = excluded.name returning sealed",
            {"name": name, "sealed": keys.seal(os.urandom(32), row=row_name(name))},
        )
        sealed = rows[0]
    return keys.open(sealed, row=row_name(name))


def row_name(name: str) -> str:
    """Return the seal name of a server secret."""
    return f"server_secrets/{name}"


_NONCE_BYTES = 12
_KEY_BYTES = 32

# Start of a mask.
MASK_PREFIX = "••••"


class SecretError(Exception):
    """Malformed key, or sealed value that does not open in this row."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys of stored secrets; the first seals new values.

    Format: `id:base64[,id:base64…]` in RETRIEVAL_SECRET_KEY, or bare base64 for one key with id `1`.
    """

    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> KeyRing:
        keys: dict[str, bytes] = {}
        for number, part in enumerate(filter(None, (p.strip() for p in text.split(","))), start=1):
            name, _, encoded = part.rpartition(":")
            name = name or str(number)
            keys[name] = _decode_key(encoded)
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,16}", name):
                raise SecretError("A key id may have up to 16 letters, digits, hyphens and underscores.")
        if not keys:
            raise SecretError("RETRIEVAL_SECRET_KEY is empty: give `id:base64 of 32 random bytes`.")
        return cls(keys)

    @property
    def active(self) -> str:
        return next(iter(self.keys))

    def seal(self, plain: bytes, *, row: str) -> bytes:
        """Encrypt `plain` for one `row`, such as `namespaces/ns_1/secrets`."""
        nonce = os.urandom(_NONCE_BYTES)
        header = self.active.encode()
        body = AESGCM(self.keys[self.active]).encrypt(nonce, plain, row.encode())
        return bytes([len(header)]) + header + nonce + body

    def open(self, sealed: bytes, *, row: str) -> bytes:
        """Decrypt a value. Raises SecretError for another row, an unknown key or changed data."""
        end = 1 + sealed[0]
        name = sealed[1:end].decode()
        if name not in self.keys:
            raise SecretError(f"This secret was sealed with key id {name!r}, which RETRIEVAL_SECRET_KEY does not hold.")
        try:
            return AESGCM(self.keys[name]).decrypt(
                sealed[end : end + _NONCE_BYTES], sealed[end + _NONCE_BYTES :], row.encode()
            )
        except InvalidTag as error:
            raise SecretError("A stored secret does not open: wrong key, or it was moved or changed.") from error


def load_or_create_key_file(path: Path) -> KeyRing:
    """Load the key file of an embedded installation; create it atomically with mode 0600."""
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write("1:" + base64.b64encode(os.urandom(_KEY_BYTES)).decode())
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    return KeyRing.parse(path.read_text())


def hash_api_key(api_key: str, *, pepper: bytes) -> bytes:
    """Return the HMAC-SHA256 of an API key for storage and lookup."""
    return hmac.digest(pepper, api_key.encode("utf-8", "surrogatepass"), hashlib.sha256)


def mask_secret(secret: str) -> str:
    """Return four bullets, and the last four characters of secrets with 12 or more."""
    return MASK_PREFIX + (secret[-4:] if len(secret) >= 12 else "")


def is_mask(value: str) -> bool:
    return value.startswith(MASK_PREFIX)


def _decode_key(encoded: str) -> bytes:
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SecretError("RETRIEVAL_SECRET_KEY is not base64: give `id:base64 of 32 random bytes`.") from error
    if len(key) != _KEY_BYTES:
        raise SecretError(f"RETRIEVAL_SECRET_KEY holds a key of {len(key)} bytes; {_KEY_BYTES} are needed.")
    return key
