"""The queue and the workers, on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import Answer, Timestamp
from retrieval.readiness import Loop, work
from retrieval.readiness.work import Held, Working

Seconds = Annotated[float, Meta(ge=0)]

WORDS: Mapping[str, str] = {
    "QueueData.queued": "Job runs that wait for a worker.",
    "oldestQueuedAt": "Since when the oldest of them waits; null if none does.",
    "QueueData.held": "Job runs that wait for a vendor or site that does not answer: more workers do not help them.",
    "workers": "Workers that are connected, of the whole installation.",
    "stalled": "Whether accepted work of the installation does not move.",
    "reasons": "Why it does not move, in words: a full disk, levers of Prefect such as a paused pool, what comes late.",
    "QueueData.warnings": "What protects less than it should on the API's machine, such as a kernel without Landlock.",
    "breakers": "Vendors and sites that are not asked for now, because they do not answer.",
    "Breaker.name": "The vendor or site.",
    "Breaker.reason": "How the last request failed.",
    "Breaker.failures": "Failures in a row.",
    "since": "When that began.",
    "until": "When it is tried again.",
    "waitingJobRuns": "Job runs that wait for it.",
    "working": "What workers have in hand, oldest first, 50 at most.",
    "Work.ingestJobRunId": "The first of the job runs.",
    "Work.namespaceId": "Where they belong.",
    "Work.tenantId": "The tenant; null without one.",
    "Work.source": "What they ingest from.",
    "Work.jobRuns": "Job runs that are worked on together.",
    "Work.attempt": "1, or more where a worker was lost.",
    "Work.document": "The document on which the worker works alone; null if it works on several.",
    "Work.createdAt": "When they were put together.",
    "Work.startedAt": "When a worker began; null before.",
    "Work.leaseUntil": "Until when the worker is taken to be alive without another sign; null before it began.",
    "loops": "The dispatchers' loops.",
    "loop": "Its name.",
    "lastSuccessSeconds": "Seconds since its last success.",
    "late": "Whether that is too long ago.",
    "DispatcherLoop.reason": "The error that it failed with since; null without one.",
}
"""What its properties mean, by name: for the OpenAPI document."""


class Breaker(Struct, rename="camel"):
    """A vendor or site that nobody asks for a while."""

    name: str
    reason: str
    failures: int
    since: Timestamp
    until: Timestamp
    waiting_job_runs: int

    @classmethod
    def of(cls, found: Held) -> Breaker:
        since, until = Timestamp.of(found.since), Timestamp.of(found.until)
        return cls(found.name, found.reason, found.failures, since, until, found.job_runs)


class Work(Struct, rename="camel", kw_only=True):
    """Job runs of one source that a worker has in hand together."""

    ingest_job_run_id: str
    namespace_id: str
    tenant_id: str | None
    source: str
    job_runs: int
    attempt: int
    document: str | None
    created_at: Timestamp
    started_at: Timestamp | None
    lease_until: Timestamp | None

    @classmethod
    def of(cls, found: Working) -> Work:
        return cls(
            ingest_job_run_id=found.job_run_id,
            namespace_id=found.namespace,
            tenant_id=found.tenant or None,
            source=found.source,
            job_runs=found.job_runs,
            attempt=found.attempt,
            document=found.document,
            created_at=Timestamp.of(found.created_at),
            started_at=Timestamp.of(found.started_at) if found.started_at else None,
            lease_until=Timestamp.of(found.lease_until) if found.lease_until else None,
        )


class DispatcherLoop(Struct, rename="camel"):
    """One of the loops that let accepted work leave, take lost work back and collect garbage."""

    loop: str
    last_success_seconds: Seconds
    late: bool
    reason: str | None

    @classmethod
    def of(cls, found: Loop) -> DispatcherLoop:
        return cls(found.name, round(max(found.age, 0.0), 1), found.late, found.reason)


class QueueData(Struct, rename="camel", kw_only=True):
    """What waits, why, and what is worked on. Workers, loops and `stalled` are the installation's."""

    queued: int
    oldest_queued_at: Timestamp | None
    held: int
    workers: int
    stalled: bool
    reasons: list[str]
    warnings: list[str]
    breakers: list[Breaker]
    working: list[Work]
    loops: list[DispatcherLoop]

    @classmethod
    def of(cls, found: work.Queue, warnings: list[str], unstored: Sequence[str]) -> QueueData:
        """`unstored`: why nothing can be stored."""
        return cls(
            queued=found.queued,
            oldest_queued_at=Timestamp.of(found.oldest) if found.oldest else None,
            held=found.held,
            workers=found.workers,
            stalled=bool(unstored) or found.dispatch.stalled or found.dispatch.is_held,
            reasons=list(
                dict.fromkeys(
                    [
                        *unstored,
                        *(lever.effect for lever in found.dispatch.levers if lever.batch is None),
                        *found.dispatch.reasons,
                        *map(str, found.dispatch.late),
                    ]
                )
            ),
            warnings=warnings,
            breakers=[Breaker.of(one) for one in found.breakers],
            working=[Work.of(one) for one in found.working],
            loops=[DispatcherLoop.of(one) for one in found.dispatch.loops],
        )


class QueueAnswer(Answer, kw_only=True):
    """The queue and the workers."""

    data: QueueData
