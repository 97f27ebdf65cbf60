"""SQL of files uploaded before a namespace is chosen, as OpenAI clients do.

The document of an ingested upload has the upload id as its external id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import LiteralString

from retrieval import ids
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.database.statements import LoopConnection
from retrieval.errors import ErrorCode, ServiceError

UPLOAD_ID_PREFIX = "file-"
UPLOAD_SOURCE = "LOCAL_FILE"
# Default expiry of an upload.
UPLOAD_EXPIRY_SECONDS = 7 * 24 * 3600
# Expiry of an upload after its ingestion.
INGESTED_EXPIRY_HOURS = 24
# Uploads of one organization.
MAX_UPLOAD_BYTES = 5 * 2**30
# Pieces per read.
_PIECES_PER_READ = 16


@dataclass(frozen=True, slots=True)
class Owner:
    """Scope of uploads. `namespace`: bound namespace of the API key; None if unbound."""

    organization: str
    tenant: str
    namespace: str | None


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """Upload without its content."""

    id: str
    name: str
    media_type: str
    size: int
    sha256: bytes
    purpose: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class FileDocument:
    """Document of an OpenAI file id, with its scope and raw file."""

    id: str
    external_id: str
    name: str
    size: int
    status: str
    created_at: datetime
    namespace_id: str
    media_type: str
    raw_key: str | None


@dataclass(frozen=True, slots=True)
class StoreCount:
    """Documents of a namespace and status, with their bytes."""

    namespace_id: str
    status: str
    documents: int
    size: int
    updated_at: datetime


_UPLOAD_ID = re.compile(UPLOAD_ID_PREFIX + "[0-9a-z]{36}")
_UPLOAD_COLUMNS: LiteralString = "id, name, media_type, size, sha256, purpose, created_at, expires_at"
_OWNER_CONDITION: LiteralString = (
    " organization_id = %(organization)s and tenant = %(tenant)s and expires_at > now()"
    " and (%(namespace)s::text is null or namespace_id = %(namespace)s)"
)


def is_upload_id(name: str) -> bool:
    """Return True if the name has the form of an upload id."""
    return _UPLOAD_ID.fullmatch(name) is not None


def file_id(document_id: str, external_id: str) -> str:
    """Return the OpenAI file id of a document: its upload id, else its own."""
    return external_id if external_id.startswith(UPLOAD_ID_PREFIX) else document_id


async def record_upload(
    connection: LoopConnection,
    owner: Owner,
    *,
    name: str,
    media_type: str,
    purpose: str,
    size: int,
    sha256: bytes,
    seconds: int,
) -> UploadedFile:
    """Record an upload; its pieces follow in the same transaction. Raises PAYLOAD_TOO_LARGE."""
    values = {**asdict(owner), "id": ids.new_id(UPLOAD_ID_PREFIX), "name": name, "media_type": media_type, "size": size}
    values |= {"sha256": sha256, "purpose": purpose, "seconds": seconds, "most": MAX_UPLOAD_BYTES}
    uploaded = await connection.async_fetch_one(
        UploadedFile,
        "insert into uploaded_files (id, organization_id, tenant, namespace_id, name, media_type, size, sha256,"
        " purpose, expires_at)"
        " select %(id)s, %(organization)s, %(tenant)s, %(namespace)s, %(name)s, %(media_type)s, %(size)s, %(sha256)s,"
        " %(purpose)s, now() + make_interval(secs => %(seconds)s)"
        " where %(most)s >= %(size)s + (select coalesce(sum(size), 0) from uploaded_files"
        " where organization_id = %(organization)s) returning " + _UPLOAD_COLUMNS,
        values,
    )
    if uploaded is None:
        raise _too_many_uploads()
    return uploaded


def _too_many_uploads() -> ServiceError:
    message = (
        f"The organization has {MAX_UPLOAD_BYTES // 2**30} GiB of uploads. Delete some, or wait until they expire."
    )
    return ServiceError(ErrorCode.PAYLOAD_TOO_LARGE, message, field="file", reason="too_many_uploads")


async def require_room(connection: LoopConnection, organization: str) -> None:
    """Check the size limit before the commit, one upload of an organization at a time. Raises PAYLOAD_TOO_LARGE."""
    values = {"organization": organization, "most": MAX_UPLOAD_BYTES}
    await connection.execute("select pg_advisory_xact_lock(1970301039, hashtext(%(organization)s))", values)
    statement: LiteralString = (
        "select coalesce(sum(size), 0) <= %(most)s from uploaded_files where organization_id = %(organization)s"
    )
    if not await connection.async_fetch_one(bool, statement, values):
        raise _too_many_uploads()


async def add_pieces(connection: LoopConnection, upload_id: str, position: int, pieces: Sequence[bytes]) -> None:
    """Store pieces of an upload from a position."""
    await connection.execute(
        "insert into uploaded_pieces (file_id, position, content) select %(id)s, %(first)s + ordinality, content"
        " from unnest(%(pieces)s::bytea[]) with ordinality p (content, ordinality)",
        {"id": upload_id, "first": position, "pieces": list(pieces)},
    )


async def find_uploads(db: Database, owner: Owner, upload_ids: Sequence[str]) -> dict[str, UploadedFile]:
    """Return the owner's uploads by id."""
    statement: LiteralString = (
        f"select {_UPLOAD_COLUMNS} from uploaded_files where id = any(%(ids)s) and {_OWNER_CONDITION}"
    )
    rows = await db.async_fetch(UploadedFile, statement, {**asdict(owner), "ids": list(upload_ids)})
    return {row.id: row for row in rows}


