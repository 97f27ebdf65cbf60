"""Statements on members of archives, which become documents of the same job run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, NamedTuple

from retrieval.database.rows import Executor, Params
from retrieval.database.sessions import ThreadConnection
from retrieval.documents.queries import archive_members, deletion

# Nothing for a deleted or outdated archive. A deleted member returns with another content of its archive only.
_RECORD_MEMBERS: LiteralString = """
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
# A file is unused if its archive was deleted or outdated, or its member is in this run already.
_SWEEP_UNUSED_FILES: LiteralString = """
    insert into sweeps (partition_id, kind, file_key)
    select r.partition_id, 'file', k.key from unnest(%(keys)s::text[]) k (key), job_runs r
    where r.id = %(run)s and not exists (
        select from run_documents d where d.job_run_id = r.id and d.raw_key = k.key
    )
"""


class RunUsage(NamedTuple):
    """Documents of a run, and number and bytes of the members of an outermost archive."""

    documents: int
    members: int
    bytes: int


def record_members(connection: Executor, values: Params) -> None:
    """Record the members of an archive, by column, and schedule the deletion of their unused files."""
    connection.execute(_RECORD_MEMBERS, values)
    connection.execute(_SWEEP_UNUSED_FILES, values)


def read_external_id(db: Executor, document_id: str) -> str:
    """Return the external id of a document; "" for a missing one."""
    return db.fetch_one(str, "select external_id from documents where id = %(id)s", {"id": document_id}) or ""


def discard_files(connection: Executor, job_run_id: str, keys: Sequence[str]) -> None:
    """Schedule the deletion of the unused files among `keys`."""
    connection.execute(_SWEEP_UNUSED_FILES, {"run": job_run_id, "keys": list(keys)})


def read_usage(db: Executor, job_run_id: str, root: str) -> RunUsage | None:
    return db.fetch_one(
        RunUsage,
        """
        select count(*) as documents,
               count(*) filter (where properties ->> 'archiveRoot' = %(root)s) as members,
               coalesce(sum(raw_size) filter (where properties ->> 'archiveRoot' = %(root)s), 0)::bigint as bytes
        from run_documents where job_run_id = %(run)s
        """,
        {"run": job_run_id, "root": root},
    )


def count_documents(connection: Executor, job_run_id: str) -> int:
    statement: LiteralString = "select count(*) from run_documents where job_run_id = %(run)s"
    return connection.fetch_one(int, statement, {"run": job_run_id}) or 0


def insert_refused(connection: ThreadConnection, entries: Sequence[Mapping[str, Any]]) -> None:
    """Insert failed entries without documents."""
    with connection.cursor() as cursor:
        cursor.executemany(
            """
            insert into run_documents (job_run_id, document_id, position, generation, name, status, stage, error)
            values (%(run)s, %(document)s, %(position)s, %(generation)s, %(name)s, 'FAILED', 'unpack', %(error)s)
            """,
            entries,
        )


def drop_members(connection: ThreadConnection, versions: Sequence[tuple[str, int]]) -> None:
    """Delete documents of members missing in these versions (document, generation) of the archives.

    Called in the transaction of the versions' activation.
    """
    values = {
        "archives": [document for document, _ in versions],
        "generations": [generation for _, generation in versions],
    }
    if dropped_ids := connection.fetch(str, archive_members.FIND_DROPPED_MEMBERS, values):
        deletion.delete_documents(connection, dropped_ids)
