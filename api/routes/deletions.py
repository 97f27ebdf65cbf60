"""Deletions: their receipts, read and checked."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from api.operation import Call, operation
from api.wire.audit import (
    Deletion,
    DeletionAnswer,
    DeletionData,
    DeletionVerifiedAnswer,
    VerifiedDeletion,
    VerifyDeletion,
)
from retrieval.documents import receipts
from retrieval.errors import ErrorCode, ServiceError

_EXAMPLE = {
    "deletion": {
        "id": "del_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0",
        "status": "CONFIRMED",
        "requestedAt": {"isoString": "2026-11-20T12:00:00.000Z"},
        "confirmedAt": {"isoString": "2026-11-20T12:00:03.000Z"},
        "documents": 1,
        "chunks": 4,
        "vectors": 4,
        "files": 2,
        "stores": [{"store": "PGVECTOR", "removed": 4, "readBackAt": {"isoString": "2026-11-20T12:00:02.000Z"}}],
        "signature": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    }
}


@operation(
    "GET",
    "/v1/deletions/{deletion_id:str}",
    tag="Documents",
    invalid=ErrorCode.INVALID_REQUEST,
    raises=(ErrorCode.NOT_FOUND,),
)
async def get_deletion(call: Call[None, None]) -> DeletionAnswer:
    """Get the receipt of a deletion.

    What each store has lost, and when it was read back and had nothing left. CONFIRMED once all were.
    """
    caller = call.caller
    found = await receipts.find(
        call.services.db,
        call.path["deletion_id"],
        organization=caller.organization,
        namespace=caller.namespace,
        tenant=call.tenant,
        all_tenants=caller.bound_tenant is None,
    )
    shown = Deletion.of(found, await call.services.receipt_secret.read(), caller.organization)
    return DeletionAnswer(message="Deletion fetched successfully", data=DeletionData(shown))


@operation("POST", "/v1/deletions/verify", tag="Documents", invalid=ErrorCode.INVALID_REQUEST, example=_EXAMPLE)
async def verify_deletion(call: Call[VerifyDeletion, None]) -> DeletionVerifiedAnswer:
    """Check the receipt of a deletion.

    Whether this service signed the receipt for your organization and nothing in it was changed.
    """
    said = call.body.deletion
    if said is UNSET:
        said = msgspec.json.decode(call.content, type=dict)
    if "signature" not in said:
        message = "Send the receipt as GET /v1/deletions/{deletion_id} answered it, with its signature."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field="deletion.signature", reason="missing_field")
    valid = receipts.is_valid(await call.services.receipt_secret.read(), call.caller.organization, said)
    message = "The receipt is genuine" if valid else "The receipt was not signed here, or it was changed"
    return DeletionVerifiedAnswer(message=message, data=VerifiedDeletion(valid))


HANDLERS = (get_deletion, verify_deletion)
