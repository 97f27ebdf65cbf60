"""Unpack: entries of archives and attachments become documents of the same job run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import LiteralString, NamedTuple

from retrieval import ids, settings
from retrieval.access import lists
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.documents import archive_members, deletion, file_keys
from retrieval.errors import Skippable
from retrieval.ingestion import within_quotas
from retrieval.ingestion.items import ARCHIVE_PATH, Item
from retrieval.ports import FileStore, Member, Parsed, Scope

DEPTH = 3
"""Archives within archives that are opened."""
RUN_DOCUMENTS = 10_000
"""Documents that one job run may come to by unpacking."""
LEVEL = "archiveDepth"
"""Property of a document that was packed into another: in how many files it lay."""
ROOT = "archiveRoot"
"""Property of a document that was packed into another: the outermost archive that it lay in."""
_PIECE = 1 << 20
_UPLOAD = "Split the archive, or upload the files by themselves; the operator can raise {setting}."


@dataclass(frozen=True, slots=True)
class Stored:
    """An archive member whose content is in the file store, or one that was left out, with the reason."""

    member: Member
    key: str = ""
    digest: bytes = b""


def store_members(item: Item, parsed: Parsed, scope: Scope, files: FileStore) -> list[Stored]:
    """Put the members beside the file that held them.

    Of a file that is nested too deeply they are left out, each with the reason. Skippable if it has no text besides.
    """
    if parsed.members and int(item.properties.get(LEVEL, 0)) >= DEPTH:
        reason = f"Archives are opened up to {DEPTH} levels deep; this one is deeper. Upload it separately."
        if parsed.is_listing:
            raise Skippable(reason)
        return [Stored(replace(member, reason=member.reason or reason)) for member in parsed.members]
    return [_stored(number, member, item, scope, files) for number, member in enumerate(parsed.members)]


def _stored(number: int, member: Member, item: Item, scope: Scope, files: FileStore) -> Stored:
    if member.reason:
        return Stored(member)
    key, digest = item.file_key(scope, file_keys.member_name(number)), hashlib.sha256()
    files.put(key, _pieces(member.file, digest))
    return Stored(member, key, digest.digest())


def _pieces(path: Path, digest: hashlib._Hash) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            yield piece


_RECORD: LiteralString = """
    with packed as (
        select * from unnest(%(ids)s::text[], %(paths)s::text[], %(names)s::text[], %(media_types)s::text[],
                             %(keys)s::text[], %(hashes)s::bytea[], %(sizes)s::bigint[]) with ordinality
                      as w (id, path, name, media_type, raw_key, raw_hash, raw_size, position)
    ),
    archive as (
        select d.*, r.generation, encode(r.raw_hash, 'hex') as hash, r.access as comes from documents d
        join run_documents r on r.document_id = d.id and r.job_run_id = %(run)s
        where d.id = %(archive)s and d.deleted_at is null and d.latest_generation < r.generation
        for no key update of d
    ),
    deleted as (
        select distinct m.properties ->> %(path_name)s as path
        from archive a
        join run_documents v on v.document_id = a.id and encode(v.raw_hash, 'hex') = a.hash and v.job_run_id <> %(run)s
        join run_documents m on m.job_run_id = v.job_run_id and m.properties ->> %(hash_name)s = a.hash
        where not exists (select from documents d where d.id = m.document_id and d.deleted_at is null)
          and not exists (
              select from run_documents o where o.document_id = a.id and o.generation > v.generation
                 and o.raw_hash <> v.raw_hash and o.status = 'SUCCESS'
          )
    ),
    listed as (
        select p.* from packed p join archive a on true
        where p.path not in (select path from deleted) or exists (
            select from documents d where d.partition_id = a.partition_id and d.source = a.source
               and d.external_id = a.external_id || '/' || p.path and d.deleted_at is null
        )
    ),
    found as (
        insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name, metadata,
                               connection_id, archive_id, access, inherits_access)
        select l.id, a.partition_id, a.job_id, %(run)s, a.source, a.external_id || '/' || l.path, a.document_type,
               l.name, coalesce(%(metadata)s::jsonb, a.metadata) || jsonb_build_object(%(path_name)s::text, l.path),
               a.connection_id, a.id, coalesce(a.comes, a.access), true
        from listed l, archive a order by l.path
        on conflict (partition_id, source, external_id) where deleted_at is null
        do update set job_id = excluded.job_id, job_run_id = excluded.job_run_id, archive_id = excluded.archive_id,
                      status = case when documents.job_run_id = excluded.job_run_id then documents.status
                                    else 'QUEUED' end,
                      error = case when documents.job_run_id = excluded.job_run_id then documents.error end,
                      inherits_access = case when documents.archive_id is null then true
                                             else documents.inherits_access end, updated_at = now()
        returning id, external_id, access, inherits_access
    )
    insert into run_documents (job_run_id, document_id, position, generation, name, media_type, raw_key, raw_hash,
                               raw_size, access, properties)
    select %(run)s, found.id, %(first)s + l.position - 1, a.generation, l.name, l.media_type, l.raw_key, l.raw_hash,
           l.raw_size, case when found.inherits_access then nullif(coalesce(a.comes, a.access), found.access) end,
           jsonb_build_object(%(path_name)s::text, l.path, %(level_name)s::text, %(level)s::int,
                                          %(root_name)s::text, %(root)s::text, %(hash_name)s::text, a.hash)
    from archive a join listed l on true join found on found.external_id = a.external_id || '/' || l.path
    on conflict do nothing
