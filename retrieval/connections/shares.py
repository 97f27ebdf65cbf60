"""Whom the service of a connection shows its items, as the access of their documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, LiteralString

from psycopg import Connection

from retrieval.access import new_versions
from retrieval.database.database import Database
from retrieval.errors import ServiceError, Skippable
from retrieval.ports import Connector, Sharing, SourceAccess, TokenSource
from retrieval.principals import Access, stored

LEFT: Final = (
    "The service does not show this file to the connected account any more, or it is not chosen any more: its removal"
    " waits for a person."
)
NOT_TOLD: Final = "It is not read yet whom this service shows its files."
NOBODY: Final = Access()
LONGEST: Final = 500


def of(connector: Connector, tokens: TokenSource, external_id: str) -> SourceAccess:
    """What cannot be told of one item is unknown; trouble that passes is raised, for the listing to be tried again."""
    if not isinstance(connector, Sharing):
        return SourceAccess(unknown=NOT_TOLD)
    try:
        return connector.access(tokens, external_id)
    except Skippable as error:
        return SourceAccess(unknown=str(error))


def version(connector: Connector, tokens: TokenSource, external_id: str) -> str:
    """Which version of an item the service has now; "" where that cannot be told."""
    return connector.version(tokens, external_id) if isinstance(connector, Sharing) else ""


_SHOWN: LiteralString = "coalesce(w.version = d.properties ->> 'listedVersion', false)"
_OF: LiteralString = "least(d.active_generation, d.latest_generation)"
"""The generation that the content came with, or one after it."""
_FROM: LiteralString = (
    "case when " + _SHOWN + " then " + _OF + " when w.version is null then r.number + 1 else r.number end"
)
"""What this run does not list, or lists at no certain version, waits for a later one, whatever the run makes of it."""
_SET: LiteralString = (
    """
    update documents d set access_reason = w.reason, access_at = clock_timestamp(), updated_at = clock_timestamp(),
        access = """
    + new_versions.narrowed("d", "w.access::jsonb", _FROM)
    + """
    from unnest(%(external_ids)s::text[], %(accesses)s::text[], %(reasons)s::text[], %(versions)s::text[])
             w (external_id, access, reason, version),
         connection_documents h, job_runs r
    where r.id = %(run)s and h.connection_id = %(connection)s and h.document_id = d.id and d.external_id = w.external_id
      and d.source = %(source)s and d.deleted_at is null and d.archive_id is null
      and (d.access is distinct from w.access::jsonb or d.access_reason is distinct from w.reason)
    returning d.id, """
    + _OF
    + """ as generation, d.access ? 'next' and """
    + _SHOWN
    + """ as comes
