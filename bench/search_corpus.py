"""Chunks for `search_scale`: random vectors around centres, texts with a Zipf vocabulary, as ingestion leaves them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import psycopg

from retrieval import ids
from retrieval.database import database
from retrieval.ports import Scope
from retrieval.search import bm25

DIMENSIONS, CENTRES, VOCABULARY, PER_DOCUMENT, PART = 384, 300, 30_000, 20, 2_000


def fill(db: database.Database, partition: int, dice: Any, chunks: int) -> None:
    """Documents of 20 chunks each, in the tables as the pipeline leaves them."""
    quick = db.row("select 1 as one from postings limit 1") is None
    if quick:  # indexes that are made in the end take a third of the time
        db.rows("alter table postings drop constraint postings_pkey")
        db.rows("drop index postings_of_chunk")
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
        if (start // PART) % 5 == 4:
            print(f"  {start + count} chunks", flush=True)
    if quick:
        with psycopg.connect(db.url, autocommit=True) as connection:
            connection.execute("set maintenance_work_mem = '512MB'")
            connection.execute("create index postings_of_chunk on postings (chunk_id)")
            connection.execute(
                "alter table postings add constraint postings_pkey"
                " primary key (partition_id, term, chunk_id) include (tf, length)"
            )


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
