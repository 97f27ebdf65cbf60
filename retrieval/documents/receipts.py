"""Receipts of deletions: what each store has lost, and when it was asked again and had nothing left.

A deletion is confirmed once every sweep that carries it out is done; each reads back what it removed before it is. What
a sweep finds is noted with the sweep (`removed`) before it is taken away, so that one that is repeated after a failure
counts nothing twice and forgets nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from psycopg import AsyncConnection, Connection

from retrieval import principals
from retrieval.access import viewers
from retrieval.database.database import Database, Row
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ports import Scope
from retrieval.principals import Access, Viewer

SECRET = "deletion-receipts"  # noqa: S105 - the name of a secret
"""Under which name the installation keeps the key of signatures; sealed with the secret key."""
DATABASE = "DATABASE"
"""The store of chunks, in a receipt."""
TRIES = 8
"""Tries of a sweep, each after twice the time, some four hours, after which a deletion is FAILED. It is tried on."""
ACCESSES, NAMES = 200, 10_000
"""Different accesses of the documents of one deletion, and names in them, that are kept to know who could see them all;
of more than that the receipt is for the application, and for who asked for the deletion."""
CHUNKS, VECTORS, FILES, UNREAD = "chunks", "vectors", "files", "unread"


@dataclass(frozen=True, slots=True)
class StoreReceipt:
    """What one store has lost; `read_back_at`: when it was asked and had nothing of it, null before."""

    store: str
    removed: int
    read_back_at: datetime | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """A deletion as far as it has come. `status`: PENDING, CONFIRMED or FAILED."""

    id: str
    status: str
    requested_at: datetime
    confirmed_at: datetime | None
    documents: int
    chunks: int
    vectors: int
    files: int
    stores: tuple[StoreReceipt, ...]


_BEGIN: LiteralString = """
    insert into deletions (id, organization_id, namespace_id, tenant, documents, asked_by, audience)
    values (%(id)s, %(organization)s, %(namespace)s, %(tenant)s, %(documents)s, %(asked_by)s, %(audience)s)
"""
_ACCESSES: LiteralString = """
    select distinct access from documents where id = any(%(ids)s) and access is not null limit %(most)s + 1
"""
_NOTE: LiteralString = """
    update sweeps set removed = jsonb_set(
        removed, array[%(key)s], to_jsonb(greatest(coalesce((removed ->> %(key)s)::bigint, 0), %(number)s::bigint))
    ) where id = %(sweep)s
"""
_FIND: LiteralString = """
    select d.id, d.namespace_id, d.tenant, d.asked_by, d.audience,
           d.requested_at, d.confirmed_at, d.documents, d.chunks, d.vectors, d.files,
           case when d.confirmed_at is not null then 'CONFIRMED'
                when d.unread or exists (
                    select from sweeps s where s.deletion_id = d.id and s.tries >= %(tries)s
                ) then 'FAILED' else 'PENDING' end as status
    from deletions d
    where d.id = %(id)s and d.organization_id = %(organization)s
      and (%(namespace)s::text is null or d.namespace_id = %(namespace)s)
      and case when d.tenant is null then %(all_tenants)s else d.tenant = %(tenant)s end
"""
_STORES: LiteralString = """
    select store, removed, read_back_at from deletion_stores where deletion_id = %(id)s order by store
"""
_ADD: LiteralString = """
    update deletions set chunks = chunks + %(chunks)s, vectors = vectors + %(vectors)s, files = files + %(files)s,
        unread = unread or %(unread)s
    where id = %(id)s
"""
_ADD_STORE: LiteralString = """
    insert into deletion_stores (deletion_id, store, removed, read_back_at)
    values (%(id)s, %(store)s, %(removed)s, case when %(read)s then clock_timestamp() end)
    on conflict (deletion_id, store) do update set removed = deletion_stores.removed + excluded.removed,
        read_back_at = coalesce(excluded.read_back_at, deletion_stores.read_back_at)
"""
_CONFIRM: LiteralString = """
    update deletions set confirmed_at = clock_timestamp()
    where id = %(id)s and confirmed_at is null and not unread
      and not exists (select from sweeps where deletion_id = %(id)s)
"""


_SHOWN = ("id", "status", "requested_at", "confirmed_at", "documents", "chunks", "vectors", "files")


class Notes:
    """What a sweep finds before it takes it away; nothing is written for one that no receipt waits for."""

    def __init__(self, db: Database, sweep: Row) -> None:
        self._db = db
        self._sweep = sweep
        self.wanted = sweep.get("deletion_id") is not None

    def note(self, what: str, store: str, part: str, number: int) -> None:
        """`number` of `what` in a part of the sweep's work; of a part that is counted again, the most counts."""
        if self.wanted:
            key = f"{what}/{store}/{part}"
            self._db.rows(_NOTE, {"sweep": self._sweep["id"], "key": key, "number": number})


