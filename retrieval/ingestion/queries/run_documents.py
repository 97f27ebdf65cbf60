"""Documents of a batch and their progress. No other module writes these rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, LiteralString, NamedTuple

from retrieval import job_config
from retrieval.conditions.model import PACKED_PATH_PROPERTY
from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.ingestion.items import (
    ISOLATION_BLAME,
    STAGES_BEFORE_STEP,
    Item,
    StoredItem,
    is_web_page,
)
from retrieval.job_config import JobConfig
from retrieval.jobs import names
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.ports import ScrapeOptions
from retrieval.sources import WEB_SOURCES
from retrieval.statuses import DocumentStatus, Stage

_ITEMS_QUERY: LiteralString = (
    """
    select d.job_run_id, d.document_id, d.generation, d.name, d.media_type, d.stage, d.raw_key, d.raw_hash, d.raw_size,
           d.parsed_key, d.title, d.pages, d.properties, d.embedding, d.fingerprint, j.config, r.source, r.password, """
    + job_config.ACCEPTED_AT
    + """ as accepted_at,
           d.made_from is not null or exists (
        select from run_documents e join job_runs before on before.id = e.job_run_id
        where e.document_id = d.document_id and e.status = 'SUCCESS' and before.job_id = r.job_id
    ) as ingested_before
    from run_documents d
    join job_runs r on r.id = d.job_run_id
    join jobs j on j.id = case when d.made_from is null then r.job_id
                               else (select job_id from documents where id = d.document_id) end
    where r.batch_id = %(batch)s and d.status in ('QUEUED', 'PROCESSING') and not r.cancel_requested
"""
)


class _Arrival(NamedTuple):
    job_run_id: str
    document_id: str
    size: int
    is_update: bool


def list_windows(
    db: Database, lease: Lease, *, documents: int, size: int, updates: int | None = None
) -> list[list[DocumentKey]]:
    """Group unfinished documents in order of arrival, at most `documents` and about `size` bytes each."""
    # A suspect has a window of its own. Both kinds of windows fill in parallel, so that alternating new documents and
    # updates do not end a window each time.
    arrivals = db.fetch(
        _Arrival,
        """
        select d.job_run_id, d.document_id, coalesce(d.raw_size, octet_length(i.content), 0) as size,
               %(apart)s and exists (select from documents k where k.id = d.document_id and k.active_generation > 0)
               as is_update
        from run_documents d join job_runs r on r.id = d.job_run_id
        left join inbox i on i.job_run_id = d.job_run_id and i.document_id = d.document_id
        where r.batch_id = %(batch)s and d.status in ('QUEUED', 'PROCESSING') and d.blame < %(isolation_blame)s
        order by r.number, d.position
        """,
        {"batch": lease.batch_id, "isolation_blame": ISOLATION_BLAME, "apart": updates is not None},
    )
    windows: list[list[DocumentKey]] = []
    open_windows: dict[bool, tuple[list[DocumentKey], int]] = {}
    for document in arrivals:
        limit = updates if updates is not None and document.is_update else documents
        window, remaining = open_windows.get(document.is_update, ([], 0))
        if not window or len(window) == limit or document.size > remaining:
            window, remaining = [], size
            windows.append(window)
        window.append(DocumentKey(document.job_run_id, document.document_id))
        open_windows[document.is_update] = window, remaining - document.size
    return windows


def list_unfinished(db: Database, lease: Lease, window: Sequence[DocumentKey], step: str) -> list[DocumentKey]:
    """Return open documents of the window that have not completed `step`."""
    return [item.key for stage in STAGES_BEFORE_STEP[step] for item in items_at_stage(db, lease, window, stage)]


def parsed_items(db: Database, lease: Lease, window: Sequence[DocumentKey]) -> list[Item]:
    """Return unfinished items of the window with a parsed text."""
    stages = (Stage.PARSED, Stage.CHUNKED, Stage.EMBEDDED)
    return [item for stage in stages for item in items_at_stage(db, lease, window, stage)]


def window_label(db: Database, window: Sequence[DocumentKey]) -> str:
    """Return the display name of a window: its first document and the number of further documents."""
    name = db.fetch_one(
        str,
        "select name from run_documents where job_run_id = %(run)s and document_id = %(document)s",
        {"run": window[0].job_run_id, "document": window[0].document_id},
    )
    name = names.plain_name(name) if name is not None else window[0].document_id
    return name if len(window) == 1 else f"{name} and {len(window) - 1:,} more"


def list_open(db: Database, window: Sequence[DocumentKey]) -> list[DocumentKey]:
    """Return the unfinished documents of the window, in order."""
    return db.fetch(
        DocumentKey,
        """
        select d.job_run_id, d.document_id from unnest(%(runs)s::text[], %(documents)s::text[])
            with ordinality as w (run, document, place)
        join run_documents d on d.job_run_id = w.run and d.document_id = w.document
        where d.status in ('QUEUED', 'PROCESSING') order by w.place
        """,
        _key_params(window),
    )


def items_at_stage(db: Database, lease: Lease, window: Sequence[DocumentKey], stage: Stage) -> list[Item]:
    """Return uncancelled items of the window at exactly this stage."""
    rows = db.fetch(
        _ItemRow,
        _ITEMS_QUERY + " and d.stage = %(stage)s and d.document_id = any(%(documents)s) order by r.number, d.position",
        {"batch": lease.batch_id, "stage": stage, "documents": [key.document_id for key in window]},
    )
    keys = set(window)
    return [item for item in map(_ItemRow.item, rows) if item.key in keys]


def start_window(db: Database, lease: Lease, window: Sequence[DocumentKey]) -> None:
    """Set the window's documents and their job runs to PROCESSING."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        connection.execute(
            """
            with begun as (
                update run_documents d set status = 'PROCESSING'
                from unnest(%(runs)s::text[], %(documents)s::text[]) as w (run, document)
                where d.job_run_id = w.run and d.document_id = w.document and d.status = 'QUEUED'
                returning d.job_run_id, d.document_id
            ),
            shown as (
                update documents d set status = 'PROCESSING', updated_at = now()
                from begun where d.id = begun.document_id and d.job_run_id = begun.job_run_id
            )
            update job_runs r
            set status = 'PROCESSING', started_at = coalesce(started_at, now()), updated_at = now()
            from (select distinct job_run_id from begun) b
            where r.id = b.job_run_id and r.status in ('QUEUED', 'PRE_PROCESSING')
            """,
            _key_params(window),
        )


