"""Conditions after a round, read from the database and the API."""

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

# Promised time for a job run to end or resume after the last fault.
OPEN_SECONDS = LEASE + 30.0
# Longest pause between two steps of open work: one embedding step of a window.
PAUSE_SECONDS = 30.0
# Time for the whole backlog on an otherwise idle machine.
LATEST_SECONDS = 240.0
SWEPT_SECONDS = 60.0
# Documents checked by search.
CHECKED = 6

_ENDED = """
    select r.id, r.status, r.cancel_requested, r.batch_id, count(*) filter (where m.status = 'SUCCESS') as done,
           count(m) as documents, string_agg(m.error, '; ') as errors
    from job_runs r left join run_documents m on m.job_run_id = r.id where r.id = any(%s) group by r.id
"""
# Progress of all open work.
_SO_FAR = """
    select (select count(*) from job_runs where finished_at is not null) as runs,
           (select jsonb_object_agg(stage, documents) from (
                select status || ' ' || coalesce(stage, '') as stage, count(*) as documents
                from run_documents group by 1) stages) as documents
"""
_DOUBLE = {
    "documents of one name": "select name as what, count(*) from documents where deleted_at is null"
    " group by partition_id, name having count(*) > 1",
    "chunks of one place": "select document_id || '/' || generation || '/' || index as what, count(*) from chunks"
    " group by document_id, generation, index having count(*) > 1",
    "chunks of a version that nobody sees": "select c.document_id || '/' || c.generation as what, count(*)"
    " from chunks c left join documents d on d.id = c.document_id and d.active_generation = c.generation"
    " and d.deleted_at is null where d.id is null group by 1",
}


def judge(installation: Place, stream: Stream, dice: random.Random, patience: float) -> tuple[float, int, list[str]]:
    """Seconds until the last job run ended, number of cancelled ones, and problems.

    `patience` multiplies the promised times on a busy machine.
    """
    began = time.monotonic()
    wrong = list(stream.wrong)
    with psycopg.connect(installation.postgres.url(), autocommit=True, row_factory=dict_row) as connection:
        wrong += _until_ended(connection, patience)
        took = time.monotonic() - began
        excused = _cancelled(connection, installation, stream)
        cancelled = len(excused)
        wrong += _lost(connection, stream, excused)
        if installation.sources is not None:
            wrong += _of_sources(
                connection, installation, installation.sources, stream, OPEN_SECONDS * patience, excused
            )
        connection.execute("update sweeps set due_at = least(due_at, now())")
        while (
            sweeps := _count(connection, "select count(*) from sweeps")
        ) and time.monotonic() - began < SWEPT_SECONDS * patience + took:
            time.sleep(0.5)
        if sweeps:
            wrong.append(f"{sweeps} sweeps are left after {SWEPT_SECONDS:.0f} s")
        for description, statement in _DOUBLE.items():
            if rows := connection.execute(statement.encode()).fetchall():
                wrong.append(f"{len(rows)} times {description}: {rows[:3]}")
    wrong += _not_found(installation, stream, dice, excused)
    wrong += _by_fsck(installation)
    errors = installation.service.unexpected_errors()
    installation.service.told.update(errors)
    return took, cancelled, [*wrong, *(f"an error in a log: {line}" for line in errors)]


def _until_ended(connection: psycopg.Connection[dict[str, Any]], patience: float) -> list[str]:
    """Wait until every job run has ended.

    A backlog may take long, but after a lease and 30 s progress must be continuous.
    """
    began = moved = time.monotonic()
    progress_before = None
    while still := _open(connection):
        current_time, far = time.monotonic(), connection.execute(_SO_FAR.encode()).fetchone()
        moved, progress_before = (current_time, far) if far != progress_before else (moved, progress_before)
        if current_time - began > OPEN_SECONDS * patience and current_time - moved > PAUSE_SECONDS * patience:
            return [f"{len(still)} job runs are open, and none has moved for {current_time - moved:.0f} s: {still[:3]}"]
        if current_time - began > LATEST_SECONDS * patience:
            return [f"{len(still)} job runs are open after {current_time - began:.0f} s: {still[:3]}"]
        time.sleep(0.25)
    return []


