"""Receipts of deletions on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, Timestamp
from retrieval.documents import receipts
from retrieval.documents.receipts import Receipt


class DeletionStore(Struct, rename="camel"):
    """What one store has lost."""

    store: Annotated[str, Meta(description="Which store.")]
    removed: Annotated[int, Meta(description="Documents that are gone at the content service and were removed.")]
    read_back_at: Annotated[
        Timestamp | None, Meta(description="When the store was asked again and had nothing left; null before.")
    ]


class Deletion(Struct, rename="camel"):
    """What a DELETE has removed, and where it was looked for afterwards."""

    id: Annotated[str, Meta(description="The id.")]
    status: Annotated[Literal["PENDING", "CONFIRMED", "FAILED"], Meta(description="How far it is.")]
    requested_at: Annotated[Timestamp, Meta(description="When the deletion was asked for.")]
    confirmed_at: Annotated[
        Timestamp | None, Meta(description="When every store had been read back and had nothing left; null before.")
    ]
    documents: Annotated[int, Meta(description="The documents.")]
    chunks: Annotated[int, Meta(description="The chunks, in their order.")]
    vectors: Annotated[int, Meta(description="Vectors that were removed.")]
    files: Annotated[int, Meta(description="Files that were removed.")]
    stores: Annotated[list[DeletionStore], Meta(description="What each store has lost.")]
    signature: Annotated[
        str, Meta(description="HMAC-SHA256 over the receipt's canonical JSON; POST /v1/deletions/verify checks it.")
    ] = ""

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

    deletion: Annotated[Deletion, Meta(description="The receipt of the deletion.")]


class DeletionAnswer(DataAnswer[DeletionData]):
    """A receipt, as far as the deletion has come."""


class VerifyDeletion(Struct):
    """A receipt as it was answered; its fields may also stand in the body itself."""

    deletion: Annotated[dict[str, Any], Meta(description="The receipt, with its signature.")] | UnsetType = UNSET


class VerifiedDeletion(Struct):
    """What is known of a receipt."""

    valid: Annotated[bool, Meta(description="Whether the receipt was signed here and not changed since.")]


class DeletionVerifiedAnswer(DataAnswer[VerifiedDeletion]):
    """Whether the receipt is ours, and unchanged."""


def _moment(at: datetime | None) -> Timestamp | None:
    return Timestamp.of(at) if at else None