def reset_outdated_chunks(db: Database, lease: Lease, window: Sequence[DocumentKey], epoch: int) -> None:
    """Reset documents chunked for another model epoch to the stage PARSED."""
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        connection.execute(
            """
            with again as (update run_documents d set stage = %(parsed)s
            from unnest(%(runs)s::text[], %(documents)s::text[]) as w (run, document)
            where d.job_run_id = w.run and d.document_id = w.document and d.stage = any(%(stages)s)
              and d.status = 'PROCESSING' and d.epoch <> %(epoch)s returning d.document_id)
            insert into sweeps (partition_id, kind, due_at)
            select %(partition)s, 'embeddings', now() + interval '10 minutes' from again limit 1
            """,
            {
                **_key_params(window),
                "parsed": Stage.PARSED,
                "stages": [Stage.CHUNKED, Stage.EMBEDDED],
                "epoch": epoch,
                "partition": lease.partition,
            },
        )


def advance_items(db: Database, lease: Lease, items: Sequence[tuple[Item, Mapping[str, Any]]], stage: Stage) -> None:
    """Record the stage of these documents, with the columns of the step."""
    if not items:
        return
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        write_stage(connection, items, stage)


def write_stage(connection: ThreadConnection, items: Sequence[tuple[Item, Mapping[str, Any]]], stage: Stage) -> None:
    """Write the stage inside the caller's transaction."""
    groups: dict[tuple[str, ...], list[tuple[Item, Mapping[str, Any]]]] = {}
    for item, values in items:
        groups.setdefault(tuple(sorted(values)), []).append((item, values))
    for fields, group in groups.items():
        connection.execute(
            _stage_statement(fields),
            {
                **{name: [_column_value(values[name]) for _, values in group] for name in fields},
                **_key_params([item.key for item, _ in group]),
                "stage": stage,
            },
        )


def fail_items(db: Database, lease: Lease, failures: Mapping[DocumentKey, str | None]) -> None:
    """Fail these documents, each with its reason."""
    if not failures:
        return
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        batches.close_documents(connection, failures, status=DocumentStatus.FAILED)


