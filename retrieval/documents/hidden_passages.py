"""Hide passages or whole documents from searches, and from every reader but staff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from retrieval import ids, write_details
from retrieval.database import pagination
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.rows import AsyncExecutor
from retrieval.documents.passage_matching import hash_content
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
    """Entry of a document; `content_hash` and `excerpt` are None for a hidden document.

    `is_matched`: the searchable version has the passage.
    """

    id: str
    document_id: str
    document_name: str
    reason: str
    content_hash: str | None
    excerpt: str | None
    created_at: datetime
    is_matched: bool


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
        content_hash = None if content is None else hash_content(content)
        entries = list(document.hidden)
        for entry in _list_passages(document):
            if entry["contentHash"] == content_hash:
                entries = [other for other in entries if other["id"] != entry["id"]]
        if len({entry["id"] for entry in entries}) >= MAX_HIDDEN_PASSAGES:
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
        texts = document.texts if content is None else {**document.texts, entry["id"]: content}
        await _store_entries(connection, document.id, [*entries, entry], texts)
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
        await _store_entries(connection, document.id, entries, document.texts)
    write_details.record_objects([passage_id, document.id])


async def list_hidden(db: Database, scope: Scope, part: PageRequest | None) -> Page[HidingDocument]:
    """List the documents with hidden passages, newest document first."""
    rows = await queries.list_documents(db, scope, part)
    if not rows:
        await namespaces.require_namespace(db, scope.organization, scope.namespace)
    return pagination.take_page(rows, None if part is None else part.size, pagination.age_cursor)


async def count_unmatched(db: Database, scope: Scope) -> int:
    """Count the documents with a hidden passage that their searchable version does not have."""
    return await queries.count_unmatched(db, scope)


def entries_of(document: HidingDocument) -> list[HiddenPassage]:
    """Return the entries of a document, oldest first."""
    return [_entry_of(document, entry) for entry in _list_passages(document)]


def _list_passages(document: HidingDocument) -> list[Mapping[str, Any]]:
    return [entry for entry in document.hidden if not entry.get("isPart")]


async def _store_entries(
    connection: AsyncExecutor, document_id: str, entries: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> None:
    remaining = {entry["id"] for entry in entries}
    kept_texts = {passage_id: text for passage_id, text in texts.items() if passage_id in remaining}
    await queries.store_entries(connection, document_id, entries, kept_texts)


def _entry_of(document: HidingDocument, entry: Mapping[str, Any]) -> HiddenPassage:
    return HiddenPassage(
        id=entry["id"],
        document_id=document.id,
        document_name=document.name,
        reason=entry["reason"],
        content_hash=entry["contentHash"],
        excerpt=entry["excerpt"],
        created_at=datetime.fromisoformat(entry["createdAt"]),
        is_matched=not entry.get("isUnmatched", False),
    )


async def _missing_document(db: Database, scope: Scope) -> ServiceError:
    await namespaces.require_namespace(db, scope.organization, scope.namespace)
    return ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
