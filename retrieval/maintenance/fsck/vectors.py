"""Check of stored vectors against chunks."""

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
    expected, excused = _expected_ids(instance, partition)
    unexpected = sorted(vector_id for vector_id in stored_ids - expected if not _is_of(vector_id, excused))
    missing = sorted(vector_id for vector_id in expected - stored_ids if not _is_of(vector_id, excused))
    if not unexpected and not missing:
        return
    # Stores and tables are not read at once: each difference is checked a second time.
    documents = sorted(
        {parsed[0] for vector_id in (*unexpected, *missing) if (parsed := ids.parse_vector_id(vector_id))}
    )
    for part in split_batches(documents, 200):
        expected, excused = _expected_ids(instance, partition, part)
        present = {
            vector_id
            for document in part
            for vector_id in store.ids(partition.scope, ids.vector_prefix_of_document(document))
        }
        orphans = [
            vector_id for vector_id in unexpected if vector_id in present - expected and not _is_of(vector_id, excused)
        ]
        yield from _report_orphans(instance, partition, orphans)
        yield from _report_missing(
            instance,
            store,
            partition,
            [vector_id for vector_id in missing if vector_id in expected - present and not _is_of(vector_id, excused)],
        )
    foreign = [vector_id for vector_id in unexpected if ids.parse_vector_id(vector_id) is None]
    yield from (_make_finding("ORPHAN_VECTOR", partition, None, vector_id) for vector_id in foreign)


def find_unfit(instance: Instance, partition: Place) -> Iterator[Finding]:
    """Yield vectors with wrong dimensions. StepError if the store refuses the namespace's vectors."""
    store = instance.stores(partition.scope.namespace).vectors
    store.check()
    if not (misfits := set(store.list_misfits(partition.scope))):
        return
    expected, excused = _expected_ids(instance, partition)
    misfits &= set(instance.stores(partition.scope.namespace).vectors.list_misfits(partition.scope))
    yield from (
        _make_finding("WRONG_VECTOR", partition, (ids.parse_vector_id(vector_id) or ("",))[0], vector_id)
        for vector_id in sorted(misfits & expected)
        if not _is_of(vector_id, excused)
    )


def remove_orphans(instance: Instance, partition: Place, findings: Sequence[Finding]) -> None:
    """Delete orphaned vectors."""
    store = instance.stores(partition.scope.namespace).vectors
    for part in split_batches([str(finding.data["vector"]) for finding in findings]):
        store.delete(partition.scope, part)


def restore_vectors(instance: Instance, partition: Place, findings: Sequence[Finding]) -> list[str]:
    """Write missing and wrong vectors from their embeddings; return documents without embeddings."""
    store = instance.stores(partition.scope.namespace).vectors
    indexes_by_version: dict[tuple[str, int], list[int]] = {}
    for finding in findings:
        if parsed := ids.parse_vector_id(str(finding.data["vector"])):
            indexes_by_version.setdefault(parsed[:2], []).append(parsed[2])
    lost = []
    for (document, generation), indexes in indexes_by_version.items():
        vectors = _make_vectors(instance, document, generation, indexes)
        store.upsert(partition.scope, vectors)
        if len(vectors) < len(indexes):
            lost.append(document)
    return lost


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
    """Return the vector ids of visible chunks, and the documents to skip."""
    rows = queries_stores.list_visible(instance.db, partition.partition_id, documents)
    names = {ids.vector_id(row.document_id, row.generation, index) for row in rows for index in row.indexes}
    return names, frozenset(row.document_id for row in rows if row.excused)


def _is_of(vector_id: str, documents: frozenset[str]) -> bool:
    parsed = ids.parse_vector_id(vector_id)
    return parsed is not None and parsed[0] in documents


def _report_orphans(instance: Instance, partition: Place, names: Sequence[str]) -> Iterator[Finding]:
    parsed = {name: parts for name in names if (parts := ids.parse_vector_id(name)) and parts[1] < 1 << 63}
    versions = [parts[:2] for parts in parsed.values()]
    documents, generations = [document for document, _ in versions], [generation for _, generation in versions]
    protected = queries_stores.list_protected(instance.db, documents, generations) if parsed else set()
    for name in names:
        if name not in parsed or parsed[name][:2] not in protected:
            yield _make_finding("ORPHAN_VECTOR", partition, parsed[name][0] if name in parsed else None, name)


def _report_missing(
    instance: Instance, store: VectorStore, partition: Place, names: Sequence[str]
) -> Iterator[Finding]:
    for name in names:
        document, generation, index = ids.parse_vector_id(name) or ("", 0, 0)
        if store.labelled:
            values = _make_vectors(instance, document, generation, [index])
            if values and not any(values[0].values):
                continue  # a store with labels does not keep zero vectors
        yield _make_finding("MISSING_VECTOR", partition, document, name)


def _make_finding(kind: str, partition: Place, document: str | None, name: str) -> Finding:
    words = {
        "ORPHAN_VECTOR": "of no visible chunk",
        "MISSING_VECTOR": "not in the store",
        "WRONG_VECTOR": "of other dimensions than the namespace's",
    }
    return Finding(
        kind,
        partition.scope.namespace,
        document,
        f"vector {name}: {words[kind]}",
        {"vector": name, "partition_id": partition.partition_id},
    )
