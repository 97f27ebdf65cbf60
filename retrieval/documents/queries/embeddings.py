"""Embeddings, shared by the chunks of a partition: each exists as long as one of its chunks.

Writers and readers of embeddings share a lock of the partition; deletion holds it exclusively. So no embedding is
deleted that a chunk is about to use, and none is written for a deleted chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from retrieval.database.rows import Executor

HELD: LiteralString = "pg_advisory_xact_lock_shared(%(partition)s)"
"""Until the transaction ends; before the fence is held, since a batch whose row waits here could not be taken back."""
NEEDED: LiteralString = (
    "(select true from chunks c where c.partition_id = %(partition)s and c.embedding_key = w.key limit 1)"
)
"""Whether a chunk has the embedding `w.key`, in a statement after the one with HELD. With `exists`, all chunks would be
read where the plan is for any values."""
_ALONE: LiteralString = "select pg_advisory_xact_lock(%(partition)s)"
_UNUSED: LiteralString = """
    delete from embeddings e
    where e.partition_id = %(partition)s and e.key = any(%(keys)s)
      and not exists (select from chunks c where c.partition_id = e.partition_id and c.embedding_key = e.key)
"""


def hold_vectors(connection: Executor, partition: int) -> None:
    """A statement with HELD."""
    connection.execute("select " + HELD, {"partition": partition})


def forget_chunks(connection: Executor, partition: int, chunks: Sequence[int]) -> None:
    """Delete these, and the embeddings that no other chunk needs."""
    connection.execute(_ALONE, {"partition": partition})
    statement: LiteralString = "delete from chunks where id = any(%(chunks)s) returning embedding_key"
    keys = set(connection.fetch(bytes, statement, {"chunks": list(chunks)}))
    connection.execute(_UNUSED, {"partition": partition, "keys": list(keys)})


def forget_wrong(connection: Executor, partition: int, key: bytes, dimensions: int) -> None:
    """Delete this one, if it has other dimensions; the chunks that need it lack it then."""
    connection.execute(_ALONE, {"partition": partition})
    connection.execute(
        "delete from embeddings where partition_id = %(partition)s and key = %(key)s"
        " and vector_dims(values) <> %(dimensions)s",
        {"partition": partition, "key": key, "dimensions": dimensions},
    )


def forget_unused(connection: Executor, partition: int, keys: Sequence[bytes]) -> None:
    """Delete those of these that no chunk needs."""
    connection.execute(_ALONE, {"partition": partition})
    connection.execute(_UNUSED, {"partition": partition, "keys": list(keys)})
