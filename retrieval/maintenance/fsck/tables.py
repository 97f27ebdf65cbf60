"""Checks among the tables with their repairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.database import partitions
from retrieval.documents.queries import embeddings
from retrieval.keywords import postings
from retrieval.maintenance.fsck import queries
from retrieval.maintenance.fsck.findings import Finding, Instance, make_finding
from retrieval.maintenance.garbage_actions import SWEEP_ACTIONS

Repair = Callable[[Instance, Sequence[Finding]], None]


@dataclass(frozen=True, slots=True)
class TableCheck:
    """Statement that finds inconsistent rows, and the repair."""

    kind: str
    statement: LiteralString
    repair: Repair


def find_broken_rows(instance: Instance) -> Iterator[tuple[Finding, Repair]]:
    """Yield each inconsistent row with its repair."""
    for check in TABLE_CHECKS:
        for row in queries.list_broken(instance.db, check.statement, instance.language):
            yield make_finding(check.kind, row), check.repair


def _execute_for_each(statement: LiteralString) -> Repair:
    """Return a repair that executes a statement with each finding's row."""

    def repair(instance: Instance, findings: Sequence[Finding]) -> None:
        for item in findings:
            instance.db.execute(statement, dict(item.data))

    return repair


def _clear_generations(instance: Instance, findings: Sequence[Finding]) -> None:
    """Clear invisible generations with the actions of garbage collection."""
    cleared = set()
    for item in findings:
        sweep = item.make_sweep("generation")
        if (sweep.document_id, sweep.generation) not in cleared:
            cleared.add((sweep.document_id, sweep.generation))
            SWEEP_ACTIONS["generation"](instance.db, instance.stores(sweep.namespace_id), sweep)
        chunk_ids = queries.list_stray_chunk(instance.db, item.data["chunk_id"])
        with instance.db.transaction() as connection:
            embeddings.delete_chunks(connection, sweep.partition_id, chunk_ids)


def _delete_unused_embeddings(instance: Instance, findings: Sequence[Finding]) -> None:
    sweeps = {sweep.partition_id: sweep for sweep in (item.make_sweep("embeddings") for item in findings)}
    for _, sweep in sorted(sweeps.items()):
        SWEEP_ACTIONS["embeddings"](instance.db, instance.stores(sweep.namespace_id), sweep)


def reindex_chunks(instance: Instance, findings: Sequence[Finding]) -> None:
    """Index visible chunks again, and delete the postings of others."""
    for item in findings:
        with instance.db.transaction() as connection:
            chunk = item.data["chunk_id"]
            is_visible = queries.lock_visible(connection, chunk)
            removed = postings.remove_chunks(connection, [chunk])
            added = (0, 0)
            partition = item.data["partition_id"]
            if is_visible:
                added = postings.index_chunks(connection, partition, [chunk], instance.language)
            chunks, terms = added[0] - removed[0], added[1] - removed[1]
            partitions.add_counts(connection, partition, chunks=chunks, terms=terms)


def _delete_wrong_embeddings(instance: Instance, findings: Sequence[Finding]) -> None:
    """Delete embeddings with wrong dimensions."""
    # The next round copies them as missing ones.
    for item in findings:
        with instance.db.transaction() as connection:
            embeddings.delete_mismatched_embedding(
                connection, item.data["partition_id"], item.data["key"], item.data["dimensions"]
            )


def _copy_embeddings(instance: Instance, findings: Sequence[Finding]) -> None:
    """Copy embeddings from the embedded vector store."""
    # Documents of missing vectors are ingested again.
    for item in findings:
        with instance.db.transaction() as connection:
            embeddings.lock_embeddings(connection, item.data["partition_id"])
            queries.copy_embedding(connection, item.data["chunk_id"])


TABLE_CHECKS: tuple[TableCheck, ...] = (
    *(
        TableCheck(
            "ORPHAN_ROWS", queries.find_orphaned_rows(table), _execute_for_each(queries.delete_orphaned_rows(table))
        )
        for table in queries.PARTITIONED_TABLES
    ),
    TableCheck("ORPHAN_CHUNK", queries.INVISIBLE_CHUNKS, _clear_generations),
    TableCheck("ORPHAN_POSTINGS", queries.INVISIBLE_POSTINGS, reindex_chunks),
    TableCheck("MISSING_POSTINGS", queries.MISSING_POSTINGS, reindex_chunks),
    TableCheck("ORPHAN_EMBEDDING", queries.UNUSED_EMBEDDINGS, _delete_unused_embeddings),
    TableCheck("WRONG_EMBEDDING", queries.WRONG_EMBEDDINGS, _delete_wrong_embeddings),
    TableCheck("MISSING_EMBEDDING", queries.MISSING_EMBEDDINGS, _copy_embeddings),
    *(
        TableCheck(kind, statement, _execute_for_each(repair))
        for kind, (statement, repair) in queries.ROW_REPAIRS.items()
    ),
)
