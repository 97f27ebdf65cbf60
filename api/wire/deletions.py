"""Receipts of deletions on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import Answer, Timestamp
from retrieval.documents import receipts
from retrieval.documents.receipts import Receipt


class DeletionStore(Struct, rename="camel"):
    """What one store has lost."""

    store: str
    removed: int
    read_back_at: Timestamp | None


class Deletion(Struct, rename="camel"):
    """What a DELETE has removed, and where it was looked for afterwards."""

    id: str
    status: Literal["PENDING", "CONFIRMED", "FAILED"]
    requested_at: Timestamp
    confirmed_at: Timestamp | None
    documents: int
    chunks: int
    vectors: int
    files: int
    stores: list[DeletionStore]
    signature: str = ""

    @classmethod
    def of(cls, receipt: Receipt, secret: bytes, organization: str) -> Deletion:
        """Signed for the organization."""
        shown = cls(
            receipt.id,
            cast("Any", receipt.status),
            Timestamp.of(receipt.requested_at),
            _moment(receipt.confirmed_at),
            receipt.documents,
            receipt.chunks,
            receipt.vectors,
            receipt.files,
            [DeletionStore(one.store, one.removed, _moment(one.read_back_at)) for one in receipt.stores],
        )
        shown.signature = receipts.sign(secret, organization, msgspec.to_builtins(shown))
        return shown


class DeletionData(Struct):
    """One receipt."""

    deletion: Deletion


class DeletionAnswer(Answer, kw_only=True):
    """A receipt, as far as the deletion has come."""

    data: DeletionData


class VerifyDeletion(Struct):
    """A receipt as it was answered; its fields may also stand in the body itself."""

    deletion: Annotated[dict[str, Any], Meta(description="The receipt, with its signature.")] | UnsetType = UNSET


class VerifiedDeletion(Struct):
    """What is known of a receipt."""

    valid: bool


class DeletionVerifiedAnswer(Answer, kw_only=True):
    """Whether the receipt is ours, and unchanged."""

    data: VerifiedDeletion


def _moment(at: datetime | None) -> Timestamp | None:
    return Timestamp.of(at) if at else None