async def list_uploads(
    db: Database, owner: Owner, limit: int, after_id: str | None, *, purpose: str | None, oldest_first: bool
) -> list[UploadedFile]:
    """List the owner's uploads by age. `after_id`: id of an upload, possibly deleted."""
    # Ids sort by age, so a list continues after a deleted upload.
    ending: LiteralString = (
        " and (%(after)s::text is null or id > %(after)s) order by id"
        if oldest_first
        else " and (%(after)s::text is null or id < %(after)s) order by id desc"
    )
    return await db.async_fetch(
        UploadedFile,
        f"select {_UPLOAD_COLUMNS} from uploaded_files where {_OWNER_CONDITION}"
        " and (%(purpose)s::text is null or purpose = %(purpose)s)" + ending + " limit %(limit)s",
        {**asdict(owner), "purpose": purpose, "after": after_id or None, "limit": limit},
    )


def read_pieces(db: Executor, upload_id: str) -> Iterator[bytes]:
    """Yield the content of an upload."""
    position = 0
    statement: LiteralString = (
        "select content from uploaded_pieces where file_id = %(id)s and position > %(after)s order by position"
        " limit %(most)s"
    )
    while pieces := db.fetch(bytes, statement, {"id": upload_id, "after": position, "most": _PIECES_PER_READ}):
        yield from pieces
        position += len(pieces)


async def delete_upload(db: Database, owner: Owner, upload_id: str) -> bool:
    """Delete an upload; return False if it does not exist."""
    statement: LiteralString = f"delete from uploaded_files where id = %(id)s and {_OWNER_CONDITION} returning id"
    return await db.async_fetch_one(str, statement, {**asdict(owner), "id": upload_id}) is not None


async def shorten_expiry(db: Database, upload_ids: Sequence[str]) -> None:
    """Let ingested uploads expire within a day."""
    await db.async_execute(
        "update uploaded_files set expires_at = least(expires_at, now() + make_interval(hours => %(hours)s))"
        " where id = any(%(ids)s)",
        {"ids": list(upload_ids), "hours": INGESTED_EXPIRY_HOURS},
    )


def delete_expired(db: Executor) -> None:
    """Delete expired uploads with their pieces."""
    db.execute("delete from uploaded_files where expires_at < now()", {})


async def find_documents(db: Database, owner: Owner, name: str) -> list[FileDocument]:
    """Return the documents of an OpenAI file id in all namespaces of the owner."""
    by_id: LiteralString = "d.id = %(id)s"
    by_upload: LiteralString = "d.source = %(source)s and d.external_id = %(id)s"
    return await db.async_fetch(
        FileDocument,
        "select d.id, d.external_id, d.name, document_size(d.properties, d.accepted_bytes)::bigint as size, d.status,"
        " d.created_at, p.namespace_id, coalesce(d.properties ->> 'mimeType', '') as media_type, d.raw_key"
        " from namespaces n join partitions p on p.namespace_id = n.id and p.tenant = %(tenant)s"
        " join documents d on d.partition_id = p.id and d.deleted_at is null"
        " where n.organization_id = %(organization)s and n.deleted_at is null"
        " and (%(namespace)s::text is null or n.id = %(namespace)s) and "
        + (by_upload if name.startswith(UPLOAD_ID_PREFIX) else by_id)
        + " order by d.created_at, d.id",
        {**asdict(owner), "id": name, "source": UPLOAD_SOURCE},
    )


async def count_documents(db: Database, namespace_ids: Sequence[str], tenant: str) -> list[StoreCount]:
    """Count the documents of namespaces by status in one tenant's scope."""
    return await db.async_fetch(
        StoreCount,
        "select p.namespace_id, d.status, count(*) as documents, max(d.updated_at) as updated_at,"
        " coalesce(sum(document_size(d.properties, d.accepted_bytes)), 0)::bigint as size"
        " from partitions p join documents d on d.partition_id = p.id and d.deleted_at is null"
        " where p.namespace_id = any(%(namespaces)s) and p.tenant = %(tenant)s group by p.namespace_id, d.status",
        {"namespaces": list(namespace_ids), "tenant": tenant},
    )
