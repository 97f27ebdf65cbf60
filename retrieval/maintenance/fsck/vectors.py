"""Vectors against chunks: what a store holds of no chunk, visible chunks that it has no vector of, and wrong ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple

from retrieval import ids
from retrieval.documents import vector_metadata
from retrieval.maintenance.fsck.findings import AT_WORK, BUSY, MARK, SWEPT, Finding, Instance, Place, split_batches
from retrieval.ports import Vector, VectorStore


class VisibleVersion(NamedTuple):
    """The visible chunks of a document. `excused`: a job run works on it, or it was given up."""

    document_id: str
    generation: int
    indexes: list[int]
    excused: bool


class Version(NamedTuple):
    """A generation of a document."""

    document: str
    generation: int


@dataclass(frozen=True, slots=True)
class StoredValues:
    """The embedding of a chunk as text, and what its labels are made of."""

    index: int
    values: str
    document_type: str
    source: str
    metadata: Mapping[str, Any]


_VISIBLE: LiteralString = (
    """
    select d.id as document_id, d.active_generation as generation, array_agg(c.index) as indexes, """
    + AT_WORK.format(document="d.id")
    + """ or d.error is not distinct from %(mark)s as excused
    from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    where d.partition_id = %(partition)s and c.partition_id = d.partition_id and d.deleted_at is null
      and (%(documents)s::text[] is null or d.id = any(%(documents)s))
    group by d.id
"""
)
_LEFT_ALONE: LiteralString = (
    """
    select w.document, w.generation from unnest(%(documents)s::text[], %(generations)s::bigint[])
        as w (document, generation)
    where """
    + BUSY.format(generation="w.generation")
    + " or "
    + SWEPT.format(document="w.document", generation="w.generation")
)
_VALUES: LiteralString = """
    select c.index, e.values::text as values, d.document_type, d.source, d.metadata
    from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key
     and vector_dims(e.values) = coalesce((d.embedding ->> 'dimensions')::int, vector_dims(e.values))
    where d.id = %(document)s and d.active_generation = %(generation)s and c.index = any(%(indexes)s)
"""


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
    values = {"document": document, "generation": generation, "indexes": list(indexes)}
    return [
        Vector(
            ids.vector_id(document, generation, row.index),
            document,
            json.loads(row.values),
            labels=vector_metadata.document_labels(document, row.document_type, row.source, row.metadata),
        )
        for row in instance.db.fetch(StoredValues, _VALUES, values)
    ]


def _expected(
    instance: Instance, place: Place, documents: Sequence[str] | None = None
) -> tuple[set[str], frozenset[str]]:
    """Ids of the vectors of all visible chunks, and the documents that a job run works on or that were given up."""
    params = {
        "partition": place.partition_id,
        "documents": None if documents is None else list(documents),
        "mark": MARK,
    }
    rows = instance.db.fetch(VisibleVersion, _VISIBLE, params)
    names = {ids.vector_id(row.document_id, row.generation, index) for row in rows for index in row.indexes}
    return names, frozenset(row.document_id for row in rows if row.excused)


def _is_of(vector_id: str, documents: frozenset[str]) -> bool:
    parsed = ids.parse_vector_id(vector_id)
    return parsed is not None and parsed[0] in documents


def _orphans(instance: Instance, place: Place, names: Sequence[str]) -> Iterator[Finding]:
    parsed = {name: parts for name in names if (parts := ids.parse_vector_id(name)) and parts[1] < 1 << 63}
    params = {
        "documents": [parts[0] for parts in parsed.values()],
        "generations": [parts[1] for parts in parsed.values()],
    }
    alone = set(instance.db.fetch(Version, _LEFT_ALONE, params)) if parsed else set()
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