def add_timing(db: Database, lease: Lease, window: Sequence[DocumentKey], step: str, seconds: float) -> None:
    """Add the seconds of a step to the job runs of the window."""
    db.execute(
        """
        update job_runs set timings = timings || jsonb_build_object(
            %(step)s::text, round((coalesce((timings ->> %(step)s)::numeric, 0) + %(seconds)s::numeric), 3))
        where batch_id = %(batch)s and id = any(%(runs)s)
        """,
        {
            "batch": lease.batch_id,
            "step": step,
            "seconds": seconds,
            "runs": list({key.job_run_id for key in window}),
        },
    )


# Columns that a step may set, with the SQL type of the parameter; nested arrays travel as text.
_STEP_COLUMNS: Mapping[str, LiteralString] = {
    "raw_key": "text",
    "raw_hash": "bytea",
    "raw_size": "bigint",
    "parsed_key": "text",
    "title": "text",
    "pages": "text",
    "properties": "jsonb",
    "embedding": "jsonb",
    "fingerprint": "bytea",
    "epoch": "bigint",
}


@lru_cache(64)
def _stage_statement(names: tuple[str, ...]) -> LiteralString:
    """Return the update for any number of documents with these columns. ValueError for other columns."""
    if not _STEP_COLUMNS.keys() >= set(names):
        raise ValueError(f"not columns of a step: {set(names) - _STEP_COLUMNS.keys()}")
    stored_columns = [(name, kind) for name, kind in _STEP_COLUMNS.items() if name in names]
    casts: Mapping[str, LiteralString] = {"pages": "::bigint[]"}
    columns: LiteralString = "".join([f", {name} = w.{name}{casts.get(name, '')}" for name, _ in stored_columns])
    arguments: LiteralString = "".join([f", %({name})s::{kind}[]" for name, kind in stored_columns])
    names_sql: LiteralString = "".join([f", {name}" for name, _ in stored_columns])
    return (
        f"update run_documents d set stage = %(stage)s, blame = 0{columns}"
        f" from unnest(%(runs)s::text[], %(documents)s::text[]{arguments}) as w (run, document{names_sql})"
        " where d.job_run_id = w.run and d.document_id = w.document and d.status = 'PROCESSING'"
    )


def _column_value(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps(value)
    return "{" + ",".join(map(str, value)) + "}" if isinstance(value, list) else value


def _key_params(window: Sequence[DocumentKey]) -> dict[str, list[str]]:
    return {"runs": [key.job_run_id for key in window], "documents": [key.document_id for key in window]}


def _item_metadata(metadata: Mapping[str, Any] | None, properties: Mapping[str, Any]) -> Mapping[str, Any] | None:
    path = properties.get(PACKED_PATH_PROPERTY)
    return metadata if metadata is None or path is None else {**metadata, PACKED_PATH_PROPERTY: path}


@dataclass(frozen=True, slots=True)
class _ItemRow(StoredItem):
    job_run_id: str
    document_id: str
    pages: list[int]
    properties: dict[str, Any]
    embedding: dict[str, Any]
    config: dict[str, Any]
    source: str
    password: bytes | None
    ingested_before: bool

    def item(self) -> Item:
        config = JobConfig.load(self.config)
        request = config.ingestion
        return Item(
            key=DocumentKey(self.job_run_id, self.document_id),
            generation=self.generation,
            name=self.name,
            media_type=self.media_type,
            stage=self.stage,
            raw_key=self.raw_key,
            raw_hash=self.raw_hash,
            raw_size=self.raw_size,
            parsed_key=self.parsed_key,
            title=self.title,
            pages=tuple(self.pages),
            properties=self.properties,
            embedding=self.embedding,
            fingerprint=self.fingerprint,
            metadata=None if self.ingested_before else _item_metadata(request.metadata, self.properties),
            accepted_at=self.accepted_at,
            chunk_size=request.chunk_size,
            chunk_overlap=request.chunk_overlap,
            ocr=request.ocr,
            modified_at=request.modified_at,
            scrape_options=ScrapeOptions.of(config.request or {})
            if self.source in WEB_SOURCES and is_web_page(self.media_type)
            else None,
            password=self.password,
        )
