"""Dry run: estimate an ingestion with the steps of the pipeline, without writing anything."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final, LiteralString, TypeVar

from retrieval.database.database import Database
from retrieval.errors import Retryable, Skippable, StepError, Unreadable
from retrieval.ingestion import chunk, fetch, model_choice
from retrieval.ingestion.chunking import titles
from retrieval.ingestion.chunking.titles import embedded_text
from retrieval.ingestion.chunking.tokenizer import tokenizer_for
from retrieval.ingestion.dry_run_report import DryRunReport
from retrieval.ingestion.items import WINDOW_DOCUMENTS, Item, is_web_page
from retrieval.ingestion.listed_content import LISTED_VERSION
from retrieval.ingestion.unpack import MAX_ARCHIVE_DEPTH, path_reason
from retrieval.job_config import Ingestion
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.ports import (
    BatchingEmbedder,
    DiscoveryRequest,
    Embedder,
    FileStore,
    Parsed,
    Parser,
    RawContent,
    ScrapeOptions,
    Source,
    SourceItem,
    Tokenizer,
)
from retrieval.sources import WEB_SOURCES
from retrieval.statuses import Stage

ItemT = TypeVar("ItemT")
# A longer list is sampled at even distances, and the counts are extrapolated.
SAMPLE_ITEMS: Final = 500
FETCH_ATTEMPTS: Final = 3
FETCH_THREADS: Final = 8

_STORED_STATEMENT: LiteralString = """
    select d.id, d.external_id, d.active_generation > 0 as visible, d.fingerprint, d.raw_key, p.raw_hash, p.raw_size,
           p.name, p.media_type, coalesce(p.title, '') as title,
           case when p.raw_hash is not null then d.properties ->> 'sourceVersion' end as version,
           case when p.raw_hash is not null then d.properties ->> 'listedVersion' end as listed
    from documents d left join lateral (
        select * from run_documents e where e.document_id = d.id and e.raw_key = d.raw_key limit 1
    ) p on true
    where d.partition_id = %(partition)s and d.source = %(source)s and d.external_id = any(%(ids)s)
      and d.deleted_at is null
