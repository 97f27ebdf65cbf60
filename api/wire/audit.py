"""Audit log and receipts of deletions in requests and responses."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from api.wire.common import DataAnswer, NextCursor, PageSize, Timestamp
from retrieval.accounts.audit import AuditFilter, Source, StoredAuditEntry
from retrieval.documents import receipts
from retrieval.documents.queries.receipts import Receipt
from retrieval.errors import ErrorCode, ServiceError

ValueT = TypeVar("ValueT")


class AuditQuery(Struct, rename="camel"):
    """Filters and page of the audit log; `cursor` is the `nextCursor` of the previous page."""

    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the previous page.")] = None
    page_size: PageSize = None
    object_type: Annotated[
        str | None, Meta(description="Only entries about this type of object.", examples=["namespace"])
    ] = None
    about: Annotated[str | None, Meta(description="Only entries about the object with this id.")] = field(
        name="object", default=None
    )
    key_name: Annotated[str | None, Meta(description="Only entries of keys with this name.", examples=["Website"])] = (
        None
    )
    outcome: Annotated[
        Literal["DONE", "REFUSED"] | None,
        Meta(description="DONE: only successful writes. REFUSED: only refused writes."),
    ] = None
    start: Annotated[date | None, Meta(description="The first day (UTC).")] = field(name="from", default=None)
    end: Annotated[date | None, Meta(description="The last day (UTC).")] = field(name="to", default=None)
    sort: Annotated[Literal["newest", "oldest"] | None, Meta(description="The order. Default: newest first.")] = None

    def to_filter(self) -> AuditFilter:
        """Return the filter; raise ServiceError for an empty range of days."""
        if self.start and self.end and self.start > self.end:
            raise ServiceError(
                ErrorCode.INVALID_REQUEST, "from must not be after to.", field="from", reason="out_of_bounds"
            )
        return AuditFilter(
            object_type=self.object_type,
            about=self.about,
            key_name=self.key_name,
            refused=None if self.outcome is None else self.outcome == "REFUSED",
            start=self.start,
            end=self.end,
        )


class AuditEntry(Struct, rename="camel", kw_only=True):
    """A successful or refused write. `objectId` is null for several objects, and for an unknown one."""

    id: Annotated[str, Meta(description="The object's id.")]
    at: Annotated[Timestamp, Meta(description="Time of the response.")]
    key_id: Annotated[str | None, Meta(description="Id of the API key; null without one.")]
    key_name: Annotated[str | None, Meta(description="Name of the API key.")]
    principal: Annotated[
        str | None, Meta(description="The user of X-On-Behalf-Of; at the command line, the operating system's user.")
    ]
    method: Annotated[str, Meta(description="The method of the request, or `CLI`.")]
    route: Annotated[str, Meta(description="The path of the operation, or the name of the command.")]
    object_type: Annotated[str, Meta(description="Type of the object.")]
    object_id: Annotated[str | None, Meta(description="Id of the object; null if unknown.")]
    status: Annotated[int, Meta(description="Status code of the response.")]
    request_id: Annotated[str | None, Meta(description="Id of the request as returned in X-Request-Id.")]
    source: Annotated[Source, Meta(description="The interface of the write.")]
    subject: Annotated[
        str | UnsetType, Meta(description="Subject of the token of a signed-in person; absent for API keys.")
    ] = UNSET
    object_ids: Annotated[list[str] | UnsetType, Meta(description="The first 100 documents that were changed.")] = UNSET
    object_count: Annotated[int, Meta(ge=0, description="Number of changed documents.")] | UnsetType = UNSET
    changes: Annotated[
        list[dict[str, Any]] | UnsetType,
        Meta(description="Each object's `id` with its access or members `before` and `after`."),
    ] = UNSET
    client_request_id: Annotated[str | UnsetType, Meta(description="The X-Request-Id that the client sent.")] = UNSET

    @classmethod
    def from_entry(cls, entry: StoredAuditEntry) -> AuditEntry:
        return cls(
            id=entry.id,
            at=Timestamp.from_datetime(entry.created_at),
            key_id=entry.key_id,
            key_name=entry.key_name,
            principal=entry.principal,
            method=entry.method,
            route=entry.route,
            object_type=entry.object_type,
            object_id=entry.object_id,
            status=entry.status,
            request_id=entry.request_id,
            source=entry.source,
            subject=_unset_if_none(entry.subject),
            object_ids=_unset_if_none(entry.object_ids),
            object_count=_unset_if_none(entry.object_count),
            changes=_unset_if_none(entry.changes),
            client_request_id=_unset_if_none(entry.client_request_id),
        )


def _unset_if_none(value: ValueT | None) -> ValueT | UnsetType:
    return UNSET if value is None else value


class AuditData(Struct, rename="camel"):
    """A page of the audit log."""

    entries: Annotated[list[AuditEntry], Meta(description="The writes, in the order of `sort`.")]
    items_returned: Annotated[int, Meta(description="Number of entries in this response.")]
    has_next_page: Annotated[bool, Meta(description="Whether another page follows.")]
    next_cursor: NextCursor
    total_count: Annotated[
        int | UnsetType, Meta(description="Number of entries on all pages; absent above 100,000.")
    ] = UNSET


class AuditAnswer(DataAnswer[AuditData]):
    """The organization's writes."""


