"""The audit log on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from api.wire.common import Answer, Timestamp
from retrieval.accounts.audit import Source, Written


class AuditQuery(Struct, rename="camel"):
    """Which part of the log; `cursor` is the `nextCursor` of the part before."""

    cursor: str | None = None
    page_size: Annotated[int, Meta(ge=1, le=100)] | None = None


class AuditEntry(Struct, rename="camel", kw_only=True):
    """A write, done or refused. `objectId` is null where no object was known, as in a refusal."""

    id: str
    at: Timestamp
    key_id: str | None
    key_name: str | None
    principal: str | None
    method: str
    route: str
    object_type: str
    object_id: str | None
    status: int
    request_id: str | None
    source: Literal["API", "CLI"]

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
        )


class AuditData(Struct, rename="camel"):
    """A part of the log, newest first."""

    entries: list[AuditEntry]
    items_returned: int
    has_next_page: bool
    next_cursor: str | None


class AuditAnswer(Answer, kw_only=True):
    """The organization's writes, newest first."""

    data: AuditData
