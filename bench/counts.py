"""Counts of documents by source and status at two sizes of a namespace, beside counting the documents themselves.

    python -m bench.counts [--small 1000] [--large 100000] [--rounds 60]

Documents are put into an embedded PostgreSQL of this run. `kept` is what `statsBySource` and `statsByStatus` read
without a filter, after the maintenance that runs each minute, `counted` the same with a filter that every document
passes.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from bench.harness import parse_options, write
from bench.search import cpu_of, make_scope, opened_database, server_processes, summarize, vacuum
from retrieval.database import database
from retrieval.documents import documents
from retrieval.documents.queries.counts import merge_counts
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope

WAYS = {"kept": DocumentFilter(), "counted": DocumentFilter(statuses=("QUEUED", "PROCESSING", "SUCCESS", "FAILED"))}


def main() -> None:
    options = parse_options(__doc__, small=1_000, large=100_000, rounds=60)
    with opened_database(1) as db:
        figures = asyncio.run(_run(db, options))
    for way, sizes in figures["ways"].items():
        for size, row in sizes.items():
            print(f"{way:10}{size:>10} documents  p50 {row['p50_ms']} ms, CPU {row['server_cpu_ms']} ms")
    write("counts", figures)


async def _run(db: database.Database, options: argparse.Namespace) -> dict[str, Any]:
    scope, partition = make_scope(db)
    ways: dict[str, dict[str, dict[str, float]]] = {way: {} for way in WAYS}
    stored = 0
    for size in (options.small, options.large):
        while stored < size:
            _insert(db, partition, stored, min(stored + 1_000, size))
            stored = min(stored + 1_000, size)
        merge_counts(db)
        vacuum(db.url)
        stats = [await documents.count_documents(db, scope, where, viewer=None) for where in WAYS.values()]
        if stats[0] != stats[1] or sum(stats[0].by_status.values()) != size:
            raise RuntimeError(f"of {size} documents these were counted: {stats}")
        for way, where in WAYS.items():
            ways[way][str(size)] = await _measure(db, scope, where, options.rounds)
    await db.async_close()
    kept = [row["server_cpu_ms"] for row in ways["kept"].values()]
    return {**vars(options), "ways": ways, "ratio": round(kept[1] / kept[0], 2)}


def _insert(db: database.Database, partition: int, first: int, end: int) -> None:
    """Insert documents in the statuses of a sync: each is queued, then ends."""
    values = {"partition": partition, "first": first, "last": end - 1}
    db.rows(
        "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name)"
        " select 'doc_' || n, %(partition)s, 'job', 'run', (array['TEXT', 'DROPBOX', 'WEBSITE'])[1 + n %% 3], n::text,"
        " 'TEXT', 'Document ' || n from generate_series(%(first)s::int, %(last)s::int) n",
        values,
    )
    db.rows(
        "update documents set status = case when hashtext(id) %% 20 = 0 then 'FAILED' else 'SUCCESS' end"
        " where id in (select 'doc_' || n from generate_series(%(first)s::int, %(last)s::int) n)",
        values,
    )


async def _measure(db: database.Database, scope: Scope, where: DocumentFilter, rounds: int) -> dict[str, float]:
    rows = []
    for _ in range(rounds):
        backends = server_processes(db)
        spent, start = cpu_of(backends), time.perf_counter()
        await documents.count_documents(db, scope, where, viewer=None)
        rows.append(((time.perf_counter() - start) * 1000, cpu_of(backends) - spent, 0.0))
    return summarize(rows[5:])


if __name__ == "__main__":
    main()
