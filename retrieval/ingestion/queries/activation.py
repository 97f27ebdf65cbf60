"""Activation: make new generations visible in search, keywords and listings in one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from retrieval.access.queries import lists
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.documents import passage_matching, vector_metadata
from retrieval.documents.metadata import later_changes, merge_changes
from retrieval.ingestion.items import Item
from retrieval.ingestion.queries import members
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.keywords import postings
from retrieval.namespaces import namespaces
from retrieval.statuses import DocumentStatus, Stage


@dataclass(frozen=True, slots=True)
class LabelledDocument:
    """Document with the metadata of its vectors' labels."""

    id: str
    type: str
    source: str
    metadata: Mapping[str, Any]
    changes: list[dict[str, Any]]
    metadata_at: datetime | None


@dataclass(frozen=True, slots=True)
class _PreviousVersion:
    """Document before its new generation is visible."""

    id: str
    active_generation: int
    raw_key: str | None
    parsed_key: str | None
    metadata_at: datetime | None
    changes: list[dict[str, Any]]


def finish_unchanged(
    db: Database, lease: Lease, items: Sequence[Item], fingerprints: Mapping[DocumentKey, bytes]
) -> frozenset[DocumentKey]:
    """Finish documents whose visible generation has the same content; update name, path, metadata and marks."""
    if not items:
        return frozenset()
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        documents = _lock_documents(connection, items)
        rows = connection.fetch(
            DocumentKey,
            """
            with same as (
                update documents d
                set name = w.name, metadata = coalesce(w.metadata, d.metadata), latest_generation = w.generation,
                    metadata_at = coalesce(w.accepted, d.metadata_at), changes = coalesce(w.changes, d.changes),
                    status = case when d.job_run_id = w.run then 'SUCCESS' else d.status end,
                    error = case when d.job_run_id = w.run then null else d.error end,
                    properties = d.properties || jsonb_strip_nulls(jsonb_build_object(
                        'listedVersion', m.properties -> 'listedVersion',
                        'sourceVersion', m.properties -> 'sourceVersion',
                        'path', m.properties -> 'path', 'url', m.properties -> 'url',
                        'owner', m.properties -> 'owner', 'archiveHash', m.properties -> 'archiveHash')),
                    accepted_bytes = null, synced_at = now(), updated_at = now()
                from unnest(%(runs)s::text[], %(documents)s::text[], %(generations)s::bigint[], %(names)s::text[],
                            %(metadata)s::jsonb[], %(accepted)s::timestamptz[], %(changes)s::jsonb[],
                            %(fingerprints)s::bytea[])
                     as w (run, document, generation, name, metadata, accepted, changes, fingerprint)
                join run_documents m on m.job_run_id = w.run and m.document_id = w.document
                where d.id = w.document and d.fingerprint = w.fingerprint and d.active_generation > 0
                  and d.deleted_at is null and d.latest_generation < w.generation
                returning w.run, w.document, d.raw_key, d.properties
            ),
            unused as (
                insert into sweeps (partition_id, kind, file_key)
                select %(partition)s, 'file', r.raw_key from same
                join run_documents r on r.job_run_id = same.run and r.document_id = same.document
                where r.raw_key is distinct from same.raw_key and r.raw_key is not null
            ),
            cleared_inbox as (
                delete from inbox i using same where i.job_run_id = same.run and i.document_id = same.document
            )
            update run_documents r set status = 'SUCCESS', stage = %(unchanged)s,
                properties = r.properties || jsonb_strip_nulls(jsonb_build_object(
                    'textHash', same.properties -> 'textHash',
                    'applicationShell', same.properties -> 'applicationShell'))
            from same
            where r.job_run_id = same.run and r.document_id = same.document
            returning r.job_run_id, r.document_id
            """,
            {
                **_document_columns(items, documents),
                "fingerprints": [fingerprints[item.key] for item in items],
                "partition": lease.partition,
                "unchanged": Stage.UNCHANGED,
            },
        )
        unchanged = frozenset(rows)
        lists.show_versions(
            connection,
            [(item.key.document_id, item.generation) for item in items if item.key in unchanged],
            is_unchanged=True,
        )
        if labelled_ids := [
            item.key.document_id for item in items if item.key in unchanged and item.metadata is not None
        ]:
            connection.execute(*vector_metadata.schedule_update(labelled_ids))
    return unchanged