async def begin(
    connection: AsyncConnection[Row], deletion_id: str, scope: Scope, deleted: Sequence[str], viewer: Viewer | None
) -> None:
    """Open the receipt of these documents, within the transaction that deletes them. `viewer`: who has them deleted."""
    rows = await connection.execute(_ACCESSES, {"ids": list(deleted), "most": ACCESSES})
    accesses = [Access.load(row["access"]) for row in await rows.fetchall()]
    named = sum(len(one.users) + len(one.groups) + len(one.denied_users) + len(one.denied_groups) for one in accesses)
    is_kept = len(accesses) <= ACCESSES and named <= NAMES
    values = {
        "id": deletion_id,
        "organization": scope.organization,
        "namespace": scope.namespace,
        "tenant": scope.tenant,
        "documents": len(deleted),
        "asked_by": None if viewer is None else _digest(deletion_id, principals.user(viewer.user)),
        "audience": json.dumps([_audience(deletion_id, one) for one in accesses]) if is_kept else None,
    }
    await connection.execute(_BEGIN, values)


def _audience(deletion_id: str, access: Access) -> dict[str, list[str]]:
    """Whom documents were for, as digests: a receipt outlives them, and is to keep nobody's name."""
    everyone = [principals.EVERYONE] if access.public else []
    allowed = [*everyone, *map(principals.user, access.users), *map(principals.group, access.groups)]
    denied = [*map(principals.user, access.denied_users), *map(principals.group, access.denied_groups)]
    return {
        "allowed": [_digest(deletion_id, one) for one in allowed],
        "denied": [_digest(deletion_id, one) for one in denied],
    }


def _digest(deletion_id: str, principal: str) -> str:
    return hashlib.sha256(f"{deletion_id}/{principal}".encode()).hexdigest()[:32]


def _saw_all(deletion_id: str, audience: Iterable[Mapping[str, Sequence[str]]], viewer: Viewer) -> bool:
    mine = {_digest(deletion_id, one) for one in (*viewer.principals, principals.EVERYONE)}
    return all(mine.isdisjoint(one["denied"]) and not mine.isdisjoint(one["allowed"]) for one in audience)


def settle(connection: Connection[Row], sweep: Row) -> None:
    """A sweep is done and read back: add what it found to its deletion, which is confirmed with the last of them."""
    gone = connection.execute("delete from sweeps where id = %(id)s returning deletion_id, removed", sweep).fetchone()
    if gone is None or gone["deletion_id"] is None:
        return
    totals, unread = {CHUNKS: 0, VECTORS: 0, FILES: 0}, set()
    stores: dict[str, int] = {}
    for key, number in gone["removed"].items():
        what, store, _ = key.split("/", 2)
        if what == UNREAD:
            unread.add(store)
            continue
        totals[what] += int(number)
        stores[store] = stores.get(store, 0) + int(number)
    values = {"id": gone["deletion_id"], **totals, "unread": bool(unread)}
    connection.execute(_ADD, values)  # holds the row: of two last sweeps one sees that the other is done
    for store, removed in sorted(stores.items()):
        connection.execute(_ADD_STORE, {**values, "store": store, "removed": removed, "read": store not in unread})
    connection.execute(_CONFIRM, values)


async def find(
    db: Database,
    deletion_id: str,
    *,
    organization: str,
    namespace: str | None,
    tenant: str,
    all_tenants: bool,
    principal: str | None = None,
    groups: Sequence[str] = (),
) -> Receipt:
    """A deletion of this organization and tenant; NOT_FOUND for any other, missing, foreign or hidden alike.

    namespace: the one that the key is bound to. all_tenants: whether deletions of whole namespaces may be seen.
    principal: the user who looks, with the groups of the user's own token; what was deleted was all for that user, or
    the user had it deleted. None for the application.
    """
    asked = {
        "id": deletion_id,
        "organization": organization,
        "namespace": namespace,
        "tenant": tenant,
        "all_tenants": all_tenants,
        "tries": TRIES,
    }
    row = await db.async_row(_FIND, asked)
    if row is None or not (principal is None or await _is_shown(db, row, organization, principal, groups)):
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such deletion.", field="deletionId")
    stores = tuple(StoreReceipt(**store) for store in await db.async_rows(_STORES, asked))
    return Receipt(**{name: row[name] for name in _SHOWN}, stores=stores)


async def _is_shown(db: Database, row: Row, organization: str, principal: str, groups: Sequence[str]) -> bool:
    if row["tenant"] is None or row["asked_by"] == _digest(row["id"], principals.user(principal)):
        return True  # of a whole namespace: to be seen at all it takes `all_tenants`
    if row["audience"] is None:
        return False
    scope = Scope(organization, row["namespace_id"], row["tenant"])
    return _saw_all(row["id"], row["audience"], await viewers.viewer(db, scope, principal, groups))


def sign(secret: bytes, organization: str, said: Mapping[str, Any]) -> str:
    """HMAC-SHA256 in hex over the canonical JSON of a receipt without its signature: keys sorted, no white space.

    Each organization has a key of its own, so that nobody learns whether a receipt is another's.
    """
    key = hmac.new(secret, organization.encode(), hashlib.sha256).digest()
    canonical = json.dumps({k: v for k, v in said.items() if k != "signature"}, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, canonical.encode(), hashlib.sha256).hexdigest()


def is_valid(secret: bytes, organization: str, said: Mapping[str, Any]) -> bool:
    """Whether this installation signed it for this organization, unchanged."""
    signature = said.get("signature")
    if not isinstance(signature, str) or not signature.isascii():
        return False
    return hmac.compare_digest(sign(secret, organization, said), signature)
