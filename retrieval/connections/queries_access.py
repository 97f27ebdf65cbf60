"""Access lists of documents from the sharing state of a connection's service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from retrieval.access.queries import lists
from retrieval.connections.queries_sync import ITS, discovery_values
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.errors import ServiceError
from retrieval.ports import DiscoveryRequest, SourceAccess
from retrieval.principals import Access, stored_access

LEFT: Final = (
    "The service does not show this file to the connected account any more, or it is not chosen any more: its removal"
    " waits for a person."
)
NOBODY: Final = Access()
LONGEST_REASON: Final = 500

_SHOWN: LiteralString = "coalesce(w.version = d.properties ->> 'listedVersion', false)"
_LISTED: LiteralString = """
    unnest(%(external_ids)s::text[], %(accesses)s::text[], %(reasons)s::text[], %(versions)s::text[])
        w (external_id, access, reason, version), documents d
    join connection_documents h on h.document_id = d.id and h.connection_id = %(connection)s
    where d.external_id = w.external_id and d.source = %(source)s and d.deleted_at is null and d.archive_id is null
"""


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """`differs`: its access list is another one than the service's. `is_shown`: the listed version is visible."""

    id: str
    external_id: str
    differs: bool
    is_shown: bool


def apply_access(
    connection: Executor,
    request: DiscoveryRequest,
    accesses: Mapping[str, SourceAccess],
    versions: Mapping[str, str],
) -> None:
    """Apply, within the page's transaction, the lists of the service to documents of the connection, by external id.

    `versions`: the listed version of each, if it was current when its permissions were read (`list_uncertain`). A
    document that shows its listed version gets its list at once. For another one, access is withdrawn at once from
    users who are not on the list, and new users get it with the version that this run ingests, if that is certain.
    """
    lists_of = {external_id: _load_access(access) for external_id, access in accesses.items()}
    documents = connection.fetch(
        ListedDocument,
        "select d.id, d.external_id, d.access is distinct from w.access::jsonb or d.access_limit is not null"
        " or d.access_reason is distinct from w.reason as differs, "
        + _SHOWN
        + " as is_shown from"
        + _LISTED
        + "order by d.id for no key update of d",
        _listed_values(request, accesses, versions),
    )
    visible_lists = {row.id: lists_of[row.external_id] for row in documents if row.is_shown and row.differs}
    pending_lists = {row.id: lists_of[row.external_id] for row in documents if not row.is_shown}
    listed_ids = {row.id for row in documents if row.external_id in versions}
    lists.apply_lists(connection, {document: access for document, (access, _) in visible_lists.items()})
    lists.narrow_lists(connection, {document: access for document, (access, _) in pending_lists.items()})
    coming = {
        document: stored_access(access) for document, (access, _) in pending_lists.items() if document in listed_ids
    }
    connection.execute(
        """
        update run_documents m set access = w.access::jsonb
        from unnest(%(documents)s::text[], %(accesses)s::text[]) w (id, access)
        where m.job_run_id = %(run)s and m.document_id = w.id and m.status in ('QUEUED', 'PROCESSING')
        """,
        {"run": request.job_run_id, "documents": list(coming), "accesses": list(coming.values())},
    )
    _set_reasons(connection, {document: reason for document, (_, reason) in {**visible_lists, **pending_lists}.items()})


def _set_reasons(connection: Executor, reasons: Mapping[str, str | None]) -> None:
    connection.execute(
        """
        update documents d set access_reason = w.reason, updated_at = clock_timestamp()
        from unnest(%(documents)s::text[], %(reasons)s::text[]) w (id, reason)
        where d.id = w.id and d.access_reason is distinct from w.reason
        """,
        {"documents": list(reasons), "reasons": list(reasons.values())},
    )


def list_uncertain(
    db: Executor, request: DiscoveryRequest, accesses: Mapping[str, SourceAccess], versions: Mapping[str, str]
) -> list[str]:
    """Return the documents whose visible version is the listed one, but whose list differs: the change would apply at
    once, so their version has to be read again."""
    statement: LiteralString = (
        "select d.external_id from" + _LISTED + "and d.access is distinct from w.access::jsonb and " + _SHOWN
    )
    return db.fetch(str, statement, _listed_values(request, accesses, versions))


def _listed_values(
    request: DiscoveryRequest, accesses: Mapping[str, SourceAccess], versions: Mapping[str, str]
) -> dict[str, Any]:
    ids = sorted(accesses)
    lists_of = [_load_access(accesses[external_id]) for external_id in ids]
    return {
        **discovery_values(request),
        "external_ids": ids,
        "versions": [versions.get(external_id) for external_id in ids],
        "accesses": [stored_access(access) for access, _ in lists_of],
        "reasons": [reason for _, reason in lists_of],
    }


def limit_fetched(db: Database, request: DiscoveryRequest, external_id: str, service_access: SourceAccess) -> None:
    """Limit a document, and its fetched version, to the users on the service's list after the fetch.

    The content may be newer than the listed version, or fetched without a listing; the next listing applies further
    changes. A dry run, whose own source is another, changes no document.
    """
    access, reason = _load_access(service_access)
    values = {**discovery_values(request), "external_id": external_id, "access": stored_access(access)}
    with db.transaction() as connection:
        for document_id in connection.fetch(
            str,
            "select d.id from"
            + ITS
            + "join job_runs r on r.id = %(run)s and r.source = d.source where d.external_id = %(external_id)s",
            values,
        ):
            lists.narrow_lists(connection, {document_id: access})
            connection.execute(
                "update run_documents m set access = intersect_access(m.access, %(access)s::jsonb)"
                " where m.job_run_id = %(run)s and m.document_id = %(document)s and m.access is not null",
                {**values, "document": document_id},
            )
            if reason is not None:
                _set_reasons(connection, {document_id: reason})


def hide_left(connection: Executor, connection_id: str) -> None:
    """Hide, within the last page's transaction, documents that the connection lost and that await confirmation.

    Except for those that another connection still has, which has its own list, and for connections without access
    lists.
    """
    document_ids = connection.fetch(
        str,
        """
        select d.id from documents d
        join departures g on g.connection_id = %(connection)s and g.document_id = d.id
        where d.deleted_at is null
          and not exists (select from connection_documents o where o.document_id = d.id
                          and o.connection_id <> %(connection)s
                          and not exists (select from departures h where h.document_id = d.id
                                          and h.connection_id = o.connection_id and h.held))
          and exists (select from connection_documents o join connections c on c.id = o.connection_id
                      where o.document_id = d.id and c.permissions = 'SOURCE')
          and (d.access is distinct from %(nobody)s::jsonb or d.access_reason is distinct from %(reason)s)
        """,
        {"connection": connection_id, "nobody": stored_access(NOBODY), "reason": LEFT},
    )
    lists.set_lists(connection, dict.fromkeys(document_ids, NOBODY), reason=LEFT)


def _load_access(service_access: SourceAccess) -> tuple[Access, str | None]:
    """Access list of the service; an empty list with the reason if it is unknown or cannot be stored."""
    if service_access.unknown:
        return NOBODY, service_access.unknown[:LONGEST_REASON]
    try:
        return Access.of(service_access.users, service_access.groups, public=service_access.public), None
    except ServiceError:
        return NOBODY, "The service names more people and groups than can be kept, or one that cannot be kept."
