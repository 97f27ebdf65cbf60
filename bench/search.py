"""Search in 100,000 chunks, compared with a plain pgvector table of the same vectors and texts.

    python -m bench.search [--chunks 100000] [--rounds 7] [--clients 8] [--seconds 10]

Vectors lie around 300 random centres; texts have a Zipf vocabulary without stop words; queries are words of a chunk,
also with filters. Reports wall and CPU milliseconds of server and client per search, then throughput of parallel
clients with given and with embedded vectors.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from bench.harness import migrated_database, parse_options, write_figures
from connectors.vectors.pgvector import EF_SEARCH, PgVectorStore
from retrieval import ids
from retrieval.database import database
from retrieval.database.half_vectors import HalfVector
from retrieval.filters import DocumentFilter
from retrieval.keywords import posting_blocks
from retrieval.ports import Scope
from retrieval.search import search

DIMENSIONS, CENTRE_COUNT, VOCABULARY_SIZE, CHUNKS_PER_DOCUMENT, PART_SIZE = 384, 300, 30_000, 20, 2_000
BASELINE_NAME = "pgvector, plain table, 10"
# Filters that match a half, a tenth or a hundredth of the documents.
FILTER_PARTS = {"half": 2, "tenth": 10, "hundredth": 100}


class FixedVectorModel:
    """Model with a given query vector, to measure the search only."""

    provider, model, dimensions, batch_size, calls, max_tokens = "BENCH", "given", DIMENSIONS, 4, 1, 256
    passage_prefix = ""
    values: Any = None

    def embed(self, texts: Any, kind: Any) -> Any:  # noqa: ARG002 - the port's signature
        return [self.values]

    def check(self) -> None:
        """Do nothing."""


def main() -> None:
    options = parse_options(__doc__, chunks=100_000, rounds=7, clients=8, seconds=10.0)
    with open_database(options.clients) as db:
        figures = run_benchmark(db, options)
    print_figures(figures)
    write_figures("search", figures)


@contextmanager
def open_database(size: int) -> Iterator[database.Database]:
    """Open a migrated database like the API."""
    with migrated_database() as (_, url):
        db = database.Database(url, role="api", size=size)
        try:
            yield db
        finally:
            db.close()


def run_benchmark(db: database.Database, options: argparse.Namespace) -> dict[str, Any]:
    scope, partition = make_scope(db)
    store = PgVectorStore(db, scope.namespace, DIMENSIONS)
    generator = np.random.default_rng(7)
    figures: dict[str, Any] = {"chunks": options.chunks, "dimensions": DIMENSIONS}
    steps: dict[str, Callable[[], object]] = {
        "filling": lambda: fill_partition(db, partition, generator, options.chunks),
        "a plain pgvector table of the same": lambda: create_plain_table(db, partition),
        "the service's index": lambda: store.ensure_index(scope),
        "packing posting lists": lambda: posting_blocks.pack_postings(db, partition),
        "metadata of documents": lambda: insert_metadata(db, partition),
        "vacuum": lambda: vacuum_database(db.url),
    }
    for name, step in steps.items():
        start = time.perf_counter()
        # Durations of the steps are reported too.
        step()
        figures[name] = round(time.perf_counter() - start, 1)
        print(f"{name}: {figures[name]} s", flush=True)
    queries = make_queries(db, partition, generator, 20)
    figures["kinds"] = measure_searches(db, scope, store, queries, options.rounds)
    figures["clients"] = measure_clients(db, scope, store, queries, options)
    figures["recall"] = measure_recall(db, partition, queries)
    return figures


def insert_metadata(db: database.Database, partition: int) -> None:
    """Insert a number per filter into each document's metadata."""
    for name, parts in FILTER_PARTS.items():
        db.rows(
            "update documents set metadata = metadata || jsonb_build_object(%(name)s::text,"
            " abs(hashtext(id || %(name)s)) %% %(parts)s) where partition_id = %(partition)s",
            {"name": name, "parts": parts, "partition": partition},
        )


def make_search(
    db: database.Database,
    scope: Scope,
    store: PgVectorStore,
    semantic: float,
    model: Any = None,
    document_filter: DocumentFilter | None = None,
) -> Any:
    """Make a search with a given vector, or with a model."""

    def run_search(text: str, values: Any) -> None:
        chosen_model = model or FixedVectorModel()
        if model is None:
            chosen_model.values = values
        query = search.Query(
            text, semantic_weight=semantic, keyword_weight=1 - semantic, document_filter=document_filter
        )
        search.run_search(db, scope, query, viewer=None, embedder=chosen_model, vectors=store)

    return run_search


