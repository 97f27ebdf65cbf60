"""Search in a partition of 100,000 chunks, beside a plain pgvector table of the same vectors and texts in the same run.

    python -m bench.search [--chunks 100000] [--rounds 7] [--clients 8] [--seconds 10]

Vectors are random around 300 centres, texts have a Zipf vocabulary with the stop words left out, queries are words of
some chunk; each search also with filters that leave a part of the documents. Wall time and processor time of the server
and of this process, in milliseconds; each round runs every kind on the same queries. Then several clients search at
once, with vectors given and with queries embedded by MiniLM.
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

from bench.harness import migrated_database, parse_options, write
from connectors.vectors.pgvector import EF_SEARCH, PgVectorStore
from retrieval import ids
from retrieval.database import database
from retrieval.database.half_vectors import HalfVector
from retrieval.filters import DocumentFilter
from retrieval.keywords import posting_blocks
from retrieval.ports import Scope
from retrieval.search import search

DIMENSIONS, CENTRES, VOCABULARY, PER_DOCUMENT, PART = 384, 300, 30_000, 20, 2_000
BASE = "pgvector, plain table, 10"
SHARES = {"half": 2, "tenth": 10, "hundredth": 100}
"""Filters that leave such a part of the documents."""


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
    options = parse_options(__doc__, chunks=100_000, rounds=7, clients=8, seconds=10.0)
    with opened_database(options.clients) as db:
        figures = _run(db, options)
    _print(figures)
    write("search", figures)


@contextmanager
def opened_database(size: int) -> Iterator[database.Database]:
    """A migrated database, opened as the API opens it with so many connections."""
    with migrated_database() as (_, url):
        db = database.Database(url, role="api", size=size)
        try:
            yield db
        finally:
            db.close()


def _run(db: database.Database, options: argparse.Namespace) -> dict[str, Any]:
    scope, partition = make_scope(db)
    store = PgVectorStore(db, scope.namespace, DIMENSIONS)
    dice = np.random.default_rng(7)
    figures: dict[str, Any] = {"chunks": options.chunks, "dimensions": DIMENSIONS}
    steps: dict[str, Callable[[], object]] = {
        "filling": lambda: fill(db, partition, dice, options.chunks),
        "a plain pgvector table of the same": lambda: _plain(db, partition),
        "the service's index": lambda: store.ensure_index(scope),
        "packing posting lists": lambda: posting_blocks.pack_postings(db, partition),
        "metadata of documents": lambda: _share_out(db, partition),
        "vacuum": lambda: vacuum(db.url),
    }
    for name, step in steps.items():
        start = time.perf_counter()
        step()
        figures[name] = round(time.perf_counter() - start, 1)
        print(f"{name}: {figures[name]} s", flush=True)
    queries = make_queries(db, partition, dice, 20)
    figures["kinds"] = _measure(db, scope, store, queries, options.rounds)
    figures["clients"] = _together(db, scope, store, queries, options)
    figures["recall"] = _recall(db, partition, queries)
    return figures


def _share_out(db: database.Database, partition: int) -> None:
    """Give each document a number below each of the shares."""
    for name, parts in SHARES.items():
        db.rows(
            "update documents set metadata = metadata || jsonb_build_object(%(name)s::text,"
            " abs(hashtext(id || %(name)s)) %% %(parts)s) where partition_id = %(partition)s",
            {"name": name, "parts": parts, "partition": partition},
        )


def _search(
    db: database.Database,
    scope: Scope,
    store: PgVectorStore,
    semantic: float,
    model: Any = None,
    where: DocumentFilter | None = None,
) -> Any:
    """What searches with a text and, unless a model is named, with the vector that is given."""

    def run(text: str, values: Any) -> None:
        given = model or Given()
        if model is None:
            given.values = values
        query = search.Query(text, semantic_weight=semantic, keyword_weight=1 - semantic, document_filter=where)
        search.run_search(db, scope, query, viewer=None, embedder=given, vectors=store)

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
    for name in SHARES:
        where = DocumentFilter(metadata={name: 1})
        for side, weight in (("semantic", 1.0), ("keyword", 0.0), ("hybrid", 0.5)):
            kinds[f"search {side}, {name}"] = _search(db, scope, store, weight, where=where)
    return compare(db, kinds, queries, rounds, lambda _, __: None)


def compare(
    db: database.Database,
    kinds: dict[str, Callable[[str, Any], Any]],
    queries: list[Any],
    rounds: int,
    check: Callable[[str, Any], None],
) -> dict[str, dict[str, float]]:
    """Run each kind on the same queries, in another order each time; a first round warms up and is checked."""
    spent: dict[str, list[tuple[float, float, float]]] = {name: [] for name in kinds}
    dice = np.random.default_rng(11)
    for number in range(rounds + 1):
        backends = server_processes(db)  # those of the viewer's role come with its first search
        print(f"round {number} of {rounds}" if number else "warming up", flush=True)
        for text, values in queries:
            for name in dice.permutation(list(kinds)):  # whoever comes second finds warm caches
                server, ours, start = cpu_of(backends), time.process_time(), time.perf_counter()
                result = kinds[name](text, values)
                wall, mine = time.perf_counter() - start, time.process_time() - ours
                if number:
                    spent[name].append((wall * 1000, cpu_of(backends) - server, mine * 1000))
                else:
                    check(name, result)
    return {name: summarize(rows) for name, rows in spent.items()}


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


def server_processes(db: database.Database) -> list[Path]:
    """Where the processor time of the server's connections stands; nowhere if they are another machine's."""
    rows = db.rows("select pid from pg_stat_activity where backend_type in ('client backend', 'parallel worker')")
    return [path for row in rows if (path := Path(f"/proc/{row['pid']}/schedstat")).exists()]


def cpu_of(backends: list[Path]) -> float:
    """Milliseconds."""
    return sum(int(path.read_text().split()[0]) / 1e6 for path in backends)


def summarize(rows: list[tuple[float, float, float]]) -> dict[str, float]:
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


def vacuum(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def fill(
    db: database.Database, partition: int, dice: Any, chunks: int, *, start: int = 0, per_document: int = PER_DOCUMENT
) -> None:
    """Documents in the tables as the pipeline leaves them: so many chunks, beside the `start` that are there already.

    The postings are counted here, not in the database, which takes a tenth of the time: a text is distinct words `w12`
    that PostgreSQL leaves as they are. Indexes of an empty table are made in the end.
    """
    odds = 1 / (np.arange(VOCABULARY) + 50.0)
    odds /= odds.sum()
    centres = dice.normal(size=(CENTRES, DIMENSIONS))
    counts, terms = np.zeros(VOCABULARY, np.int64), 0
    with psycopg.connect(db.url, autocommit=True) as connection, _indexes_last(connection):
        for first in range(start, start + chunks, PART):
            count = min(PART, start + chunks - first)
            vectors = centres[dice.integers(0, CENTRES, count)] + 0.7 * dice.normal(size=(count, DIMENSIONS))
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            lengths = dice.integers(40, 140, count)
            words = dice.choice(VOCABULARY, size=int(lengths.sum()), p=odds)
            with connection.transaction():
                values = [_vector(row) for row in vectors]
                counts += _put(
                    connection, partition, first, per_document, list(np.split(words, np.cumsum(lengths)[:-1])), values
                )
            terms += int(lengths.sum())
            if (first + count) % 20_000 == 0:
                print(f"  {first + count} chunks", flush=True)
        found = np.flatnonzero(counts)
        _copy(connection, "term_counts (partition_id, term, chunks)", ((partition, f"w{w}", counts[w]) for w in found))
        connection.execute(
            "update partitions set chunks = chunks + %s, terms = terms + %s where id = %s", [chunks, terms, partition]
        )


@contextmanager
def _indexes_last(connection: psycopg.Connection[Any]) -> Iterator[None]:
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


def _put(
    connection: psycopg.Connection[Any],
    partition: int,
    first: int,
    per_document: int,
    texts: list[Any],
    vectors: list[str],
) -> Any:
    """One part; in how many chunks each word is."""
    places = range(first, first + len(texts))
    names = [f"doc_{partition}_{n // per_document:06d}" for n in places]
    indexes = [n % per_document for n in places]
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
    of = list(zip(ids, names, indexes, keys, texts, vectors, strict=True))
    into = 'chunks (id, partition_id, document_id, generation, index, start, "end", tokens, content, embedding_key)'
    contents = [" ".join(f"w{word}" for word in text) for text in texts]
    _copy(
        connection,
        into,
        (
            (number, partition, name, 1, index, 0, len(content), 1, content, rf"\\x{key}")
            for (number, name, index, key, _, _), content in zip(of, contents, strict=True)
        ),
    )
    stored = ((partition, f"{name}#1#{index}", name, vector) for _, name, index, _, _, vector in of)
    _copy(connection, "vectors (partition_id, id, document_id, values)", stored)
    kept = ((partition, rf"\\x{key}", vector) for _, _, _, key, _, vector in of)
    _copy(connection, "embeddings (partition_id, key, values)", kept)
    counts, rows = np.zeros(VOCABULARY, np.int64), []
    for number, _, _, _, text, _ in of:
        words, tfs = np.unique(text, return_counts=True)
        counts[words] += 1
        rows += [(partition, f"w{word}", number, tf, len(text)) for word, tf in zip(words, tfs, strict=True)]
    _copy(connection, "postings (partition_id, term, chunk_id, tf, length)", rows)
    return counts


def _copy(connection: psycopg.Connection[Any], into: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Values hold neither tabs nor line ends."""
    with connection.cursor().copy(f"copy {into} from stdin".encode()) as copy:
        copy.write("".join("\t".join(map(str, row)) + "\n" for row in rows))


def make_queries(db: database.Database, partition: int, dice: Any, count: int) -> list[tuple[str, list[float]]]:
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


def _vector(row: Any) -> str:
    return "[" + ",".join(f"{value:.5f}" for value in row) + "]"


if __name__ == "__main__":
    main()