def activate_generations(
    db: Database,
    lease: Lease,
    items: Sequence[Item],
    language: str,
    labelled: Mapping[str, LabelledDocument] | None = None,
    epoch: int | None = None,
) -> None:
    """Make new generations visible, except of deleted documents and those with a newer one."""
    # Raises ConfigChanged for an outdated `epoch`.
    # `labelled`: metadata written with the vectors; None for stores without it.
    if not items:
        return
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        if epoch is not None:
            namespaces.lock_epoch(connection, lease.scope.namespace, epoch)
        documents = _lock_documents(connection, items)
        activated = _show_generations(connection, items, documents)
        lists.show_versions(
            connection,
            [(item.key.document_id, item.generation) for item in items if item.key in activated],
            is_unchanged=False,
        )
        passage_matching.hide_matching_chunks(connection, sorted({key.document_id for key in activated}))
        _replace_postings(connection, lease, [item for item in items if item.key in activated], documents, language)
        _queue_sweeps(connection, lease, items, activated, documents)
        members.drop_members(
            connection, [(item.key.document_id, item.generation) for item in items if item.key in activated]
        )
        _end_documents(connection, items, activated, documents)
        if labelled is not None:
            _requeue_labels(connection, labelled)


def _requeue_labels(connection: ThreadConnection, labelled: Mapping[str, LabelledDocument]) -> None:
    """Queue an update of vector metadata that changed after the vectors were written."""
    documents = connection.fetch(
        _Metadata, "select id, metadata from documents where id = any(%(ids)s)", {"ids": list(labelled)}
    )
    changed = [document.id for document in documents if document.metadata != labelled[document.id].metadata]
    if changed:
        connection.execute(*vector_metadata.schedule_update(changed))


class _Metadata(NamedTuple):
    id: str
    metadata: dict[str, Any]


def _lock_documents(connection: ThreadConnection, items: Sequence[Item]) -> dict[str, _PreviousVersion]:
    # One order everywhere, so that two activations cannot block each other.
    documents = connection.fetch(
        _PreviousVersion,
        """
        select id, active_generation, raw_key, parsed_key, metadata_at, changes from documents
        where id = any(%(documents)s) and deleted_at is null order by id for update
        """,
        {"documents": [item.key.document_id for item in items]},
    )
    return {document.id: document for document in documents}


def _show_generations(
    connection: ThreadConnection, items: Sequence[Item], previous: Mapping[str, _PreviousVersion]
) -> frozenset[DocumentKey]:
    newest = {item.key.document_id: item for item in sorted(items, key=lambda item: item.generation)}
    newest_items = list(newest.values())
    rows = connection.fetch(
        DocumentKey,
        """
        update documents d
        set active_generation = w.generation, latest_generation = w.generation, name = w.name,
            metadata = coalesce(w.metadata, d.metadata), metadata_at = coalesce(w.accepted, d.metadata_at),
            changes = coalesce(w.changes, d.changes), fingerprint = w.fingerprint, raw_key = w.raw_key,
            parsed_key = w.parsed_key, properties = w.properties, embedding = w.embedding,
            status = case when d.job_run_id = w.run then 'SUCCESS' else d.status end,
            error = case when d.job_run_id = w.run then null else d.error end,
            accepted_bytes = null, synced_at = now(), updated_at = now()
        from unnest(%(runs)s::text[], %(documents)s::text[], %(generations)s::bigint[], %(names)s::text[],
                    %(metadata)s::jsonb[], %(accepted)s::timestamptz[], %(changes)s::jsonb[],
                    %(fingerprints)s::bytea[], %(raw_keys)s::text[], %(parsed_keys)s::text[],
                    %(properties)s::jsonb[], %(embeddings)s::jsonb[])
             as w (run, document, generation, name, metadata, accepted, changes, fingerprint, raw_key, parsed_key,
                   properties, embedding)
        where d.id = w.document and d.deleted_at is null and d.latest_generation < w.generation
        returning w.run as job_run_id, w.document as document_id
        """,
        {
            **_document_columns(newest_items, previous),
            "fingerprints": [item.fingerprint for item in newest_items],
            "raw_keys": [item.raw_key for item in newest_items],
            "parsed_keys": [item.parsed_key for item in newest_items],
            "properties": [json.dumps(item.properties) for item in newest_items],
            "embeddings": [json.dumps(item.embedding) for item in newest_items],
        },
    )
    return frozenset(rows)


def _replace_postings(
    connection: ThreadConnection,
    lease: Lease,
    activated: Sequence[Item],
    previous: Mapping[str, _PreviousVersion],
    language: str,
) -> None:
    """Replace the keyword postings of the old chunks."""
    # Counters last: all activations wait for them.
    replaced = [previous[item.key.document_id] for item in activated]
    old = _chunk_ids(connection, [(version.id, version.active_generation) for version in replaced])
    new = _chunk_ids(connection, [(i.key.document_id, i.generation) for i in activated])
    fewer_chunks, fewer_terms = postings.remove_chunks(connection, old) if old else (0, 0)
    more_chunks, more_terms = postings.index_chunks(connection, lease.partition, new, language)
    chunks, terms = more_chunks - fewer_chunks, more_terms - fewer_terms
    partitions.add_counts(connection, lease.partition, chunks=chunks, terms=terms)


