"""Signed links that open a stored file without an API key."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote

from retrieval.database.database import Database
from retrieval.security import secrets
from retrieval.security.secrets import KeyRing

FILES_PATH = "/v1/files/"
_SIGNED_PARAMETERS = ("expires", "key", "principal", "groups")
LINK_SECRET = "file-links"  # noqa: S105  (its name, not the secret)


class FileKind(StrEnum):
    """Original file or parsed text."""

    RAW = "raw"
    PARSED = "parsed"


@dataclass(frozen=True, slots=True)
class LinkHolder:
    """Caller and user that receive a link (`request_context.make_link_holder`)."""

    may_read_documents: bool
    key_id: str | None  # the link ends with this key
    ends: int | None  # Unix seconds, for a person
    principal: str | None = None
    groups: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LinkSigner:
    """Signer of links: they expire after `seconds`, and end with their key or token."""

    # A link on behalf of a user contains the user and groups, and opens only documents visible to them.

    base: str
    seconds: int
    secret: bytes = field(repr=False)

    def make_link(self, document_id: str, kind: FileKind, bearer: LinkHolder) -> str | None:
        """Return a link to a file of the document; None for a caller without access to documents."""
        if not bearer.may_read_documents:
            return None
        expires = int(time.time()) + self.seconds
        query = {
            "expires": str(expires if bearer.ends is None else min(expires, bearer.ends)),
            "key": bearer.key_id,
            "principal": bearer.principal,
            "groups": encode_groups(bearer.groups),
        }
        signature = self._sign(document_id, kind, query)
        query = {"signature": signature, **query}
        written_query = "&".join(
            f"{name}={quote(value, safe='')}" for name, value in query.items() if value is not None
        )
        return f"{self.base}{FILES_PATH}{document_id}/{kind}?{written_query}"

    def is_valid(self, document_id: str, kind: str, query: Mapping[str, str]) -> bool:
        """Return whether a link has a valid signature and has not expired."""
        expected = self._sign(document_id, kind, query)
        signature = query.get("signature", "").encode("utf-8", "replace")
        return hmac.compare_digest(expected.encode(), signature) and int(query["expires"]) > time.time()

    def _sign(self, document_id: str, kind: str, query: Mapping[str, str | None]) -> str:
        signed = [document_id, kind, *(query.get(name) for name in _SIGNED_PARAMETERS)]
        return hmac.new(self.secret, json.dumps(signed).encode(), hashlib.sha256).hexdigest()


def encode_groups(groups: Sequence[str]) -> str | None:
    """Encode groups for a link; None without groups."""
    return json.dumps(sorted(groups), ensure_ascii=False) if groups else None


def decode_groups(text: str | None) -> list[str]:
    return [] if text is None else list(json.loads(text))


class LinkSigners:
    def __init__(self, db: Database, ring: KeyRing, base: str, seconds: int) -> None:
        self._base = base
        self._seconds = seconds
        self._secret = ServerSecret(db, ring, LINK_SECRET)

    async def make_signer(self) -> LinkSigner:
        return LinkSigner(self._base, self._seconds, await self._secret.load())


class ServerSecret:
    """Named secret of the vault, created on first use."""

    def __init__(self, db: Database, ring: KeyRing, name: str) -> None:
        self._db = db
        self._ring = ring
        self._name = name
        self._secret: bytes | None = None

    async def load(self) -> bytes:
        if (secret := self._secret) is None:
            secret = self._secret = await asyncio.to_thread(secrets.server_secret, self._db, self._ring, self._name)
        return secret
