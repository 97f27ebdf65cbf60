"""Uploads of OpenAI's clients in requests and responses."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from api.wire.vector_stores import EntryPage, FileStatus, Moment, file_status, unix_seconds
from retrieval.documents.queries import uploads as file_uploads
from retrieval.documents.queries.uploads import FileDocument, UploadedFile
from retrieval.errors import ErrorCode, ServiceError


class File(Struct, kw_only=True):
    """An uploaded file, or the documents under its id."""

    id: Annotated[str, Meta(description="The id of the upload, or of a document.")]
    object: Annotated[Literal["file"], Meta(description="The type of the object.")] = "file"
    bytes: Annotated[int, Meta(description="The size.")]
    created_at: Moment
    filename: Annotated[str, Meta(description="The name.")]
    purpose: Annotated[str, Meta(description="The purpose that the upload named.")]
    status: Annotated[Literal["uploaded", "processed", "error"], Meta(description="The status.")]
    expires_at: Annotated[int | None, Meta(description="Time at which the upload expires; null for a document.")] = None

    @classmethod
    def from_upload(cls, upload: UploadedFile) -> File:
        return cls(
            id=upload.id,
            bytes=upload.size,
            created_at=unix_seconds(upload.created_at),
            filename=upload.name,
            purpose=upload.purpose,
            status="processed",
            expires_at=unix_seconds(upload.expires_at),
        )

    @classmethod
    def from_document(cls, document: FileDocument) -> File:
        statuses: dict[FileStatus, Literal["processed", "error"]] = {"completed": "processed", "failed": "error"}
        return cls(
            id=file_uploads.file_id(document.id, document.external_id),
            bytes=document.size,
            created_at=unix_seconds(document.created_at),
            filename=document.name,
            purpose="assistants",
            status=statuses.get(file_status(document.status), "uploaded"),
        )


class FileList(Struct):
    """A page of uploads. `after` is the id of an upload."""

    after: Annotated[str | None, Meta(description="The id of the upload that the page begins after.")] = None
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of uploads.")] = 10_000
    order: Annotated[Literal["asc", "desc"], Meta(description="By time of creation.")] = "desc"
    purpose: Annotated[str | None, Meta(description="The purpose that the uploads named.")] = None


class FilePage(EntryPage, kw_only=True):
    """A page of uploads."""

    data: list[File]

    @classmethod
    def from_entries(cls, entries: list[File], *, has_more: bool) -> FilePage:
        first, last = (entries[0].id, entries[-1].id) if entries else (None, None)
        return cls(data=entries, has_more=has_more, first_id=first, last_id=last)


class UploadForm(Struct):
    """Fields of the form other than the file."""

    purpose: Annotated[
        Literal["assistants", "batch", "fine-tune", "vision", "user_data", "evals"] | None,
        Meta(description="The purpose; it has no effect."),
    ] = None


def expiry_seconds(text: bytes) -> int:
    """Return the lifetime of an upload by the form's `expires_after[seconds]`."""
    if not text:
        return file_uploads.UPLOAD_EXPIRY_SECONDS
    if not re.fullmatch(rb"[0-9]{4,7}", text) or not 3600 <= int(text) <= 2_592_000:
        message = "expires_after[seconds] is a whole number from 3600 to 2592000."
        raise ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field="expires_after", reason="out_of_bounds")
    return int(text)
