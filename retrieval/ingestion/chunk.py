"""Chunk step: split parsed texts by the model's tokens and store chunks with their embedding keys."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.documents.queries import embeddings
from retrieval.errors import Skippable
from retrieval.ingestion import items, model_choice
from retrieval.ingestion.chunking import titles
from retrieval.ingestion.chunking.splitter import PreviousChunk
from retrieval.ingestion.chunking.titles import PreviousChunks, embedded_text
from retrieval.ingestion.items import Item
from retrieval.ingestion.parse import read_text
from retrieval.ingestion.queries import run_documents
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.ports import Chunk, Embedder, FileStore, Parsed, Tokenizer
from retrieval.statuses import Stage


def chunk_documents(
    db: Database,
    lease: Lease,
    window: Sequence[DocumentKey],
    files: FileStore,
    tokenizer: Tokenizer,
    embedder: Embedder,
    *,
    epoch: int = 0,
) -> None:
    """Split parsed documents into chunks; a document without text fails. `epoch`: version of the namespace's model."""
    results: list[tuple[Item, Mapping[str, Any], list[Chunk]]] = []
    failures: dict[DocumentKey, str] = {}
    last_save = time.monotonic()
    parsed_items = run_documents.items_at_stage(db, lease, window, Stage.PARSED)
    visible = _visible_generations(db, parsed_items, embedder)
    for item in parsed_items:
        try:
            previous = _previous_chunks(db, item, visible.get(item.key.document_id), tokenizer, embedder)
            chunks, title = _split_item(item, files, tokenizer, embedder, previous)
        except Skippable as error:
            failures[item.key] = str(error)
            continue
        results.append((item, {**title, "epoch": epoch}, chunks))
        # Record in short intervals, so that the death of the process loses little.
        if time.monotonic() - last_save > items.RECORD_INTERVAL_SECONDS:
            _record_chunks(db, lease, results, embedder)
            results, last_save = [], time.monotonic()
    _record_chunks(db, lease, results, embedder)
    run_documents.fail_items(db, lease, failures)


def _record_chunks(
    db: Database, lease: Lease, results: Sequence[tuple[Item, Mapping[str, Any], list[Chunk]]], embedder: Embedder
) -> None:
    with db.transaction() as connection:
        embeddings.lock_embeddings(connection, lease.partition)
        batches.guard_lease(connection, lease)
        _write_chunks(
            connection, lease, [(item, fields["title"], chunks) for item, fields, chunks in results], embedder
        )
        run_documents.write_stage(connection, [(item, fields) for item, fields, _ in results], Stage.CHUNKED)


def embedding_key(text: str, embedder: Embedder) -> bytes:
    """Return the key of an embedding, equal for equal text and model in any document."""
    keyed_text = _server_url(embedder) + embedder.passage_prefix + text
    return key_of(keyed_text, embedder.provider, embedder.model, embedder.dimensions)


def key_of(text: str, provider: str, model: str, dimensions: int) -> bytes:
    """Return the 16-byte key of a text's embedding by this model."""
    return hashlib.blake2b(f"{provider}\n{model}\n{dimensions}\n{text}".encode(), digest_size=16).digest()


class _VisibleGeneration(NamedTuple):
    """Visible generation of a document and its embedding configuration."""

    id: str
    generation: int
    embedding: dict[str, Any]


class _StoredChunk(NamedTuple):
    content: str
    header: str
    embedding_key: bytes
    shared: int


def _visible_generations(
    db: Database, parsed_items: Sequence[Item], embedder: Embedder
) -> dict[str, _VisibleGeneration]:
    """Return visible generations embedded with this model, by document id."""
    documents = db.fetch(
        _VisibleGeneration,
        """
        select id, active_generation as generation, embedding from documents
        where id = any(%(ids)s) and active_generation > 0 and embedding @> %(model)s::jsonb
        """,
        {"ids": [item.key.document_id for item in parsed_items], "model": json.dumps(_model_identity(embedder))},
    )
    return {document.id: document for document in documents}


