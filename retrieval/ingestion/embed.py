"""Embed: make the vectors that the partition does not have yet, and keep each as soon as it is made."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from retrieval.accounts.queries import usage
from retrieval.database.database import Database
from retrieval.database.half_vectors import KIND, HalfVectors
from retrieval.documents.queries import embeddings
from retrieval.errors import Fatal, StepError
from retrieval.ingestion import within_quotas
from retrieval.ingestion.chunking.titles import embedded_text
from retrieval.ingestion.items import Item
from retrieval.ingestion.queries import poison, run_documents
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.metrics import catalog, counts
from retrieval.ports import Embedder
from retrieval.statuses import Stage

if TYPE_CHECKING:
    from retrieval.ports import Embeddings


@dataclass(slots=True)
class _Text:
    """A text without a vector."""

    embedding_key: bytes
    content: str
    header: str
    tokens: int
    document_id: str
    generation: int


def embed_documents(db: Database, lease: Lease, window: Sequence[DocumentKey], embedder: Embedder) -> int:
    """Embed the window's new texts; how many there were. Texts that the partition already holds cost nothing."""
    work = within_quotas.affordable_items(db, lease, run_documents.at_stage(db, lease, window, Stage.CHUNKED))
    embedded = embed_missing(db, lease, work, embedder)
    run_documents.advance_items(db, lease, [(item, {}) for item in work], Stage.EMBEDDED)
    return embedded


def embed_missing(db: Database, lease: Lease, work: Sequence[Item], embedder: Embedder) -> int:
    """Embed every text of these documents that has no vector in the partition."""
    texts = db.fetch(
        _Text,
        """
        select distinct on (c.embedding_key) c.embedding_key, c.content, c.header, c.tokens, c.document_id, c.generation
        from unnest(%(documents)s::text[], %(generations)s::bigint[]) as w (document, generation)
        join chunks c on c.document_id = w.document and c.generation = w.generation
        left join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key
        where e.key is null
        """,
        {
            "documents": [item.key.document_id for item in work],
            "generations": [item.generation for item in work],
        },
    )
    titles = {(item.key.document_id, item.generation): item.title for item in work}
    for text in texts:
        text.content = embedded_text(titles[text.document_id, text.generation], text.header, text.content)
    texts.sort(key=lambda text: len(text.content))
    _embed(db, lease, texts, embedder)
    return len(texts)


def _embed(db: Database, lease: Lease, texts: Sequence[_Text], embedder: Embedder) -> None:
    """Embed texts with as many concurrent calls as the model supports. If one fails, results of the others are kept.

    No further call is started then; the next try of the step embeds the rest.
    """
    starts = iter(range(0, len(texts), embedder.batch_size))
    waiting: dict[Future[Embeddings], Sequence[_Text]] = {}
    trouble: StepError | None = None
    with ThreadPoolExecutor(embedder.calls, thread_name_prefix="embed") as pool:

        def ask(start: int) -> None:
            part = texts[start : start + embedder.batch_size]
            context = copy_context()
            texts_of_part = [text.content for text in part]
            waiting[pool.submit(context.run, embedder.embed, texts_of_part, "document")] = part

        for first in islice(starts, embedder.calls):
            ask(first)
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                part = waiting.pop(future)
                try:
                    vectors = future.result()
                except StepError as error:
                    trouble = trouble or error
                    continue
                if trouble is None and (start := next(starts, None)) is not None:
                    ask(start)
                _check(vectors, len(part), embedder)
                _keep(db, lease, part, vectors, embedder)
    if trouble is not None:
        raise trouble


def _check(vectors: Embeddings, count: int, embedder: Embedder) -> None:
    import numpy as np

    if vectors.shape != (count, embedder.dimensions):
        raise Fatal(
            f"The embedding model answered with {vectors.shape[0]} vectors of {vectors.shape[-1]} dimensions"
            f" where {count} of {embedder.dimensions} were due."
        )
    if not np.isfinite(vectors).all():
        raise Fatal("The embedding model answered with numbers that are not finite.")


def _keep(db: Database, lease: Lease, part: Sequence[_Text], vectors: Embeddings, embedder: Embedder) -> None:
    """Store the vectors, but for texts that were deleted meanwhile, and count what they cost, even where another batch
    had them made meanwhile."""
    with db.transaction() as connection:
        kind = connection.fetch_one(int, KIND + ", " + embeddings.HELD, {"partition": lease.partition})
        batches.guard_lease(connection, lease)
        connection.execute(
            """
            insert into embeddings (partition_id, key, values)
            select %(partition)s, w.key, w.value
            from unnest(%(keys)s::bytea[], %(values)s::halfvec[]) as w (key, value) where """
            + embeddings.NEEDED
            + " on conflict do nothing",
            {
                "partition": lease.partition,
                "keys": [text.embedding_key for text in part],
                "values": HalfVectors(vectors, kind or 0),
            },
        )
        tokens = sum(text.tokens for text in part)
        usage.record_tokens(connection, lease.scope, embedder.provider, embedder.model, tokens)
        poison.clear_suspects(connection, lease, {text.document_id for text in part})
    counts.add_count(catalog.TOKENS, by=tokens)
