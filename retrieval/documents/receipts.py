"""History of documents by job run, and receipts of deletions: what each store has lost, and when that was verified.

A deletion is confirmed once every sweep that carries it out is done; each reads back what it removed before it is. What
a sweep finds is noted with the sweep (`removed`) before it is taken away, so that one that is repeated after a failure
counts nothing twice and forgets nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from retrieval.database.database import Database
from retrieval.database.pagination import Page
from retrieval.database.rows import Executor
from retrieval.documents import listing
from retrieval.documents.listing import DocumentList
from retrieval.documents.queries import receipts as queries
from retrieval.documents.queries.receipts import Receipt
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ports import Scope
from retrieval.statuses import Stage, stage_names

PAGE = 20


@dataclass(frozen=True, slots=True)
class DocumentRun:
    """The document in one job run. `active`: search shows the version that this run made.

    `chunks` is None where none were cut; `unchanged`: it was the same as before, and nothing more was done.
    """

    job_run_id: str
    number: int
    source: str
    status: str
    error: str | None
    unchanged: bool
    active: bool
    chunks: int | None
    size: int | None
    started_at: datetime
    finished_at: datetime | None


_ENTRIES: DocumentList[DocumentRun] = DocumentList(
    f"""
    select m.job_run_id, r.number, r.source, m.status, m.error, m.stage = {stage_names(Stage.UNCHANGED)} as unchanged,
           m.status = 'SUCCESS' and m.generation = %(active_generation)s as active,
           (m.properties ->> 'embeddingCount')::int as chunks, m.raw_size as size,
           r.created_at as started_at, r.finished_at
    from run_documents m join job_runs r on r.id = m.job_run_id
    where m.document_id = %(id)s and (%(after)s::bigint is null or r.number < %(after)s)
    order by r.number desc limit %(limit)s
    """,
    DocumentRun,
    attrgetter("number"),
)


async def list_history(
    db: Database,
    scope: Scope,
    document_id: str,
    *,
    cursor: str | None = None,
    size: int = PAGE,
) -> Page[DocumentRun]:
    """From the newest run on, or from the cursor."""
    return await listing.read_page(db, scope, document_id, _ENTRIES, cursor=cursor, size=size, viewer=None)


SECRET = "deletion-receipts"  # noqa: S105 - the name of a secret
"""Under which name the installation keeps the key of signatures; sealed with the secret key."""
DATABASE = "DATABASE"
"""The store of chunks, in a receipt."""
CHUNKS, VECTORS, FILES, UNREAD = "chunks", "vectors", "files", "unread"


class Notes:
    """Counts of the data that a sweep deletes; recorded only for sweeps with a receipt."""

    def __init__(self, db: Database, sweep_id: int, deletion_id: str | None) -> None:
        self._db = db
        self._sweep_id = sweep_id
        self.wanted = deletion_id is not None

    def note(self, what: str, store: str, part: str, number: int) -> None:
        """`number` of `what` in a part of the sweep's work; of a part that is counted again, the most counts."""
        if self.wanted:
            key = f"{what}/{store}/{part}"
            queries.note_removed(self._db, self._sweep_id, key, number)


def settle_sweep(connection: Executor, sweep_id: int) -> None:
    """A sweep is done and read back: add what it found to its deletion, which is confirmed with the last of them."""
    sweep = queries.delete_sweep(connection, sweep_id)
    if sweep is None or sweep.deletion_id is None:
        return
    totals, unread = {CHUNKS: 0, VECTORS: 0, FILES: 0}, set()
    stores: dict[str, int] = {}
    for key, number in sweep.removed.items():
        kind, store, _ = key.split("/", 2)
        if kind == UNREAD:
            unread.add(store)
            continue
        totals[kind] += int(number)
        stores[store] = stores.get(store, 0) + int(number)
    queries.add_totals(connection, sweep.deletion_id, totals, unread=bool(unread))
    for store, removed in sorted(stores.items()):
        queries.add_store(connection, sweep.deletion_id, store, removed, is_read=store not in unread)
    queries.confirm_deletion(connection, sweep.deletion_id)


async def find_receipt(
    db: Database,
    deletion_id: str,
    *,
    organization: str,
    namespace: str | None,
    tenant: str,
    all_tenants: bool,
) -> Receipt:
    """A deletion of this organization and tenant; NOT_FOUND for any other, missing or foreign alike.

    namespace: the one that the key is bound to. all_tenants: whether deletions of whole namespaces may be seen.
    """
    params = {
        "id": deletion_id,
        "organization": organization,
        "namespace": namespace,
        "tenant": tenant,
        "all_tenants": all_tenants,
    }
    receipt = await queries.find_receipt(db, params)
    if receipt is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such deletion.", field="deletionId")
    return replace(receipt, stores=await queries.list_stores(db, deletion_id))


def sign_receipt(secret: bytes, organization: str, said: Mapping[str, Any]) -> str:
    """Return the HMAC-SHA256 in hex over the canonical JSON of a receipt without its signature: keys sorted, no white
    space.

    Each organization has its own key, so that a check reveals nothing about receipts of others.
    """
    key = hmac.new(secret, organization.encode(), hashlib.sha256).digest()
    canonical = json.dumps({k: v for k, v in said.items() if k != "signature"}, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, canonical.encode(), hashlib.sha256).hexdigest()


def is_valid(secret: bytes, organization: str, said: Mapping[str, Any]) -> bool:
    """Tell if this installation signed exactly this receipt for this organization."""
    signature = said.get("signature")
    if not isinstance(signature, str) or not signature.isascii():
        return False
    return hmac.compare_digest(sign_receipt(secret, organization, said), signature)
