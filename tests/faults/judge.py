"""What must be true after a round, whatever happened in it: asked of the database itself, and of the API."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.faults import sources
from tests.faults.place import LEASE, Place
from tests.faults.sources import Sources
from tests.faults.stream import Stream

OPEN_SECONDS = LEASE + 30.0
"""In which every job run ends or is worked on once nothing fails any more (what the service promises)."""
PAUSE_SECONDS = 30.0
"""So long after that nothing may come further while anything is open: a window of documents is embedded in one step."""
LATEST_SECONDS = 240.0
"""In which what has piled up is through, on a machine that has little else to do."""
SWEPT_SECONDS = 60.0
CHECKED = 6
"""Documents that are looked for by search."""

_ENDED = """
    select r.id, r.status, r.cancel_requested, r.batch_id, count(*) filter (where m.status = 'SUCCESS') as done,
           count(m) as documents, string_agg(m.error, '; ') as errors
    from job_runs r left join run_documents m on m.job_run_id = r.id where r.id = any(%s) group by r.id
"""
_SO_FAR = """
    select (select count(*) from job_runs where finished_at is not null) as runs,
           (select jsonb_object_agg(stage, documents) from (
                select status || ' ' || coalesce(stage, '') as stage, count(*) as documents
                from run_documents group by 1) stages) as documents
