"""Documents of a job run, for the steps of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retrieval import ids
from retrieval.documents import file_keys
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.ports import OcrStrategy, Scope, ScrapeOptions
from retrieval.statuses import Stage


@dataclass(frozen=True, slots=True)
class StoredItem:
    """Columns of a document within a job run, as stored."""

    generation: int
    name: str
    media_type: str
    stage: str
    raw_key: str | None
    raw_hash: bytes | None
    raw_size: int | None
    parsed_key: str | None
    title: str
    fingerprint: bytes | None
    # Time of the request. Later changes of metadata by clients have priority.
    accepted_at: datetime


@dataclass(frozen=True, slots=True)
class Item(StoredItem):
    """Document within a job run, with the options of its request."""

    key: DocumentKey
    pages: tuple[int, ...]
    properties: Mapping[str, Any]
    embedding: Mapping[str, Any]
    # None keeps the stored metadata, so that another ingestion by the same job does not undo later changes.
    metadata: Mapping[str, Any] | None
    chunk_size: int
    chunk_overlap: int
    ocr: OcrStrategy
    # Of the content, as stated in the request.
    modified_at: str | None = None
    # None for documents other than web pages.
    scrape_options: ScrapeOptions | None = None
    # Sealed password of a protected file.
    password: bytes | None = None

    @property
    def characters(self) -> int:
        """Return the characters of the parsed text; before it was parsed, the bytes of the raw file."""
        return int(self.properties.get("characterCount") or self.raw_size or 0)

    def file_key(self, scope: Scope, name: str) -> str:
        """Return the storage key of a file of this generation."""
        return file_keys.document_key(scope, self.key.document_id, self.generation, name)

    @property
    def vector_prefix(self) -> str:
        """Return the id prefix of this generation's vectors."""
        return ids.vector_prefix(self.key.document_id, self.generation)


# A document with at least this blame for crashes runs in a window of its own.
ISOLATION_BLAME = 3

# A step saves its results in this interval, so a crash loses the work of one interval.
RECORD_INTERVAL_SECONDS = 1.0

# Number of documents that pass the steps together. It bounds the memory of a flow run.
WINDOW_DOCUMENTS = 64

# Stage of a document before each step.
REQUIRED_STAGES = {
    "fetch": Stage.ACCEPTED,
    "parse": Stage.FETCHED,
    "chunk": Stage.PARSED,
    "embed": Stage.CHUNKED,
    "upsert": Stage.EMBEDDED,
}

_STAGES = list(REQUIRED_STAGES.values())
# Stages of documents that have not completed the step.
STAGES_BEFORE_STEP = {step: _STAGES[: index + 1] for index, step in enumerate(REQUIRED_STAGES)}
# Replaces `upsert` in a re-embedding.
STAGES_BEFORE_STEP["shadow"] = STAGES_BEFORE_STEP["upsert"]


def is_web_page(media_type: str) -> bool:
    return media_type.partition(";")[0].strip().lower() in {"text/html", "application/xhtml+xml"}