def measure_searches(
    db: database.Database, scope: Scope, store: PgVectorStore, queries: list[Any], rounds: int
) -> dict[str, dict[str, float]]:
    kinds: dict[str, Callable[[str, Any], object]] = {
        BASELINE_NAME: lambda _, values: query_plain_table(db, values, 10),
        "pgvector, plain table, 100": lambda _, values: query_plain_table(db, values, 100),
        "vector store, 100": lambda _, values: store.query(scope, values, 100),
        "search semantic": make_search(db, scope, store, 1.0),
        "search keyword": make_search(db, scope, store, 0.0),
        "search hybrid": make_search(db, scope, store, 0.5),
    }
    for name in FILTER_PARTS:
        document_filter = DocumentFilter(metadata={name: 1})
        for side, weight in (("semantic", 1.0), ("keyword", 0.0), ("hybrid", 0.5)):
            kinds[f"search {side}, {name}"] = make_search(db, scope, store, weight, document_filter=document_filter)
    return compare_searches(db, kinds, queries, rounds, lambda _, __: None)


def compare_searches(
    db: database.Database,
    kinds: dict[str, Callable[[str, Any], Any]],
    queries: list[Any],
    rounds: int,
    check: Callable[[str, Any], None],
) -> dict[str, dict[str, float]]:
    """Run all searches on the same queries in random order, after a checked warm-up round."""
    spent: dict[str, list[tuple[float, float, float]]] = {name: [] for name in kinds}
    generator = np.random.default_rng(11)
    for number in range(rounds + 1):
        backends = server_processes(db)  # connections of the viewer's role start with the first search
        print(f"round {number} of {rounds}" if number else "warming up", flush=True)
        for text, values in queries:
            for name in generator.permutation(list(kinds)):  # the second one would find warm caches
                server, own_cpu, start = sum_cpu_milliseconds(backends), time.process_time(), time.perf_counter()
                result = kinds[name](text, values)
                wall, own_seconds = time.perf_counter() - start, time.process_time() - own_cpu
                if number:
                    spent[name].append((wall * 1000, sum_cpu_milliseconds(backends) - server, own_seconds * 1000))
                else:
                    check(name, result)
    return {name: summarize_rows(rows) for name, rows in spent.items()}


