"""Vectors against chunks: what a store holds of no chunk, visible chunks that it has no vector of, and wrong ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from retrieval import ids
from retrieval.documents import vector_metadata
from retrieval.maintenance.fsck import queries_stores
from retrieval.maintenance.fsck.findings import Finding, Instance, Place, split_batches
from retrieval.ports import Vector, VectorStore


def find_differences(instance: Instance, place: Place) -> Iterator[Finding]:
    """Both directions. What differs at first sight is looked at once more: stores and tables are not read at once."""
    store = instance.stores(place.scope.namespace).vectors
    stored = set(store.ids(place.scope, ""))
    expected, excused = _expected(instance, place)
    strange = sorted(vector_id for vector_id in stored - expected if not _is_of(vector_id, excused))
    lacking = sorted(vector_id for vector_id in expected - stored if not _is_of(vector_id, excused))
    if not strange and not lacking:
        return
    documents = sorted({parsed[0] for vector_id in (*strange, *lacking) if (parsed := ids.parse_vector_id(vector_id))})
    for part in split_batches(documents, 200):
        expected, excused = _expected(instance, place, part)
        present = {
            vector_id
            for document in part
            for vector_id in store.ids(place.scope, ids.vector_prefix_of_document(document))
        }
        odd = [vector_id for vector_id in strange if vector_id in present - expected and not _is_of(vector_id, excused)]
        yield from _orphans(instance, place, odd)
        yield from _missing(
            instance,
            store,
            place,
            [vector_id for vector_id in lacking if vector_id in expected - present and not _is_of(vector_id, excused)],
        )
    nobodys = [vector_id for vector_id in strange if ids.parse_vector_id(vector_id) is None]
    yield from (_finding("ORPHAN_VECTOR", place, None, vector_id) for vector_id in nobodys)


def find_unfit(instance: Instance, place: Place) -> Iterator[Finding]:
    """A store that does not take the namespace's vectors, and vectors of visible chunks that no search can compare."""
    store = instance.stores(place.scope.namespace).vectors
    store.check()
    if not (odd := set(store.misfits(place.scope))):
        return
    expected, excused = _expected(instance, place)
    odd &= set(instance.stores(place.scope.namespace).vectors.misfits(place.scope))
    yield from (
        _finding("WRONG_VECTOR", place, (ids.parse_vector_id(vector_id) or ("",))[0], vector_id)
        for vector_id in sorted(odd & expected)
        if not _is_of(vector_id, excused)
    )


def remove_orphans(instance: Instance, place: Place, found: Sequence[Finding]) -> None:
    """Delete orphans."""
    store = instance.stores(place.scope.namespace).vectors
    for part in split_batches([str(finding.data["vector"]) for finding in found]):
        store.delete(place.scope, part)


def put_back(instance: Instance, place: Place, found: Sequence[Finding]) -> list[str]:
    """Write missing and wrong vectors again from their embeddings; the documents of those that have none."""
    store = instance.stores(place.scope.namespace).vectors
    indexes_by_version: dict[tuple[str, int], list[int]] = {}
    for finding in found:
        if parsed := ids.parse_vector_id(str(finding.data["vector"])):
            indexes_by_version.setdefault(parsed[:2], []).append(parsed[2])
    lost = []
    for (document, generation), indexes in indexes_by_version.items():
        vectors = _vectors(instance, document, generation, indexes)
        store.upsert(place.scope, vectors)
        if len(vectors) < len(indexes):
            lost.append(document)
    return lost


def _vectors(instance: Instance, document: str, generation: int, indexes: Sequence[int]) -> list[Vector]:
    return [
        Vector(
            ids.vector_id(document, generation, row.index),
            document,
            json.loads(row.values),
            labels=vector_metadata.document_labels(document, row.document_type, row.source, row.metadata),
        )
        for row in queries_stores.list_values(instance.db, document, generation, indexes)
    ]


def _expected(
    instance: Instance, place: Place, documents: Sequence[str] | None = None
) -> tuple[set[str], frozenset[str]]:
    """Ids of the vectors of all visible chunks, and the documents that a job run works on or that were given up."""
    rows = queries_stores.list_visible(instance.db, place.partition_id, documents)
    names = {ids.vector_id(row.document_id, row.generation, index) for row in rows for index in row.indexes}
    return names, frozenset(row.document_id for row in rows if row.excused)


def _is_of(vector_id: str, documents: frozenset[str]) -> bool:
    parsed = ids.parse_vector_id(vector_id)
    return parsed is not None and parsed[0] in documents


def _orphans(instance: Instance, place: Place, names: Sequence[str]) -> Iterator[Finding]:
    parsed = {name: parts for name in names if (parts := ids.parse_vector_id(name)) and parts[1] < 1 << 63}
    versions = [parts[:2] for parts in parsed.values()]
    documents, generations = [document for document, _ in versions], [generation for _, generation in versions]
    alone = queries_stores.list_protected(instance.db, documents, generations) if parsed else set()
    for name in names:
        if name not in parsed or parsed[name][:2] not in alone:
            yield _finding("ORPHAN_VECTOR", place, parsed[name][0] if name in parsed else None, name)


def _missing(instance: Instance, store: VectorStore, place: Place, names: Sequence[str]) -> Iterator[Finding]:
    for name in names:
        document, generation, index = ids.parse_vector_id(name) or ("", 0, 0)
        if store.labelled:
            values = _vectors(instance, document, generation, [index])
            if values and not any(values[0].values):
                continue  # without a direction: such a store does not keep it
        yield _finding("MISSING_VECTOR", place, document, name)


def _finding(kind: str, place: Place, document: str | None, name: str) -> Finding:
    words = {
        "ORPHAN_VECTOR": "of no visible chunk",
        "MISSING_VECTOR": "not in the store",
        "WRONG_VECTOR": "of other dimensions than the namespace's",
    }
    return Finding(
        kind,
        place.scope.namespace,
        document,
        f"vector {name}: {words[kind]}",
        {"vector": name, "partition_id": place.partition_id},
    )
