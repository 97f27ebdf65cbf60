"""The statuses of job runs, documents and connections, the stages of documents and the outcomes of runs, by name.

They are strings: what is stored and what clients see.
"""

from __future__ import annotations

from enum import StrEnum
from typing import LiteralString


class RunStatus(StrEnum):
    """Status of a job run."""

    QUEUED = "QUEUED"
    PRE_PROCESSING = "PRE_PROCESSING"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"


class Outcome(StrEnum):
    """Outcome of a COMPLETED job run."""

    SUCCEEDED = "SUCCEEDED"
    COMPLETED_WITH_FAILURES = "COMPLETED_WITH_FAILURES"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class DocumentStatus(StrEnum):
    """Status of a document, and of a document within one job run."""

    BACKLOG = "BACKLOG"
    QUEUED = "QUEUED"
    QUEUED_FOR_RESYNC = "QUEUED_FOR_RESYNC"
    PROCESSING = "PROCESSING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class EvaluationStatus(StrEnum):
    """Status of an evaluation run."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class ConnectionStatus(StrEnum):
    """Status of a connection to a content service."""

    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    FAILED = "FAILED"
    REVOKED = "REVOKED"


class Stage(StrEnum):
    """Progress of a document in a job run: the last step that is done, in their order."""

    ACCEPTED = "accepted"
    FETCHED = "fetched"
    PARSED = "parsed"
    CHUNKED = "chunked"
    EMBEDDED = "embedded"
    UPSERTED = "upserted"
    UNCHANGED = "unchanged"
    """Fetched, and the same as before: nothing more was done."""
    DISCOVER = "discover"
    """No document but what a run could not find out: it did not come as far as being accepted."""


def stage_names(*stages: Stage) -> LiteralString:
    """Stages as a statement names them: `'parsed'`, or `'parsed', 'chunked'` for a list."""
    return ", ".join(f"'{stage.value}'" for stage in stages)


def stages_since(stage: Stage) -> tuple[Stage, ...]:
    """The stages of documents that have been worked on at least as far as this."""
    return _STEPS[_STEPS.index(stage) :]


_STEPS = (Stage.ACCEPTED, Stage.FETCHED, Stage.PARSED, Stage.CHUNKED, Stage.EMBEDDED, Stage.UPSERTED)

WAITING = frozenset({DocumentStatus.BACKLOG, DocumentStatus.QUEUED, DocumentStatus.QUEUED_FOR_RESYNC})
"""Statuses of documents that no step has begun on."""
