"""The audit log and receipts of deletions on the wire."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from api.wire.common import DataAnswer, NextCursor, PageSize, Timestamp
from retrieval.accounts.audit import Filter, Source, Written
from retrieval.documents import receipts
from retrieval.documents.receipts import Receipt
from retrieval.errors import ErrorCode, ServiceError


class AuditQuery(Struct, rename="camel"):
    """Filters and page of the audit log; `cursor` is the `nextCursor` of the page before."""

    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the page before.")] = None
    page_size: PageSize = None
    object_type: Annotated[
        str | None, Meta(description="About this kind of object alone, as entries name it.", examples=["namespace"])
    ] = None
    about: Annotated[str | None, Meta(description="About the object with this id alone.")] = field(
        name="object", default=None
    )
    key_name: Annotated[str | None, Meta(description="By keys of this name alone.", examples=["Website"])] = None
    outcome: Annotated[
        Literal["DONE", "REFUSED"] | None, Meta(description="DONE: what was carried out; REFUSED: what was not.")
    ] = None
    start: Annotated[date | None, Meta(description="The first day (UTC); all before it is left out.")] = field(
        name="from", default=None
    )
    end: Annotated[date | None, Meta(description="The last day (UTC); all after it is left out.")] = field(
        name="to", default=None
    )

    def wanted(self) -> Filter:
        """Return the filter. Raises ServiceError if the range of days is empty."""
        if self.start and self.end and self.start > self.end:
            raise ServiceError(
                ErrorCode.INVALID_REQUEST, "from must not be after to.", field="from", reason="out_of_bounds"
            )
        return Filter(
            object_type=self.object_type,
            about=self.about,
            key_name=self.key_name,
            refused=None if self.outcome is None else self.outcome == "REFUSED",
            start=self.start,
            end=self.end,
        )


class AuditEntry(Struct, rename="camel", kw_only=True):
    """A write, done or refused. `objectId` is null where several objects were changed, or none was known."""

    id: Annotated[str, Meta(description="The id.")]
    at: Annotated[Timestamp, Meta(description="When the write was answered.")]
    key_id: Annotated[str | None, Meta(description="The API key that asked; null where none did.")]
    key_name: Annotated[str | None, Meta(description="The name of that key.")]
    principal: Annotated[
        str | None,
        Meta(description="On whose behalf it was done; at the command line the user of the operating system."),
    ]
    method: Annotated[str, Meta(description="The method of the request, or `CLI`.")]
    route: Annotated[str, Meta(description="The path of the operation, or the command.")]
    object_type: Annotated[str, Meta(description="What was changed or made.")]
    object_id: Annotated[str | None, Meta(description="Its id; null where none was known.")]
    status: Annotated[int, Meta(description="The status of the answer.")]
    request_id: Annotated[str | None, Meta(description="The id of the request, as X-Request-Id says it.")]
    source: Annotated[Literal["API", "CLI"], Meta(description="By which way it came.")]
    subject: Annotated[str | UnsetType, Meta(description="The token's subject, where a person asked and no key.")] = (
        UNSET
    )
    object_ids: Annotated[list[str] | UnsetType, Meta(description="The first 100 documents that were changed.")] = UNSET
    object_count: Annotated[int, Meta(ge=0, description="How many documents were changed.")] | UnsetType = UNSET
    changes: Annotated[
        list[dict[str, Any]] | UnsetType,
        Meta(description="Per object its `id`, and its access or members `before` and `after`; the first 100."),
    ] = UNSET
    client_request_id: Annotated[str | UnsetType, Meta(description="The X-Request-Id that the client sent.")] = UNSET

    @classmethod
    def of(cls, entry: Written) -> AuditEntry:
        return cls(
            id=entry.id,
            at=Timestamp.of(entry.created_at),
            key_id=entry.key_id,
            key_name=entry.key_name,
            principal=entry.principal,
            method=entry.method,
            route=entry.route,
            object_type=entry.object_type,
            object_id=entry.object_id,
            status=entry.status,
            request_id=entry.request_id,
            source="API" if entry.source is Source.API else "CLI",
            subject=UNSET if entry.subject is None else entry.subject,
            object_ids=UNSET if entry.object_ids is None else entry.object_ids,
            object_count=UNSET if entry.object_count is None else entry.object_count,
            changes=UNSET if entry.changes is None else entry.changes,
            client_request_id=UNSET if entry.client_request_id is None else entry.client_request_id,
        )


class AuditData(Struct, rename="camel"):
    """A part of the log, newest first."""

    entries: Annotated[list[AuditEntry], Meta(description="The writes, newest first.")]
    items_returned: Annotated[int, Meta(description="How many are in this answer.")]
    has_next_page: Annotated[bool, Meta(description="Whether there are more.")]
    next_cursor: NextCursor


class AuditAnswer(DataAnswer[AuditData]):
    """The organization's writes, newest first."""


