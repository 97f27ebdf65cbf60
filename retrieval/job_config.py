"""Configuration of jobs in `jobs.config`: its type, its codec, and SQL expressions for it.

    {"metadata": {…} | null, "chunkSize": 1000, "chunkOverlap": 200, "ocr": "BASIC_PARSER",    every ingestion
     "modifiedAt": "2026-01-31T12:00:00.000Z",                                                 if given
     "access": {…},                                                                            if given
     "name": "handbook",                                                                       if given
     "request": {…}, "connectionId": "conn_…" | null,                                          found out by its run
     "dryRun": "WEBSITE",                                                                      tried only
     "scheduled": true, "acceptedAt": "2026-01-31T12:00:00+00:00" | null}                      made for a schedule

Rows outlive versions of the service: a missing key reads as its default, an unknown one is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

from retrieval.ports import OcrStrategy
from retrieval.principals import Access


@dataclass(frozen=True, slots=True)
class Ingestion:
    """Options of an ingestion, for any source: chunking, OCR, and the metadata (None: keep the current).

    `modified_at`: time of the content's last modification, ISO 8601, None if not given. `access`: access list of its
    documents, None keeps that of an existing document.
    """

    metadata: Mapping[str, Any] | None = None
    chunk_size: int = 1000
    chunk_overlap: int = 200
    ocr: OcrStrategy = OcrStrategy.BASIC_PARSER
    modified_at: str | None = None
    access: Access | None = None


@dataclass(frozen=True, slots=True)
class JobConfig:
    """A job's configuration. Sizes of chunks are tokens."""

    ingestion: Ingestion = field(default_factory=Ingestion)
    request: Mapping[str, Any] | None = None
    """The checked `ingestConfig.config` in the contract's words, without secrets; None where documents came with it."""
    connection_id: str | None = None
    scheduled: bool = False
    accepted_at: datetime | None = None
    """When the request was made that a schedule repeats; None: the job is as old as its row."""
    dry_run: str | None = None
    """The source of which it is only to be found out what it would bring."""
    name: str | None = None
    """Name that the request gave to its job run."""

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
        """Parse the column `config`, written by this version of the service or another."""
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


def connection_of(job: LiteralString = "j") -> LiteralString:
    """The id of the connection of a row of `jobs`, null if it has none."""
    return f"({job}.config ->> 'connectionId')"


NAME: LiteralString = "(j.config ->> 'name')"
"""Name that was given to the job run of a job `j`, null without one."""
URL: LiteralString = "j.config -> 'request' ->> 'url'"
"""What a job `j` of the web starts at."""
REQUEST: LiteralString = "j.config -> 'request'"
"""What a job `j` was told of its source, null where documents came with it."""
ASKED: LiteralString = "j.config"
"""All that a job `j` was asked for, for `JobConfig.load`."""
TRIED: LiteralString = "(j.config ->> 'dryRun')"
"""The source that a dry run `j` tries, null for an ingestion."""
TRIED_NAME: LiteralString = """
    case when j.config ? 'dryRun'
         then coalesce(j.config -> 'request' ->> 'name', j.config -> 'request' -> 'urls' ->> 0) end
"""
"""What a dry run is about that has no documents to tell it."""
METADATA: LiteralString = "coalesce(nullif(j.config -> 'metadata', 'null'), '{}')"
"""What a job `j` gives a new document."""
ACCESS: LiteralString = "nullif(j.config -> 'access', 'null')"
"""Whom the documents of a job `j` are for, null if that was not said."""
ACCEPTED: LiteralString = "coalesce((j.config ->> 'acceptedAt')::timestamptz, j.created_at)"
"""When what a job `j` does was asked for."""
PICKS: LiteralString = "coalesce(j.config -> 'request' ? 'pick', false)"
"""Whether a job `j` only lists what a person picks from."""
IS_SCHEDULED: LiteralString = "j.config ? 'scheduled'"
CHANGEABLE = frozenset({"TEXT", "LOCAL_FILE", "URLS_LIST"})
"""Sources whose jobs name their documents: these take other settings."""
CHANGED: LiteralString = "j.config || %(changes)s::jsonb"
"""The configuration of a job `j` with other values for some of its keys."""
REPEATED: LiteralString = """
    j.config || jsonb_build_object('scheduled', true, 'acceptedAt', coalesce(
        nullif(j.config -> 'acceptedAt', 'null'), to_jsonb(j.created_at)))
"""
"""The configuration for the job of a schedule that repeats the request of a job `j`."""
