"""Embed step: compute the vectors that the partition lacks and store each batch at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from retrieval.accounts.queries import usage
from retrieval.database.database import Database
from retrieval.database.half_vectors import HALFVEC_OID, HalfVectors
from retrieval.documents.queries import embeddings
from retrieval.errors import Fatal, NotEmbedded, StepError
from retrieval.ingestion import within_quotas
from retrieval.ingestion.chunking.titles import embedded_text
from retrieval.ingestion.items import Item
from retrieval.ingestion.queries import crashes, run_documents
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.metrics import catalog, counts
from retrieval.ports import Embedder
from retrieval.statuses import Stage

if TYPE_CHECKING:
    from retrieval.ports import Embeddings


@dataclass(slots=True)
class _MissingText:
    """Text without a vector."""

    embedding_key: bytes
    content: str
    header: str
    tokens: int
    document_id: str
    generation: int


def embed_documents(db: Database, lease: Lease, window: Sequence[DocumentKey], embedder: Embedder) -> int:
    """Embed the window's new texts and return their number; a document with a rejected text fails."""
    items = within_quotas.affordable_items(db, lease, run_documents.items_at_stage(db, lease, window, Stage.CHUNKED))
    embedded, failed = embed_missing(db, lease, items, embedder)
    run_documents.advance_items(db, lease, [(item, {}) for item in items if item.key not in failed], Stage.EMBEDDED)
    return embedded


def embed_missing(
    db: Database, lease: Lease, items: Sequence[Item], embedder: Embedder
) -> tuple[int, Collection[DocumentKey]]:
    """Embed texts without a vector; return their number and the documents with a text that the model rejects."""
    texts = db.fetch(
        _MissingText,
        """
        select distinct on (c.embedding_key) c.embedding_key, c.content, c.header, c.tokens, c.document_id, c.generation
        from unnest(%(documents)s::text[], %(generations)s::bigint[]) as w (document, generation)
        join chunks c on c.document_id = w.document and c.generation = w.generation
        left join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key
        where e.key is null
        """,
        {
            "documents": [item.key.document_id for item in items],
            "generations": [item.generation for item in items],
        },
    )
    titles = {(item.key.document_id, item.generation): item.title for item in items}
    for text in texts:
        text.content = embedded_text(titles[text.document_id, text.generation], text.header, text.content)
    texts.sort(key=lambda text: len(text.content))
    reasons: dict[bytes, str] = {}
    try:
        _embed_texts(db, lease, texts, embedder, reasons)
    finally:
        failures = _describe_failures(db, items, reasons)
        run_documents.fail_items(db, lease, failures)
    return len(texts), failures.keys()


class _RejectedPassage(NamedTuple):
    """Position of a text that the model rejects."""

    document_id: str
    generation: int
    embedding_key: bytes
    start: int
    end: int
    page: int | None
    passages: int


def _describe_failures(db: Database, items: Sequence[Item], reasons: Mapping[bytes, str]) -> dict[DocumentKey, str]:
    """Return the error of each document with a rejected text, by its first such passage."""
    if not reasons:
        return {}
    passages = db.fetch(
        _RejectedPassage,
        """
        select distinct on (c.document_id, c.generation) c.document_id, c.generation, c.embedding_key, c.start, c."end",
               c.page, (count(*) over (partition by c.document_id, c.generation))::int as passages
        from unnest(%(documents)s::text[], %(generations)s::bigint[]) as w (document, generation)
        join chunks c on c.document_id = w.document and c.generation = w.generation
        where c.embedding_key = any(%(keys)s)
        order by c.document_id, c.generation, c.index
        """,
        {
            "documents": [item.key.document_id for item in items],
            "generations": [item.generation for item in items],
            "keys": list(reasons),
        },
    )
    first = {(passage.document_id, passage.generation): passage for passage in passages}
    return {
        item.key: _describe_failure(passage, reasons[passage.embedding_key])
        for item in items
        if (passage := first.get((item.key.document_id, item.generation)))
    }


def _describe_failure(passage: _RejectedPassage, reason: str) -> str:
    page = "" if passage.page is None else f"page {passage.page}, "
    more = "" if passage.passages == 1 else f" Nor {passage.passages - 1:,} more of the document."
    return (
        f"embed: The model cannot embed this passage ({page}characters {passage.start:,} to {passage.end:,}).{more}"
        f" {reason} It embeds other texts. Change the passage, or give the namespace another model"
        " (embeddingModelConfig); then ingest the document again."
    )


def _embed_texts(
    db: Database, lease: Lease, texts: Sequence[_MissingText], embedder: Embedder, reasons: MutableMapping[bytes, str]
) -> None:
    """Embed texts with concurrent calls and store each result; add rejected texts to `reasons` by key."""
    starts = iter(range(0, len(texts), embedder.batch_size))
    pending: dict[Future[Embeddings], Sequence[_MissingText]] = {}
    failure: StepError | None = None
    with ThreadPoolExecutor(embedder.calls, thread_name_prefix="embed") as pool:

        def submit(offset: int) -> None:
            part = texts[offset : offset + embedder.batch_size]
            context = copy_context()
            texts_of_part = [text.content for text in part]
            pending[pool.submit(context.run, embedder.embed, texts_of_part, "document")] = part

        for offset in islice(starts, embedder.calls):
            submit(offset)
        while pending:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                part = pending.pop(future)
                try:
                    vectors = future.result()
                except NotEmbedded as error:
                    reasons.update((part[position].embedding_key, reason) for position, reason in error.reasons.items())
                    part = [text for position, text in enumerate(part) if position not in error.reasons]
                    vectors = error.vectors
                except StepError as error:
                    # No further call starts after a failure; results of running calls are stored.
                    failure = failure or error
                    continue
                if failure is None and (start := next(starts, None)) is not None:
                    submit(start)
                if part:
                    _check_vectors(vectors, len(part), embedder)
                    _store_vectors(db, lease, part, vectors, embedder)
    if failure is not None:
        raise failure


def _check_vectors(vectors: Embeddings, count: int, embedder: Embedder) -> None:
    import numpy as np

    if vectors.shape != (count, embedder.dimensions):
        raise Fatal(
            f"The embedding model answered with {vectors.shape[0]} vectors of {vectors.shape[-1]} dimensions"
            f" where {count} of {embedder.dimensions} were due."
        )
    if not np.isfinite(vectors).all():
        raise Fatal("The embedding model answered with numbers that are not finite.")


def _store_vectors(
    db: Database, lease: Lease, part: Sequence[_MissingText], vectors: Embeddings, embedder: Embedder
) -> None:
    """Store the vectors of texts that still exist, and record the tokens used."""
    with db.transaction() as connection:
        kind = connection.fetch_one(int, HALFVEC_OID + ", " + embeddings.SHARED_LOCK, {"partition": lease.partition})
        batches.guard_lease(connection, lease)
        connection.execute(
            """
            insert into embeddings (partition_id, key, values)
            select %(partition)s, w.key, w.value
            from unnest(%(keys)s::bytea[], %(values)s::halfvec[]) as w (key, value) where """
            + embeddings.IS_EMBEDDING_USED
            + " on conflict do nothing",
            {
                "partition": lease.partition,
                "keys": [text.embedding_key for text in part],
                "values": HalfVectors(vectors, kind or 0),
            },
        )
        tokens = sum(text.tokens for text in part)
        usage.record_tokens(connection, lease.scope, embedder.provider, embedder.model, tokens)
        crashes.clear_suspects(connection, lease, {text.document_id for text in part})
    # Counted even if another batch stored the same vectors first.
    counts.add_count(catalog.TOKENS, by=tokens)