class DeletionStore(Struct, rename="camel"):
    """Removals from one store."""

    store: Annotated[str, Meta(description="Which store.")]
    removed: Annotated[int, Meta(description="Vectors or files that were removed from it.")]
    read_back_at: Annotated[
        Timestamp | None, Meta(description="When the store was asked again and had nothing left; null before.")
    ]


class Deletion(Struct, rename="camel"):
    """Receipt of a DELETE: the removed objects, and the stores that were read back afterwards."""

    id: Annotated[str, Meta(description="The id.")]
    status: Annotated[Literal["PENDING", "CONFIRMED", "FAILED"], Meta(description="How far it is.")]
    requested_at: Annotated[Timestamp, Meta(description="When the deletion was asked for.")]
    confirmed_at: Annotated[
        Timestamp | None, Meta(description="When every store had been read back and had nothing left; null before.")
    ]
    documents: Annotated[int, Meta(description="Documents that were removed.")]
    chunks: Annotated[int, Meta(description="Chunks that were removed.")]
    vectors: Annotated[int, Meta(description="Vectors that were removed.")]
    files: Annotated[int, Meta(description="Files that were removed.")]
    stores: Annotated[list[DeletionStore], Meta(description="What each store has lost.")]
    signature: Annotated[
        str, Meta(description="HMAC-SHA256 over the receipt's canonical JSON; POST /v1/deletions/verify checks it.")
    ] = ""

    @classmethod
    def of(cls, receipt: Receipt, secret: bytes, organization: str) -> Deletion:
        """Return the receipt, signed for the organization."""
        deletion = cls(
            receipt.id,
            cast("Any", receipt.status),
            Timestamp.of(receipt.requested_at),
            _moment(receipt.confirmed_at),
            receipt.documents,
            receipt.chunks,
            receipt.vectors,
            receipt.files,
            [DeletionStore(store.store, store.removed, _moment(store.read_back_at)) for store in receipt.stores],
        )
        deletion.signature = receipts.sign(secret, organization, msgspec.to_builtins(deletion))
        return deletion


class DeletionData(Struct):
    """One receipt."""

    deletion: Annotated[Deletion, Meta(description="The receipt of the deletion.")]


class DeletionAnswer(DataAnswer[DeletionData]):
    """The receipt in its current state."""


class VerifyDeletion(Struct):
    """A receipt as returned; its fields may also be in the body itself."""

    deletion: Annotated[dict[str, Any] | UnsetType, Meta(description="The receipt, with its signature.")] = UNSET


class VerifiedDeletion(Struct):
    """Result of checking a receipt."""

    valid: Annotated[bool, Meta(description="Whether the receipt was signed here and not changed since.")]


class DeletionVerifiedAnswer(DataAnswer[VerifiedDeletion]):
    """The receipt was checked: `valid` if this service signed it and it is unchanged."""


def _moment(at: datetime | None) -> Timestamp | None:
    return Timestamp.of(at) if at else None
