"""Configuration of jobs in `jobs.config`: type, codec and SQL expressions.

{"metadata": {…} | null, "chunkSize": 1000, "chunkOverlap": 200, "ocr": "BASIC_PARSER",    every ingestion
 "modifiedAt": "2026-01-31T12:00:00.000Z",                                                 optional
 "access": {…},                                                                            optional
 "name": "handbook",                                                                       optional
 "request": {…}, "connectionId": "conn_…" | null,                                          sources with discovery
 "dryRun": "WEBSITE",                                                                      dry runs
 "scheduled": true, "acceptedAt": "2026-01-31T12:00:00+00:00" | null}                      schedules

Rows outlive versions of the service: a missing key reads as its default, unknown keys are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, LiteralString

from retrieval.ports import OcrStrategy
from retrieval.principals import Access


@dataclass(frozen=True, slots=True)
class Ingestion:
    """Options of an ingestion. None keeps `metadata` and `access` of existing documents; `modified_at`: ISO 8601."""

    metadata: Mapping[str, Any] | None = None
    chunk_size: int = 1000
    chunk_overlap: int = 200
    ocr: OcrStrategy = OcrStrategy.BASIC_PARSER
    modified_at: str | None = None
    access: Access | None = None


@dataclass(frozen=True, slots=True)
class JobConfig:
    """Configuration of a job; chunk sizes in tokens."""

    ingestion: Ingestion = field(default_factory=Ingestion)
    # Checked `ingestConfig.config` without secrets; None for uploaded documents.
    request: Mapping[str, Any] | None = None
    connection_id: str | None = None
    scheduled: bool = False
    # When the request that a schedule repeats was accepted; None: when the job was created.
    accepted_at: datetime | None = None
    # Source of a dry run.
    dry_run: str | None = None
    # Name of the job run from the request.
    name: str | None = None

    def dump(self) -> str:
        """Serialize as JSON for `jobs.config`."""
        stored: dict[str, Any] = {
            "metadata": None if self.ingestion.metadata is None else dict(self.ingestion.metadata),
            "chunkSize": self.ingestion.chunk_size,
            "chunkOverlap": self.ingestion.chunk_overlap,
            "ocr": self.ingestion.ocr.value,
        }
        if self.ingestion.modified_at is not None:
            stored["modifiedAt"] = self.ingestion.modified_at
        if self.ingestion.access is not None:
            stored["access"] = self.ingestion.access.dump()
        if self.request is not None:
            stored |= {"request": dict(self.request), "connectionId": self.connection_id}
        if self.scheduled:
            stored |= {"scheduled": True, "acceptedAt": self.accepted_at and self.accepted_at.isoformat()}
        if self.dry_run is not None:
            stored["dryRun"] = self.dry_run
        if self.name is not None:
            stored["name"] = self.name
        return json.dumps(stored)

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> JobConfig:
        """Parse `jobs.config` of any version of the service."""
        default = Ingestion()
        accepted_at = stored.get("acceptedAt")
        return cls(
            Ingestion(
                metadata=stored.get("metadata"),
                chunk_size=stored.get("chunkSize", default.chunk_size),
                chunk_overlap=stored.get("chunkOverlap", default.chunk_overlap),
                ocr=OcrStrategy(stored.get("ocr", default.ocr)),
                modified_at=stored.get("modifiedAt"),
                access=None if stored.get("access") is None else Access.load(stored["access"]),
            ),
            request=stored.get("request"),
            connection_id=stored.get("connectionId"),
            scheduled="scheduled" in stored,
            accepted_at=accepted_at and datetime.fromisoformat(accepted_at),
            dry_run=stored.get("dryRun"),
            name=stored.get("name"),
        )


def connection_id_sql(job: LiteralString = "j") -> LiteralString:
    """Return SQL for the connection id of a job, null without one."""
    return f"({job}.config ->> 'connectionId')"


# Name of the job run of a job `j`.
RUN_NAME: LiteralString = "(j.config ->> 'name')"
# Start URL of a web job `j`.
START_URL: LiteralString = "j.config -> 'request' ->> 'url'"
# Source request of a job `j`, null for uploaded documents.
SOURCE_REQUEST: LiteralString = "j.config -> 'request'"
# Input of `JobConfig.load`.
STORED_CONFIG: LiteralString = "j.config"
# Source of a dry run `j`, null for an ingestion.
DRY_RUN_SOURCE: LiteralString = "(j.config ->> 'dryRun')"
# Subject of a dry run without documents.
DRY_RUN_SUBJECT: LiteralString = """
    case when j.config ? 'dryRun'
         then coalesce(j.config -> 'request' ->> 'name', j.config -> 'request' -> 'urls' ->> 0) end
"""
# Metadata of new documents of a job `j`.
NEW_METADATA: LiteralString = "coalesce(nullif(j.config -> 'metadata', 'null'), '{}')"
# Access list of a job `j`, null if not sent.
NEW_ACCESS: LiteralString = "nullif(j.config -> 'access', 'null')"
# Acceptance of the request of a job `j`.
ACCEPTED_AT: LiteralString = "coalesce((j.config ->> 'acceptedAt')::timestamptz, j.created_at)"
# Field of a request to list everything once.
FULL_LISTING: Final = "fullListing"
# True for jobs `j` that only list items for selection.
IS_PICKER_LISTING: LiteralString = "coalesce(j.config -> 'request' ? 'pick', false)"
IS_SCHEDULED: LiteralString = "j.config ? 'scheduled'"
# Sources with named documents accept changed settings.
CHANGEABLE_SOURCES = frozenset({"TEXT", "LOCAL_FILE", "URLS_LIST"})
# Config of a job `j` with changed keys.
CHANGED_CONFIG: LiteralString = "j.config || %(changes)s::jsonb"
# Config of a scheduled job that repeats a job `j`.
REPEATED_CONFIG: LiteralString = """
    (j.config #- '{request,fullListing}') || jsonb_build_object('scheduled', true, 'acceptedAt', coalesce(
        nullif(j.config -> 'acceptedAt', 'null'), to_jsonb(j.created_at)))
"""
