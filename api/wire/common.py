"""The envelope of every answer, the body of every error, and timestamps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from msgspec import UNSET, Meta, Struct, UnsetType

from retrieval.database.pages import PAGE, Part
from retrieval.errors import ErrorCode


class Timestamp(Struct, rename="camel"):
    """A moment in UTC, ISO 8601 with milliseconds."""

    iso_string: Annotated[str, Meta(examples=["2026-11-20T12:00:00.000Z"], extra_json_schema={"format": "date-time"})]

    @classmethod
    def of(cls, moment: datetime) -> Timestamp:
        return cls(moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"))


class Identified(Struct):
    """Another object, by its id."""

    id: str


class PartQuery(Struct, rename="camel"):
    """Which part of a list; all of it where neither is sent. `cursor` is the `nextCursor` of the part before."""

    cursor: str | None = None
    page_size: Annotated[int, Meta(ge=1, le=100)] | None = None

    def part(self) -> Part | None:
        """None for the whole list."""
        if self.cursor is None and self.page_size is None:
            return None
        return Part(self.page_size or PAGE, self.cursor)


class Listing(Struct, rename="camel", kw_only=True):
    """Pagination fields of a listing; present only if a page was requested."""

    has_next_page: bool | UnsetType = UNSET
    next_cursor: str | UnsetType | None = UNSET

    def lead_on(self, part: Part | None, cursor: str | None) -> Self:
        """Set the cursor of the next page, if a page was requested."""
        if part is not None:
            self.has_next_page, self.next_cursor = cursor is not None, cursor
        return self


class Answer(Struct, kw_only=True):
    """What every successful answer carries; `data` is added by each operation's own struct."""

    success: Literal[True] = True
    message: Annotated[str, Meta(description="What happened, for people.")]


class DeletionAnswered(Answer, rename="camel", kw_only=True):
    """What is answered to a deletion whose receipt can be read."""

    deletion_id: str


class ErrorDetails(Struct):
    """`reason` is stable and meant for programs; `field` is the dotted path of what is wrong, where one is.

    `quota`, `used` and `limit` stand with QUOTA_EXCEEDED alone.
    """

    reason: str
    field: str | UnsetType = UNSET
    quota: str | UnsetType = UNSET
    used: int | UnsetType = UNSET
    limit: int | UnsetType = UNSET


class ErrorInfo(Struct):
    """The code, in the words of the contract. `type` and `param` stand where OpenAI's clients look for them."""

    code: ErrorCode
    message: str
    details: ErrorDetails
    type: str | UnsetType = UNSET
    param: str | UnsetType | None = UNSET


class ErrorAnswer(Struct, kw_only=True):
    """What every error answers, but the two about tenants. `error_code` and `error_msg` are Dify's."""

    success: Literal[False] = False
    message: str
    error: ErrorInfo
    error_code: int | UnsetType = UNSET
    error_msg: str | UnsetType = UNSET


class TenantErrorAnswer(Struct):
    """What a missing or unknown X-Tenant-ID answers."""

    error: Annotated[str, Meta(extra_json_schema={"enum": ["missing_tenant_id", "invalid_tenant_id"]})]
    message: str
