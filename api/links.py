"""Signed links to stored files: a link opens one file without an API key, until it expires or its key ends."""

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

PREFIX = "/v1/files/"
_SIGNED = ("expires", "key", "principal", "groups")
SECRET = "file-links"  # noqa: S105  (its name, not the secret)


class Kind(StrEnum):
    """The file as it came, or the text that was read from it."""

    RAW = "raw"
    PARSED = "parsed"


@dataclass(frozen=True, slots=True)
class Bearer:
    """The caller who gets a link (`request_context.make_bearer`), and the user on whose behalf, with the user's groups.

    `key_id`: of the key with which the link ends; `ends`: Unix seconds after which it does not open, for a person.
    """

    may_read_documents: bool
    key_id: str | None
    ends: int | None
    principal: str | None = None
    groups: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Signer:
    """Makes and checks links. `base`: where clients reach the API; `seconds`: how long a link opens.

    A link names the key that it was made for and ends with it; a link made for a person ends with the person's token.
    A link made on behalf of a user names the user, with the groups of the token, and opens what that user may see.
    """

    base: str
    seconds: int
    secret: bytes = field(repr=False)

    def link(self, document_id: str, kind: Kind, bearer: Bearer) -> str | None:
        """A link to a file of the document; None for a caller who may not read documents."""
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
        return f"{self.base}{PREFIX}{document_id}/{kind}?{written_query}"

    def opens(self, document_id: str, kind: str, query: Mapping[str, str]) -> bool:
        """Tell whether these are the parts of a link that this service signed and that has not expired."""
        expected = self._sign(document_id, kind, query)
        signature = query.get("signature", "").encode("utf-8", "replace")
        return hmac.compare_digest(expected.encode(), signature) and int(query["expires"]) > time.time()

    def _sign(self, document_id: str, kind: str, query: Mapping[str, str | None]) -> str:
        signed = [document_id, kind, *(query.get(name) for name in _SIGNED)]
        return hmac.new(self.secret, json.dumps(signed).encode(), hashlib.sha256).hexdigest()


def encode_groups(groups: Sequence[str]) -> str | None:
    """Groups as a link holds them; None for none."""
    return json.dumps(sorted(groups), ensure_ascii=False) if groups else None


def groups_of(text: str | None) -> list[str]:
    """The groups of a link that opens."""
    return [] if text is None else list(json.loads(text))


class Links:
    """Makes signers."""

    def __init__(self, db: Database, ring: KeyRing, base: str, seconds: int) -> None:
        self._base = base
        self._seconds = seconds
        self._secret = ServerSecret(db, ring, SECRET)

    async def signer(self) -> Signer:
        return Signer(self._base, self._seconds, await self._secret.read())


class ServerSecret:
    """The secret `name` of the vault, made if there is none yet."""

    def __init__(self, db: Database, ring: KeyRing, name: str) -> None:
        self._db = db
        self._ring = ring
        self._name = name
        self._secret: bytes | None = None

    async def read(self) -> bytes:
        if (secret := self._secret) is None:
            secret = self._secret = await asyncio.to_thread(secrets.server_secret, self._db, self._ring, self._name)
        return secret
