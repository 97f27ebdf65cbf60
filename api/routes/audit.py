"""The audit log of an organization."""

from __future__ import annotations

from api.operation import Call, TenantUse, operation
from api.wire.audit import AuditAnswer, AuditData, AuditEntry, AuditQuery
from retrieval.accounts import audit
from retrieval.database.pages import PAGE, Part
from retrieval.errors import ErrorCode


@operation("GET", "/v1/audit", tag="Administration", tenant=TenantUse.IGNORED, invalid=ErrorCode.INVALID_REQUEST)
async def list_audit_entries(call: Call[None, AuditQuery]) -> AuditAnswer:
    """Read the audit log.

    One entry for every write, refused ones too, newest first, 50 a page unless `pageSize` says otherwise. What
    is named besides narrows it: all of it must hold.
    """
    place = await call.place(call.query.cursor)
    part = Part(call.query.page_size or PAGE, place)
    page = await audit.list_part(call.services.db, call.caller.organization, part, call.query.wanted())
    shown = [AuditEntry.of(entry) for entry in page.items]
    data = AuditData(shown, len(shown), page.cursor is not None, await call.cursor(page.cursor))
    return AuditAnswer(message="Audit entries fetched successfully", data=data)


HANDLERS = (list_audit_entries,)
