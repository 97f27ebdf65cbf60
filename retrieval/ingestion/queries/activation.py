"""Activation: one transaction makes a new generation visible in search, keywords and listings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from retrieval.access.queries import lists
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.documents import vector_metadata
from retrieval.documents.metadata import later_changes, merge_changes
from retrieval.ingestion import unpack
from retrieval.ingestion.items import Item
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.keywords import postings
from retrieval.namespaces import namespaces
from retrieval.statuses import DocumentStatus, Stage


@dataclass(frozen=True, slots=True)
class Labelled:
    """A document and the metadata that its vectors' labels are made of."""

    id: str
    type: str
    source: str
    metadata: Mapping[str, Any]
    changes: list[dict[str, Any]]
    metadata_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Former:
    """A document as it is before its new generation is visible."""

    id: str
    active_generation: int
    raw_key: str | None
    parsed_key: str | None
    metadata_at: datetime | None
    changes: list[dict[str, Any]]


def finish_unchanged(
    db: Database, lease: Lease, waiting: Sequence[Item], fingerprints: Mapping[DocumentKey, bytes]
) -> frozenset[DocumentKey]:
    """Finish those whose visible generation was made from the same content: new name, place, metadata and marks."""
    if not waiting:
        return frozenset()
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        documents = _lock(connection, waiting)
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
            read as (
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
                **_columns(waiting, documents),
                "fingerprints": [fingerprints[item.key] for item in waiting],
                "partition": lease.partition,
                "unchanged": Stage.UNCHANGED,
            },
        )
        same = frozenset(rows)
        lists.show_versions(
            connection, [(item.key.document_id, item.generation) for item in waiting if item.key in same], same=True
        )
        if labelled_ids := [item.key.document_id for item in waiting if item.key in same and item.metadata is not None]:
            connection.execute(*vector_metadata.schedule_update(labelled_ids))
    return same


def activate(
    db: Database,
    lease: Lease,
    work: Sequence[Item],
    language: str,
    labelled: Mapping[str, Labelled] | None = None,
    epoch: int | None = None,
) -> None:
    """Make each document's new generation the visible one, unless it was deleted or a newer one is there.

    labelled: what the labels of the vectors were made of, by document; None: they have none.
    epoch: of the namespace that all this was made for; ConfigChanged if it has another model or store by now.
    """
    if not work:
        return
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        if epoch is not None:
            namespaces.hold_epoch(connection, lease.scope.namespace, epoch)
        documents = _lock(connection, work)
        activated = _show_generations(connection, work, documents)
        lists.show_versions(
            connection, [(item.key.document_id, item.generation) for item in work if item.key in activated], same=False
        )
        _reindex(connection, lease, [item for item in work if item.key in activated], documents, language)
        _enqueue_gc(connection, lease, work, activated, documents)
        unpack.drop_members(
            connection, [(item.key.document_id, item.generation) for item in work if item.key in activated]
        )
        _end_documents(connection, work, activated, documents)
        if labelled is not None:
            _relabel(connection, labelled)


def _relabel(connection: ThreadConnection, labelled: Mapping[str, Labelled]) -> None:
    """Queue an update of vector metadata that changed between the write of the vectors and their activation."""
    documents = connection.fetch(
        _Metadata, "select id, metadata from documents where id = any(%(ids)s)", {"ids": list(labelled)}
    )
    changed = [document.id for document in documents if document.metadata != labelled[document.id].metadata]
    if changed:
        connection.execute(*vector_metadata.schedule_update(changed))


class _Metadata(NamedTuple):
    id: str
    metadata: dict[str, Any]


def _lock(connection: ThreadConnection, work: Sequence[Item]) -> dict[str, _Former]:
    """Lock the documents, in one order everywhere so that two activations cannot block each other."""
    documents = connection.fetch(
        _Former,
        """
        select id, active_generation, raw_key, parsed_key, metadata_at, changes from documents
        where id = any(%(documents)s) and deleted_at is null order by id for update
        """,
        {"documents": [item.key.document_id for item in work]},
    )
    return {document.id: document for document in documents}


