"""Resync on the wire: which documents to ingest again, and what became of each."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import DataAnswer
from api.wire.documents import FilterConfig
from api.wire.ingest import NamespaceId
from retrieval.jobs import resync
from retrieval.jobs.resync import Resync


class ResyncDocuments(Struct, rename="camel", kw_only=True):
    """Which documents to ingest again from their source. A filter that restricts nothing is refused."""

    namespace_id: NamespaceId
    filter_config: FilterConfig
    confirm_deletions: Annotated[
        bool | None, Meta(description="Let documents go that a connector's complete listing does not name any more.")
    ] = False


class ResyncedDocument(Struct, rename="camel"):
    """What became of a document that matched. `error` says why it is not eligible."""

    id: Annotated[str, Meta(description="The id.")]
    status: Annotated[
        str,
        Meta(
            extra_json_schema={"enum": [resync.QUEUED, resync.NOT_ELIGIBLE, resync.REMOVED]},
            description="How far it is.",
        ),
    ]
    error: Annotated[str | None, Meta(description="Why the document cannot be fetched again; null if it is queued.")]


class ResyncData(Struct, rename="camel", kw_only=True):
    """One job run for each job that the queued documents came from; `ingestJobRunId` is the first, null without one."""

    items_queued: Annotated[int, Meta(description="How many documents are queued.")]
    items_skipped: Annotated[int, Meta(description="How many documents cannot be fetched again.")]
    documents: Annotated[list[ResyncedDocument], Meta(description="What became of each document that matched.")]
    ingest_job_run_id: Annotated[str | None, Meta(description="The first of the job runs; null if nothing was queued.")]
    ingest_job_run_ids: Annotated[list[str], Meta(description="The job runs to follow.")]

    @classmethod
    def of(cls, made: Resync) -> ResyncData:
        return cls(
            items_queued=made.queued,
            items_skipped=len(made.documents) - made.queued,
            documents=[ResyncedDocument(one.id, one.status, one.error) for one in made.documents],
            ingest_job_run_id=made.job_runs[0] if made.job_runs else None,
            ingest_job_run_ids=made.job_runs,
        )


class ResyncAnswer(DataAnswer[ResyncData]):
    """The eligible documents are queued; until they are done everything stays as it is."""
