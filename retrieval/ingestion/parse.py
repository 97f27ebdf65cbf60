"""Parse: from the raw file to Markdown in the file store, with the quality of its pages."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from retrieval.database.database import Database
from retrieval.documents import file_keys
from retrieval.errors import Interrupted, Retryable, Skippable
from retrieval.ingestion import items, unpack
from retrieval.ingestion.items import Item
from retrieval.ingestion.queries import run_documents
from retrieval.ingestion.unpack import Stored
from retrieval.jobs import web_pages
from retrieval.jobs.queries import batches, passwords
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.ports import FileStore, PageQuality, Parsed, Parser, RawContent
from retrieval.security.secrets import KeyRing
from retrieval.sources import WEB
from retrieval.statuses import Stage

TEXT_QUALITY: Final = "textQuality"
PAGES_TO_CHECK: Final = "pagesToCheck"
_CHECK: Final = 0.8
_MOST: Final = 50
"""Pages that a document lists; the lowest ones where there are more."""


def quality_properties(qualities: Sequence[PageQuality]) -> dict[str, Any]:
    """The properties of a document with these pages; none where nothing was judged."""
    if not qualities:
        return {}
    low = sorted(
        (quality for quality in qualities if quality.quality < _CHECK), key=lambda page_quality: page_quality.quality
    )[:_MOST]
    pages = [
        {
            "page": page_quality.page,
            "quality": page_quality.quality,
            "unread": page_quality.unread,
            "reasons": list(page_quality.reasons),
        }
        for page_quality in sorted(low, key=lambda page_quality: page_quality.page or 0)
    ]
    lowest = min(quality.quality for quality in qualities)
    return {TEXT_QUALITY: lowest} | ({PAGES_TO_CHECK: pages} if pages else {})


ENCODING = "utf-8"
_AT_ONCE = 64
"""Files of a window that wait for the parser at once; so many that those which take long leave room for others."""


@dataclass(frozen=True, slots=True)
class Read:
    """Result of parsing one file: properties and packed files, or the reason of a failure."""

    item: Item
    found: Mapping[str, Any]
    stored: Sequence[Stored] = ()
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class _FileReader:
    """Reads the files of a batch. `ring`: opens the passwords of protected files."""

    db: Database
    lease: Lease
    files: FileStore
    parser: Parser
    goes_on: Callable[[], bool]
    ring: KeyRing

    def read(self, item: Item) -> Read:
        """Parse the stored file and keep its text. Skippable if it cannot be read."""
        if item.raw_key is None:
            raise Skippable("There is no stored file to parse; ingest the document again.")
        modified = {} if item.modified_at is None else {"modifiedAt": item.modified_at}
        if self.lease.source == "TEXT":
            properties = {"mimeType": "text/plain", "fileSize": item.raw_size, **modified}
            return Read(item, {"parsed_key": item.raw_key, "title": item.name, "properties": properties})
        parsed, stored = self._parse_copy(item, item.raw_key)
        key = item.file_key(self.lease.scope, file_keys.PARSED)
        self.files.put(key, [parsed.text.encode(ENCODING)])
        title = parsed.title or item.title
        fields = {
            "parsed_key": key,
            "title": title,
            "pages": list(parsed.pages),
            "properties": {"fileSize": item.raw_size, **item.properties, **parsed.properties}
            | {"characterCount": len(parsed.text)}
            | quality_properties(parsed.qualities)
            | ({"title": title} if title else {})
            | ({web_pages.TEXT: web_pages.text_hash(parsed.text)} if self.lease.source in WEB else {})
            | modified,
        }
        return Read(item, fields, stored)

    def _parse_copy(self, item: Item, raw_key: str) -> tuple[Parsed, list[Stored]]:
        password = passwords.open_password(self.ring, item.key.job_run_id, item.password)
        with tempfile.TemporaryDirectory(prefix="retrieval-") as folder:
            path = Path(folder) / "raw"
            with self.files.open(raw_key) as stream, path.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
            raw = RawContent(path, item.name, item.media_type, path.stat().st_size, page=item.page, password=password)
            parsed = self.parser.parse(raw, item.ocr, self.goes_on)
            unpack.refuse_too_many(self.db, item, parsed.members)
            return parsed, unpack.store_members(item, parsed, self.lease.scope, self.files)


def parse_documents(
    db: Database,
    lease: Lease,
    window: Sequence[DocumentKey],
    files: FileStore,
    parser: Parser,
    goes_on: Callable[[], bool] = lambda: True,
    *,
    ring: KeyRing,
) -> None:
    """Parse fetched files of a window, several at a time. A file that cannot be parsed fails alone.

    `goes_on`: called while a file waits for others; files not begun stay as they are. `ring`: opens the passwords of
    protected files.

    Results are recorded every few moments, so that a crash of the process loses little.
    """
    work = run_documents.at_stage(db, lease, window, Stage.FETCHED)
    trouble: list[Retryable] = []
    reader = _FileReader(db, lease, files, parser, goes_on, ring)

    def read_or_refuse(item: Item) -> Read | None:
        try:
            return reader.read(item)
        except Interrupted:
            return None
        except Skippable as error:
            return Read(item, {}, refused=str(error))
        except Retryable as error:
            trouble.append(error)
        return None

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="parse") as pool:
        ordered = [pool.submit(read_or_refuse, item) for item in work]
        waiting = set(ordered)
        try:
            while waiting:
                done, waiting = wait(waiting, items.KEEP_SECONDS)
                results = [future.result() for future in ordered if future in done]
                _record(db, lease, [result for result in results if result is not None])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if trouble:
        raise trouble[0]


def _record(db: Database, lease: Lease, read: Sequence[Read]) -> None:
    """Record results and packed files in one transaction; then failures."""
    refused = {parsed_item.item.key: parsed_item.refused for parsed_item in read if parsed_item.refused is not None}
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        for parsed_item in read:
            if parsed_item.item.key in refused or not parsed_item.stored:
                continue
            reason = unpack.excess_reason(connection, parsed_item.item, parsed_item.stored)
            if reason is not None:
                refused[parsed_item.item.key] = reason
                unpack.discard_files(connection, parsed_item.item, parsed_item.stored)
                continue
            run_documents.write_stage(connection, [(parsed_item.item, parsed_item.found)], Stage.PARSED)
            unpack.record_members(connection, parsed_item.item, parsed_item.stored)
        plain = [
            (parsed_item.item, parsed_item.found)
            for parsed_item in read
            if not parsed_item.stored and parsed_item.item.key not in refused
        ]
        run_documents.write_stage(connection, plain, Stage.PARSED)
    run_documents.fail_items(db, lease, refused)


def read_text(files: FileStore, key: str) -> str:
    """The parsed text, exactly as its chunks' offsets count it."""
    with files.open(key) as stream:
        return stream.read().decode(ENCODING)
