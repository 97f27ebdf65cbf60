"""Compare the vector store with the visible chunks, and repair differences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from retrieval import ids
from retrieval.documents import vector_metadata
from retrieval.maintenance.fsck import queries_stores
from retrieval.maintenance.fsck.findings import Finding, Instance, Place, split_batches
from retrieval.ports import Vector, VectorStore


def find_differences(instance: Instance, partition: Place) -> Iterator[Finding]:
    """Yield vectors without a visible chunk, and visible chunks without a vector."""
    store = instance.stores(partition.scope.namespace).vectors
    stored_ids = set(store.ids(partition.scope, ""))
    expected_ids, skipped = _expected_ids(instance, partition)
    unexpected = sorted(vector_id for vector_id in stored_ids - expected_ids if not _is_of(vector_id, skipped))
    missing = sorted(vector_id for vector_id in expected_ids - stored_ids if not _is_of(vector_id, skipped))
    if not unexpected and not missing:
        return
    # Store and tables are not one snapshot: read the documents with differences a second time.
    parsed_ids = [ids.parse_vector_id(vector_id) for vector_id in (*unexpected, *missing)]
    documents = sorted({parsed[0] for parsed in parsed_ids if parsed})
    for batch in split_batches(documents, 200):
        expected_ids, skipped = _expected_ids(instance, partition, batch)
        stored_ids = {
            vector_id
            for document in batch
            for vector_id in store.ids(partition.scope, ids.vector_prefix_of_document(document))
        }
        orphans = stored_ids - expected_ids
        still_unexpected = [
            vector_id for vector_id in unexpected if vector_id in orphans and not _is_of(vector_id, skipped)
        ]
        yield from _report_orphans(instance, partition, still_unexpected)
        absent = expected_ids - stored_ids
        still_missing = [vector_id for vector_id in missing if vector_id in absent and not _is_of(vector_id, skipped)]
        yield from _report_missing(instance, store, partition, still_missing)
    # Ids that this service has not made.
    foreign = [vector_id for vector_id in unexpected if ids.parse_vector_id(vector_id) is None]
    yield from (_make_finding("ORPHAN_VECTOR", partition, None, vector_id) for vector_id in foreign)


def find_wrong_dimensions(instance: Instance, partition: Place) -> Iterator[Finding]:
    """Yield visible vectors with wrong dimensions. StepError if the store refuses the namespace's vectors."""
    store = instance.stores(partition.scope.namespace).vectors
    store.check()
    if not (other_dimensions := set(store.list_other_dimensions(partition.scope))):
        return
    expected_ids, skipped = _expected_ids(instance, partition)
    # Store and tables are not one snapshot: read the store a second time.
    other_dimensions &= set(instance.stores(partition.scope.namespace).vectors.list_other_dimensions(partition.scope))
    for vector_id in sorted(other_dimensions & expected_ids):
        if not _is_of(vector_id, skipped):
            document, *_ = ids.parse_vector_id(vector_id) or ("", 0, 0)
            yield _make_finding("WRONG_VECTOR", partition, document, vector_id)


def remove_orphans(instance: Instance, partition: Place, findings: Sequence[Finding]) -> None:
    """Delete orphaned vectors."""
    store = instance.stores(partition.scope.namespace).vectors
    for batch in split_batches([str(finding.data["vector"]) for finding in findings]):
        store.delete(partition.scope, batch)


def restore_vectors(instance: Instance, partition: Place, findings: Sequence[Finding]) -> list[str]:
    """Write missing and wrong vectors from their embeddings; return documents without embeddings."""
    store = instance.stores(partition.scope.namespace).vectors
    indexes_by_version: dict[tuple[str, int], list[int]] = {}
    for finding in findings:
        if parsed := ids.parse_vector_id(str(finding.data["vector"])):
            document, generation, index = parsed
            indexes_by_version.setdefault((document, generation), []).append(index)
    without_embeddings = []
    for (document, generation), indexes in indexes_by_version.items():
        vectors = _make_vectors(instance, document, generation, indexes)
        store.upsert(partition.scope, vectors)
        if len(vectors) < len(indexes):
            without_embeddings.append(document)
    return without_embeddings


def _make_vectors(instance: Instance, document: str, generation: int, indexes: Sequence[int]) -> list[Vector]:
    return [
        Vector(
            ids.vector_id(document, generation, row.index),
            document,
            json.loads(row.values),
            labels=vector_metadata.document_labels(document, row.document_type, row.source, row.metadata),
        )
        for row in queries_stores.list_values(instance.db, document, generation, indexes)
    ]


def _expected_ids(
    instance: Instance, partition: Place, documents: Sequence[str] | None = None
) -> tuple[set[str], frozenset[str]]:
    """Return the vector ids of visible chunks, and documents to skip: in a job run, or unrepairable."""
    rows = queries_stores.list_visible(instance.db, partition.partition_id, documents)
    names = {ids.vector_id(row.document_id, row.generation, index) for row in rows for index in row.indexes}
    return names, frozenset(row.document_id for row in rows if row.excused)


def _is_of(vector_id: str, documents: frozenset[str]) -> bool:
    parsed = ids.parse_vector_id(vector_id)
    return parsed is not None and parsed[0] in documents


def _report_orphans(instance: Instance, partition: Place, vector_ids: Sequence[str]) -> Iterator[Finding]:
    """Yield findings for vectors, except of versions that a job run writes or garbage collection clears."""
    # Document and generation; the database has no larger generations.
    versions = {
        vector_id: parsed[:2]
        for vector_id in vector_ids
        if (parsed := ids.parse_vector_id(vector_id)) and parsed[1] < 1 << 63
    }
    documents = [document for document, _ in versions.values()]
    generations = [generation for _, generation in versions.values()]
    protected = queries_stores.list_protected(instance.db, documents, generations) if versions else set()
    for vector_id in vector_ids:
        version = versions.get(vector_id)
        if version is None or version not in protected:
            yield _make_finding("ORPHAN_VECTOR", partition, version[0] if version else None, vector_id)


def _report_missing(
    instance: Instance, store: VectorStore, partition: Place, vector_ids: Sequence[str]
) -> Iterator[Finding]:
    for vector_id in vector_ids:
        document, generation, index = ids.parse_vector_id(vector_id) or ("", 0, 0)
        if store.stores_labels:
            vectors = _make_vectors(instance, document, generation, [index])
            # A store with labels does not keep zero vectors.
            if vectors and not any(vectors[0].values):
                continue
        yield _make_finding("MISSING_VECTOR", partition, document, vector_id)


def _make_finding(kind: str, partition: Place, document: str | None, vector_id: str) -> Finding:
    details = {
        "ORPHAN_VECTOR": "of no visible chunk",
        "MISSING_VECTOR": "not in the store",
        "WRONG_VECTOR": "of other dimensions than the namespace's",
    }
    return Finding(
        kind,
        partition.scope.namespace,
        document,
        f"vector {vector_id}: {details[kind]}",
        {"vector": vector_id, "partition_id": partition.partition_id},
    )
