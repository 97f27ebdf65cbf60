"""Search in a partition of 100,000 chunks, beside pgvector's own query on the same rows in the same run.

    python bench/search_scale.py [--url URL] [--chunks 100000] [--rounds 7]

Vectors are random around 300 centres, texts have a Zipf vocabulary with the stop words left out, queries are words of
some chunk. Wall time and the server's CPU time, in milliseconds; each round runs every kind on the same queries.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from connectors.vectors.pgvector import EF_SEARCH, PgVectorStore
from retrieval import ids
from retrieval.database import database
from retrieval.ports import Scope
from retrieval.search import bm25, search

DIMENSIONS, CENTRES, VOCABULARY, PER_DOCUMENT, PART = 384, 300, 30_000, 20, 2_000
RESULTS = Path(__file__).resolve().parent / "results" / "search_scale.json"


class Given:
    """Stands for the model: the query's vector is there already, so that only the search is measured."""

    provider, model, dimensions, batch_size, calls, max_tokens = "BENCH", "given", DIMENSIONS, 4, 1, 256
    values: Any = None

    def embed(self, texts: Any, kind: Any) -> Any:  # noqa: ARG002 - the port's signature
        return [self.values]

    def check(self) -> None:
        """Always ready."""


def main() -> None:
    options = _options()
    with _postgres(options.url) as url:
        database.migrate(url)
        db = database.Database(url)
        scope, partition = _scope(db)
        store = PgVectorStore(db, scope.namespace, DIMENSIONS)
        dice = np.random.default_rng(7)
        report: dict[str, Any] = {"chunks": options.chunks, "dimensions": DIMENSIONS}
        report["fill_s"] = _timed(lambda: _fill(db, partition, dice, options.chunks))
        report["index_s"] = _timed(lambda: store.ensure_index(scope))
        report["vacuum_s"] = _timed(lambda: _vacuum(url))
        queries = _queries(db, partition, dice, 20)
        report["kinds"] = _measure(db, scope, partition, store, queries, options.rounds)
        report["recall"] = _recall(db, partition, queries)
        _print(report)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=2) + "\n")
        db.close()


def _measure(
    db: database.Database, scope: Scope, partition: int, store: PgVectorStore, queries: list[Any], rounds: int
) -> dict[str, dict[str, float]]:
    given = Given()

    def run(text: str, values: Any, semantic: float) -> None:
        given.values = values
        query = search.Query(text, semantic_weight=semantic, keyword_weight=1 - semantic)
        search.run(db, scope, query, embedder=given, vectors=store)

    def words(text: str, _: Any) -> None:
        with db.transaction() as connection:
            bm25.best(connection, bm25.terms(connection, partition, text, "english"), search.CANDIDATES)

    kinds: dict[str, Callable[[str, Any], object]] = {
        "pgvector's own, 10 with text": lambda _, values: _own(db, partition, values, 10),
        "pgvector's own, 100": lambda _, values: _own(db, partition, values, 100),
        "vector store, 100": lambda _, values: store.query(scope, values, 100),
        "keyword, 100": words,
        "search semantic": lambda text, values: run(text, values, 1.0),
        "search keyword": lambda text, values: run(text, values, 0.0),
        "search hybrid": lambda text, values: run(text, values, 0.5),
    }
    wall: dict[str, list[float]] = {name: [] for name in kinds}
    cpu: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(rounds + 1):
        for text, values in queries:
            for name, kind in kinds.items():
                before, start = _server_cpu(db), time.perf_counter()
                kind(text, values)
                spent = (time.perf_counter() - start) * 1000
                if number:
                    wall[name].append(spent)
                    cpu[name].append(_server_cpu(db) - before)
    return {name: _summary(wall[name], cpu[name]) for name in kinds}


def _own(db: database.Database, partition: int, values: Any, limit: int) -> None:
    """What a user of pgvector would write: the nearest rows by the index, with the same ef_search."""
    vector = "[" + ",".join(map(repr, values)) + "]"
    nearest = (
        f"select v.id, c.content from (select id, document_id from vectors where partition_id = {partition}"
        f" and vector_dims(values) = {DIMENSIONS} order by values::halfvec({DIMENSIONS}) <=> %(v)s"
        f"::halfvec({DIMENSIONS}) limit {limit}) v join chunks c on c.document_id = v.document_id"
        " and c.generation = split_part(v.id, '#', 2)::bigint and c.index = split_part(v.id, '#', 3)::int"
    )
    with db.transaction() as connection:
        connection.execute("select set_config('hnsw.ef_search', %(ef)s, true)", {"ef": str(EF_SEARCH)})
        connection.execute(nearest.encode(), {"v": vector}).fetchall()


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


def _fill(db: database.Database, partition: int, dice: Any, chunks: int) -> None:
    """Documents of 20 chunks each, in the tables as the pipeline leaves them."""
    odds = 1 / (np.arange(VOCABULARY) + 50.0)
    odds /= odds.sum()
    centres = dice.normal(size=(CENTRES, DIMENSIONS))
    for start in range(0, chunks, PART):
        count = min(PART, chunks - start)
        vectors = centres[dice.integers(0, CENTRES, count)] + 0.7 * dice.normal(size=(count, DIMENSIONS))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        lengths = dice.integers(40, 140, count)
        words = dice.choice(VOCABULARY, size=int(lengths.sum()), p=odds)
        texts = [" ".join(f"w{word}" for word in part) for part in np.split(words, np.cumsum(lengths)[:-1])]
        _put(db, partition, start, texts, [_vector(row) for row in vectors])