def _queue_sweeps(
    connection: ThreadConnection,
    lease: Lease,
    items: Sequence[Item],
    activated: frozenset[DocumentKey],
    previous: Mapping[str, _PreviousVersion],
) -> None:
    """Queue sweeps of old generations and of outdated new ones."""
    generations: list[tuple[str, int]] = []
    files: list[str] = []
    for item in items:
        version = previous.get(item.key.document_id)
        visible_files = {version.raw_key, version.parsed_key} if version else set()
        new_files = {item.raw_key, item.parsed_key}
        if item.key not in activated:
            generations.append((item.key.document_id, item.generation))
            files += [key for key in new_files - visible_files if key]
        elif version and version.active_generation:
            generations.append((item.key.document_id, version.active_generation))
            files += [key for key in visible_files - new_files if key]
    if generations:
        connection.execute(
            """
            insert into sweeps (partition_id, kind, document_id, generation)
            select %(partition)s, 'generation', w.document, w.generation
            from unnest(%(documents)s::text[], %(generations)s::bigint[]) as w (document, generation)
            """,
            {
                "partition": lease.partition,
                "documents": [document for document, _ in generations],
                "generations": [generation for _, generation in generations],
            },
        )
    if files:
        connection.execute(
            "insert into sweeps (partition_id, kind, file_key) select %(partition)s, 'file', unnest(%(files)s::text[])",
            {"partition": lease.partition, "files": files},
        )


def _end_documents(
    connection: ThreadConnection,
    items: Sequence[Item],
    activated: frozenset[DocumentKey],
    previous: Mapping[str, _PreviousVersion],
) -> None:
    """Finish visible or outdated documents with SUCCESS, deleted ones with CANCELLED."""
    finished = [item for item in items if item.key in activated or item.key.document_id in previous]
    deleted = [item for item in items if item.key.document_id not in previous]
    for status, group in ((DocumentStatus.SUCCESS, finished), (DocumentStatus.CANCELLED, deleted)):
        if not group:
            continue
        connection.execute(
            """
            update run_documents r set status = %(status)s, stage = %(upserted)s, error = null
            from unnest(%(runs)s::text[], %(documents)s::text[]) as w (run, document)
            where r.job_run_id = w.run and r.document_id = w.document
            """,
            {
                "status": status,
                "upserted": Stage.UPSERTED,
                "runs": [item.key.job_run_id for item in group],
                "documents": [item.key.document_id for item in group],
            },
        )
    connection.execute(
        "delete from inbox where job_run_id = any(%(runs)s)",
        {"runs": [item.key.job_run_id for item in items]},
    )


def _chunk_ids(connection: ThreadConnection, generations: Sequence[tuple[str, int]]) -> list[int]:
    generations = [pair for pair in generations if pair[1]]  # 0: no version is visible yet
    if not generations:
        return []
    return connection.fetch(
        int,
        """
        select c.id from chunks c
        join unnest(%(documents)s::text[], %(generations)s::bigint[]) as w (document, generation)
          on c.document_id = w.document and c.generation = w.generation
        """,
        {
            "documents": [document for document, _ in generations],
            "generations": [generation for _, generation in generations],
        },
    )


def _document_columns(items: Sequence[Item], previous: Mapping[str, _PreviousVersion]) -> dict[str, list[Any]]:
    """Return the columns of each document; null keeps stored metadata and changes."""
    merged = [_merge_metadata(item, previous.get(item.key.document_id)) for item in items]
    return {
        "runs": [item.key.job_run_id for item in items],
        "documents": [item.key.document_id for item in items],
        "generations": [item.generation for item in items],
        "names": [item.name for item in items],
        "metadata": [None if change is None else json.dumps(change[0]) for change in merged],
        "changes": [None if change is None else json.dumps(change[1]) for change in merged],
        "accepted": [None if change is None else item.accepted_at for change, item in zip(merged, items, strict=True)],
    }


def _merge_metadata(
    item: Item, previous: _PreviousVersion | None
) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]] | None:
    if previous is None:
        return None
    metadata = merge_changes(item.metadata, item.accepted_at, previous.changes, previous.metadata_at)
    return None if metadata is None else (metadata, later_changes(previous.changes, item.accepted_at))
