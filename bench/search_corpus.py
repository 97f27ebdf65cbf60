"""Chunks for `search_scale` and `growth`, as ingestion leaves them: random vectors, texts with a Zipf vocabulary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import numpy as np
import psycopg

from retrieval import ids
from retrieval.database import database
from retrieval.ports import Scope

DIMENSIONS, CENTRES, VOCABULARY, PER_DOCUMENT, PART = 384, 300, 30_000, 20, 2_000


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
                counts += _put(connection, partition, first, per_document, _texts(words, lengths), values)
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


def _texts(words: Any, lengths: Any) -> list[Any]:
    """The numbers of each text's words."""
    return list(np.split(words, np.cumsum(lengths)[:-1]))


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


def queries(db: database.Database, partition: int, dice: Any, count: int) -> list[tuple[str, list[float]]]:
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


def scope(db: database.Database) -> tuple[Scope, int]:
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
