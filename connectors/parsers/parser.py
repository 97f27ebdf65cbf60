"""Parser of this process: files are read in limited child processes."""

from __future__ import annotations

import atexit
import copy
import os
import shutil
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

import msgspec
import structlog

from connectors.parsers import detect, messages, verdicts
from connectors.parsers.formats import texts
from connectors.parsers.messages import Page, Reply, Task, Unpack
from connectors.parsers.ocr import TextRecognition
from connectors.parsers.pool import ChildPool, Limits, is_always_needed
from retrieval import settings
from retrieval.errors import Retryable, Skippable
from retrieval.ports import ExternalParser, Member, OcrStrategy, Parsed, RawContent

log = structlog.get_logger(__name__)
# Plain text up to this size is decoded in this process: no library reads it, and a child costs more.
_INLINE_TEXT_BYTES = 1024 * 1024
_INLINE_KINDS = (detect.PLAIN, detect.MARKDOWN, detect.LOG)
# Processor time of a file before it moves to the slow lane.
_QUICK_SECONDS = 2.0


class DocumentParser:
    """Parser of files in limited child processes."""

    def __init__(
        self,
        pool: ChildPool,
        memory_bytes: int,
        seconds: float,
        recognition: TextRecognition | None = None,
        unpack: Unpack | None = None,
        external: ExternalParser | None = None,
    ) -> None:
        self.pool = pool
        self._expanded_bytes = memory_bytes // 4
        self._seconds = seconds
        self._recognition = recognition
        self._unpack_template = unpack
        self.external = external
        self.is_needed: Callable[[], bool] = is_always_needed

    def stopped_unless(self, is_needed: Callable[[], bool]) -> DocumentParser:
        """Return a parser with the same processes that raises Interrupted once `is_needed` returns False."""
        parser = copy.copy(self)
        parser.is_needed = is_needed
        return parser

    def with_external(self, external: ExternalParser) -> DocumentParser:
        """Return a parser with the same processes, and an external one for pages and files unreadable here."""
        parser = copy.copy(self)
        parser.external = external
        return parser

    def parse(self, raw: RawContent, ocr: OcrStrategy, keep_waiting: Callable[[], bool] = is_always_needed) -> Parsed:
        """Return the file as Markdown. Skippable, with the cause and advice, for an unreadable file; Interrupted if
        `keep_waiting` returns False during the wait for a child.
        """
        try:
            reply = self._read_plain_text(raw)
        except OSError as error:
            raise Retryable("The file could not be read from the worker's disk.") from error
        reply = verdicts.judge_reply(reply) if reply else self._read_in_child(raw, ocr, keep_waiting)
        reply = self._read_externally(raw, reply)
        return _to_parsed(verdicts.settle_reply(reply, raw.name, ocr=ocr is OcrStrategy.STANDARD_OCR))

    def _read_plain_text(self, raw: RawContent) -> Reply | None:
        """Decode small plain text in this process; None for other files."""
        with raw.path.open("rb") as file:
            head = file.read(detect.HEAD_BYTES)
            if not head:
                raise Skippable("The file is empty: it has 0 bytes. Upload a file with text in it.")
            if raw.page is not None:
                return None
            kind = detect.kind_of(head, raw.name, raw.media_type)
            if kind in _INLINE_KINDS:
                data = head + file.read(_INLINE_TEXT_BYTES + 1)
                if len(data) <= _INLINE_TEXT_BYTES:
                    return texts.read_verbatim(data, kind, raw.media_type, raw.name)
        return None

    def warm(self, files: Iterable[tuple[str, str]]) -> None:
        """Start a child ahead of files, by name and media type, unless all are plain text."""
        if any(detect.kind_by_name(*file) not in _INLINE_KINDS for file in files):
            self.pool.start_child()

    def close(self) -> None:
        """Stop the idle children."""
        self.pool.close()
        if self._recognition is not None:
            self._recognition.pool.close()

    def _read_in_child(self, raw: RawContent, ocr: OcrStrategy, keep_waiting: Callable[[], bool]) -> Reply:
        page = None if raw.page is None else Page(raw.name, raw.page.include, raw.page.exclude)
        task = Task(
            path=str(raw.path.resolve()),
            name=raw.name,
            media_type=raw.media_type,
            ocr=self._recognition is not None and (ocr is OcrStrategy.STANDARD_OCR or self.external is not None),
            cpu_seconds=self._seconds,
            expanded_bytes=self._expanded_bytes,
            page=page,
            unpack=self._make_unpack(raw),
            password=raw.password,
        )
        reply = messages.read_following(
            self._run_task(task, keep_waiting), task, self._run_task, parallel=self.pool.size
        )
        # An external engine reads only unreadable pages with BASIC_PARSER, not those with pictures.
        if self.external is not None and ocr is OcrStrategy.BASIC_PARSER and reply.pdf:
            unread = tuple(quality.page for quality in reply.qualities if quality.unread and quality.page)
            reply = msgspec.structs.replace(reply, ocr_pages=unread)
        if task.ocr and reply.ocr_pages and self._recognition is not None:
            reply = self._recognition.recognise_pages(task, reply, self.external, self.is_needed)
        return reply

    def _read_externally(self, raw: RawContent, reply: Reply) -> Reply:
        """Read a file without pages with the external parser if it is unreadable here."""
        if self.external is None or not any(q.unread and q.page is None for q in reply.qualities):
            return reply
        text = self.external.read(raw.path.read_bytes(), raw.name, raw.media_type)
        return verdicts.judge_reply(msgspec.structs.replace(reply, text=text, pages=(), qualities=()))

    def _make_unpack(self, raw: RawContent) -> Unpack | None:
        """Create the folder of the file's members, to be removed by the caller."""
        if raw.page is not None or self._unpack_template is None:
            return None
        folder = raw.path.parent / f"{raw.path.name}-members"
        folder.mkdir(exist_ok=True)
        return msgspec.structs.replace(self._unpack_template, folder=str(folder.resolve()))

    def _run_task(self, task: Task, keep_waiting: Callable[[], bool] = is_always_needed) -> Reply:
        reply = self.pool.run(task, keep_waiting, self.is_needed)
        if reply.again:
            raise Retryable(reply.again)
        if reply.refusal:
            log.info("file.refused", reason=reply.refusal, detail=reply.detail)
            raise Skippable(reply.refusal)
        return reply


