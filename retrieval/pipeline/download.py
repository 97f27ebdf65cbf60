"""Download: bring what a source lists into the file store, before it is known whether anything has changed."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from retrieval import batches
from retrieval.batches import Lease
from retrieval.database import Database
from retrieval.errors import Retryable, Skippable
from retrieval.pipeline import items
from retrieval.pipeline.items import Item, Key
from retrieval.ports import DiscoveryRequest, FileStore, RawContent, Source, SourceItem

THREADS = 8
PIECE = 256 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """A document whose content lies at its source only."""

    item: Item
    listed: SourceItem
    request: DiscoveryRequest


def run(db: Database, lease: Lease, waiting: Sequence[Item], files: FileStore, source: Source) -> None:
    """Each document for itself: one that cannot be had fails, one that may work later keeps the others' content."""

    def fetch(wanted: Wanted) -> str | Retryable | None:
        try:
            _fetch(db, lease, wanted, files, source)
        except Skippable as error:
            return str(error)
        except Retryable as error:
            return error
        return None

    missing = _missing(db, lease, waiting)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="download") as pool:
        ended = list(pool.map(fetch, missing))
    reasons = {one.item.key: end for one, end in zip(missing, ended, strict=True) if isinstance(end, str)}
    items.fail(db, lease, reasons)
    if later := [end for end in ended if isinstance(end, Retryable)]:
        raise later[0]


def _missing(db: Database, lease: Lease, waiting: Sequence[Item]) -> list[Wanted]:
    wanted = {item.key: item for item in waiting if item.raw_key is None}
    rows = db.rows(
        """
        select r.job_run_id, r.document_id, d.external_id, d.source, j.config
        from run_documents r join documents d on d.id = r.document_id
        join job_runs run on run.id = r.job_run_id join jobs j on j.id = run.job_id
        where r.job_run_id = any(%(runs)s) and r.document_id = any(%(documents)s)
        """,
        {"runs": [key.job_run_id for key in wanted], "documents": [key.document_id for key in wanted]},
    )
    found = []
    for row in rows:
        item = wanted.get(Key(row["job_run_id"], row["document_id"]))
        if item is not None:
            config = row["config"]
            request = DiscoveryRequest(lease.scope, row["source"], config["request"], config["connectionId"])
            found.append(Wanted(item, SourceItem(row["external_id"], item.name, item.media_type), request))
    return found


def _fetch(db: Database, lease: Lease, wanted: Wanted, files: FileStore, source: Source) -> None:
    with tempfile.TemporaryDirectory(prefix="download-") as folder:
        raw = source.fetch(wanted.listed, wanted.request, Path(folder) / "raw")
        digest = hashlib.sha256()
        key = wanted.item.folder(lease.scope) + "/raw"
        size = files.put(key, _pieces(raw, digest))
    with db.transaction() as connection:
        batches.guard(connection, lease)
        connection.execute(
            """
            update run_documents set raw_key = %(key)s, raw_size = %(size)s, raw_hash = %(hash)s, name = %(name)s,
                                     media_type = %(media_type)s
            where job_run_id = %(run)s and document_id = %(document)s and status = 'PROCESSING'
            """,
            {
                "key": key,
                "size": size,
                "hash": digest.digest(),
                "name": raw.name,
                "media_type": raw.media_type,
                "run": wanted.item.key.job_run_id,
                "document": wanted.item.key.document_id,
            },
        )


def _pieces(raw: RawContent, digest: hashlib._Hash) -> Iterator[bytes]:
    with raw.path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            yield piece
