"""SQL of files uploaded before a namespace is chosen, as OpenAI clients do.

The document of an ingested upload has the upload id as its external id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

from sqlalchemy import BigInteger, Integer, Text, and_, bindparam, cast, delete, func, insert, or_, select, update

from retrieval import ids
from retrieval.database import schema
from retrieval.database.compiling import (
    after_seconds,
    columns_of,
    compile_statement,
    equals,
    equals_if_given,
    in_list,
    parameters,
)
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
_table: Any = schema.UploadedFile
_piece: Any = schema.UploadedPiece
_columns = columns_of(_table, UploadedFile)
_is_upload = equals(_table.id)
_of_owner = and_(
    equals(_table.organization_id, "organization"),
    equals(_table.tenant),
    _table.expires_at > func.now(),
    equals_if_given(_table.namespace_id, "namespace"),
)
_total = func.coalesce(func.sum(_table.size), 0)
_SUM_UPLOADS = compile_statement(select(cast(_total, BigInteger)).where(equals(_table.organization_id, "organization")))
_INSERT_UPLOAD = compile_statement(
    insert(_table)
    .values(
        organization_id=bindparam("organization"),
        namespace_id=bindparam("namespace"),
        expires_at=after_seconds("seconds"),
        **parameters("id", "tenant", "name", "media_type", "size", "sha256", "purpose"),
    )
    .returning(*_columns)
)
_FIND_UPLOADS = compile_statement(select(*_columns).where(in_list(_table.id, "ids"), _of_owner))
_LIST_PIECES = compile_statement(
    select(_piece.content)
    .where(equals(_piece.file_id), _piece.position > bindparam("after"))
    .order_by(_piece.position)
    .limit(_PIECES_PER_READ)
)
_DELETE_UPLOAD = compile_statement(delete(_table).where(_is_upload, _of_owner).returning(_table.id))
_SHORTEN_EXPIRY = compile_statement(
    update(_table)
    .where(in_list(_table.id, "ids"))
    .values(expires_at=func.least(_table.expires_at, func.now() + timedelta(hours=INGESTED_EXPIRY_HOURS)))
)
_DELETE_EXPIRED = compile_statement(delete(_table).where(_table.expires_at < func.now()))


def _list_uploads(*, oldest_first: bool) -> Any:
    # Ids sort by age, so a list continues after a deleted upload.
    after = bindparam("after", type_=Text)
    following = or_(after.is_(None), _table.id > after if oldest_first else _table.id < after)
    order = _table.id.asc() if oldest_first else _table.id.desc()
    page = select(*_columns).where(_of_owner, equals_if_given(_table.purpose), following).order_by(order)
    return compile_statement(page.limit(bindparam("limit", type_=Integer)))


_LIST_OLDEST_FIRST = _list_uploads(oldest_first=True)
_LIST_NEWEST_FIRST = _list_uploads(oldest_first=False)


def is_upload_id(name: str) -> bool:
    """Return True if the name has the form of an upload id."""
    return _UPLOAD_ID.fullmatch(name) is not None


def file_id(document_id: str, external_id: str) -> str:
    """Return the OpenAI file id of a document: the upload id, else the document id."""
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
    values |= {"sha256": sha256, "purpose": purpose, "seconds": seconds}
    if (await connection.async_fetch_one(int, _SUM_UPLOADS, values) or 0) + size > MAX_UPLOAD_BYTES:
        raise _too_many_uploads()
    return (await connection.async_fetch(UploadedFile, _INSERT_UPLOAD, values))[0]


def _too_many_uploads() -> ServiceError:
    message = (
        f"The organization has {MAX_UPLOAD_BYTES // 2**30} GiB of uploads. Delete some, or wait until they expire."
    )
    return ServiceError(ErrorCode.PAYLOAD_TOO_LARGE, message, field="file", reason="too_many_uploads")


async def require_room(connection: LoopConnection, organization: str) -> None:
    """Check the size limit before the commit, one upload of an organization at a time. Raises PAYLOAD_TOO_LARGE."""
    values = {"organization": organization}
    await connection.execute("select pg_advisory_xact_lock(1970301039, hashtext(%(organization)s))", values)
    if (await connection.async_fetch_one(int, _SUM_UPLOADS, values) or 0) > MAX_UPLOAD_BYTES:
        raise _too_many_uploads()


async def add_pieces(connection: LoopConnection, upload_id: str, stored_count: int, pieces: Sequence[bytes]) -> None:
    """Store further pieces of an upload after the first `stored_count`."""
    await connection.execute(
        "insert into uploaded_pieces (file_id, position, content) select %(id)s, %(first)s + ordinality, content"
        " from unnest(%(pieces)s::bytea[]) with ordinality p (content, ordinality)",
        {"id": upload_id, "first": stored_count, "pieces": list(pieces)},
    )


async def find_uploads(db: Database, owner: Owner, upload_ids: Sequence[str]) -> dict[str, UploadedFile]:
    """Return the owner's uploads by id."""
    rows = await db.async_fetch(UploadedFile, _FIND_UPLOADS, {**asdict(owner), "ids": list(upload_ids)})
    return {row.id: row for row in rows}


async def list_uploads(
    db: Database, owner: Owner, limit: int, after_id: str | None, *, purpose: str | None, oldest_first: bool
) -> list[UploadedFile]:
    """List the owner's uploads by age. `after_id`: id of an upload, possibly deleted."""
    statement = _LIST_OLDEST_FIRST if oldest_first else _LIST_NEWEST_FIRST
    values = {**asdict(owner), "purpose": purpose, "after": after_id or None, "limit": limit}
    return await db.async_fetch(UploadedFile, statement, values)


def read_pieces(db: Executor, upload_id: str) -> Iterator[bytes]:
    """Yield the content of an upload."""
    position = 0
    while pieces := db.fetch(bytes, _LIST_PIECES, {"file_id": upload_id, "after": position}):
        yield from pieces
        position += len(pieces)


async def delete_upload(db: Database, owner: Owner, upload_id: str) -> bool:
    """Delete an upload; return False if it does not exist."""
    return await db.async_fetch_one(str, _DELETE_UPLOAD, {**asdict(owner), "id": upload_id}) is not None


async def shorten_expiry(db: Database, upload_ids: Sequence[str]) -> None:
    """Let ingested uploads expire within a day."""
    await db.async_execute(_SHORTEN_EXPIRY, {"ids": list(upload_ids)})


def delete_expired(db: Executor) -> None:
    """Delete expired uploads with their pieces."""
    db.execute(_DELETE_EXPIRED, {})


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