def _to_parsed(reply: Reply) -> Parsed:
    members = tuple(
        Member(packed.path, Path(packed.place), packed.media_type, packed.size, packed.reason)
        for packed in reply.members
    )
    return Parsed(reply.text, reply.title, reply.pages, reply.properties, members, reply.listing, reply.qualities)


# Mails, books and slides above this size may hold scans.
_MAX_UNSCANNED_BYTES = 1024 * 1024


def may_need_recognition(head: bytes, name: str, media_type: str, size: int) -> bool:
    """Check by the first bytes and the size for a file of pages or pictures that OCR may read for minutes."""
    try:
        kind = detect.kind_of(head[: detect.HEAD_BYTES], name, media_type)
    except Skippable:
        return False
    return kind in (detect.PDF, detect.IMAGE, detect.ZIP) or (not kind.text and size > _MAX_UNSCANNED_BYTES)


@lru_cache(maxsize=1)
def document_parser() -> DocumentParser:
    """Return the parser of this process, within the limits of the settings; at most one child per core."""
    config = settings.load_settings()
    cores = os.cpu_count() or 1
    pool = ChildPool(
        cores,
        Limits(config.parse_seconds, config.parse_memory_bytes, file_bytes=config.max_file_bytes + _INLINE_TEXT_BYTES),
        quick_seconds=_QUICK_SECONDS,
    )
    recognition = _make_recognition(config, cores)
    unpack = Unpack("", config.archive_members, config.archive_bytes, config.max_file_bytes)
    parser = DocumentParser(pool, config.parse_memory_bytes, config.parse_seconds, recognition, unpack)
    atexit.register(parser.close)
    os.register_at_fork(after_in_child=lambda: _abandon_pools(pool, recognition.pool))
    return parser


def close_parser() -> None:
    """Stop the children of this process's parser, if any."""
    # A forked process runs no `atexit` handlers.
    if document_parser.cache_info().currsize:
        document_parser().close()


def _make_recognition(config: settings.Settings, cores: int) -> TextRecognition:
    """Make the text recognition with a separate pool, with more memory and access to tesseract."""
    program = shutil.which("tesseract") or ""
    limits = Limits(config.ocr_page_seconds, config.ocr_memory_bytes, program)
    recognition = TextRecognition(
        ChildPool(cores, limits), program, tuple(config.ocr_languages), config.ocr_page_seconds, config.ocr_pages
    )
    if unread := recognition.unsupported_languages():
        log.warning("ocr.languages_not_read", languages=unread, why="without tesseract only Latin, Chinese, Japanese")
    return recognition


def _abandon_pools(*pools: ChildPool) -> None:
    """Leave the children to the parent process; the forked one starts new children."""
    for pool in pools:
        pool.forget()
    document_parser.cache_clear()