def measure_clients(
    db: database.Database, scope: Scope, store: PgVectorStore, queries: list[Any], options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Measure searches per second and CPU with parallel clients."""
    from connectors.embedders import local

    model = local.load_model("all-MiniLM-L6-v2", Path(tempfile.gettempdir()) / "rt-bench-model")
    hybrid, embedded = make_search(db, scope, store, 0.5), make_search(db, scope, store, 0.5, model)
    # Loads the model.
    embedded("warm", None)
    kinds: dict[str, Callable[[int, str, Any], None]] = {
        "pgvector, plain table, 10": lambda _, __, values: query_plain_table(db, values, 10),
        "hybrid, vector given": lambda _, text, values: hybrid(text, values),
        "hybrid, each query embedded": lambda number, text, _: embedded(f"{text} {number}", None),
        "hybrid, queries asked again": lambda _, text, __: embedded(text, None),
    }
    figures = {}
    for name, kind in kinds.items():
        print(f"{options.clients} clients: {name}", flush=True)

        def search_until(number: int, kind: Any = kind, seconds: float = options.seconds) -> int:
            done, until = 0, time.monotonic() + seconds
            while time.monotonic() < until:
                kind(number * 1_000_000 + done, *queries[(number + done) % len(queries)])
                done += 1
            return done

        with ThreadPoolExecutor(options.clients) as pool:
            list(
                pool.map(
                    lambda number, search_until=search_until: search_until(number, seconds=0.5), range(options.clients)
                )
            )
            backends = server_processes(db)
            server, own_cpu, start = sum_cpu_milliseconds(backends), time.process_time(), time.monotonic()
            done = sum(pool.map(search_until, range(options.clients)))
        seconds = time.monotonic() - start
        figures[name] = {
            "searches_a_second": round(done / seconds, 1),
            "server_cpu_ms": round((sum_cpu_milliseconds(backends) - server) / done, 2),
            "own_cpu_ms": round((time.process_time() - own_cpu) * 1000 / done, 2),
        }
    return figures


def create_plain_table(db: database.Database, partition: int) -> None:
    """Create a table with text, vector and index, like a user of pgvector."""
    with psycopg.connect(db.url, autocommit=True) as connection:
        connection.execute("set maintenance_work_mem = '256MB'")
        connection.execute("drop table if exists bench_plain")
        connection.execute(
            f"create table bench_plain (id bigint primary key, content text, embedding halfvec({DIMENSIONS}))".encode()
        )
        # Keeps vectors inline.
        connection.execute("alter table bench_plain set (toast_tuple_target = 8160)")
        connection.execute(
            f"insert into bench_plain select c.id, c.content, e.values::halfvec({DIMENSIONS}) from chunks c"
            " join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key"
            f" where c.partition_id = {partition}".encode()
        )
        connection.execute("create index on bench_plain using hnsw (embedding halfvec_cosine_ops)")


def query_plain_table(db: database.Database, values: Any, limit: int) -> None:
    """Query the plain table with the same ef_search."""
    nearest = (
        f"select id, content, 1 - (embedding <=> %(v)s::halfvec({DIMENSIONS})) as score from bench_plain"
        f" order by embedding <=> %(v)s::halfvec({DIMENSIONS}) limit {limit}"
    )
    with db.transaction() as connection:
        connection.execute("select set_config('hnsw.ef_search', %(ef)s, true)", {"ef": str(EF_SEARCH)})
        connection.execute(nearest.encode(), {"v": HalfVector(values)}).fetchall()


def measure_recall(db: database.Database, partition: int, queries: list[Any]) -> float:
    """Return the share of the true ten nearest found by the index."""
    hit_count = 0
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
        hit_count += len(sets[0] & sets[1])
    return hit_count / (10 * len(queries))


def server_processes(db: database.Database) -> list[Path]:
    """Return paths with CPU time of the server's connections; none for a remote server."""
    rows = db.rows("select pid from pg_stat_activity where backend_type in ('client backend', 'parallel worker')")
    return [path for row in rows if (path := Path(f"/proc/{row['pid']}/schedstat")).exists()]


def sum_cpu_milliseconds(backends: list[Path]) -> float:
    return sum(int(path.read_text().split()[0]) / 1e6 for path in backends)


def summarize_rows(rows: list[tuple[float, float, float]]) -> dict[str, float]:
    wall = sorted(row[0] for row in rows)
    return {
        "p50_ms": round(statistics.median(wall), 2),
        "p95_ms": round(wall[int(len(wall) * 0.95)], 2),
        "server_cpu_ms": round(statistics.median(row[1] for row in rows), 2),
        "own_cpu_ms": round(statistics.median(row[2] for row in rows), 2),
    }


def print_figures(figures: dict[str, Any]) -> None:
    print(f"{figures['chunks']} chunks, {figures['dimensions']} dimensions; recall@10 {figures['recall']:.3f}")
    base = figures["kinds"][BASELINE_NAME]
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


def vacuum_database(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def fill_partition(
    db: database.Database,
    partition: int,
    generator: Any,
    chunks: int,
    *,
    start: int = 0,
    per_document: int = CHUNKS_PER_DOCUMENT,
) -> None:
    """Insert documents and chunks as the pipeline leaves them."""
    # Postings are counted here, which takes a tenth of the time. Texts are distinct words `w12` without stemming.
    odds = 1 / (np.arange(VOCABULARY_SIZE) + 50.0)
    odds /= odds.sum()
    centres = generator.normal(size=(CENTRE_COUNT, DIMENSIONS))
    counts, terms = np.zeros(VOCABULARY_SIZE, np.int64), 0
    with psycopg.connect(db.url, autocommit=True) as connection, defer_indexes(connection):
        for first in range(start, start + chunks, PART_SIZE):
            count = min(PART_SIZE, start + chunks - first)
            vectors = centres[generator.integers(0, CENTRE_COUNT, count)] + 0.7 * generator.normal(
                size=(count, DIMENSIONS)
            )
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            lengths = generator.integers(40, 140, count)
            words = generator.choice(VOCABULARY_SIZE, size=int(lengths.sum()), p=odds)
            with connection.transaction():
                values = [format_vector(row) for row in vectors]
                counts += insert_part(
                    connection, partition, first, per_document, list(np.split(words, np.cumsum(lengths)[:-1])), values
                )
            terms += int(lengths.sum())
            if (first + count) % 20_000 == 0:
                print(f"  {first + count} chunks", flush=True)
        term_numbers = np.flatnonzero(counts)
        copy_rows(
            connection,
            "term_counts (partition_id, term, chunks)",
            ((partition, f"w{w}", counts[w]) for w in term_numbers),
        )
        connection.execute(
            "update partitions set chunks = chunks + %s, terms = terms + %s where id = %s", [chunks, terms, partition]
        )


@contextmanager
def defer_indexes(connection: psycopg.Connection[Any]) -> Iterator[None]:
    if connection.execute("select 1 from postings limit 1").fetchone() is not None:
        yield
        return
    connection.execute("alter table postings drop constraint postings_pkey")
    connection.execute("drop index postings_of_chunk")
    yield
    connection.execute("set maintenance_work_mem = '512MB'")
    connection.execute("create index postings_of_chunk on postings (chunk_id)")
    connection.execute(
        "alter table postings add constraint postings_pkey primary key (partition_id, term, chunk_id)"
        " include (tf, length)"
    )


def insert_part(
    connection: psycopg.Connection[Any],
    partition: int,
    first: int,
    per_document: int,
    texts: list[Any],
    vectors: list[str],
) -> Any:
    """Insert one part; return chunk counts by word."""
    positions = range(first, first + len(texts))
    names = [f"doc_{partition}_{n // per_document:06d}" for n in positions]
    indexes = [n % per_document for n in positions]
    keys = [sha256(f"{name}{index}".encode()).hexdigest() for name, index in zip(names, indexes, strict=True)]
    reserved = connection.execute(
        "select nextval(pg_get_serial_sequence('chunks', 'id')) from generate_series(1, %s)", [len(texts)]
    )
    ids = [row[0] for row in reserved.fetchall()]
    connection.execute(
        "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name,"
        " active_generation, status) select distinct n, %s, 'j', 'r', 'TEXT', n, 'TEXT', n, 1, 'SUCCESS'"
        " from unnest(%s::text[]) n on conflict do nothing",
        [partition, names],
    )
    chunk_rows = list(zip(ids, names, indexes, keys, texts, vectors, strict=True))
    chunk_columns = (
        'chunks (id, partition_id, document_id, generation, index, start, "end", tokens, content, embedding_key)'
    )
    contents = [" ".join(f"w{word}" for word in text) for text in texts]
    copy_rows(
        connection,
        chunk_columns,
        (
            (number, partition, name, 1, index, 0, len(content), 1, content, rf"\\x{key}")
            for (number, name, index, key, _, _), content in zip(chunk_rows, contents, strict=True)
        ),
    )
    stored = ((partition, f"{name}#1#{index}", name, vector) for _, name, index, _, _, vector in chunk_rows)
    copy_rows(connection, "vectors (partition_id, id, document_id, values)", stored)
    embedding_rows = ((partition, rf"\\x{key}", vector) for _, _, _, key, _, vector in chunk_rows)
    copy_rows(connection, "embeddings (partition_id, key, values)", embedding_rows)
    counts, rows = np.zeros(VOCABULARY_SIZE, np.int64), []
    for number, _, _, _, text, _ in chunk_rows:
        words, tfs = np.unique(text, return_counts=True)
        counts[words] += 1
        rows += [(partition, f"w{word}", number, tf, len(text)) for word, tf in zip(words, tfs, strict=True)]
    copy_rows(connection, "postings (partition_id, term, chunk_id, tf, length)", rows)
    return counts


def copy_rows(connection: psycopg.Connection[Any], into: str, rows: Iterable[tuple[Any, ...]]) -> None:
    # Values have neither tabs nor line breaks.
    with connection.cursor().copy(f"copy {into} from stdin".encode()) as copy:
        copy.write("".join("\t".join(map(str, row)) + "\n" for row in rows))


def make_queries(db: database.Database, partition: int, generator: Any, count: int) -> list[tuple[str, list[float]]]:
    """Return three to eight words of a chunk, with a vector near the chunk's."""
    rows = db.rows(
        "select c.content, e.values::text as values from chunks c join embeddings e on e.partition_id = c.partition_id"
        " and e.key = c.embedding_key where c.partition_id = %(partition)s order by md5(c.id::text) limit %(count)s",
        {"partition": partition, "count": count},
    )
    queries = []
    for row in rows:
        words = generator.choice(row["content"].split(), size=int(generator.integers(3, 9)), replace=False)
        near = np.array(json.loads(row["values"])) + 0.02 * generator.normal(size=DIMENSIONS)
        queries.append((" ".join(words), [float(value) for value in near / np.linalg.norm(near)]))
    return queries


def make_scope(db: database.Database) -> tuple[Scope, int]:
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


def format_vector(row: Any) -> str:
    return "[" + ",".join(f"{value:.5f}" for value in row) + "]"


if __name__ == "__main__":
    main()
