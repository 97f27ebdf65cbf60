"""Search in a partition of 100,000 chunks, beside a plain pgvector table of the same vectors and texts in the same run.

    python bench/search_scale.py [--url URL] [--chunks 100000] [--rounds 7] [--clients 8] [--seconds 10]

Vectors are random around 300 centres, texts have a Zipf vocabulary with the stop words left out, queries are words of
some chunk. Wall time and processor time of the server and of this process, in milliseconds; each round runs every kind
on the same queries. Then several clients search at once, with vectors given and with queries embedded by MiniLM. The
JSON also holds what each statement of a search reads. What is made on the way goes away again, however the run ends.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import report, search_corpus
from bench.search_corpus import DIMENSIONS
from connectors.vectors.pgvector import EF_SEARCH, PgVectorStore
from retrieval.database import database, revisions
from retrieval.database.halves import HalfVector
from retrieval.ports import Scope
from retrieval.search import packing, search

BASE = "pgvector, plain table, 10"
BULK = (
    "postings",
    "posting_blocks",
    "posting_changes",
    "posting_packs",
    "term_counts",
    "chunks",
    "embeddings",
    "vectors",
)


class Given:
    """Stands for the model: the query's vector is there already, so that only the search is measured."""

    provider, model, dimensions, batch_size, calls, max_tokens = "BENCH", "given", DIMENSIONS, 4, 1, 256
    passage_prefix = ""
    values: Any = None

    def embed(self, texts: Any, kind: Any) -> Any:  # noqa: ARG002 - the port's signature
        return [self.values]

    def check(self) -> None:
        """Always ready."""


def main() -> None:
    options = _options()
    report.end_in_order()
    with migrated(options.url, size=options.clients) as db:
        found = _run(db, options)
    _print(found)
    report.write("search_scale", found)


def _run(db: database.Database, options: argparse.Namespace) -> dict[str, Any]:
    scope, partition = search_corpus.scope(db)
    store = PgVectorStore(db, scope.namespace, DIMENSIONS)
    dice = np.random.default_rng(7)
    figures: dict[str, Any] = {"chunks": options.chunks, "dimensions": DIMENSIONS}
    try:
        figures["fill_s"] = _timed("filling", lambda: search_corpus.fill(db, partition, dice, options.chunks))
        figures["plain_s"] = _timed("a plain pgvector table of the same", lambda: _plain(db, partition))
        figures["index_s"] = _timed("the service's index", lambda: store.ensure_index(scope))
        figures["pack_s"] = _timed("packing posting lists", lambda: packing.keep(db, partition))
        figures["vacuum_s"] = _timed("vacuum", lambda: _vacuum(db.url))
        queries = search_corpus.queries(db, partition, dice, 20)
        figures["kinds"] = _measure(db, scope, store, queries, options.rounds)
        figures["clients"] = _together(db, scope, store, queries, options)
        figures["reads"] = reads(db, scope, store, queries[0])
        figures["recall"] = _recall(db, partition, queries)
    finally:
        if options.url:
            clean_up(db, scope, partition, store)
    return figures


def _search(db: database.Database, scope: Scope, store: PgVectorStore, semantic: float, model: Any = None) -> Any:
    """What searches with a text and, unless a model is named, with the vector that is given."""

    def run(text: str, values: Any) -> None:
        given = model or Given()
        if model is None:
            given.values = values
        query = search.Query(text, semantic_weight=semantic, keyword_weight=1 - semantic)
        search.run(db, scope, query, viewer=None, embedder=given, vectors=store)

    return run


def _measure(
    db: database.Database, scope: Scope, store: PgVectorStore, queries: list[Any], rounds: int
) -> dict[str, dict[str, float]]:
    kinds: dict[str, Callable[[str, Any], object]] = {
        BASE: lambda _, values: _own(db, values, 10),
        "pgvector, plain table, 100": lambda _, values: _own(db, values, 100),
        "vector store, 100": lambda _, values: store.query(scope, values, 100),
        "search semantic": _search(db, scope, store, 1.0),
        "search keyword": _search(db, scope, store, 0.0),
        "search hybrid": _search(db, scope, store, 0.5),
    }
    spent: dict[str, list[tuple[float, float, float]]] = {name: [] for name in kinds}
    backends, dice = server_processes(db), np.random.default_rng(11)
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}" if number else "warming up", flush=True)
        for text, values in queries:
            for name in dice.permutation(list(kinds)):  # whoever comes second finds warm caches
                kind = kinds[name]
                server, ours, start = cpu_of(backends), time.process_time(), time.perf_counter()
                kind(text, values)
                wall, mine = time.perf_counter() - start, time.process_time() - ours
                if number:
                    spent[name].append((wall * 1000, cpu_of(backends) - server, mine * 1000))
    return {name: summary_of(rows) for name, rows in spent.items()}