"""
_EMBEDDED_STATEMENT: LiteralString = (
    "select key from embeddings where partition_id = %(partition)s and key = any(%(keys)s::bytea[])"
)


@dataclass(frozen=True, slots=True)
class Tools:
    """Dependencies of the pipeline that a dry run uses."""

    db: Database
    partition: int
    source: str
    request: DiscoveryRequest
    ingestion: Ingestion
    files: FileStore
    parser: Parser
    # Of the namespace's own parser, or "".
    parser_address: str
    tokenizer: Tokenizer
    embedder: Embedder
    # Creates an embedder by model name while the namespace's model is open.
    load_model: Callable[[str], Embedder] | None = None


@dataclass(frozen=True, slots=True)
class _Stored:
    """Stored document; `version`, `listed`: marks of the stored file."""

    id: str
    external_id: str
    visible: bool
    fingerprint: bytes | None
    raw_key: str | None
    raw_hash: bytes | None
    raw_size: int | None
    name: str | None
    media_type: str | None
    title: str
    version: str | None
    listed: str | None

    @property
    def kept(self) -> bool:
        return self.raw_hash is not None


@dataclass(frozen=True, slots=True)
class _Read:
    """Document with its text (None if unchanged) and packed files."""

    external_id: str
    item: Item
    record: _Stored | None
    parsed: Parsed | None
    folder: Path
    depth: int
    error: str = ""
    # Unreadable pages of a failed document.
    unread: int = 0


@dataclass(slots=True)
class Estimator:
    """Adds documents to a report. `check_deadline` is called between documents and may raise to stop."""

    tools: Tools
    check_deadline: Callable[[], None]
    report: DryRunReport = field(default_factory=DryRunReport)
    _seen: set[bytes] = field(default_factory=set)
    _named: set[str] = field(default_factory=set)

    def add_items(self, source: Source, items: Sequence[SourceItem]) -> None:
        """Add listed documents, fetched now or delivered with the listing; a long list is sampled."""
        fresh = list({item.external_id: item for item in items if item.external_id not in self._named}.values())
        self._named.update(item.external_id for item in fresh)
        readable = [item for item in fresh if not item.error]
        for item in fresh:
            if item.error:
                self.report.failed += 1
                self.report.plan(item.name, "FAILED", item.error, item.linked_from)
        brought = [item for item in readable if item.content is not None]
        self._count(source, brought, self.report)
        unfetched = [item for item in readable if item.content is None]
        if len(unfetched) <= SAMPLE_ITEMS:
            self._count(source, unfetched, self.report)
            return
        part, step = DryRunReport(), len(unfetched) / SAMPLE_ITEMS
        self._count(source, [unfetched[int(index * step)] for index in range(SAMPLE_ITEMS)], part)
        self.report.add_sample(part, len(unfetched) / SAMPLE_ITEMS)
        self.report.sampled = True

    def list_removed(self, external_ids: Sequence[str]) -> None:
        """Name the documents that would be removed."""
        for external_id, stored in self._known(external_ids).items():
            self.report.plan(stored.name or external_id, "REMOVE")

    def add_text(self, external_id: str, name: str, content: str) -> None:
        """Add a text of the request."""
        stored = self._known([external_id]).get(external_id)
        raw_hash = hashlib.sha256(content.encode()).digest()
        item = self._item(external_id, name, "text/plain", raw_hash, stored, title=name)
        parsed = None if self._is_same(item, stored, raw_hash) else Parsed(content, name)
        self._add([_Read(external_id, item, stored, parsed, Path(), 0)], self.report)

    def add_file(self, external_id: str, raw: RawContent) -> None:
        """Add a file of the request."""
        with tempfile.TemporaryDirectory(prefix="dry-run-") as folder:
            stored = self._known([external_id]).get(external_id)
            self._add_window([self._read(external_id, raw, stored, Path(folder), 0)], self.report)

    def _count(self, source: Source, items: Sequence[SourceItem], report: DryRunReport) -> None:
        for window in _parts(items):
            self.check_deadline()
            stored = self._known([item.external_id for item in window])
            with (
                tempfile.TemporaryDirectory(prefix="dry-run-") as folder,
                ThreadPoolExecutor(FETCH_THREADS, thread_name_prefix="dry-run") as pool,
            ):
                targets = [Path(folder) / str(number) for number in range(len(window))]

                def read_item(item: SourceItem, target: Path, record: Mapping[str, _Stored] = stored) -> _Read:
                    return self._fetch_item(source, item, record.get(item.external_id), target)

                self._add_window(list(pool.map(read_item, window, targets)), report)

    def _add_window(self, read: list[_Read], report: DryRunReport) -> None:
        """Add documents embedded together, then their archive members in further windows."""
        self._add(read, report)
        members = [member for document in read for member in self._members(document, report)]
        for part in _parts(members):
            self.check_deadline()
            self._add_window([self._read(name, raw, None, folder, depth) for name, raw, folder, depth in part], report)

    def _members(self, document: _Read, report: DryRunReport) -> Iterator[tuple[str, RawContent, Path, int]]:
        for member in document.parsed.members if document.parsed is not None else ():
            reason = member.reason or path_reason(document.external_id, member.path)
            if reason or document.depth >= MAX_ARCHIVE_DEPTH:
                report.failed += 1
                report.plan(f"{document.external_id}/{member.path}", "FAILED", reason)
                continue
            name = PurePosixPath(member.path).name
            raw = RawContent(member.file, name, member.media_type, member.size)
            yield f"{document.external_id}/{member.path}", raw, document.folder, document.depth + 1

    def _fetch_item(self, source: Source, item: SourceItem, record: _Stored | None, folder: Path) -> _Read:
        """Fetch and read the item as the pipeline does, with an error after permanent or repeated failures."""
        folder.mkdir()
        reason = ""
        for number in range(FETCH_ATTEMPTS):
            try:
                return self._fetch_content(source, item, record, folder)
            except Retryable as error:
                reason = str(error)
                if number + 1 < FETCH_ATTEMPTS:
                    time.sleep(min(error.after or 1.0, 5.0))
            except StepError as error:
                reason = str(error)
                break
        return self._failed(item.external_id, item.name, record, folder, 0, reason)

    def _fetch_content(self, source: Source, item: SourceItem, record: _Stored | None, folder: Path) -> _Read:
        raw = item.content
        if raw is None:
            previous = record if record is not None and record.kept else None
            same = previous is not None and bool(item.version) and item.version == previous.listed
            if not same:
                version = (previous.version if previous else None) or ""
                source_item = SourceItem(
                    item.external_id,
                    item.name,
                    item.media_type,
                    version,
                    properties={**item.properties, **({LISTED_VERSION: item.version} if item.version else {})},
                )
                raw = source.fetch(source_item, self.tools.request, folder / "raw")
            if raw is None:
                return self._read_stored(item, record, folder)
        return self._read(item.external_id, raw, record, folder, 0)

    def _read_stored(self, item: SourceItem, record: _Stored | None, folder: Path) -> _Read:
        """Read the stored file of a document that the source reports as unchanged."""
        if record is None or record.raw_hash is None:
            raise Skippable("The source gave nothing.")
        path = folder / "raw"
        name = (record.name or "") if self.tools.source in WEB_SOURCES else item.name
        raw = RawContent(path, name, record.media_type or "", record.raw_size or 0, properties={"title": record.title})
        same = self._item(item.external_id, name, raw.media_type, record.raw_hash, record, title=record.title)
        if self._is_same(same, record, record.raw_hash):
            return _Read(item.external_id, same, record, None, folder, 0)
        with self.tools.files.open(record.raw_key or "") as stream, path.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
        return self._read(item.external_id, raw, record, folder, 0)

    def _read(self, external_id: str, raw: RawContent, record: _Stored | None, folder: Path, depth: int) -> _Read:
        """Parse a file unless it is unchanged."""
        if depth:
            record = self._known([external_id]).get(external_id)
        with raw.path.open("rb") as file:
            raw_hash = hashlib.file_digest(file, "sha256").digest()
        title = str(raw.properties.get("title", ""))
        item = self._item(external_id, raw.name, raw.media_type, raw_hash, record, title=title)
        if self._is_same(item, record, raw_hash):
            return _Read(external_id, item, record, None, folder, depth)
        content = RawContent(raw.path, raw.name, raw.media_type, raw.path.stat().st_size, page=item.scrape_options)
        try:
            parsed = self.tools.parser.parse(content, self.tools.ingestion.ocr)
        except StepError as error:
            failed = self._failed(external_id, raw.name, record, folder, depth, str(error))
            return replace(failed, unread=error.pages) if isinstance(error, Unreadable) else failed
        titled = replace(parsed, title=parsed.title or title)
        return _Read(external_id, item, record, titled, folder, depth)

    def _failed(
        self, external_id: str, name: str, record: _Stored | None, folder: Path, depth: int, error: str
    ) -> _Read:
        item = self._item(external_id, name, "", b"", record, title="")
        return _Read(external_id, item, record, None, folder, depth, error=error)

    def _add(self, read: Sequence[_Read], report: DryRunReport) -> None:
        """Count a window's documents, chunks and texts for the model."""
        texts: dict[bytes, str] = {}
        if self.tools.load_model is not None:
            self._choose(self.tools.load_model, [document.parsed for document in read if document.parsed is not None])
        for document in read:
            report.pages_unread += document.unread
            name = document.item.name or document.external_id
            if document.error:
                report.failed += 1
                report.plan(name, "FAILED", document.error)
            elif document.parsed is None:
                report.unchanged += 1
            elif (cut := self._split(document, document.parsed)) is None:
                report.failed += 1
                report.plan(name, "FAILED", chunk.NO_TEXT)
            else:
                visible = document.record is not None and document.record.visible
                report.plan(name, "UPDATE" if visible else "CREATE")
                report.update += visible
                report.create += not visible
                report.pages += len(document.parsed.pages)
                report.pages_recognised += sum(page.recognised for page in document.parsed.qualities)
                report.pages_unread += sum(page.unread for page in document.parsed.qualities)
                report.chunks += len(cut.chunks)
                for piece in cut.chunks:
                    text = embedded_text(cut.title, piece.header, piece.text)
                    texts.setdefault(chunk.embedding_key(text, self.tools.embedder), text)
        self._embed(texts, report)

    def _choose(self, load_model: Callable[[str], Embedder], read: Sequence[Parsed]) -> None:
        """Choose the model by the first documents with text, as the ingestion does."""
        texts = ((parsed.text, str(parsed.properties.get("language") or "")) for parsed in read)
        if documents := model_choice.count_texts(texts):
            choice = model_choice.choose_model(documents)
            embedder, tokenizer = load_model(choice.model), tokenizer_for("LOCAL", choice.model)
            self.tools = replace(self.tools, embedder=embedder, tokenizer=tokenizer, load_model=None)
            self.report.model_choice = f"{choice.model}; {choice.reason}"

    def _split(self, document: _Read, parsed: Parsed) -> titles.TitledChunks | None:
        """Return the chunks; None for a document without text."""
        tools, config = self.tools, self.tools.ingestion
        item = document.item
        former = (
            chunk.previous_chunks(tools.db, item, tools.tokenizer, tools.embedder)
            if document.record is not None
            else None
        )
        cut = titles.split_titled(
            parsed, tools.tokenizer, config.chunk_size, config.chunk_overlap, tools.embedder.max_tokens, former
        )
        return cut if cut.chunks else None

    def _embed(self, texts: Mapping[bytes, str], report: DryRunReport) -> None:
        new = [key for key in texts if key not in self._seen]
        values = {"partition": self.tools.partition, "keys": new}
        stored = set(self.tools.db.fetch(bytes, _EMBEDDED_STATEMENT, values)) if new else set()
        missing = [key for key in new if key not in stored]
        self._seen.update(missing)
        report.tokens += sum(map(len, self.tools.tokenizer.spans([texts[key] for key in missing])))
        report.calls += self._calls(sorted((texts[key] for key in missing), key=len))

    def _calls(self, texts: Sequence[str]) -> int:
        """Return the number of requests to the model, by batch size and the vendor's token limit."""
        embedder = self.tools.embedder
        parts = [texts[start : start + embedder.batch_size] for start in range(0, len(texts), embedder.batch_size)]
        if isinstance(embedder, BatchingEmbedder):
            return sum(map(embedder.count_requests, parts))
        return len(parts)

    def _known(self, external_ids: Sequence[str]) -> dict[str, _Stored]:
        values = {"partition": self.tools.partition, "source": self.tools.source, "ids": list(external_ids)}
        return {document.external_id: document for document in self.tools.db.fetch(_Stored, _STORED_STATEMENT, values)}

    def _is_same(self, item: Item, record: _Stored | None, raw_hash: bytes) -> bool:
        if record is None or not record.visible:
            return False
        embedder = self.tools.embedder
        identity = {"provider": embedder.provider, "model": embedder.model, "dimensions": embedder.dimensions}
        identity |= {"parser": self.tools.parser_address} if self.tools.parser_address else {}
        return bool(record.fingerprint == fetch.fingerprint(item, raw_hash, identity))

    def _item(
        self, external_id: str, name: str, media_type: str, raw_hash: bytes, record: _Stored | None, *, title: str
    ) -> Item:
        """Return the document as an item of the pipeline."""
        config, request = self.tools.ingestion, self.tools.request
        web = self.tools.source in WEB_SOURCES and is_web_page(media_type)
        return Item(
            key=DocumentKey(request.job_run_id, record.id if record is not None else external_id),
            generation=0,
            name=name,
            media_type=media_type,
            stage=Stage.ACCEPTED,
            raw_key=None,
            raw_hash=raw_hash,
            raw_size=None,
            parsed_key=None,
            title=title,
            pages=(),
            properties={},
            embedding={},
            fingerprint=None,
            metadata=None,
            accepted_at=datetime.now(UTC),
            chunk_size=config.chunk_size,
            chunk_overlap=config.chunk_overlap,
            ocr=config.ocr,
            modified_at=config.modified_at,
            scrape_options=ScrapeOptions.of(dict(request.config)) if web else None,
        )


def _parts(all_of_them: Sequence[ItemT]) -> Iterator[Sequence[ItemT]]:
    for start in range(0, len(all_of_them), WINDOW_DOCUMENTS):
        yield all_of_them[start : start + WINDOW_DOCUMENTS]
