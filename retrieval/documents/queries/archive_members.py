"""SQL of documents packed into others, such as archive files and mail attachments."""

from __future__ import annotations

from typing import LiteralString

# Members of the documents `ids` at any depth, locked in the order of their ids.
LOCK_MEMBERS: LiteralString = """
    with recursive packed as (
        select d.id from documents d where d.archive_id = any(%(ids)s) and d.deleted_at is null
        union select d.id from documents d join packed p on d.archive_id = p.id where d.deleted_at is null
    )
    select d.id, d.partition_id, d.active_generation from documents d join packed p using (id)
    where d.id <> all(%(ids)s) and d.deleted_at is null order by d.id for no key update of d
"""

_IS_HIDDEN: LiteralString = """(
    d.hidden <> '[]' or not (%(viewer_names)s::jsonb ?| d.allowed and not %(viewer_names)s::jsonb ?| d.denied)
)"""
# Documents among `ids` whose raw file the viewer may not get: it shows hidden passages, or a member that the viewer
# may not see.
FIND_HIDING_ARCHIVES: LiteralString = f"""
    with recursive packed as (
        select d.archive_id as archive, d.id, {_IS_HIDDEN} as hidden
        from public.documents d where d.archive_id = any(%(ids)s) and d.deleted_at is null
        union
        select p.archive, d.id, {_IS_HIDDEN} from public.documents d join packed p on d.archive_id = p.id
        where d.deleted_at is null
    )
    select distinct archive as id from packed where hidden
    union select id from public.documents where id = any(%(ids)s) and (withholds_file or hidden <> '[]')
"""

# Withhold the files of containers of the documents `ids`, at any depth, with another access list: a deleted member is
# still in them.
WITHHOLD_FILES: LiteralString = """
    with recursive around as (
        select d.id as member, d.archive_id as id from documents d where d.id = any(%(ids)s)
        union select a.member, d.archive_id from around a join documents d using (id)
    )
    update documents c set withholds_file = true
    from around a join documents m on m.id = a.member
    where c.id = a.id and c.id <> all(%(ids)s) and c.deleted_at is null and not c.withholds_file
      and (m.allowed, m.denied) is distinct from (c.allowed, c.denied)
"""

# Like LOCK_MEMBERS, including members among `ids`, without locks.
MEMBERS_OF_ANY: LiteralString = """
    with recursive packed as (
        select id from documents where archive_id = any(%(ids)s) and deleted_at is null
        union select d.id from documents d join packed p on d.archive_id = p.id where d.deleted_at is null
    )
    select id from packed
"""

# Properties of a member (run document `m`) that later runs need.
ARCHIVE_PROPERTIES: LiteralString = """
    coalesce((select jsonb_object_agg(key, value) from jsonb_each(m.properties)
              where key in ('archivePath', 'archiveDepth', 'archiveRoot', 'archiveHash')), '{}')
"""

# Members that neither this version of their archive nor a newer one holds.
FIND_DROPPED_MEMBERS: LiteralString = """
    select d.id, d.partition_id, d.active_generation
    from unnest(%(archives)s::text[], %(generations)s::bigint[]) as a (id, generation)
    join documents d on d.archive_id = a.id
    where d.deleted_at is null and not exists (
        select from run_documents m join run_documents archive using (job_run_id)
        where m.document_id = d.id and m.generation >= a.generation and m.made_from is null
          and archive.document_id = a.id
    )
    order by d.id for no key update of d
"""