def _together(
    db: database.Database, scope: Scope, store: PgVectorStore, queries: list[Any], options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Searches a second, and processor time of each, while several clients search without a pause."""
    from connectors.embedders import local

    model = local.load_model("all-MiniLM-L6-v2", Path(tempfile.gettempdir()) / "rt-bench-model")
    hybrid, embedded = _search(db, scope, store, 0.5), _search(db, scope, store, 0.5, model)
    embedded("warm", None)
    kinds: dict[str, Callable[[int, str, Any], None]] = {
        "pgvector, plain table, 10": lambda _, __, values: _own(db, values, 10),
        "hybrid, vector given": lambda _, text, values: hybrid(text, values),
        "hybrid, each query embedded": lambda number, text, _: embedded(f"{text} {number}", None),
        "hybrid, queries asked again": lambda _, text, __: embedded(text, None),
    }
    found = {}
    for name, kind in kinds.items():
        print(f"{options.clients} clients: {name}", flush=True)

        def client(which: int, kind: Any = kind, seconds: float = options.seconds) -> int:
            done, until = 0, time.monotonic() + seconds
            while time.monotonic() < until:
                kind(which * 1_000_000 + done, *queries[(which + done) % len(queries)])
                done += 1
            return done

        with ThreadPoolExecutor(options.clients) as pool:
            list(pool.map(lambda which, client=client: client(which, seconds=0.5), range(options.clients)))
            backends = server_processes(db)
            server, ours, start = cpu_of(backends), time.process_time(), time.monotonic()
            done = sum(pool.map(client, range(options.clients)))
        seconds = time.monotonic() - start
        found[name] = {
            "searches_a_second": round(done / seconds, 1),
            "server_cpu_ms": round((cpu_of(backends) - server) / done, 2),
            "own_cpu_ms": round((time.process_time() - ours) * 1000 / done, 2),
        }
    return found


def reads(db: database.Database, scope: Scope, store: PgVectorStore, query: Any) -> list[dict[str, Any]]:
    """Of each statement of a hybrid search: its beginning, the pages that it read, the most rows that one scan saw."""
    seen: dict[str, Any] = {}
    real = psycopg.Connection.execute

    def execute(self: Any, statement: Any, params: Any = None, **named: Any) -> Any:
        seen[statement] = params
        return real(self, statement, params, **named)

    psycopg.Connection.execute = execute  # type: ignore[method-assign, assignment]
    try:
        _search(db, scope, store, 0.5)(*query)
    finally:
        psycopg.Connection.execute = real  # type: ignore[method-assign]
    found = []
    with db.transaction() as connection:
        for statement, params in seen.items():
            if not isinstance(statement, str) or not statement.lstrip().startswith(("select", "with")):
                continue
            row = connection.execute(b"explain (analyze, buffers, format json) " + statement.encode(), params)
            plan = (row.fetchone() or {})["QUERY PLAN"][0]["Plan"]
            pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            found.append({"statement": " ".join(statement.split())[:80], "pages": pages, "rows": _most(plan)})
    return found


def _most(plan: dict[str, Any]) -> int:
    own = round((plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"])
    below = [_most(part) for part in plan.get("Plans", ())]
    return max([own if "Scan" in plan["Node Type"] else 0, *below])


def _plain(db: database.Database, partition: int) -> None:
    """What a user of pgvector would have: one table with text and vector, and its index."""
    with psycopg.connect(db.url, autocommit=True) as connection:
        connection.execute("set maintenance_work_mem = '256MB'")
        connection.execute("drop table if exists bench_plain")
        connection.execute(
            f"create table bench_plain (id bigint primary key, content text, embedding halfvec({DIMENSIONS}))".encode()
        )
        connection.execute("alter table bench_plain set (toast_tuple_target = 8160)")
        connection.execute(
            f"insert into bench_plain select c.id, c.content, e.values::halfvec({DIMENSIONS}) from chunks c"
            " join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key"
            f" where c.partition_id = {partition}".encode()
        )
        connection.execute("create index on bench_plain using hnsw (embedding halfvec_cosine_ops)")


def _own(db: database.Database, values: Any, limit: int) -> None:
    """What a user of pgvector would write, with the same ef_search."""
    nearest = (
        f"select id, content, 1 - (embedding <=> %(v)s::halfvec({DIMENSIONS})) as score from bench_plain"
        f" order by embedding <=> %(v)s::halfvec({DIMENSIONS}) limit {limit}"
    )
    with db.transaction() as connection:
        connection.execute("select set_config('hnsw.ef_search', %(ef)s, true)", {"ef": str(EF_SEARCH)})
        connection.execute(nearest.encode(), {"v": HalfVector(values)}).fetchall()


def _recall(db: database.Database, partition: int, queries: list[Any]) -> float:
    """Share of the true ten nearest that the index finds."""
    found = 0
    for _, values in queries:
        sets = []
        for order in ("", " + 0"):
            with db.transaction() as connection:
                connection.execute("select set_config('hnsw.ef_search', %(ef)s, true)", {"ef": str(EF_SEARCH)})
                vector = "[" + ",".join(map(repr, values)) + "]"
                statement = (
                    f"select id from vectors where partition_id = {partition} and vector_dims(values) = {DIMENSIONS}"
                    f" order by (values::halfvec({DIMENSIONS}) <=> %(v)s::halfvec({DIMENSIONS})){order} limit 10"
                )
                sets.append({row["id"] for row in connection.execute(statement.encode(), {"v": vector}).fetchall()})
        found += len(sets[0] & sets[1])
    return found / (10 * len(queries))


def clean_up(db: database.Database, scope: Scope, partition: int, store: PgVectorStore) -> None:
    """Take everything away again, for a database that stays."""
    print("cleaning up", flush=True)
    store.drop_index(scope)
    with psycopg.connect(db.url, autocommit=True) as connection:
        connection.execute("drop table if exists bench_plain")
        for table in (*BULK, "documents"):
            connection.execute(f"delete from {table} where partition_id = {partition}".encode())
        connection.execute("delete from organizations where id = %s", [scope.organization])


@contextmanager
def a_database(url: str | None) -> Iterator[str]:
    """The given database, or an embedded one that goes away again, as do those of runs that were killed."""
    if url is not None:
        yield url
        return
    from local import postgres

    for left in Path(tempfile.gettempdir()).glob("rt-bench-scale-*"):
        if not Path(f"/proc/{left.name.split('-')[3]}").exists():
            postgres.stop(left)
            shutil.rmtree(left, ignore_errors=True)
    home = Path(tempfile.mkdtemp(prefix=f"rt-bench-scale-{os.getpid()}-"))
    print(f"in {home}", flush=True)
    try:
        yield postgres.start(home)
    finally:
        postgres.stop(home)
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def migrated(url: str | None, *, size: int) -> Iterator[database.Database]:
    """`a_database` with the service's schema, opened as the API opens it with so many connections."""
    with a_database(url) as address:
        revisions.upgrade_schema(address)
        db = database.Database(address, role="api", size=size)
        try:
            yield db
        finally:
            db.close()


def server_processes(db: database.Database) -> list[Path]:
    """Where the processor time of the server's connections stands; nowhere if they are another machine's."""
    rows = db.rows("select pid from pg_stat_activity where backend_type in ('client backend', 'parallel worker')")
    return [path for row in rows if (path := Path(f"/proc/{row['pid']}/schedstat")).exists()]


def cpu_of(backends: list[Path]) -> float:
    """Milliseconds."""
    return sum(int(path.read_text().split()[0]) / 1e6 for path in backends)


def summary_of(rows: list[tuple[float, float, float]]) -> dict[str, float]:
    wall = sorted(row[0] for row in rows)
    return {
        "p50_ms": round(statistics.median(wall), 2),
        "p95_ms": round(wall[int(len(wall) * 0.95)], 2),
        "server_cpu_ms": round(statistics.median(row[1] for row in rows), 2),
        "own_cpu_ms": round(statistics.median(row[2] for row in rows), 2),
    }


def _print(figures: dict[str, Any]) -> None:
    print(f"{figures['chunks']} chunks, {figures['dimensions']} dimensions; recall@10 {figures['recall']:.3f}")
    base = figures["kinds"][BASE]
    print(f"{'':32}{'p50 ms':>10}{'p95 ms':>10}{'server CPU':>12}{'own CPU':>10}{'ratio':>8}{'of CPU':>8}")
    for name, row in figures["kinds"].items():
        ratios = (row[key] / (base[key] or 1) for key in ("p50_ms", "server_cpu_ms"))
        print(
            f"{name:32}{row['p50_ms']:10}{row['p95_ms']:10}{row['server_cpu_ms']:12}{row['own_cpu_ms']:10}"
            + "".join(f"{ratio:8.2f}" for ratio in ratios)
        )
    print(f"{'several clients':32}{'a second':>10}{'server CPU':>12}{'own CPU':>10}")
    for name, row in figures["clients"].items():
        print(f"{name:32}{row['searches_a_second']:10}{row['server_cpu_ms']:12}{row['own_cpu_ms']:10}")
    for read in figures["reads"]:
        print(f"{read['pages']:6} pages {read['rows']:6} rows  {read['statement']}")


def _vacuum(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def _timed(what: str, work: Callable[[], object]) -> float:
    print(f"{what} …", flush=True)
    start = time.perf_counter()
    work()
    seconds = round(time.perf_counter() - start, 1)
    print(f"{what}: {seconds} s", flush=True)
    return seconds


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a migrated or empty database with pgvector; an embedded one if absent")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    main()
