"""Check of the whole instance, and its repair."""

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
from retrieval.sources import FETCHED_SOURCES

log = structlog.get_logger()

# A repair may cause another finding, for example a counter of the changed rows.
MAX_REPAIR_ROUNDS = 4
UNREADABLE_STORE_KIND = "UNREADABLE_STORE"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Findings of a check, and remaining findings after the repair."""

    findings: Sequence[Finding]
    remaining: Sequence[Finding]


def run_check(instance: Instance, *, repair: bool = False) -> CheckOutcome:
    """Check everything and optionally repair in rounds until nothing more can be repaired."""
    first = remaining = find_all(instance)
    for _ in range(MAX_REPAIR_ROUNDS if repair else 0):
        if not remaining:
            break
        repair_all(instance, remaining)
        remaining = find_all(instance)
    return CheckOutcome(first, remaining)


def find_all(instance: Instance) -> list[Finding]:
    """Return all findings; an unreadable store is a finding and hides no other."""
    places = instance.list_places()
    findings = [finding for finding, _ in tables.find_broken_rows(instance)]
    findings += blocks.find_stale_blocks(instance)
    findings += find_gaps(instance)
    findings += _collect(files.find_unowned(instance), None)
    for partition in places:
        findings += _collect(vectors.find_wrong_dimensions(instance, partition), partition)
        findings += _collect(vectors.find_differences(instance, partition), partition)
        findings += _collect(files.find_missing(instance, partition), partition)
        findings += _collect(texts.find_wrong_texts(instance, partition), partition)
    for namespace in sorted({partition.scope.namespace for partition in places}):
        within = [partition for partition in places if partition.scope.namespace == namespace]
        findings += _collect(files.find_orphans(instance, namespace, within), within[0])
    unreadable = dict.fromkeys(finding for finding in findings if finding.kind == UNREADABLE_STORE_KIND)
    return [finding for finding in findings if finding.kind != UNREADABLE_STORE_KIND] + list(unreadable)


def repair_all(instance: Instance, findings: Sequence[Finding]) -> None:
    """Delete orphans, restore derived data, queue documents for ingestion and mark lost documents."""
    for check in tables.TABLE_CHECKS:
        if matching := [finding for finding in findings if finding.kind == check.kind and _is_of(finding, check)]:
            check.repair(instance, matching)
    blocks.drop_blocks(instance, _select(findings, "WRONG_BLOCKS"))
    files.remove_orphans(instance, _select(findings, "ORPHAN_FILE"))
    lost_keys = files.lost_keys(findings)
    for partition in instance.list_places():
        within = [finding for finding in findings if finding.namespace == partition.scope.namespace]
        vectors.remove_orphans(instance, partition, _select(within, "ORPHAN_VECTOR", partition))
        wrong_vectors = _select(within, "MISSING_VECTOR", partition) + _select(within, "WRONG_VECTOR", partition)
        lost = [
            *texts.restore_texts(instance, partition, _select(within, "WRONG_TEXT", partition)),
            *vectors.restore_vectors(instance, partition, wrong_vectors),
        ]
        for kind in ("MISSING_CHUNKS", "MISSING_FILE", "WRONG_FILE"):
            lost += [str(finding.document) for finding in _select(within, kind, partition)]
        lost += [
            str(finding.document)
            for finding in _select(within, "MISSING_EMBEDDING", partition)
            if queries_documents.lacks_embedding(instance.db, finding.data["chunk_id"])
        ]
        if lost:
            ingest_again(instance, partition, lost, lost_keys)


def _collect(findings: Iterator[Finding], partition: Place | None) -> list[Finding]:
    results: list[Finding] = []
    try:
        results.extend(findings)
    except StepError as error:
        namespace = partition.scope.namespace if partition else None
        results.append(Finding(UNREADABLE_STORE_KIND, namespace, None, str(error)))
    return results


def _select(findings: Sequence[Finding], kind: str, partition: Place | None = None) -> list[Finding]:
    return [
        finding
        for finding in findings
        if finding.kind == kind and (partition is None or finding.data["partition_id"] == partition.partition_id)
    ]


def _is_of(finding: Finding, check: tables.TableCheck) -> bool:
    return "table_name" not in finding.data or f"from {finding.data['table_name']} " in check.statement


def find_gaps(instance: Instance) -> Iterator[Finding]:
    """Yield documents that lack chunks."""
    for gap in queries_documents.list_gaps(instance.db):
        yield make_finding("MISSING_CHUNKS", asdict(gap))


def ingest_again(instance: Instance, partition: Place, document_ids: Sequence[str], lost_keys: frozenset[str]) -> None:
    """Queue documents for a complete ingestion; mark documents with lost files."""
    for part in split_batches(sorted(set(document_ids))):
        stored = queries_documents.list_stored(instance.db, part)
        ingestible = [
            row.id for row in stored if row.source in FETCHED_SOURCES or row.raw_key not in {None, *lost_keys}
        ]
        queued: set[str] = set()
        if ingestible:
            queries_documents.forget_fingerprints(instance.db, ingestible)
            started = asyncio.run(_start_resync(instance.db, partition, ingestible))
            queued = {document.id for document in started.documents if document.status == resync.QUEUED_STATUS}
        lost = [document for document in part if document not in queued]
        if lost:
            queries_documents.mark_lost(instance.db, lost, lost_keys)


async def _start_resync(db: Database, partition: Place, document_ids: Sequence[str]) -> resync.Resync:
    try:
        return await resync.start_resync(db, partition.scope, DocumentFilter(document_ids=tuple(document_ids)))
    finally:
        await db.async_close()
