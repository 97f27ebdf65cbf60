"""Rows against rows: the checks among the tables, each with its repair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.database import partitions
from retrieval.documents.queries import embeddings
from retrieval.keywords import postings
from retrieval.maintenance.fsck import queries
from retrieval.maintenance.fsck.findings import Finding, Instance, make_finding
from retrieval.maintenance.garbage_actions import ACTIONS

Repair = Callable[[Instance, Sequence[Finding]], None]


@dataclass(frozen=True, slots=True)
class Check:
    """A statement that finds rows with their message, and the statement that repairs them."""

    kind: str
    statement: LiteralString
    repair: Repair


def find_broken_rows(instance: Instance) -> Iterator[tuple[Finding, Repair]]:
    """Everything that is wrong among the tables."""
    for check in CHECKS:
        for row in queries.list_broken(instance.db, check.statement, instance.language):
            yield make_finding(check.kind, row), check.repair


def _sql(statement: LiteralString) -> Repair:
    """Run a statement for each finding, with the values of its row."""

    def repair(instance: Instance, found: Sequence[Finding]) -> None:
        for item in found:
            instance.db.execute(statement, dict(item.data))

    return repair


def _generations(instance: Instance, found: Sequence[Finding]) -> None:
    """Clear invisible generations with the actions of garbage collection."""
    done = set()
    for item in found:
        sweep = item.sweep("generation")
        if (sweep.document_id, sweep.generation) not in done:
            done.add((sweep.document_id, sweep.generation))
            ACTIONS["generation"](instance.db, instance.stores(sweep.namespace_id), sweep)
        chunk_ids = queries.list_stray_chunk(instance.db, item.data["chunk_id"])
        with instance.db.transaction() as connection:
            embeddings.forget_chunks(connection, sweep.partition_id, chunk_ids)


def _embeddings(instance: Instance, found: Sequence[Finding]) -> None:
    sweeps = {sweep.partition_id: sweep for sweep in (item.sweep("embeddings") for item in found)}
    for _, sweep in sorted(sweeps.items()):
        ACTIONS["embeddings"](instance.db, instance.stores(sweep.namespace_id), sweep)


def reindex_chunks(instance: Instance, found: Sequence[Finding]) -> None:
    """Postings of chunks that are not visible go, those of the others are made anew."""
    for item in found:
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


def _wrong_embeddings(instance: Instance, found: Sequence[Finding]) -> None:
    """Delete embeddings with wrong dimensions; the next round repairs them as missing ones."""
    for item in found:
        with instance.db.transaction() as connection:
            embeddings.forget_wrong(connection, item.data["partition_id"], item.data["key"], item.data["dimensions"])


def _missing_embeddings(instance: Instance, found: Sequence[Finding]) -> None:
    """The embedded store holds the same vectors; what it lacks too is made again with the document (`documents`)."""
    for item in found:
        with instance.db.transaction() as connection:
            embeddings.hold_vectors(connection, item.data["partition_id"])
            queries.copy_embedding(connection, item.data["chunk_id"])


CHECKS: tuple[Check, ...] = (
    *(Check("ORPHAN_ROWS", queries.lost_rows(table), _sql(queries.delete_lost(table))) for table in queries.BULK),
    Check("ORPHAN_CHUNK", queries.UNSEEN_CHUNKS, _generations),
    Check("ORPHAN_POSTINGS", queries.UNSEEN_POSTINGS, reindex_chunks),
    Check("MISSING_POSTINGS", queries.MISSING_POSTINGS, reindex_chunks),
    Check("ORPHAN_EMBEDDING", queries.UNUSED_EMBEDDINGS, _embeddings),
    Check("WRONG_EMBEDDING", queries.WRONG_EMBEDDINGS, _wrong_embeddings),
    Check("MISSING_EMBEDDING", queries.MISSING_EMBEDDINGS, _missing_embeddings),
    *(Check(kind, statement, _sql(repair)) for kind, (statement, repair) in queries.REPAIRS.items()),
)
