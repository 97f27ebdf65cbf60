"""Receipts of deletions on the wire."""

from __future__ import annotations

from typing import Annotated, Any, Literal

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
        shown = msgspec.convert(
            {
                "id": receipt.id,
                "status": receipt.status,
                "requestedAt": Timestamp.of(receipt.requested_at),
                "confirmedAt": receipt.confirmed_at and Timestamp.of(receipt.confirmed_at),
                "documents": receipt.documents,
                "chunks": receipt.chunks,
                "vectors": receipt.vectors,
                "files": receipt.files,
                "stores": [
                    DeletionStore(one.store, one.removed, one.read_back_at and Timestamp.of(one.read_back_at))
                    for one in receipt.stores
                ],
            },
            cls,
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
