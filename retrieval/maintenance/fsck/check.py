"""The whole check, and its repair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog

from retrieval.errors import StepError
from retrieval.maintenance.fsck import blocks, documents, files, tables, texts, vectors
from retrieval.maintenance.fsck.findings import Finding, Instance, Place

log = structlog.get_logger()

ROUNDS = 4
"""Mending one thing may show another, such as a counter of what was mended."""
UNREADABLE = "UNREADABLE_STORE"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`found`: at first. `left`: after the repair; the same where none was asked for."""

    found: Sequence[Finding]
    left: Sequence[Finding]


def run(instance: Instance, *, repair: bool = False) -> Outcome:
    """Check everything; with `repair` mend it, in rounds, until nothing is found or nothing more can be mended."""
    found = left = find(instance)
    for _ in range(ROUNDS if repair else 0):
        if not left:
            break
        mend(instance, left)
        left = find(instance)
    return Outcome(found, left)


def find(instance: Instance) -> list[Finding]:
    """All that is wrong now. A store that cannot be asked is a finding itself, and hides no other."""
    places = instance.places()
    found = [one for one, _ in tables.find(instance)]
    found += blocks.find(instance)
    found += documents.find(instance)
    found += _asked(files.of_no_namespace(instance), None)
    for place in places:
        found += _asked(vectors.unfit(instance, place), place)
        found += _asked(vectors.find(instance, place), place)
        found += _asked(files.missing(instance, place), place)
        found += _asked(texts.find(instance, place), place)
    for namespace in sorted({place.scope.namespace for place in places}):
        within = [place for place in places if place.scope.namespace == namespace]
        found += _asked(files.orphans(instance, namespace, within), within[0])
    away = dict.fromkeys(one for one in found if one.kind == UNREADABLE)
    return [one for one in found if one.kind != UNREADABLE] + list(away)


def mend(instance: Instance, found: Sequence[Finding]) -> None:
    """Remove what nothing needs, put back what can be made, queue what must be ingested again, mark the rest."""
    for check in tables.CHECKS:
        if some := [one for one in found if one.kind == check.kind and _is_of(one, check)]:
            check.repair(instance, some)
    blocks.mend(instance, _of(found, "WRONG_BLOCKS"))
    files.remove(instance, _of(found, "ORPHAN_FILE"))
    gone = files.gone(found)
    for place in instance.places():
        here = [one for one in found if one.namespace == place.scope.namespace]
        vectors.remove(instance, place, _of(here, "ORPHAN_VECTOR", place))
        lost = [
            *texts.put_back(instance, place, _of(here, "WRONG_TEXT", place)),
            *vectors.put_back(instance, place, _of(here, "MISSING_VECTOR", place) + _of(here, "WRONG_VECTOR", place)),
        ]
        for kind in ("MISSING_CHUNKS", "MISSING_FILE", "WRONG_FILE"):
            lost += [str(one.document) for one in _of(here, kind, place)]
        lost += [str(one.document) for one in _of(here, "MISSING_EMBEDDING", place) if _still(instance, one)]
        if lost:
            documents.ingest_again(instance, place, lost, gone)


def _asked(findings: Iterator[Finding], place: Place | None) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(findings)
    except StepError as error:
        namespace = place.scope.namespace if place else None
        found.append(Finding(UNREADABLE, namespace, None, str(error)))
    return found


def _of(found: Sequence[Finding], kind: str, place: Place | None = None) -> list[Finding]:
    return [one for one in found if one.kind == kind and (place is None or one.data["partition_id"] == place.id)]


def _is_of(one: Finding, check: tables.Check) -> bool:
    return "place" not in one.data or f"from {one.data['place']} " in check.statement


def _still(instance: Instance, one: Finding) -> bool:
    """Whether the embedding could not be taken from the vector store."""
    row = instance.db.row(
        "select 1 as yes from chunks c where c.id = %(chunk_id)s and not exists"
        " (select from embeddings e where e.partition_id = c.partition_id and e.key = c.embedding_key)",
        dict(one.data),
    )
    return row is not None