class DeletionStore(Struct, rename="camel"):
    """Removals from one vector or file store."""

    store: Annotated[str, Meta(description="Name of the store.")]
    removed: Annotated[int, Meta(description="Number of vectors or files removed from the store.")]
    read_back_at: Annotated[
        Timestamp | None, Meta(description="Time at which a read of the store found none of them; null before.")
    ]


class Deletion(Struct, rename="camel"):
    """Receipt of a deletion: the removed objects, and the stores with the time of their check."""

    id: Annotated[str, Meta(description="The object's id.")]
    status: Annotated[
        Literal["PENDING", "CONFIRMED", "FAILED"],
        Meta(description="CONFIRMED after the check of all stores; FAILED if it keeps failing."),
    ]
    requested_at: Annotated[Timestamp, Meta(description="Time of the deletion request.")]
    confirmed_at: Annotated[
        Timestamp | None, Meta(description="Time at which the last store was checked; null before.")
    ]
    documents: Annotated[int, Meta(description="Documents that were removed.")]
    chunks: Annotated[int, Meta(description="Chunks that were removed.")]
    vectors: Annotated[int, Meta(description="Vectors that were removed.")]
    files: Annotated[int, Meta(description="Files that were removed.")]
    stores: Annotated[list[DeletionStore], Meta(description="Removals by store.")]
    signature: Annotated[
        str, Meta(description="HMAC-SHA256 of the receipt's canonical JSON. Verify it with POST /v1/deletions/verify.")
    ] = ""  # set over the other fields

    @classmethod
    def from_receipt(cls, receipt: Receipt, secret: bytes, organization: str) -> Deletion:
        """Return the receipt, signed for the organization."""
        deletion = cls(
            id=receipt.id,
            status=cast("Any", receipt.status),
            requested_at=Timestamp.from_datetime(receipt.requested_at),
            confirmed_at=Timestamp.from_optional(receipt.confirmed_at),
            documents=receipt.documents,
            chunks=receipt.chunks,
            vectors=receipt.vectors,
            files=receipt.files,
            stores=[
                DeletionStore(store.store, store.removed, Timestamp.from_optional(store.read_back_at))
                for store in receipt.stores
            ],
        )
        deletion.signature = receipts.sign_receipt(secret, organization, msgspec.to_builtins(deletion))
        return deletion


class DeletionData(Struct):
    """A receipt."""

    deletion: Annotated[Deletion, Meta(description="The receipt of the deletion.")]


class DeletionAnswer(DataAnswer[DeletionData]):
    """The receipt in its current state."""


class VerifyDeletion(Struct):
    """A receipt in the field `deletion`, or the receipt itself as the body."""

    deletion: Annotated[dict[str, Any] | UnsetType, Meta(description="The receipt, with its signature.")] = UNSET


class VerifiedDeletion(Struct):
    """Result of checking a receipt."""

    valid: Annotated[bool, Meta(description="Whether the receipt was signed by this service and is unchanged.")]


class DeletionVerifiedAnswer(DataAnswer[VerifiedDeletion]):
    """The receipt was checked: `valid` if this service signed it and it is unchanged."""
