"""Statuses of job runs, documents and connections, stages and outcomes; stored and returned as strings."""

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
    """Last completed step of a document in a job run, in order."""

    ACCEPTED = "accepted"
    FETCHED = "fetched"
    PARSED = "parsed"
    CHUNKED = "chunked"
    EMBEDDED = "embedded"
    UPSERTED = "upserted"
    # Fetched and identical to the previous version.
    UNCHANGED = "unchanged"
    # Failed discovery: an entry without a document.
    DISCOVER = "discover"


def stage_names(*stages: Stage) -> LiteralString:
    """Return stages as SQL literals: `'parsed', 'chunked'`."""
    return ", ".join(f"'{stage.value}'" for stage in stages)


def stages_since(stage: Stage) -> tuple[Stage, ...]:
    """Return this stage and all later ones."""
    return _STEPS[_STEPS.index(stage) :]


_STEPS = (Stage.ACCEPTED, Stage.FETCHED, Stage.PARSED, Stage.CHUNKED, Stage.EMBEDDED, Stage.UPSERTED)

# Not started by any step.
WAITING_STATUSES = frozenset({DocumentStatus.BACKLOG, DocumentStatus.QUEUED, DocumentStatus.QUEUED_FOR_RESYNC})
