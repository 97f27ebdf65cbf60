"""The statuses of job runs, documents and connections, the stages of documents and the outcomes of runs, by name.

They are strings: what is stored and what clients see (D22, D31, D52, D86).
"""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """Of a job run."""

    QUEUED = "QUEUED"
    PRE_PROCESSING = "PRE_PROCESSING"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"


class Outcome(StrEnum):
    """How a COMPLETED job run ended."""

    SUCCEEDED = "SUCCEEDED"
    COMPLETED_WITH_FAILURES = "COMPLETED_WITH_FAILURES"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class DocumentStatus(StrEnum):
    """Of a document, and of a document within one job run."""

    BACKLOG = "BACKLOG"
    QUEUED = "QUEUED"
    QUEUED_FOR_RESYNC = "QUEUED_FOR_RESYNC"
    PROCESSING = "PROCESSING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class ConnectionStatus(StrEnum):
    """Of a connection to a content service."""

    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    FAILED = "FAILED"
    REVOKED = "REVOKED"


class Stage(StrEnum):
    """How far a document has come in a job run: the last step that is done."""

    ACCEPTED = "accepted"
    FETCHED = "fetched"
    PARSED = "parsed"
    CHUNKED = "chunked"
    EMBEDDED = "embedded"
    UPSERTED = "upserted"


WAITING = frozenset({DocumentStatus.BACKLOG, DocumentStatus.QUEUED, DocumentStatus.QUEUED_FOR_RESYNC})
"""Statuses of documents that no step has begun on."""
