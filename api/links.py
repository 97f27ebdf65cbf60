"""Signed links to stored files: a link gives access to one file until it expires, without an API key."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote

from api.server_secret import ServerSecret
from retrieval.database.database import Database
from retrieval.security.secrets import KeyRing

PREFIX = "/v1/files/"
SECRET = "file-links"  # noqa: S105  (its name, not the secret)


class Kind(StrEnum):
    """The file as it came, or the text that was read from it."""

    RAW = "raw"
    PARSED = "parsed"


@dataclass(frozen=True, slots=True)
class Signer:
    """Makes and checks links. `base`: where clients reach the API; `seconds`: how long a link opens.

    A link that is made for a user names it, by its normal name, with the groups of its token, and opens what that user
    may see.
    """

    base: str
    seconds: int
    secret: bytes = field(repr=False)

    def link(self, document_id: str, kind: Kind, principal: str | None = None, groups: Sequence[str] = ()) -> str:
        expires, held = int(time.time()) + self.seconds, written(groups)
        signature = self._sign(document_id, kind, str(expires), principal, held)
        link = f"{self.base}{PREFIX}{document_id}/{kind}?expires={expires}&signature={signature}"
        if principal is not None:
            link += f"&principal={quote(principal, safe='')}"
        return link if held is None else f"{link}&groups={quote(held, safe='')}"

    def opens(
        self,
        document_id: str,
        kind: str,
        expires: str,
        signature: str,
        principal: str | None = None,
        groups: str | None = None,
    ) -> bool:
        """Whether these are the parts of a link that was made here and has not expired. `groups` as `written`."""
        expected = self._sign(document_id, kind, expires, principal, groups)
        if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace")):
            return False
        return int(expires) > time.time()

    def _sign(self, document_id: str, kind: str, expires: str, principal: str | None, groups: str | None) -> str:
        said = (("principal", principal), ("groups", groups))
        who = [
            part
            for name, value in said
            if value is not None
            for part in (name, hashlib.sha256(value.encode("utf-8", "replace")).hexdigest())
        ]
        what = "\n".join((*who, document_id, kind, expires)).encode("utf-8", "replace")
        return hmac.new(self.secret, what, hashlib.sha256).hexdigest()


def written(groups: Sequence[str]) -> str | None:
    """Groups as a link holds them; None for none."""
    return json.dumps(sorted(groups), ensure_ascii=False) if groups else None


def groups_of(held: str | None) -> list[str]:
    """The groups of a link that opens."""
    return [] if held is None else list(json.loads(held))


class Links:
    """Makes signers."""

    def __init__(self, db: Database, ring: KeyRing, base: str, seconds: int) -> None:
        self._base = base
        self._seconds = seconds
        self._secret = ServerSecret(db, ring, SECRET)

    async def signer(self) -> Signer:
        return Signer(self._base, self._seconds, await self._secret.read())