def _put(db: database.Database, partition: int, start: int, texts: list[str], vectors: list[str]) -> None:
    names = [f"doc_{partition}_{(start + n) // PER_DOCUMENT:06d}" for n in range(len(texts))]
    indexes = [(start + n) % PER_DOCUMENT for n in range(len(texts))]
    values = {"partition": partition, "names": names, "indexes": indexes, "texts": texts, "vectors": vectors}
    with db.transaction() as connection:
        connection.execute(
            "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name,"
            " active_generation, status) select distinct n, %(partition)s, 'j', 'r', 'TEXT', n, 'TEXT', n, 1, 'SUCCESS'"
            " from unnest(%(names)s::text[]) n on conflict do nothing",
            values,
        )
        made = connection.execute(
            "with given as (select * from unnest(%(names)s::text[], %(indexes)s::int[], %(texts)s::text[],"
            " %(vectors)s::text[]) g(name, index, text, vector)),"
            " stored as (insert into vectors (partition_id, id, document_id, values) select %(partition)s,"
            " name || '#1#' || index, name, vector::halfvec from given),"
            " kept as (insert into embeddings (partition_id, key, values) select %(partition)s,"
            " sha256((name || index)::bytea), vector::halfvec from given)"
            ' insert into chunks (partition_id, document_id, generation, index, start, "end", tokens, content,'
            " embedding_key) select %(partition)s, name, 1, index, 0, length(text), 1, text,"
            " sha256((name || index)::bytea) from given returning id",
            values,
        ).fetchall()
        gained = bm25.index(connection, partition, [row["id"] for row in made], "english")
        connection.execute(
            "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(partition)s",
            {"chunks": gained[0], "terms": gained[1], "partition": partition},
        )


def _queries(db: database.Database, partition: int, dice: Any, count: int) -> list[tuple[str, list[float]]]:
    """Three to eight words of a chunk, and a vector near that chunk's."""
    rows = db.rows(
        "select c.content, e.values::text as values from chunks c join embeddings e on e.partition_id = c.partition_id"
        " and e.key = c.embedding_key where c.partition_id = %(partition)s order by md5(c.id::text) limit %(count)s",
        {"partition": partition, "count": count},
    )
    queries = []
    for row in rows:
        words = dice.choice(row["content"].split(), size=int(dice.integers(3, 9)), replace=False)
        near = np.array(json.loads(row["values"])) + 0.02 * dice.normal(size=DIMENSIONS)
        queries.append((" ".join(words), [float(value) for value in near / np.linalg.norm(near)]))
    return queries


def _scope(db: database.Database) -> tuple[Scope, int]:
    scope = Scope(ids.organization_id(), ids.namespace_id())
    values = {"organization": scope.organization, "namespace": scope.namespace}
    db.rows("insert into organizations (id, name) values (%(organization)s, 'bench')", values)
    db.rows(
        "insert into namespaces (id, organization_id, name, secrets)"
        " values (%(namespace)s, %(organization)s, 'bench', '')",
        values,
    )
    row = db.row("insert into partitions (namespace_id) values (%(namespace)s) returning id", values)
    return scope, int(row["id"]) if row else 0


@contextmanager
def _postgres(url: str | None) -> Iterator[str]:
    """The given database, or an embedded one that goes away again."""
    if url is not None:
        yield url
        return
    from local import postgres

    home = Path(tempfile.mkdtemp(prefix="rt-bench-"))
    try:
        yield postgres.start(home)
    finally:
        postgres.stop(home)
        shutil.rmtree(home, ignore_errors=True)


@cache
def _server_pids(db: database.Database) -> list[int]:
    """The processes that served this database when they were first asked for."""
    rows = db.rows("select pid from pg_stat_activity where datname = current_database() and pid is not null")
    return [row["pid"] for row in rows]


def _server_cpu(db: database.Database) -> float:
    """CPU milliseconds of the server's processes for this pool; 0 where they are another machine's."""
    total = 0.0
    for pid in _server_pids(db):
        path = Path(f"/proc/{pid}/schedstat")
        if path.exists():
            total += int(path.read_text().split()[0]) / 1e6
    return total


def _summary(wall: list[float], cpu: list[float]) -> dict[str, float]:
    return {
        "p50_ms": round(statistics.median(wall), 2),
        "p95_ms": round(sorted(wall)[int(len(wall) * 0.95)], 2),
        "cpu_p50_ms": round(statistics.median(cpu), 2),
    }


def _print(report: dict[str, Any]) -> None:
    print(f"{report['chunks']} chunks, {report['dimensions']} dimensions; recall@10 {report['recall']:.3f}")
    print(f"filled in {report['fill_s']} s, indexed in {report['index_s']} s")
    base = report["kinds"]["pgvector's own, 10 with text"]["p50_ms"]
    print(f"{'':32}{'p50 ms':>10}{'p95 ms':>10}{'CPU p50':>10}{'ratio':>8}")
    for name, row in report["kinds"].items():
        print(f"{name:32}{row['p50_ms']:10}{row['p95_ms']:10}{row['cpu_p50_ms']:10}{row['p50_ms'] / base:8.2f}")


def _vacuum(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return round(time.perf_counter() - start, 1)


def _vector(row: Any) -> str:
    return "[" + ",".join(f"{value:.5f}" for value in row) + "]"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a migrated or empty database with pgvector; an embedded one if absent")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