"""
"""A member that was deleted comes back only with another version of its archive: it is left out while the archive's
content is the one that it was deleted from."""
_UNUSED: LiteralString = """
    insert into sweeps (partition_id, kind, file_key)
    select r.partition_id, 'file', k.key from unnest(%(keys)s::text[]) k (key), job_runs r
    where r.id = %(run)s and not exists (
        select from run_documents d where d.job_run_id = r.id and d.raw_key = k.key
    )
"""
"""The archive was deleted or overtaken meanwhile, or its member is on its way in this run already."""


def record_members(connection: ThreadConnection, item: Item, stored: Sequence[Stored]) -> None:
    """Within the caller's transaction, which holds the lease: documents to work on, failed entries for the rest."""
    if not stored:
        return
    stored = _within_quotas(connection, item, stored)
    first = _count(connection, item.key.job_run_id)
    members = [member for member in stored if not member.member.reason]
    values = {
        "run": item.key.job_run_id,
        "archive": item.key.document_id,
        "first": first,
        "ids": [ids.document_id() for _ in members],
        "paths": [member.member.path for member in members],
        "names": [PurePosixPath(member.member.path).name for member in members],
        "media_types": [member.member.media_type for member in members],
        "keys": [member.key for member in members],
        "hashes": [member.digest for member in members],
        "sizes": [member.member.size for member in members],
        "metadata": None if item.metadata is None else json.dumps(item.metadata),
        "path_name": ARCHIVE_PATH,
        "level_name": LEVEL,
        "level": int(item.properties.get(LEVEL, 0)) + 1,
        "root_name": ROOT,
        "root": _root(item),
        "hash_name": lists.ARCHIVE_HASH,
    }
    connection.execute(_RECORD, values)
    connection.execute(_UNUSED, values)
    _refuse(connection, item, [member.member for member in stored if member.member.reason], first + len(members))


def _within_quotas(connection: ThreadConnection, item: Item, stored: Sequence[Stored]) -> list[Stored]:
    """Mark members beyond a quota with the reason; their files are left to garbage collection."""
    members = [stored_member for stored_member in stored if not stored_member.member.reason]
    reasons = within_quotas.member_reasons(
        connection, item.key.job_run_id, [stored_member.member.size for stored_member in members]
    )
    refused = {id(stored_member): why for stored_member, why in zip(members, reasons, strict=True) if why is not None}
    if refused:
        discard_files(connection, item, [stored_member for stored_member in members if id(stored_member) in refused])
    return [
        replace(stored_member, member=replace(stored_member.member, reason=refused[id(stored_member)]))
        if id(stored_member) in refused
        else stored_member
        for stored_member in stored
    ]