"""
"""How far everything is."""
_DOUBLE = {
    "documents of one name": "select name as what, count(*) from documents where deleted_at is null"
    " group by partition_id, name having count(*) > 1",
    "chunks of one place": "select document_id || '/' || generation || '/' || index as what, count(*) from chunks"
    " group by document_id, generation, index having count(*) > 1",
    "chunks of a version that nobody sees": "select c.document_id || '/' || c.generation as what, count(*)"
    " from chunks c left join documents d on d.id = c.document_id and d.active_generation = c.generation"
    " and d.deleted_at is null where d.id is null group by 1",
}


def judge(place: Place, stream: Stream, dice: random.Random, patience: float) -> tuple[float, int, list[str]]:
    """Seconds until the last job run ended, number of cancelled ones, and what is wrong.

    Call it when nothing fails any more.
    patience: how many times as long as is promised may be taken, on a machine that has other things to do.
    """
    began = time.monotonic()
    wrong = list(stream.wrong)
    with psycopg.connect(place.postgres.url(), autocommit=True, row_factory=dict_row) as connection:
        wrong += _until_ended(connection, patience)
        took = time.monotonic() - began
        excused = _cancelled(connection, place, stream)
        cancelled = len(excused)
        wrong += _lost(connection, stream, excused)
        if place.sources is not None:
            wrong += _of_sources(connection, place, place.sources, stream, OPEN_SECONDS * patience, excused)
        connection.execute("update sweeps set due_at = least(due_at, now())")
        while (
            left := _count(connection, "select count(*) from sweeps")
        ) and time.monotonic() - began < SWEPT_SECONDS * patience + took:
            time.sleep(0.5)
        if left:
            wrong.append(f"{left} sweeps are left after {SWEPT_SECONDS:.0f} s")
        for what, statement in _DOUBLE.items():
            if found := connection.execute(statement.encode()).fetchall():
                wrong.append(f"{len(found)} times {what}: {found[:3]}")
    wrong += _not_found(place, stream, dice, excused)
    wrong += _by_fsck(place)
    errors = place.service.unexpected_errors()
    place.service.told.update(errors)
    return took, cancelled, [*wrong, *(f"an error in a log: {line}" for line in errors)]


def _until_ended(connection: psycopg.Connection[dict[str, Any]], patience: float) -> list[str]:
    """Waits until every job run has ended. What is wrong: one that is left alone, or too many for too long.

    What has piled up takes as long as it takes; but once a lease and 30 s are over, something gets on all the time.
    """
    began = moved = time.monotonic()
    before = None
    while still := _open(connection):
        now, far = time.monotonic(), connection.execute(_SO_FAR.encode()).fetchone()
        moved, before = (now, far) if far != before else (moved, before)
        if now - began > OPEN_SECONDS * patience and now - moved > PAUSE_SECONDS * patience:
            return [f"{len(still)} job runs are open, and none has moved for {now - moved:.0f} s: {still[:3]}"]
        if now - began > LATEST_SECONDS * patience:
            return [f"{len(still)} job runs are open after {now - began:.0f} s: {still[:3]}"]
        time.sleep(0.25)
    return []


def _open(connection: psycopg.Connection[dict[str, Any]]) -> list[dict[str, Any]]:
    return connection.execute(
        "select r.id, r.status, b.lease_until, b.attempt, b.finished_at from job_runs r"
        " left join batches b on b.id = r.batch_id where r.finished_at is null"
    ).fetchall()


def _cancelled(connection: psycopg.Connection[dict[str, Any]], place: Place, stream: Stream) -> set[str]:
    """Job runs that a client cancelled, or that were cancelled with their flow run."""
    statement = "select id from job_runs where cancel_requested and coalesce(batch_id, resumes_batch) = any(%s)"
    rows = connection.execute(statement, [sorted(place.cancelled_batches)]).fetchall()
    return {*stream.cancelled, *(row["id"] for row in rows)}


def _lost(connection: psycopg.Connection[dict[str, Any]], stream: Stream, excused: set[str]) -> list[str]:
    """Acknowledged job runs that are not there, or have not ingested their document though nobody cancelled them."""
    runs = {run: word for word, (run, _) in stream.runs.items()}
    kept = [*runs, *stream.replaced, *stream.cancelled]
    rows = {row["id"]: row for row in connection.execute(_ENDED.encode(), [kept]).fetchall()}
    wrong = [f"acknowledged and gone: {runs.get(run, '')} ({run})" for run in kept if run not in rows]
    return wrong + [
        f"acknowledged and not ingested: {row}"
        for run, row in rows.items()
        if run in runs and run not in excused and (row["status"], row["done"], row["documents"]) != ("COMPLETED", 1, 1)
    ]


def _of_sources(
    connection: psycopg.Connection[dict[str, Any]],
    place: Place,
    kept: Sources,
    stream: Stream,
    seconds: float,
    excused: set[str],
) -> list[str]:
    """Crawls that lack a page, and where the namespace is not what the account holds after another synchronization."""
    asked = [*stream.crawls, *stream.syncs]
    rows = {row["id"]: row for row in connection.execute(_ENDED.encode(), [asked]).fetchall()}
    wrong = [f"acknowledged and gone: {run}" for run in asked if run not in rows]
    for run, name in stream.crawls.items():
        pages = connection.execute(
            "select external_id from documents where deleted_at is null and status = 'SUCCESS'"
            " and starts_with(external_id, %s)",
            [f"{kept.site.url}/{name}/"],
        ).fetchall()
        missing = kept.site.pages(name) - {row["external_id"] for row in pages}
        if missing and run not in excused:
            wrong.append(f"crawled and not ingested: {sorted(missing)}, {rows.get(run)}")
    if refused := sources.synchronized(kept, place.service, seconds):
        wrong.append(refused)
    return wrong + kept.wrong(connection, place.service)


def _not_found(place: Place, stream: Stream, dice: random.Random, excused: set[str]) -> list[str]:
    """Some documents by the word that stands in each alone."""
    wrong = []
    words = sorted(word for word, (run, _) in stream.runs.items() if run not in excused)
    for word in dice.sample(words, min(CHECKED, len(words))):
        keywords = {"semanticWeight": 0, "keywordWeight": 1}
        names = [hit["document"]["name"] for hit in place.service.search(word, topK=3, hybridConfig=keywords)]
        if names != [word]:
            wrong.append(f"the word {word} finds {names}")
    return wrong


def _by_fsck(place: Place) -> list[str]:
    done = place.service.run("fsck", "--json")
    if done.returncode not in {0, 1}:
        return [f"fsck: {done.stderr[-400:]}"]
    return [f"fsck: {one}" for one in json.loads(done.stdout)["findings"]]


def _count(connection: psycopg.Connection[dict[str, Any]], statement: str) -> int:
    row = connection.execute(statement.encode()).fetchone()
    return int(row["count"]) if row else 0
