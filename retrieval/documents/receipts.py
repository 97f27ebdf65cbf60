"""List the history of documents and issue receipts of deletions.

A receipt is confirmed when every store was read back and is empty of the deleted data.
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

HISTORY_PAGE_SIZE = 20


@dataclass(frozen=True, slots=True)
class DocumentRun:
    """Document in one job run. `active`: search shows this version; `unchanged`: skipped as identical; `chunks` None:
    not chunked."""

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


_HISTORY_LIST: DocumentList[DocumentRun] = DocumentList(
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
    size: int = HISTORY_PAGE_SIZE,
) -> Page[DocumentRun]:
    """List the job runs of a document, newest first."""
    return await listing.read_page(db, scope, document_id, _HISTORY_LIST, cursor=cursor, size=size, viewer=None)


# Name of the installation's signing key, sealed with the secret key.
SIGNING_SECRET = "deletion-receipts"  # noqa: S105 - the name of a secret
# Name of the chunk store in receipts.
DATABASE_STORE = "DATABASE"
CHUNKS_KIND, VECTORS_KIND, FILES_KIND, UNREAD_KIND = "chunks", "vectors", "files", "unread"


class SweepCounter:
    """Count the data deleted by a sweep, if the sweep has a receipt."""

    def __init__(self, db: Database, sweep_id: int, deletion_id: str | None) -> None:
        self._db = db
        self._sweep_id = sweep_id
        self.has_receipt = deletion_id is not None

    def note(self, kind: str, store: str, part: str, number: int) -> None:
        """Record `number` of a kind in a part; a repeated part keeps the highest count."""
        if self.has_receipt:
            # Recorded before the data is deleted, so a retried sweep neither loses nor doubles a count.
            key = f"{kind}/{store}/{part}"
            queries.record_removed(self._db, self._sweep_id, key, number)


def settle_sweep(connection: Executor, sweep_id: int) -> None:
    """Add the counts of a finished sweep to the deletion, and confirm the deletion after the last sweep."""
    sweep = queries.delete_sweep(connection, sweep_id)
    if sweep is None or sweep.deletion_id is None:
        return
    totals, unread = {CHUNKS_KIND: 0, VECTORS_KIND: 0, FILES_KIND: 0}, set()
    stores: dict[str, int] = {}
    for key, number in sweep.removed.items():
        kind, store, _ = key.split("/", 2)
        if kind == UNREAD_KIND:
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
    """Return a deletion of this organization and tenant. Raises NOT_FOUND for missing and foreign ones.

    `namespace`: bound namespace of the API key; `all_tenants`: include deletions of whole namespaces.
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


def sign_receipt(secret: bytes, organization: str, receipt: Mapping[str, Any]) -> str:
    """Return the hex HMAC-SHA256 of a receipt's canonical JSON without `signature`: sorted keys, no white space."""
    # A key per organization: a check reveals nothing about receipts of other organizations.
    key = hmac.new(secret, organization.encode(), hashlib.sha256).digest()
    canonical = json.dumps(
        {k: v for k, v in receipt.items() if k != "signature"}, sort_keys=True, separators=(",", ":")
    )
    return hmac.new(key, canonical.encode(), hashlib.sha256).hexdigest()


def is_valid(secret: bytes, organization: str, receipt: Mapping[str, Any]) -> bool:
    """Return True if this installation signed the receipt for this organization."""
    signature = receipt.get("signature")
    if not isinstance(signature, str) or not signature.isascii():
        return False
    return hmac.compare_digest(sign_receipt(secret, organization, receipt), signature)
