"""Documents of a job run as the steps know them."""

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
    accepted: datetime
    """When the request was: what a client changed later stays changed."""


@dataclass(frozen=True, slots=True)
class Item(StoredItem):
    """A document within a job run, with all that the steps need to know of it."""

    key: DocumentKey
    pages: tuple[int, ...]
    properties: Mapping[str, Any]
    embedding: Mapping[str, Any]
    metadata: Mapping[str, Any] | None
    """None leaves what is there: a job's metadata is applied once, so that a resync undoes no change made since."""
    chunk_size: int
    chunk_overlap: int
    ocr: OcrStrategy
    modified_at: str | None = None
    """When the content was last modified, if the request told."""
    page: ScrapeOptions | None = None
    """What to take of it if it is a web page."""
    password: bytes | None = None
    """Sealed; opens the file, if it is protected."""

    @property
    def characters(self) -> int:
        """Characters of the parsed text; of a text that was sent, its bytes."""
        return int(self.properties.get("characterCount") or self.raw_size or 0)

    def file_key(self, scope: Scope, name: str) -> str:
        """Under which a file of this generation is stored."""
        return file_keys.of_document(scope, self.key.document_id, self.generation, name)

    @property
    def vectors(self) -> str:
        """Return the prefix of this generation's vector ids."""
        return ids.vector_prefix(self.key.document_id, self.generation)


ALONE = 3
"""What so much is held against is worked on alone (`losses`)."""

KEEP_SECONDS = 1.0
"""So often a step records what it has done: what the loss of its process can cost, but for the longest document."""

ARCHIVE_PATH = "archivePath"
"""Property and metadata key of a document that was packed into another: its path there."""

STAGES = {
    "fetch": Stage.ACCEPTED,
    "parse": Stage.FETCHED,
    "chunk": Stage.PARSED,
    "embed": Stage.CHUNKED,
    "upsert": Stage.EMBEDDED,
}
"""Each step, and the stage a document must have reached for it."""

BEFORE = {step: list(STAGES.values())[: index + 1] for index, step in enumerate(STAGES)}
BEFORE["shadow"] = BEFORE["upsert"]
"""The stages of documents that have not done a step."""


def is_page(media_type: str) -> bool:
    return media_type.partition(";")[0].strip().lower() in {"text/html", "application/xhtml+xml"}
