"""The whole check, and its repair."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import structlog

from retrieval.database.database import Database
from retrieval.errors import StepError
from retrieval.filters import DocumentFilter
from retrieval.jobs import resync
from retrieval.maintenance.fsck import blocks, files, queries_documents, tables, texts, vectors
from retrieval.maintenance.fsck.findings import Finding, Instance, Place, make_finding, split_batches
from retrieval.sources import FETCHED

log = structlog.get_logger()

ROUNDS = 4
"""A repair may reveal another finding, such as a counter of the rows that it changed."""
UNREADABLE = "UNREADABLE_STORE"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Findings of a check: `found` before the repair, `left` after it; equal without a repair."""

    found: Sequence[Finding]
    left: Sequence[Finding]


def run_check(instance: Instance, *, repair: bool = False) -> Outcome:
    """Check everything; with `repair` repair it, in rounds, until nothing is found or nothing more can be repaired."""
    first = remaining = find_all(instance)
    for _ in range(ROUNDS if repair else 0):
        if not remaining:
            break
        repair_all(instance, remaining)
        remaining = find_all(instance)
    return Outcome(first, remaining)


def find_all(instance: Instance) -> list[Finding]:
    """Return all findings. An unreadable store is a finding itself and hides no other."""
    places = instance.places()
    findings = [finding for finding, _ in tables.find_broken_rows(instance)]
    findings += blocks.find_stale_blocks(instance)
    findings += find_gaps(instance)
    findings += _asked(files.of_no_namespace(instance), None)
    for partition in places:
        findings += _asked(vectors.find_unfit(instance, partition), partition)
        findings += _asked(vectors.find_differences(instance, partition), partition)
        findings += _asked(files.find_missing(instance, partition), partition)
        findings += _asked(texts.find_wrong_texts(instance, partition), partition)
    for namespace in sorted({partition.scope.namespace for partition in places}):
        within = [partition for partition in places if partition.scope.namespace == namespace]
        findings += _asked(files.find_orphans(instance, namespace, within), within[0])
    away = dict.fromkeys(finding for finding in findings if finding.kind == UNREADABLE)
    return [finding for finding in findings if finding.kind != UNREADABLE] + list(away)


def repair_all(instance: Instance, found: Sequence[Finding]) -> None:
    """Remove what nothing needs, put back what can be made, queue what must be ingested again, mark the rest."""
    for check in tables.CHECKS:
        if matching := [finding for finding in found if finding.kind == check.kind and _is_of(finding, check)]:
            check.repair(instance, matching)
    blocks.drop_blocks(instance, _of(found, "WRONG_BLOCKS"))
    files.remove_orphans(instance, _of(found, "ORPHAN_FILE"))
    lost_keys = files.lost_keys(found)
    for partition in instance.places():
        findings = [finding for finding in found if finding.namespace == partition.scope.namespace]
        vectors.remove_orphans(instance, partition, _of(findings, "ORPHAN_VECTOR", partition))
        lost = [
            *texts.put_back(instance, partition, _of(findings, "WRONG_TEXT", partition)),
            *vectors.put_back(
                instance,
                partition,
                _of(findings, "MISSING_VECTOR", partition) + _of(findings, "WRONG_VECTOR", partition),
            ),
        ]
        for kind in ("MISSING_CHUNKS", "MISSING_FILE", "WRONG_FILE"):
            lost += [str(finding.document) for finding in _of(findings, kind, partition)]
        lost += [
            str(finding.document)
            for finding in _of(findings, "MISSING_EMBEDDING", partition)
            if _still(instance, finding)
        ]
        if lost:
            ingest_again(instance, partition, lost, lost_keys)


def _asked(findings: Iterator[Finding], place: Place | None) -> list[Finding]:
    results: list[Finding] = []
    try:
        results.extend(findings)
    except StepError as error:
        namespace = place.scope.namespace if place else None
        results.append(Finding(UNREADABLE, namespace, None, str(error)))
    return results


def _of(found: Sequence[Finding], kind: str, place: Place | None = None) -> list[Finding]:
    return [
        finding
        for finding in found
        if finding.kind == kind and (place is None or finding.data["partition_id"] == place.partition_id)
    ]


def _is_of(one: Finding, check: tables.Check) -> bool:
    return "place" not in one.data or f"from {one.data['place']} " in check.statement


def _still(instance: Instance, one: Finding) -> bool:
    """Tell whether the embedding of a chunk is still missing after the repair from the vector store."""
    return queries_documents.lacks_embedding(instance.db, one.data["chunk_id"])


def find_gaps(instance: Instance) -> Iterator[Finding]:
    """Documents whose chunks are not all there."""
    for gap in queries_documents.list_gaps(instance.db):
        yield make_finding("MISSING_CHUNKS", asdict(gap))


def ingest_again(instance: Instance, place: Place, document_ids: Sequence[str], gone: frozenset[str]) -> None:
    """Queue documents for a complete ingestion; mark those whose stored data does not suffice for one.

    gone: keys of files that are missing or not whole.
    """
    for part in split_batches(sorted(set(document_ids))):
        stored = queries_documents.list_stored(instance.db, part)
        able = [row.id for row in stored if row.source in FETCHED or row.raw_key not in {None, *gone}]
        queued: set[str] = set()
        if able:
            queries_documents.forget_fingerprints(instance.db, able)
            started = asyncio.run(_started(instance.db, place, able))
            queued = {document.id for document in started.documents if document.status == resync.QUEUED}
        lost = [document for document in part if document not in queued]
        if lost:
            queries_documents.give_up(instance.db, lost, gone)


async def _started(db: Database, place: Place, document_ids: Sequence[str]) -> resync.Resync:
    try:
        return await resync.start_resync(db, place.scope, DocumentFilter(document_ids=tuple(document_ids)))
    finally:
        await db.async_close()
