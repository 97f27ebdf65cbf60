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
    """Columns of a document within a job run that the steps use unchanged."""

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
    # Time of the request; later metadata changes by clients win.
    accepted: datetime


@dataclass(frozen=True, slots=True)
class Item(StoredItem):
    """Document within a job run."""

    key: DocumentKey
    pages: tuple[int, ...]
    properties: Mapping[str, Any]
    embedding: Mapping[str, Any]
    # None keeps the stored metadata, so that a resync undoes no later change.
    metadata: Mapping[str, Any] | None
    chunk_size: int
    chunk_overlap: int
    ocr: OcrStrategy
    # From the request.
    modified_at: str | None = None
    # Only for web pages.
    page: ScrapeOptions | None = None
    # Sealed password of a protected file.
    password: bytes | None = None

    @property
    def characters(self) -> int:
        """Return the characters of the parsed text, or the bytes of a sent text."""
        return int(self.properties.get("characterCount") or self.raw_size or 0)

    def file_key(self, scope: Scope, name: str) -> str:
        """Return the storage key of a file of this generation."""
        return file_keys.document_key(scope, self.key.document_id, self.generation, name)

    @property
    def vector_prefix(self) -> str:
        """Return the id prefix of this generation's vectors."""
        return ids.vector_prefix(self.key.document_id, self.generation)


# From this blame on, a document runs in a batch of one.
ISOLATION_BLAME = 3

# A step records results in this interval; the death of its process loses no more.
RECORD_INTERVAL_SECONDS = 1.0

# Documents that pass the steps together: the window bounds the memory of a flow run.
WINDOW_DOCUMENTS = 64

# Step and the stage required for it.
REQUIRED_STAGES = {
    "fetch": Stage.ACCEPTED,
    "parse": Stage.FETCHED,
    "chunk": Stage.PARSED,
    "embed": Stage.CHUNKED,
    "upsert": Stage.EMBEDDED,
}

# Stages of documents that have not completed a step.
STAGES_BEFORE_STEP = {step: list(REQUIRED_STAGES.values())[: index + 1] for index, step in enumerate(REQUIRED_STAGES)}
# Step of a re-embedding instead of `upsert`.
STAGES_BEFORE_STEP["shadow"] = STAGES_BEFORE_STEP["upsert"]


def is_web_page(media_type: str) -> bool:
    return media_type.partition(";")[0].strip().lower() in {"text/html", "application/xhtml+xml"}
