"""Files uploaded ahead of the ingest request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval import ids
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.documents import file_keys
from retrieval.namespaces import namespaces
from retrieval.ports import Scope

_DESCRIBE_STATEMENT: LiteralString = "update sweeps set upload = %(upload)s::jsonb where id = %(sweep)s"

# Uploads of a scope without an ingestion, locked until the end of the transaction.
_LOCK_UPLOADS_QUERY: LiteralString = """
    select s.id as sweep, s.file_key, s.upload ->> 'name' as name, s.upload ->> 'mediaType' as media_type,
           (s.upload ->> 'size')::bigint as size, decode(s.upload ->> 'sha256', 'hex') as sha256
    from sweeps s join partitions p on p.id = s.partition_id
        and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    where s.file_key = any(%(keys)s) and s.upload is not null and s.tries = 0 and s.due_at > now()
    order by s.id for update of s
"""


@dataclass(frozen=True, slots=True)
class Upload:
    """File in the file store. Garbage collection deletes it after a day without an accepted request."""

    key: str
    sweep: int

    @property
    def id(self) -> str:
        """Return the id for the later request."""
        return file_keys.upload_id(self.key)


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """Complete upload in the file store."""

    upload: Upload
    name: str
    media_type: str
    size: int
    sha256: bytes


async def begin_upload(db: Database, scope: Scope) -> Upload:
    """Create a key to stream a file to, with its scheduled deletion."""
    partition = await partitions.ensure_partition(db, scope)
    if partition is None:
        raise namespaces.not_found()
    key = file_keys.upload_key(scope, ids.new_id("up_"))
    sweep = await db.async_fetch_one(
        int,
        "insert into sweeps (partition_id, kind, file_key, due_at)"
        " values (%(partition)s, 'file', %(key)s, now() + interval '1 day') returning id",
        {"partition": partition, "key": key},
    )
    if sweep is None:
        raise RuntimeError("insert … returning gave no row")
    return Upload(key, sweep)


async def keep_upload(db: Database, stored: StoredUpload) -> None:
    """Store the description of an upload for a later request; deletion stays due a day after its begin."""
    description = {
        "name": stored.name,
        "mediaType": stored.media_type,
        "size": stored.size,
        "sha256": stored.sha256.hex(),
    }
    await db.async_execute(_DESCRIBE_STATEMENT, {"upload": json.dumps(description), "sweep": stored.upload.sweep})


async def take_uploads(db: Database, scope: Scope, upload_ids: Sequence[str]) -> dict[str, StoredUpload]:
    """Lock and return the scope's uploads without an ingestion, by id."""
    keys = [file_keys.upload_key(scope, upload_id) for upload_id in upload_ids]
    rows = await db.async_fetch(_UploadRow, _LOCK_UPLOADS_QUERY, {**partitions.scope_params(scope), "keys": keys})
    stored = (
        StoredUpload(Upload(row.file_key, row.sweep), row.name, row.media_type, row.size, row.sha256) for row in rows
    )
    return {upload.upload.id: upload for upload in stored}


@dataclass(frozen=True, slots=True)
class _UploadRow:
    sweep: int
    file_key: str
    name: str
    media_type: str
    size: int
    sha256: bytes