def _open(connection: psycopg.Connection[dict[str, Any]]) -> list[dict[str, Any]]:
    return connection.execute(
        "select r.id, r.status, b.lease_until, b.attempt, b.finished_at from job_runs r"
        " left join batches b on b.id = r.batch_id where r.finished_at is null"
    ).fetchall()


def _cancelled(connection: psycopg.Connection[dict[str, Any]], installation: Place, stream: Stream) -> set[str]:
    """Job runs cancelled by a client or with their flow run."""
    statement = "select id from job_runs where cancel_requested and coalesce(batch_id, resumes_batch) = any(%s)"
    rows = connection.execute(statement, [sorted(installation.cancelled_batches)]).fetchall()
    return {*stream.cancelled, *(row["id"] for row in rows)}


def _lost(connection: psycopg.Connection[dict[str, Any]], stream: Stream, excused: set[str]) -> list[str]:
    """Acknowledged job runs without a row or a document."""
    runs = {run: word for word, (run, _) in stream.runs.items()}
    run_ids = [*runs, *stream.replaced, *stream.cancelled]
    rows = {row["id"]: row for row in connection.execute(_ENDED.encode(), [run_ids]).fetchall()}
    wrong = [f"acknowledged and gone: {runs.get(run, '')} ({run})" for run in run_ids if run not in rows]
    return wrong + [
        f"acknowledged and not ingested: {row}"
        for run, row in rows.items()
        if run in runs and run not in excused and (row["status"], row["done"], row["documents"]) != ("COMPLETED", 1, 1)
    ]


def _of_sources(
    connection: psycopg.Connection[dict[str, Any]],
    installation: Place,
    account_sources: Sources,
    stream: Stream,
    seconds: float,
    excused: set[str],
) -> list[str]:
    """Incomplete crawls, and differences between namespace and account after a synchronization."""
    run_ids = [*stream.crawls, *stream.syncs]
    rows = {row["id"]: row for row in connection.execute(_ENDED.encode(), [run_ids]).fetchall()}
    wrong = [f"acknowledged and gone: {run}" for run in run_ids if run not in rows]
    for run, name in stream.crawls.items():
        pages = connection.execute(
            "select external_id from documents where deleted_at is null and status = 'SUCCESS'"
            " and starts_with(external_id, %s)",
            [f"{account_sources.site.url}/{name}/"],
        ).fetchall()
        missing = account_sources.site.pages(name) - {row["external_id"] for row in pages}
        if missing and run not in excused:
            wrong.append(f"crawled and not ingested: {sorted(missing)}, {rows.get(run)}")
    if refused := sources.synchronized(account_sources, installation.service, seconds):
        wrong.append(refused)
    return wrong + account_sources.wrong(connection, installation.service)


def _not_found(installation: Place, stream: Stream, dice: random.Random, excused: set[str]) -> list[str]:
    """Search sampled documents by their unique word."""
    wrong = []
    words = sorted(word for word, (run, _) in stream.runs.items() if run not in excused)
    for word in dice.sample(words, min(CHECKED, len(words))):
        keywords = {"semanticWeight": 0, "keywordWeight": 1}
        names = [hit["document"]["name"] for hit in installation.service.search(word, topK=3, hybridConfig=keywords)]
        if names != [word]:
            wrong.append(f"the word {word} finds {names}")
    return wrong


def _by_fsck(installation: Place) -> list[str]:
    done = installation.service.run("fsck", "--json")
    if done.returncode not in {0, 1}:
        return [f"fsck: {done.stderr[-400:]}"]
    return [f"fsck: {finding}" for finding in json.loads(done.stdout)["findings"]]


def _count(connection: psycopg.Connection[dict[str, Any]], statement: str) -> int:
    row = connection.execute(statement.encode()).fetchone()
    return int(row["count"]) if row else 0