def _show_generations(
    connection: ThreadConnection, work: Sequence[Item], before: Mapping[str, _Former]
) -> frozenset[DocumentKey]:
    newest = {item.key.document_id: item for item in sorted(work, key=lambda item: item.generation)}
    chosen = list(newest.values())
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
            **_columns(chosen, before),
            "fingerprints": [item.fingerprint for item in chosen],
            "raw_keys": [item.raw_key for item in chosen],
            "parsed_keys": [item.parsed_key for item in chosen],
            "properties": [json.dumps(item.properties) for item in chosen],
            "embeddings": [json.dumps(item.embedding) for item in chosen],
        },
    )
    return frozenset(rows)


def _reindex(
    connection: ThreadConnection, lease: Lease, activated: Sequence[Item], before: Mapping[str, _Former], language: str
) -> None:
    """Move the keyword side from the old chunks to the new ones; the counters last, as all activations wait there."""
    old = _chunk_ids(connection, [(i.key.document_id, before[i.key.document_id].active_generation) for i in activated])
    new = _chunk_ids(connection, [(i.key.document_id, i.generation) for i in activated])
    fewer_chunks, fewer_terms = postings.remove_chunks(connection, old)
    more_chunks, more_terms = postings.index_chunks(connection, lease.partition, new, language)
    connection.execute(
        "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(partition)s",
        {
            "chunks": more_chunks - fewer_chunks,
            "terms": more_terms - fewer_terms,
            "partition": lease.partition,
        },
    )


def _enqueue_gc(
    connection: ThreadConnection,
    lease: Lease,
    work: Sequence[Item],
    activated: frozenset[DocumentKey],
    before: Mapping[str, _Former],
) -> None:
    """Queue invisible data for garbage collection: old generations, and new ones that are outdated already."""
    generations: list[tuple[str, int]] = []
    files: list[str] = []
    for item in work:
        former = before.get(item.key.document_id)
        visible_files = {former.raw_key, former.parsed_key} if former else set()
        new_files = {item.raw_key, item.parsed_key}
        if item.key not in activated:
            generations.append((item.key.document_id, item.generation))
            files += [key for key in new_files - visible_files if key]
        elif former and former.active_generation:
            generations.append((item.key.document_id, former.active_generation))
            files += [key for key in visible_files - new_files if key]
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
    connection.execute(
        "insert into sweeps (partition_id, kind, file_key) select %(partition)s, 'file', unnest(%(files)s::text[])",
        {"partition": lease.partition, "files": files},
    )


def _end_documents(
    connection: ThreadConnection, work: Sequence[Item], activated: frozenset[DocumentKey], before: Mapping[str, _Former]
) -> None:
    """SUCCESS for what is visible now or was overtaken by a newer version, CANCELLED for what was deleted meanwhile."""
    finished = [item for item in work if item.key in activated or item.key.document_id in before]
    deleted = [item for item in work if item.key.document_id not in before]
    for status, group in ((DocumentStatus.SUCCESS, finished), (DocumentStatus.CANCELLED, deleted)):
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
        {"runs": [item.key.job_run_id for item in work]},
    )


def _chunk_ids(connection: ThreadConnection, generations: Sequence[tuple[str, int]]) -> list[int]:
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


def _columns(work: Sequence[Item], before: Mapping[str, _Former]) -> dict[str, list[Any]]:
    """Return the columns of each document: metadata, its time and later changes of clients; null to keep these."""
    settled = [_settled(item, before.get(item.key.document_id)) for item in work]
    return {
        "runs": [item.key.job_run_id for item in work],
        "documents": [item.key.document_id for item in work],
        "generations": [item.generation for item in work],
        "names": [item.name for item in work],
        "metadata": [None if change is None else json.dumps(change[0]) for change in settled],
        "changes": [None if change is None else json.dumps(change[1]) for change in settled],
        "accepted": [None if change is None else item.accepted for change, item in zip(settled, work, strict=True)],
    }


def _settled(item: Item, former: _Former | None) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]] | None:
    if former is None:
        return None
    metadata = merge_changes(item.metadata, item.accepted, former.changes, former.metadata_at)
    return None if metadata is None else (metadata, later_changes(former.changes, item.accepted))
