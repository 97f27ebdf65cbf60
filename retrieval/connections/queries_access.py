"""Access lists of documents, from the sharing state at their service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from retrieval.access.queries import lists
from retrieval.connections.queries_sync import CONNECTION_DOCUMENTS, discovery_params
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.errors import ServiceError
from retrieval.ports import DiscoveryRequest, SourceAccess
from retrieval.principals import Access, stored_access

AWAITING_REMOVAL_REASON: Final = (
    "The service does not show this file to the connected account any more, or it is not chosen any more: its removal"
    " waits for a person."
)
NO_ACCESS: Final = Access()
MAX_REASON_CHARACTERS: Final = 500

_IS_VISIBLE_VERSION: LiteralString = "coalesce(w.version = d.properties ->> 'listedVersion', false)"
_LISTED_DOCUMENTS_JOIN: LiteralString = """
    unnest(%(external_ids)s::text[], %(accesses)s::text[], %(reasons)s::text[], %(versions)s::text[])
        w (external_id, access, reason, version), documents d
    join connection_documents h on h.document_id = d.id and h.connection_id = %(connection)s
    where d.external_id = w.external_id and d.source = %(source)s and d.deleted_at is null and d.archive_id is null
"""


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """Document with a comparison of its access list and visible version with the service's."""

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
    """Apply the service's lists to documents of the connection in the page's transaction."""
    # Withdrawn access applies at once. New users get the visible version at once only if it is the listed one, else
    # with the version of this run if `versions` confirms it (`list_uncertain`).
    lists_by_id = {external_id: _load_access(access) for external_id, access in accesses.items()}
    documents = connection.fetch(
        ListedDocument,
        "select d.id, d.external_id, d.access is distinct from w.access::jsonb or d.access_limit is not null"
        " or d.access_reason is distinct from w.reason as differs, "
        + _IS_VISIBLE_VERSION
        + " as is_shown from"
        + _LISTED_DOCUMENTS_JOIN
        + "order by d.id for no key update of d",
        _listed_params(request, accesses, versions),
    )
    visible_lists = {row.id: lists_by_id[row.external_id] for row in documents if row.is_shown and row.differs}
    pending_lists = {row.id: lists_by_id[row.external_id] for row in documents if not row.is_shown}
    listed_ids = {row.id for row in documents if row.external_id in versions}
    lists.apply_lists(connection, {document: access for document, (access, _) in visible_lists.items()})
    lists.narrow_lists(connection, {document: access for document, (access, _) in pending_lists.items()})
    upcoming = {
        document: stored_access(access) for document, (access, _) in pending_lists.items() if document in listed_ids
    }
    connection.execute(
        """
        update run_documents m set access = w.access::jsonb
        from unnest(%(documents)s::text[], %(accesses)s::text[]) w (id, access)
        where m.job_run_id = %(run)s and m.document_id = w.id and m.status in ('QUEUED', 'PROCESSING')
        """,
        {"run": request.job_run_id, "documents": list(upcoming), "accesses": list(upcoming.values())},
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


def read_visible_versions(db: Executor, request: DiscoveryRequest, external_ids: Sequence[str]) -> dict[str, str]:
    """Read the service's versions of the visible contents, by external id."""
    statement: LiteralString = (
        "select jsonb_object_agg(d.external_id, d.properties ->> 'listedVersion') from"
        + CONNECTION_DOCUMENTS
        + "where d.external_id = any(%(ids)s) and d.properties ->> 'listedVersion' <> ''"
    )
    return db.fetch_one(dict, statement, {**discovery_params(request), "ids": list(external_ids)}) or {}


def list_uncertain(
    db: Executor, request: DiscoveryRequest, accesses: Mapping[str, SourceAccess], versions: Mapping[str, str]
) -> list[str]:
    """Return documents with a changed list for the visible version."""
    # The change would apply at once, so the version must be read again.
    statement: LiteralString = (
        "select d.external_id from"
        + _LISTED_DOCUMENTS_JOIN
        + "and d.access is distinct from w.access::jsonb and "
        + _IS_VISIBLE_VERSION
    )
    return db.fetch(str, statement, _listed_params(request, accesses, versions))


def _listed_params(
    request: DiscoveryRequest, accesses: Mapping[str, SourceAccess], versions: Mapping[str, str]
) -> dict[str, Any]:
    ids = sorted(accesses)
    listed_access = [_load_access(accesses[external_id]) for external_id in ids]
    return {
        **discovery_params(request),
        "external_ids": ids,
        "versions": [versions.get(external_id) for external_id in ids],
        "accesses": [stored_access(access) for access, _ in listed_access],
        "reasons": [reason for _, reason in listed_access],
    }


def limit_fetched(db: Database, request: DiscoveryRequest, external_id: str, service_access: SourceAccess) -> None:
    """Limit a document and its fetched version to the users on the service's list after the fetch."""
    # The content may be newer than the listed version. A dry run has another source and changes no document.
    access, reason = _load_access(service_access)
    values = {**discovery_params(request), "external_id": external_id, "access": stored_access(access)}
    with db.transaction() as connection:
        for document_id in connection.fetch(
            str,
            "select d.id from"
            + CONNECTION_DOCUMENTS
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


def hide_departed(connection: Executor, connection_id: str) -> None:
    """Hide lost documents that await confirmation, in the last page's transaction."""
    # Other connections with a document keep their lists.
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
        {"connection": connection_id, "nobody": stored_access(NO_ACCESS), "reason": AWAITING_REMOVAL_REASON},
    )
    lists.set_lists(connection, dict.fromkeys(document_ids, NO_ACCESS), reason=AWAITING_REMOVAL_REASON)


def _load_access(service_access: SourceAccess) -> tuple[Access, str | None]:
    """Return the service's access list; empty with a reason if unknown or not storable."""
    if service_access.unknown:
        return NO_ACCESS, service_access.unknown[:MAX_REASON_CHARACTERS]
    try:
        return Access.of(service_access.users, service_access.groups, public=service_access.public), None
    except ServiceError:
        return NO_ACCESS, "The service names more people and groups than can be kept, or one that cannot be kept."
