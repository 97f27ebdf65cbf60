"""Hide passages or whole documents from search; listings and signed links still show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from retrieval import ids, write_details
from retrieval.database import pagination
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.documents.queries import hidden_passages as queries
from retrieval.documents.queries.hidden_passages import HidingDocument
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope

# Hidden passages of one document.
MAX_HIDDEN_PASSAGES = 100
EXCERPT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class HiddenPassage:
    """Entry of a document; `content_hash` and `excerpt` are None for a hidden document."""

    id: str
    document_id: str
    document_name: str
    reason: str
    content_hash: str | None
    excerpt: str | None
    created_at: datetime


async def hide_passage(
    db: Database, scope: Scope, document_id: str, chunk_index: int | None, reason: str
) -> HiddenPassage:
    """Hide a chunk, or with None the whole document. Raises NAMESPACE_NOT_FOUND, DOCUMENTS_NOT_FOUND, NOT_FOUND."""
    async with db.async_transaction() as connection:
        document = await queries.lock_document(connection, scope, document_id, chunk_index)
        if document is None:
            raise await _missing_document(db, scope)
        if chunk_index is not None and document.content is None:
            message = f"The searchable version of the document has no chunk {chunk_index}."
            raise ServiceError(ErrorCode.NOT_FOUND, message, field="chunkIndex", reason="no_such_chunk")
        content = document.content
        # The hash of the text keeps a passage hidden in later versions of the document.
        content_hash = None if content is None else sha256(content.encode()).hexdigest()
        entries = [entry for entry in document.hidden if entry["contentHash"] != content_hash]
        if len(entries) >= MAX_HIDDEN_PASSAGES:
            message = (
                f"A document may have {MAX_HIDDEN_PASSAGES} hidden passages."
                " Hide the document, or show some of them again."
            )
            raise ServiceError(ErrorCode.INVALID_REQUEST, message, field="chunkIndex", reason="too_many")
        entry = {
            "id": ids.new_id("hide_"),
            "reason": reason,
            "contentHash": content_hash,
            "excerpt": None if content is None else content[:EXCERPT_CHARACTERS],
            "createdAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        await queries.store_entries(connection, document.id, [*entries, entry])
    write_details.record_objects([entry["id"] or "", document.id])
    return _entry_of(document, entry)


async def show_passage(db: Database, scope: Scope, document_id: str, passage_id: str) -> None:
    """Return a hidden passage to search. Raises NAMESPACE_NOT_FOUND, DOCUMENTS_NOT_FOUND, NOT_FOUND."""
    async with db.async_transaction() as connection:
        document = await queries.lock_document(connection, scope, document_id, None)
        if document is None:
            raise await _missing_document(db, scope)
        entries = [entry for entry in document.hidden if entry["id"] != passage_id]
        if len(entries) == len(document.hidden):
            raise ServiceError(ErrorCode.NOT_FOUND, "The document has no such hidden passage.")
        await queries.store_entries(connection, document.id, entries)
    write_details.record_objects([passage_id, document.id])


async def list_hidden(db: Database, scope: Scope, part: PageRequest | None) -> Page[HidingDocument]:
    """List the documents with hidden passages, newest document first."""
    rows = await queries.list_documents(db, scope, part)
    if not rows:
        await namespaces.require_namespace(db, scope.organization, scope.namespace)
    return pagination.take_page(rows, None if part is None else part.size, pagination.age_cursor)


def entries_of(document: HidingDocument) -> list[HiddenPassage]:
    """Return the entries of a document, oldest first."""
    return [_entry_of(document, entry) for entry in document.hidden]


def _entry_of(document: HidingDocument, entry: Mapping[str, Any]) -> HiddenPassage:
    return HiddenPassage(
        id=entry["id"],
        document_id=document.id,
        document_name=document.name,
        reason=entry["reason"],
        content_hash=entry["contentHash"],
        excerpt=entry["excerpt"],
        created_at=datetime.fromisoformat(entry["createdAt"]),
    )


async def _missing_document(db: Database, scope: Scope) -> ServiceError:
    await namespaces.require_namespace(db, scope.organization, scope.namespace)
    return ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
