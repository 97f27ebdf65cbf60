"""Counts of documents by source and status at two sizes, compared with a full count.

    python -m bench.counts [--small 1000] [--large 100000] [--rounds 60]

`kept` reads the maintained counts of `statsBySource` and `statsByStatus`; `counted` adds a filter that matches all.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from bench.harness import parse_options, write_figures
from bench.search import (
    make_scope,
    open_database,
    server_processes,
    sum_cpu_milliseconds,
    summarize_rows,
    vacuum_database,
)
from retrieval.database import database
from retrieval.documents import documents
from retrieval.documents.queries.counts import merge_counts
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope

COUNT_FILTERS = {
    "kept": DocumentFilter(),
    "counted": DocumentFilter(statuses=("QUEUED", "PROCESSING", "SUCCESS", "FAILED")),
}


def main() -> None:
    options = parse_options(__doc__, small=1_000, large=100_000, rounds=60)
    with open_database(1) as db:
        figures = asyncio.run(run_counts(db, options))
    for filter_name, sizes in figures["ways"].items():
        for size, row in sizes.items():
            print(f"{filter_name:10}{size:>10} documents  p50 {row['p50_ms']} ms, CPU {row['server_cpu_ms']} ms")
    write_figures("counts", figures)


async def run_counts(db: database.Database, options: argparse.Namespace) -> dict[str, Any]:
    scope, partition = make_scope(db)
    figures_by_filter: dict[str, dict[str, dict[str, float]]] = {filter_name: {} for filter_name in COUNT_FILTERS}
    stored = 0
    for size in (options.small, options.large):
        while stored < size:
            insert_documents(db, partition, stored, min(stored + 1_000, size))
            stored = min(stored + 1_000, size)
        merge_counts(db)
        vacuum_database(db.url)
        stats = [
            await documents.count_documents(db, scope, document_filter, viewer=None)
            for document_filter in COUNT_FILTERS.values()
        ]
        if stats[0] != stats[1] or sum(stats[0].by_status.values()) != size:
            raise RuntimeError(f"of {size} documents these were counted: {stats}")
        for filter_name, document_filter in COUNT_FILTERS.items():
            figures_by_filter[filter_name][str(size)] = await measure_count(db, scope, document_filter, options.rounds)
    await db.async_close()
    cpu_milliseconds = [row["server_cpu_ms"] for row in figures_by_filter["kept"].values()]
    return {**vars(options), "ways": figures_by_filter, "ratio": round(cpu_milliseconds[1] / cpu_milliseconds[0], 2)}


def insert_documents(db: database.Database, partition: int, first: int, end: int) -> None:
    """Insert documents with the statuses of a sync."""
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


async def measure_count(
    db: database.Database, scope: Scope, document_filter: DocumentFilter, rounds: int
) -> dict[str, float]:
    rows = []
    for _ in range(rounds):
        backends = server_processes(db)
        spent, start = sum_cpu_milliseconds(backends), time.perf_counter()
        await documents.count_documents(db, scope, document_filter, viewer=None)
        rows.append(((time.perf_counter() - start) * 1000, sum_cpu_milliseconds(backends) - spent, 0.0))
    # The first five rounds are warm-up.
    return summarize_rows(rows[5:])


if __name__ == "__main__":
    main()
