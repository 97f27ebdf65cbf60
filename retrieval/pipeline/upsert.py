"""Upsert: put the vectors into the store, then make the new generation the visible one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from retrieval.batches import Lease
from retrieval.database import Database
from retrieval.errors import Retryable
from retrieval.pipeline import activate, items
from retrieval.pipeline.items import Item, Key
from retrieval.ports import Vector, VectorStore

PAGE = 1000
"""Vectors in memory at once."""


def run(db: Database, lease: Lease, window: Sequence[Key], store: VectorStore, language: str) -> None:
    """After this the window's documents are found, whole, in their new version and no other."""
    work = items.at_stage(db, lease, window, "embedded")
    for item in work:
        _write(db, lease, item, store)
    activate.flip(db, lease, work, language)


def vector_id(document_id: str, generation: int, index: int) -> str:
    return f"{document_id}#{generation}#{index}"


def _write(db: Database, lease: Lease, item: Item, store: VectorStore) -> None:
    start = 0
    while True:
        rows = db.rows(
            """
            select c.index, e.values::text as values
            from chunks c left join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key
            where c.document_id = %(document)s and c.generation = %(generation)s and c.index >= %(start)s
            order by c.index limit %(page)s
            """,
            {"document": item.key.document_id, "generation": item.generation, "start": start, "page": PAGE},
        )
        if not rows:
            return
        if any(row["values"] is None for row in rows):
            raise Retryable("A vector that was there is gone; it is made again.")
        store.upsert(
            lease.scope,
            [
                Vector(
                    vector_id(item.key.document_id, item.generation, row["index"]),
                    item.key.document_id,
                    json.loads(row["values"]),
                )
                for row in rows
            ],
        )
        start = rows[-1]["index"] + 1
