"""Access that is said with a new version of a document: who loses it loses it at once, who gains it gains it with the
version that it was said of.

Until that version is shown, `documents.access` holds what the old and the new access have in common, and under `next`
what comes: `{"access": {…}, "from": generation}`. The newest statement holds: another one takes its place, a version
that was accepted before it does not bring it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from psycopg import Connection

from retrieval.database.database import Row

NEXT = "next"


def coming(stored: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The access that comes with the next version, of what `documents.access` holds; None if none does, or the same."""
    held = stored or {}
    said = held[NEXT]["access"] if NEXT in held else None
    return None if said is None or said == {name: held[name] for name in held if name != NEXT} else said


def after(stored: Mapping[str, Any] | None, generation: int) -> Mapping[str, Any] | None:
    """The same for a document that shows another generation than it did: with whatever version comes after that."""
    if stored is None or NEXT not in stored:
        return stored
    return {**stored, NEXT: {**stored[NEXT], "from": generation + 1}}


def waits_on(content: LiteralString, new: LiteralString) -> LiteralString:
    """SQL: the access of document `d` whose kept content, of generation `content`, is ingested again as `new`: what was
    said after that content waits for a later one. Null content is fetched anew."""
    return (
        "case when (d.access #>> '{next,from}')::bigint > "
        + content
        + " then jsonb_set(d.access, '{next,from}', to_jsonb("
        + new
        + " + 1)) else d.access end"
    )


def narrowed(document: LiteralString, said: LiteralString, since: LiteralString) -> LiteralString:
    """SQL: the access to keep for the document under this alias where `said` comes with generation `since`.

    Common is who is named the same way by both, or by one that the other shows everyone, or shows the domain of the
    user's address: somebody else whom one names and the other knows by a group waits. Whom either denies is denied.
    An archive's is said to come even where nobody waits for it: what is packed into it may have an access of its own.
    """
    packed = " exists (select from documents m where m.archive_id = " + document + ".id and m.deleted_at is null)"
    return "narrowed_access(" + document + ".access, " + said + ", " + since + "," + packed + ")"


_NEWER: LiteralString = """(documents.access_at is null or
    (excluded.access_at < clock_timestamp() + interval '1 minute', excluded.access_at)
    > (documents.access_at < clock_timestamp() + interval '1 minute', documents.access_at))"""
"""A moment that is more than a minute away was before PostgreSQL's clock went back, and so before any that has been."""
_SAID: LiteralString = "coalesce(excluded.access #> '{next,access}', excluded.access)"


def kept(since: LiteralString) -> LiteralString:
    """SQL of an upsert: what was said last counts, from generation `since` on; what says nothing leaves it as it is.

    What is packed into another document is given what that one has, with what comes for it.
    """
    since = "coalesce((excluded.access #>> '{next,from}')::bigint, " + since + ")"
    return (
        ", access = case when excluded.access is null or not "
        + _NEWER
        + " then documents.access else "
        + narrowed("documents", _SAID, since)
        + " end, access_at = case when excluded.access is not null and "
        + _NEWER
        + " then excluded.access_at else documents.access_at end"
    )


_COME: LiteralString = """
    update documents d set access = d.access #> '{next,access}', updated_at = now()
    from unnest(%(documents)s::text[], %(generations)s::bigint[]) as w (id, generation)
    where d.id = w.id and d.deleted_at is null and (d.access #>> '{next,from}')::bigint <= w.generation
      and not d.id = any(%(archives)s::text[]) and (%(only)s::text is null or d.id = %(only)s)
"""
_ARCHIVES: LiteralString = """
    select distinct archive_id as id from documents where archive_id = any(%(documents)s) and deleted_at is null
"""
ARCHIVE_HASH = "archiveHash"
"""Property of a document that was packed into another: the digest of the file that its content came out of, in hex. It
goes with the content, whatever run ingests that again."""
CAME_OUT_OF: LiteralString = """coalesce(d.properties ->> 'archiveHash', (
    select encode(a.raw_hash, 'hex') from run_documents m join run_documents a using (job_run_id)
    where m.document_id = d.id and m.generation = d.latest_generation and a.document_id = d.archive_id limit 1
))"""
"""The same of document `d`. What an older release has unpacked lacks it: then it is that of its archive in its own run,
and null if it was ingested again without its archive."""
_SHOWS: LiteralString = (
    "coalesce("
    + CAME_OUT_OF
    + """ = (
    select encode(m.raw_hash, 'hex') from run_documents m
    where m.document_id = a.id and m.generation = a.active_generation limit 1
), false)"""
)
"""Whether `d` shows what is packed into the content that its archive `a` shows."""
_BELOW: LiteralString = """
    with recursive packed as (
        select d.*, 1 as depth, a.access -> 'next' as said, SHOWS as is_shown
        from documents d join documents a on a.id = d.archive_id
        where a.id = any(%(documents)s) and d.deleted_at is null
        union all
        select d.*, a.depth + 1, a.said, a.is_shown and SHOWS
        from documents d join packed a on d.archive_id = a.id where d.deleted_at is null
    )
    select id, access, access_at, access_reason, updated_at, depth from packed d
    where not (%(same)s and coalesce(d.access -> 'next' = d.said, false) and d.is_shown) order by depth, id
""".replace("SHOWS", _SHOWS)
"""What is packed into the documents, at any depth; with `same` without what waits for the same statement as they do and
shows what they hold of it."""
BACK: LiteralString = """
    update documents set access = %(access)s::jsonb, access_reason = %(access_reason)s, access_at = %(access_at)s,
        updated_at = %(updated_at)s where id = %(id)s
"""
"""Give a document, by `had` of what `_BELOW` selects of it, the access that it had. From above to below:
what is packed into a document follows it."""


def come(connection: Connection[Row], versions: Sequence[tuple[str, int]], *, same: bool) -> None:
    """These generations are shown from now on, in the caller's transaction: what was said with them counts.

    What is packed into a document follows it with its own new version, or, where nothing of the document has changed
    (`same`), at once.
    """
    values = {"documents": [one for one, _ in versions], "generations": [generation for _, generation in versions]}
    archives = {row["id"] for row in connection.execute(_ARCHIVES, values).fetchall()}
    connection.execute(_COME, {**values, "archives": list(archives), "only": None})
    for archive in sorted(archives):
        packed = connection.execute(_BELOW, {"documents": [archive], "same": same}).fetchall()
        connection.execute(_COME, {**values, "archives": [], "only": archive})
        for row in packed:
            connection.execute(BACK, had(row))


def had(row: Row) -> dict[str, Any]:
    """The parameters of BACK."""
    return {**row, "access": row["access"] and json.dumps(row["access"])}