def discard_files(connection: ThreadConnection, item: Item, stored: Sequence[Stored]) -> None:
    """Let garbage collection delete files that were stored and are not used."""
    connection.execute(_UNUSED, {"run": item.key.job_run_id, "keys": [member.key for member in stored if member.key]})


def drop_members(connection: ThreadConnection, versions: Sequence[tuple[str, int]]) -> None:
    """Take away what earlier versions of these archives held and this one does not. versions: documents, generations.

    Within the transaction that makes the version the visible one.
    """
    values = {
        "archives": [document for document, _ in versions],
        "generations": [generation for _, generation in versions],
    }
    if dropped_ids := connection.fetch(str, archive_members.DROPPED, values):
        deletion.delete_documents(connection, dropped_ids)


def refuse_too_many(db: Database, item: Item, members: Sequence[Member]) -> None:
    """Skippable for what `room` would refuse, before anything is stored."""
    spent = db.fetch_one(_Spent, _SPENT, _of_run(item)) if members else None
    reason = _over(spent, members) if spent else None
    if reason:
        raise Skippable(reason)


def excess_reason(connection: ThreadConnection, item: Item, stored: Sequence[Stored]) -> str | None:
    """Why these members are too many, or too large, for the run or for the archive; None if they are not."""
    spent = connection.fetch_one(_Spent, _SPENT, _of_run(item)) if stored else None
    return _over(spent, [entry.member for entry in stored]) if spent else None


class _Spent(NamedTuple):
    documents: int
    members: int
    bytes: int


_SPENT: LiteralString = """
    select count(*) as documents,
           count(*) filter (where properties ->> 'archiveRoot' = %(root)s) as members,
           coalesce(sum(raw_size) filter (where properties ->> 'archiveRoot' = %(root)s), 0)::bigint as bytes
    from run_documents where job_run_id = %(run)s
"""
"""What the run has come to, and what the outermost archive has become in it."""


def _over(spent: _Spent, members: Sequence[Member]) -> str | None:
    bounds = settings.load_settings()
    size = sum(member.size for member in members if not member.reason)
    if spent.documents + len(members) > RUN_DOCUMENTS:
        return f"The files packed into this one bring the run to more than {RUN_DOCUMENTS:,} documents. Upload fewer."
    if spent.members + len(members) > bounds.archive_all_members:
        limit = f"{bounds.archive_all_members:,} documents"
        advice = _UPLOAD.format(setting="RETRIEVAL_ARCHIVE_ALL_MEMBERS")
    elif spent.bytes + size > bounds.archive_all_bytes:
        limit = f"{bounds.archive_all_bytes / 2**20:,.0f} MB"
        advice = _UPLOAD.format(setting="RETRIEVAL_ARCHIVE_ALL_BYTES")
    else:
        return None
    return f"With the archives within it, the archive becomes more than {limit}; this one was not unpacked. {advice}"


def _root(item: Item) -> str:
    return str(item.properties.get(ROOT) or item.key.document_id)


def _of_run(item: Item) -> dict[str, str]:
    return {"run": item.key.job_run_id, "root": _root(item)}


def _count(connection: ThreadConnection, job_run_id: str) -> int:
    statement: LiteralString = "select count(*) from run_documents where job_run_id = %(run)s"
    return connection.fetch_one(int, statement, {"run": job_run_id}) or 0


def _refuse(connection: ThreadConnection, item: Item, members: Sequence[Member], first: int) -> None:
    """Record one failed entry of the run for each member that was left out, without a document."""
    with connection.cursor() as cursor:
        cursor.executemany(
            """
            insert into run_documents (job_run_id, document_id, position, generation, name, status, stage, error)
            values (%(run)s, %(document)s, %(position)s, %(generation)s, %(name)s, 'FAILED', 'unpack', %(error)s)
            """,
            [
                {
                    "run": item.key.job_run_id,
                    "document": ids.document_id(),
                    "position": first + number,
                    "generation": item.generation,
                    "name": f"{item.name}/{member.path}",
                    "error": member.reason,
                }
                for number, member in enumerate(members)
            ],
        )
