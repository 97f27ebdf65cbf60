"""Access lists of documents from the sharing state of a connection's service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, LiteralString

from psycopg import Connection

from retrieval.access import lists
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
    """Read the access list of an item at its service. Unreadable permissions become `unknown`; transient errors are
    raised."""
    if not isinstance(connector, Sharing):
        return SourceAccess(unknown=NOT_TOLD)
    try:
        return connector.access(tokens, external_id)
    except Skippable as error:
        return SourceAccess(unknown=str(error))


def version(connector: Connector, tokens: TokenSource, external_id: str) -> str:
    """Read the version of an item at the service now; "" where it cannot be read."""
    return connector.version(tokens, external_id) if isinstance(connector, Sharing) else ""


_SHOWN: LiteralString = "coalesce(w.version = d.properties ->> 'listedVersion', false)"
_LISTED: LiteralString = (
    """
    select d.id, d.external_id, d.access is distinct from w.access::jsonb or d.access_limit is not null
        or d.access_reason is distinct from w.reason as differs, """
    + _SHOWN
    + """ as is_shown
    from unnest(%(external_ids)s::text[], %(accesses)s::text[], %(reasons)s::text[], %(versions)s::text[])
             w (external_id, access, reason, version), documents d
    join connection_documents h on h.document_id = d.id and h.connection_id = %(connection)s
    where d.external_id = w.external_id and d.source = %(source)s and d.deleted_at is null and d.archive_id is null
    order by d.id for no key update of d
"""
)
_COMES: LiteralString = """
    update run_documents m set access = w.access::jsonb from unnest(%(documents)s::text[], %(accesses)s::text[])
        w (id, access)
    where m.job_run_id = %(run)s and m.document_id = w.id and m.status in ('QUEUED', 'PROCESSING')
"""
_REASONS: LiteralString = """
    update documents d set access_reason = w.reason, updated_at = clock_timestamp()
    from unnest(%(documents)s::text[], %(reasons)s::text[]) w (id, reason)
    where d.id = w.id and d.access_reason is distinct from w.reason
"""


def note(
    connection: Connection[Any],
    *,
    connection_id: str,
    run: str,
    source: str,
    accesses: Mapping[str, SourceAccess],
    versions: Mapping[str, str],
) -> None:
    """Apply, within the page's transaction, the lists of the service to documents of the connection, by external id.

    `versions`: the listed version of each, and if it was current when its permissions were read (`otherwise`). A
    document that shows its listed version gets its list at once. For another one, access is withdrawn at once from
    users who are not on the list, and new users get it with the version that this run ingests, if that is certain.
    """
    ids = sorted(accesses)
    lists_of = {name: _told(accesses[name]) for name in ids}
    rows = connection.execute(
        _LISTED,
        {
            "connection": connection_id,
            "source": source,
            "external_ids": ids,
            "versions": [versions.get(name) for name in ids],
            "accesses": [stored(lists_of[name][0]) for name in ids],
            "reasons": [lists_of[name][1] for name in ids],
        },
    ).fetchall()
    visible_lists = {row["id"]: lists_of[row["external_id"]] for row in rows if row["is_shown"] and row["differs"]}
    pending_lists = {row["id"]: lists_of[row["external_id"]] for row in rows if not row["is_shown"]}
    listed_ids = {row["id"] for row in rows if row["external_id"] in versions}
    lists.give(connection, {document: access for document, (access, _) in visible_lists.items()})
    lists.narrow(connection, {document: access for document, (access, _) in pending_lists.items()})
    coming = {document: stored(access) for document, (access, _) in pending_lists.items() if document in listed_ids}
    connection.execute(_COMES, {"run": run, "documents": list(coming), "accesses": list(coming.values())})
    changed_lists = {**visible_lists, **pending_lists}
    connection.execute(
        _REASONS, {"documents": list(changed_lists), "reasons": [reason for _, reason in changed_lists.values()]}
    )


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
    """Return the documents whose visible version is the listed one, but whose list differs: the change would apply at
    once, so their version has to be read again."""
    ids = sorted(accesses)
    values = {
        "connection": connection_id,
        "source": source,
        "external_ids": ids,
        "versions": [versions.get(external_id) for external_id in ids],
        "accesses": [stored(_told(accesses[external_id])[0]) for external_id in ids],
    }
    return [row["external_id"] for row in db.rows(_OTHERWISE, values)]


_FETCHED: LiteralString = """
    select d.id from documents d
    join connection_documents h on h.document_id = d.id and h.connection_id = %(connection)s
    join job_runs r on r.id = %(run)s and r.source = d.source
    where d.external_id = %(external_id)s and d.source = %(source)s and d.deleted_at is null and d.archive_id is null
"""
"""Nothing for a dry run, whose own source is another."""
_COMES_FOR_FEWER: LiteralString = """
    update run_documents m set access = intersect_access(m.access, %(access)s::jsonb)
    where m.job_run_id = %(run)s and m.document_id = %(document)s and m.access is not null
"""


def note_fetched(
    db: Database, *, connection_id: str, run: str, source: str, external_id: str, access: SourceAccess
) -> None:
    """Limit a document, and its fetched version, to the users on the service's list after the fetch.

    The content may be newer than the listed version, or fetched without a listing; the next listing applies further
    changes.
    """
    source_lists, reason = _told(access)
    values = {"connection": connection_id, "run": run, "source": source, "external_id": external_id}
    with db.transaction() as connection:
        for row in connection.execute(_FETCHED, values).fetchall():
            lists.narrow(connection, {row["id"]: source_lists})
            connection.execute(_COMES_FOR_FEWER, {"run": run, "document": row["id"], "access": stored(source_lists)})
            if reason is not None:
                connection.execute(_REASONS, {"documents": [row["id"]], "reasons": [reason]})


_LEFT: LiteralString = """
    select d.id from documents d join departures g on g.connection_id = %(connection)s and g.document_id = d.id
    where d.deleted_at is null
      and not exists (select from connection_documents o where o.document_id = d.id
                      and o.connection_id <> %(connection)s
                      and not exists (select from departures h where h.document_id = d.id
                                      and h.connection_id = o.connection_id and h.held))
      and exists (select from connection_documents o join connections c on c.id = o.connection_id
                  where o.document_id = d.id and c.permissions = 'SOURCE')
      and (d.access is distinct from %(nobody)s::jsonb or d.access_reason is distinct from %(reason)s)
"""


def note_left(connection: Connection[Any], connection_id: str) -> None:
    """Hide, within the last page's transaction, documents that the connection lost and that await confirmation.

    Except for those that another connection still has, which has its own list, and for connections without access
    lists.
    """
    values = {"connection": connection_id, "nobody": stored(NOBODY), "reason": LEFT}
    rows = connection.execute(_LEFT, values).fetchall()
    lists.set_lists(connection, {row["id"]: NOBODY for row in rows}, reason=LEFT)


def _told(said: SourceAccess) -> tuple[Access, str | None]:
    """Access list of the service; an empty list with the reason if it is unknown or cannot be stored."""
    if said.unknown:
        return NOBODY, said.unknown[:LONGEST]
    try:
        return Access.of(said.users, said.groups, public=said.public), None
    except ServiceError:
        return NOBODY, "The service names more people and groups than can be kept, or one that cannot be kept."