"""
)


def note(
    connection: Connection[Any],
    *,
    connection_id: str,
    run: str,
    source: str,
    accesses: Mapping[str, SourceAccess],
    versions: Mapping[str, str],
) -> None:
    """Within the page's transaction: documents of the connection, by external id, are for these from now on.

    `versions`: what is listed of them, and was that still when these answers were there (`otherwise`). A document that
    does not show its listed version, or is not listed, is for those who may see both, until it does. So is what is
    packed into one and does not show what that version holds of it.
    """
    ids = sorted(accesses)
    found = [_told(accesses[one]) for one in ids]
    rows = connection.execute(
        _SET,
        {
            "connection": connection_id,
            "source": source,
            "run": run,
            "external_ids": ids,
            "versions": [versions.get(one) for one in ids],
            "accesses": [stored(access) for access, _ in found],
            "reasons": [reason for _, reason in found],
        },
    ).fetchall()
    shown = [(row["id"], row["generation"]) for row in rows if row["comes"]]
    new_versions.come(connection, shown, same=True)


_OTHERWISE: LiteralString = (
    """
    select d.external_id from unnest(%(external_ids)s::text[], %(accesses)s::text[], %(versions)s::text[])
        w (external_id, access, version), documents d join connection_documents h on h.document_id = d.id
    where h.connection_id = %(connection)s and d.external_id = w.external_id and d.source = %(source)s
      and d.deleted_at is null and d.archive_id is null and d.access is distinct from w.access::jsonb and """
    + _SHOWN
)


def otherwise(
    db: Database, connection_id: str, source: str, accesses: Mapping[str, SourceAccess], versions: Mapping[str, str]
) -> list[str]:
    """Of these documents those that show what is listed of them, for others than it is for: they would be for these at
    once, so their version has to be asked for again."""
    ids = sorted(accesses)
    values = {
        "connection": connection_id,
        "source": source,
        "external_ids": ids,
        "versions": [versions.get(one) for one in ids],
        "accesses": [stored(_told(accesses[one])[0]) for one in ids],
    }
    return [row["external_id"] for row in db.rows(_OTHERWISE, values)]


_FETCHED: LiteralString = (
    """
    update documents d set access_reason = coalesce(%(reason)s, d.access_reason), access_at = clock_timestamp(),
        updated_at = clock_timestamp(), access = """
    + new_versions.narrowed("d", "w.access", "coalesce((d.access #>> '{next,from}')::bigint, r.number)")
    + """
    from (
        select k.id, coalesce(k.access #> '{next,access}', k.access) as comes,
               narrowed_access(coalesce(k.access #> '{next,access}', k.access), %(access)s::jsonb, 0, false) - 'next'
               as access
        from documents k join connection_documents h on h.document_id = k.id and h.connection_id = %(connection)s
        where k.external_id = %(external_id)s and k.source = %(source)s and k.deleted_at is null
          and k.archive_id is null
    ) w, job_runs r
    where r.id = %(run)s and r.source = %(source)s and d.id = w.id and w.access is distinct from w.comes
"""
)
"""Nothing for a dry run, whose own source is another."""


def note_fetched(
    db: Database, *, connection_id: str, run: str, source: str, external_id: str, access: SourceAccess
) -> None:
    """Content has been fetched, and then it was asked whom it is for: it may be newer than what was listed, or be
    fetched without a listing. It is for those alone who could see it before, too; the next listing tells the rest."""
    said, reason = _told(access)
    values = {"connection": connection_id, "run": run, "source": source, "external_id": external_id}
    db.rows(_FETCHED, {**values, "access": stored(said), "reason": reason})


_LEFT: LiteralString = """
    update documents d set access = %(nobody)s::jsonb, access_reason = %(reason)s, access_at = clock_timestamp(),
        updated_at = clock_timestamp()
    from departures g
    where g.connection_id = %(connection)s and g.document_id = d.id and d.deleted_at is null
      and not exists (select from connection_documents o where o.document_id = d.id
                      and o.connection_id <> %(connection)s
                      and not exists (select from departures h where h.document_id = d.id
                                      and h.connection_id = o.connection_id and h.held))
      and exists (select from connection_documents o join connections c on c.id = o.connection_id
                  where o.document_id = d.id and c.permissions = 'SOURCE')
      and (d.access is distinct from %(nobody)s::jsonb or d.access_reason is distinct from %(reason)s)
"""


def note_left(connection: Connection[Any], connection_id: str) -> None:
    """Within the last page's transaction: what is gone for the connection and waits for a person is nobody's.

    Not what another connection still has, which says whom it is for, and not where none was to say so.
    """
    values = {"connection": connection_id, "nobody": stored(NOBODY), "reason": LEFT}
    connection.execute(_LEFT, values)


def _told(said: SourceAccess) -> tuple[Access, str | None]:
    """Nobody's, with the reason, where it is not known, or cannot be kept."""
    if said.unknown:
        return NOBODY, said.unknown[:LONGEST]
    try:
        return Access.of(said.users, said.groups, public=said.public), None
    except ServiceError:
        return NOBODY, "The service names more people and groups than can be kept, or one that cannot be kept."
