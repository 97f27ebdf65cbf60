"""Shared embeddings of a partition's chunks, with deletion of unused embeddings.

Writers and readers hold a shared lock of the partition, deletion an exclusive one: no embedding in use is deleted, and
none is written for a deleted chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from retrieval.database.rows import Executor

# Held until the transaction ends. Taken before the fence: a batch row waiting here could not be reclaimed.
SHARED_LOCK: LiteralString = "pg_advisory_xact_lock_shared(%(partition)s)"
# True if a chunk uses the embedding `w.key`, in a statement after SHARED_LOCK. `exists` would read all
# chunks under a generic plan.
IS_EMBEDDING_USED: LiteralString = (
    "(select true from chunks c where c.partition_id = %(partition)s and c.embedding_key = w.key limit 1)"
)
_EXCLUSIVE_LOCK: LiteralString = "select pg_advisory_xact_lock(%(partition)s)"
_DELETE_UNUSED: LiteralString = """
    delete from embeddings e
    where e.partition_id = %(partition)s and e.key = any(%(keys)s)
      and not exists (select from chunks c where c.partition_id = e.partition_id and c.embedding_key = e.key)
"""


def lock_embeddings(connection: Executor, partition: int) -> None:
    """Take the shared lock of the partition."""
    connection.execute("select " + SHARED_LOCK, {"partition": partition})


def delete_chunks(connection: Executor, partition: int, chunks: Sequence[int]) -> None:
    """Delete the chunks and their unused embeddings."""
    connection.execute(_EXCLUSIVE_LOCK, {"partition": partition})
    statement: LiteralString = "delete from chunks where id = any(%(chunks)s) returning embedding_key"
    keys = set(connection.fetch(bytes, statement, {"chunks": list(chunks)}))
    connection.execute(_DELETE_UNUSED, {"partition": partition, "keys": list(keys)})


def delete_mismatched_embedding(connection: Executor, partition: int, embedding_key: bytes, dimensions: int) -> None:
    """Delete an embedding with other dimensions; its chunks are embedded again."""
    connection.execute(_EXCLUSIVE_LOCK, {"partition": partition})
    connection.execute(
        "delete from embeddings where partition_id = %(partition)s and key = %(key)s"
        " and vector_dims(values) <> %(dimensions)s",
        {"partition": partition, "key": embedding_key, "dimensions": dimensions},
    )


def delete_unused_embeddings(connection: Executor, partition: int, keys: Sequence[bytes]) -> None:
    """Delete the unused embeddings among `keys`."""
    connection.execute(_EXCLUSIVE_LOCK, {"partition": partition})
    connection.execute(_DELETE_UNUSED, {"partition": partition, "keys": list(keys)})
