"""Envelope of responses and errors, pages and timestamps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Generic, Literal, Self, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

from retrieval.database.pagination import PAGE_SIZE, PageRequest
from retrieval.errors import ErrorCode

DataT = TypeVar("DataT")
NamespaceId = Annotated[
    str, Meta(description="The namespace's id.", examples=["ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"])
]
PageSize = Annotated[Annotated[int, Meta(ge=1, le=100)] | None, Meta(description="Maximum number of entries.")]
NextCursor = Annotated[str | None, Meta(description="The `cursor` of the next page; null on the last page.")]


class Timestamp(Struct, rename="camel"):
    """A moment in UTC, ISO 8601 with milliseconds."""

    iso_string: Annotated[
        str,
        Meta(
            examples=["2026-11-20T12:00:00.000Z"],
            extra_json_schema={"format": "date-time"},
            description="ISO 8601 in UTC with milliseconds.",
        ),
    ]

    @classmethod
    def from_datetime(cls, moment: datetime) -> Timestamp:
        return cls(moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"))

    @classmethod
    def from_optional(cls, moment: datetime | None) -> Timestamp | None:
        return None if moment is None else cls.from_datetime(moment)


class ObjectReference(Struct):
    """Reference to another object by id."""

    id: Annotated[str, Meta(description="The object's id.")]


class PaginationQuery(Struct, rename="camel"):
    """Page of a list; the whole list without parameters. `cursor` is the `nextCursor` of the previous page."""

    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the previous page.")] = None
    page_size: PageSize = None

    def to_page(self) -> PageRequest | None:
        """Return the requested page; None for the whole list."""
        if self.cursor is None and self.page_size is None:
            return None
        return PageRequest(self.page_size or PAGE_SIZE, self.cursor)


class Listing(Struct, rename="camel", kw_only=True):
    """Pagination fields of a listing; present only if a page was requested."""

    has_next_page: Annotated[bool | UnsetType, Meta(description="Whether another page follows.")] = UNSET
    next_cursor: Annotated[
        str | UnsetType | None, Meta(description="The `cursor` of the next page; null on the last page.")
    ] = UNSET
    total_count: Annotated[
        int | UnsetType, Meta(description="Number of entries on all pages; only in lists that can be counted.")
    ] = UNSET

    def set_page(self, page: PageRequest | None, cursor: str | None, total: int | UnsetType = UNSET) -> Self:
        """Set the next cursor and the total, if a page was requested."""
        if page is not None:
            self.has_next_page, self.next_cursor, self.total_count = cursor is not None, cursor, total
        return self


class Answer(Struct, kw_only=True):
    """Fields of every successful response."""

    success: Annotated[Literal[True], Meta(description="Whether the request succeeded.")] = True
    message: Annotated[str, Meta(description="A message for people.")]


class DataAnswer(Answer, Generic[DataT], kw_only=True):
    """Successful response with data; each operation has its own subclass."""

    data: DataT


class DeletionAnswered(Answer, Generic[DataT], rename="camel", kw_only=True):
    """Successful response to a deletion with a receipt."""

    deletion_id: Annotated[str, Meta(description="Id of the deletion's receipt.")]
    data: DataT


class ErrorDetails(Struct):
    """Details of an error. `reason` is stable, for programs; `field` is the dotted path of the invalid field.

    `quota`, `used` and `limit` are present with QUOTA_EXCEEDED only.
    """

    reason: Annotated[str, Meta(description="The cause of the error as a stable identifier.")]
    field: Annotated[
        str | UnsetType, Meta(description="Path of the invalid field in the request; absent without one.")
    ] = UNSET
    quota: Annotated[str | UnsetType, Meta(description="The exceeded quota; only with QUOTA_EXCEEDED.")] = UNSET
    used: Annotated[int | UnsetType, Meta(description="Current usage of the quota; only with QUOTA_EXCEEDED.")] = UNSET
    limit: Annotated[int | UnsetType, Meta(description="Limit of the quota; only with QUOTA_EXCEEDED.")] = UNSET


class ErrorInfo(Struct):
    """Code, message and details of an error. `type` and `param` are for clients of OpenAI's API."""

    code: Annotated[ErrorCode, Meta(description="The error code. It is stable.")]
    message: Annotated[str, Meta(description="A message for people. Its wording may change.")]
    details: Annotated[ErrorDetails, Meta(description="Details of the error for programs.")]
    type: Annotated[str | UnsetType, Meta(description="OpenAI's error type; only where OpenAI's clients ask.")] = UNSET
    param: Annotated[
        str | UnsetType | None,
        Meta(description="Path of the invalid field in OpenAI's terms; only where OpenAI's clients ask."),
    ] = UNSET


class ErrorAnswer(Struct, kw_only=True):
    """Body of every error except the two about tenants. `error_code` and `error_msg` are for Dify."""

    success: Annotated[Literal[False], Meta(description="Whether the request succeeded.")] = False
    message: Annotated[str, Meta(description="A message for people. Its wording may change.")]
    error: ErrorInfo
    error_code: Annotated[
        int | UnsetType, Meta(description="Dify's error number, else the HTTP status; only below /v1/compat/dify.")
    ] = UNSET
    error_msg: Annotated[str | UnsetType, Meta(description="The message for Dify; only below /v1/compat/dify.")] = UNSET
    schemas: Annotated[list[str] | UnsetType, Meta(description="SCIM's schema of errors; only of SCIM.")] = UNSET
    status: Annotated[str | UnsetType, Meta(description="The HTTP status as text; only of SCIM.")] = UNSET
    scim_type: Annotated[str | UnsetType, Meta(description="The reason in SCIM's terms; only of SCIM.")] = field(
        name="scimType", default=UNSET
    )
    detail: Annotated[str | UnsetType, Meta(description="The message for SCIM; only of SCIM.")] = UNSET


class TenantErrorAnswer(Struct):
    """Body of the errors for a missing or unknown X-Tenant-ID."""

    error: Annotated[
        str, Meta(extra_json_schema={"enum": ["missing_tenant_id", "invalid_tenant_id"]}, description="The error code.")
    ]
    message: Annotated[str, Meta(description="A message for people. Its wording may change.")]