def _previous_chunks(
    db: Database, item: Item, visible: _VisibleGeneration | None, tokenizer: Tokenizer, embedder: Embedder
) -> PreviousChunks | None:
    """Return the visible chunks with an unchanged embedding key: same model, same title."""
    if visible is None:
        return None
    chunks = db.fetch(
        _StoredChunk,
        """
        select content, header, embedding_key,
               least(length(content), greatest(0, lag("end", 1, 0) over (order by index) - start)) as shared
        from chunks where document_id = %(document)s and generation = %(generation)s order by index
        """,
        {"document": item.key.document_id, "generation": visible.generation},
    )
    title = titles.title_line(item.title, tokenizer, embedder.max_tokens)
    unchanged = [
        PreviousChunk(chunk.content, chunk.shared)
        for chunk in chunks
        if chunk.embedding_key == embedding_key(embedded_text(title, chunk.header, chunk.content), embedder)
    ]
    return PreviousChunks(unchanged, visible.embedding["chunkSize"], visible.embedding["chunkOverlap"])


def previous_chunks(db: Database, item: Item, tokenizer: Tokenizer, embedder: Embedder) -> PreviousChunks | None:
    """Return the visible chunks of an item's document that this model would embed unchanged, if any."""
    visible = _visible_generations(db, [item], embedder)
    return _previous_chunks(db, item, visible.get(item.key.document_id), tokenizer, embedder)


def _model_identity(embedder: Embedder) -> dict[str, Any]:
    prefix = {"passagePrefix": embedder.passage_prefix} if embedder.passage_prefix else {}
    url = {"url": _server_url(embedder)} if _server_url(embedder) else {}
    return {"provider": embedder.provider, "model": embedder.model, "dimensions": embedder.dimensions, **prefix, **url}


def _server_url(embedder: Embedder) -> str:
    # A model name does not identify the model of a namespace's own server.
    return str(getattr(embedder, "url", ""))


NO_TEXT = (
    "The document contains no text. Check the file. If it is a scan, retry it with the OCR strategy STANDARD_OCR "
    "(ocrConfig)."
)


def _split_item(
    item: Item, files: FileStore, tokenizer: Tokenizer, embedder: Embedder, previous: PreviousChunks | None
) -> tuple[list[Chunk], Mapping[str, Any]]:
    text = read_text(files, item.parsed_key or "")
    parsed = Parsed(text, item.title, item.pages, item.properties)
    split = titles.split_titled(parsed, tokenizer, item.chunk_size, item.chunk_overlap, embedder.max_tokens, previous)
    chunks = split.chunks
    if not chunks:
        raise Skippable(NO_TEXT)
    language = model_choice.find_language(str(item.properties.get("language") or ""), text)
    properties = {
        **{name: value for name, value in item.properties.items() if name != "language"},
        **({"language": language} if language else {}),
        "characterCount": len(text),
        "tokenCount": sum(chunk.tokens for chunk in chunks),
        "embeddingCount": len(chunks),
    }
    embedding = {**_model_identity(embedder), "chunkSize": split.size, "chunkOverlap": split.overlap}
    return chunks, {"properties": properties, "embedding": embedding, "title": split.title}


def _write_chunks(
    connection: ThreadConnection, lease: Lease, pieces: Sequence[tuple[Item, str, list[Chunk]]], embedder: Embedder
) -> None:
    # Replaces the chunks of an earlier attempt.
    connection.execute(
        """
        delete from chunks c using unnest(%(documents)s::text[], %(generations)s::bigint[]) as w (document, generation)
        where c.document_id = w.document and c.generation = w.generation
        """,
        {
            "documents": [item.key.document_id for item, _, _ in pieces],
            "generations": [item.generation for item, _, _ in pieces],
        },
    )
    with connection.cursor().copy(
        'copy chunks (partition_id, document_id, generation, index, start, "end", page, tokens, content,'
        " embedding_key, header, rows) from stdin"
    ) as copy:
        for item, title, chunks in pieces:
            for chunk in chunks:
                copy.write_row(
                    (
                        lease.partition,
                        item.key.document_id,
                        item.generation,
                        chunk.index,
                        chunk.start,
                        chunk.end,
                        chunk.page,
                        chunk.tokens,
                        chunk.text,
                        embedding_key(embedded_text(title, chunk.header, chunk.text), embedder),
                        chunk.header,
                        Jsonb(list(chunk.rows)) if chunk.rows else None,
                    )
                )
