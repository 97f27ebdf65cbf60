"""Parse step: convert raw files to Markdown in the file store, with the quality of their pages."""

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
from retrieval.ingestion.unpack import StoredMember
from retrieval.jobs import web_pages
from retrieval.jobs.queries import batches, passwords
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.ports import FileStore, PageQuality, Parsed, Parser, RawContent
from retrieval.security.secrets import KeyRing
from retrieval.sources import WEB_SOURCES
from retrieval.statuses import Stage

TEXT_QUALITY_PROPERTY: Final = "textQuality"
PAGES_TO_CHECK_PROPERTY: Final = "pagesToCheck"
_CHECK_BELOW_QUALITY: Final = 0.8
# The lowest pages, if there are more.
_MAX_PAGES_TO_CHECK: Final = 50


def quality_properties(qualities: Sequence[PageQuality]) -> dict[str, Any]:
    """Return the quality properties of a document with these pages; empty without judged pages."""
    if not qualities:
        return {}
    low_pages = sorted(
        (quality for quality in qualities if quality.quality < _CHECK_BELOW_QUALITY),
        key=lambda page_quality: page_quality.quality,
    )[:_MAX_PAGES_TO_CHECK]
    pages = [
        {
            "page": page_quality.page,
            "quality": page_quality.quality,
            "unread": page_quality.unread,
            "reasons": list(page_quality.reasons),
        }
        for page_quality in sorted(low_pages, key=lambda page_quality: page_quality.page or 0)
    ]
    lowest = min(quality.quality for quality in qualities)
    return {TEXT_QUALITY_PROPERTY: lowest} | ({PAGES_TO_CHECK_PROPERTY: pages} if pages else {})


TEXT_ENCODING = "utf-8"
# Enough that slow files leave room for others.
_CONCURRENT_FILES = 64


@dataclass(frozen=True, slots=True)
class ParsedItem:
    """Result of parsing one file: properties and packed files, or the reason of a failure."""

    item: Item
    fields: Mapping[str, Any]
    stored: Sequence[StoredMember] = ()
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _FileReader:
    """Reader of the files of a batch."""

    db: Database
    lease: Lease
    files: FileStore
    parser: Parser
    should_continue: Callable[[], bool]
    ring: KeyRing

    def read(self, item: Item) -> ParsedItem:
        """Parse the stored file and store its text. Skippable if unreadable."""
        if item.raw_key is None:
            raise Skippable("There is no stored file to parse; ingest the document again.")
        modified = {} if item.modified_at is None else {"modifiedAt": item.modified_at}
        if self.lease.source == "TEXT":
            properties = {"mimeType": "text/plain", "fileSize": item.raw_size, **modified}
            return ParsedItem(item, {"parsed_key": item.raw_key, "title": item.name, "properties": properties})
        parsed, stored = self._parse_copy(item, item.raw_key)
        key = item.file_key(self.lease.scope, file_keys.PARSED_NAME)
        self.files.put(key, [parsed.text.encode(TEXT_ENCODING)])
        title = parsed.title or item.title
        fields = {
            "parsed_key": key,
            "title": title,
            "pages": list(parsed.pages),
            "properties": {"fileSize": item.raw_size, **item.properties, **parsed.properties}
            | {"characterCount": len(parsed.text)}
            | quality_properties(parsed.qualities)
            | ({"title": title} if title else {})
            | (
                {web_pages.TEXT_HASH_PROPERTY: web_pages.text_hash(parsed.text)}
                if self.lease.source in WEB_SOURCES
                else {}
            )
            | modified,
        }
        return ParsedItem(item, fields, stored)

    def _parse_copy(self, item: Item, raw_key: str) -> tuple[Parsed, list[StoredMember]]:
        password = passwords.open_password(self.ring, item.key.job_run_id, item.password)
        with tempfile.TemporaryDirectory(prefix="retrieval-") as folder:
            path = Path(folder) / "raw"
            with self.files.open(raw_key) as stream, path.open("wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)
            raw = RawContent(
                path, item.name, item.media_type, path.stat().st_size, page=item.scrape_options, password=password
            )
            parsed = self.parser.parse(raw, item.ocr, self.should_continue)
            unpack.refuse_too_many(self.db, item, parsed.members)
            return parsed, unpack.store_members(item, parsed, self.lease.scope, self.files)


def parse_documents(
    db: Database,
    lease: Lease,
    window: Sequence[DocumentKey],
    files: FileStore,
    parser: Parser,
    should_continue: Callable[[], bool] = lambda: True,
    *,
    ring: KeyRing,
) -> None:
    """Parse fetched files of a window concurrently; an unreadable file fails, the others continue."""
    fetched = run_documents.items_at_stage(db, lease, window, Stage.FETCHED)
    retryable_errors: list[Retryable] = []
    reader = _FileReader(db, lease, files, parser, should_continue, ring)

    def read_or_refuse(item: Item) -> ParsedItem | None:
        try:
            return reader.read(item)
        except Interrupted:
            return None
        except Skippable as error:
            return ParsedItem(item, {}, failure=str(error))
        except Retryable as error:
            retryable_errors.append(error)
        return None

    with ThreadPoolExecutor(_CONCURRENT_FILES, thread_name_prefix="parse") as pool:
        ordered = [pool.submit(read_or_refuse, item) for item in fetched]
        pending = set(ordered)
        try:
            while pending:
                done, pending = wait(pending, items.RECORD_INTERVAL_SECONDS)
                # Recorded in short intervals, so that a crash of the process loses little.
                results = [future.result() for future in ordered if future in done]
                _record_results(db, lease, [result for result in results if result is not None])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if retryable_errors:
        raise retryable_errors[0]


def _record_results(db: Database, lease: Lease, results: Sequence[ParsedItem]) -> None:
    """Record results and packed files in one transaction, then failures."""
    failures = {parsed_item.item.key: parsed_item.failure for parsed_item in results if parsed_item.failure is not None}
    with db.transaction() as connection:
        batches.guard_lease(connection, lease)
        for parsed_item in results:
            if parsed_item.item.key in failures or not parsed_item.stored:
                continue
            reason = unpack.excess_reason(connection, parsed_item.item, parsed_item.stored)
            if reason is not None:
                failures[parsed_item.item.key] = reason
                unpack.discard_files(connection, parsed_item.item, parsed_item.stored)
                continue
            run_documents.write_stage(connection, [(parsed_item.item, parsed_item.fields)], Stage.PARSED)
            unpack.record_members(connection, parsed_item.item, parsed_item.stored)
        plain = [
            (parsed_item.item, parsed_item.fields)
            for parsed_item in results
            if not parsed_item.stored and parsed_item.item.key not in failures
        ]
        run_documents.write_stage(connection, plain, Stage.PARSED)
    run_documents.fail_items(db, lease, failures)


def read_text(files: FileStore, key: str) -> str:
    """Return the parsed text with the character offsets of the chunks."""
    with files.open(key) as stream:
        return stream.read().decode(TEXT_ENCODING)
