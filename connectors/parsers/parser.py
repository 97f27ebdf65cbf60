"""Parsers and renderers of this process: files are read, and pages drawn, in limited child processes."""

from __future__ import annotations

import atexit
import copy
import os
import shutil
import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

import msgspec
import structlog

from connectors.parsers import detect, messages, verdicts
from connectors.parsers.formats import texts
from connectors.parsers.messages import Draw, Page, Reply, Task, Unpack
from connectors.parsers.ocr import Recognition
from connectors.parsers.pdf import images
from connectors.parsers.pool import Limits, Pool, always
from retrieval import settings
from retrieval.errors import Retryable, Skippable
from retrieval.ports import ExternalParser, Member, OcrStrategy, PageMark, Parsed, RawContent

_PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
AT_ONCE = 2
"""Pages that one process draws at once."""


class PdfRenderer:
    """A `PageRenderer` within the limits of a pool."""

    def __init__(self, pool: Pool, seconds: float) -> None:
        self.pool = pool
        self._seconds = seconds

    def draw(self, file: Path, page: int, mark: PageMark) -> bytes:
        """The page as a PNG of at most 2000 pixels a side. Skippable, with the cause, for what cannot be drawn."""
        request = Draw(page, mark.text, mark.start, mark.end)
        task = Task(
            path=str(file),
            name=file.name,
            media_type="application/pdf",
            ocr=False,
            cpu_seconds=self._seconds,
            expanded_bytes=0,
            draw=request,
        )
        reply = self.pool.run(task)
        if reply.again:
            raise Retryable(reply.again)
        if reply.refusal:
            raise Skippable(reply.refusal)
        return _checked(reply.picture)


def _checked(picture: bytes) -> bytes:
    """Check the size of the picture: a child that the file has taken over must not hand on a larger one."""
    if picture[:16] != _PNG or max(struct.unpack_from(">II", picture, 16)) > images.LONGEST_SIDE + 1:
        raise Skippable("The page cannot be drawn.")
    return picture


@lru_cache(maxsize=1)
def page_drawer() -> PdfRenderer:
    """The drawer of this process, within the limits of the settings."""
    chosen = settings.load_settings()
    pool = Pool(AT_ONCE, Limits(chosen.page_seconds, chosen.parse_memory_bytes, clock_factor=1))  # somebody waits
    atexit.register(pool.close)
    os.register_at_fork(after_in_child=lambda: _forget_drawers(pool))
    return PdfRenderer(pool, chosen.page_seconds)


def _forget_drawers(pool: Pool) -> None:
    """The children belong to the process that started them."""
    pool.forget()
    page_drawer.cache_clear()


log = structlog.get_logger(__name__)
_HERE_BYTES = 1024 * 1024
"""Plain text up to this size is decoded in this process: no library reads it, and a child would cost more than it."""
_QUICK_SECONDS = 2.0
"""Processor time after which a file keeps no place from files that take less."""


class DocumentParser:
    """Reads files in child processes, each within time and memory limits."""

    def __init__(
        self,
        pool: Pool,
        memory_bytes: int,
        seconds: float,
        recognition: Recognition | None = None,
        packed: Unpack | None = None,
        external: ExternalParser | None = None,
    ) -> None:
        self.pool = pool
        self._expanded_bytes = memory_bytes // 4
        self._seconds = seconds
        self._recognition = recognition
        self._packed = packed
        self.external = external

    def with_external(self, external: ExternalParser) -> DocumentParser:
        """Return a parser with the same processes, and an external one for pages and files that it cannot read."""
        parser = copy.copy(self)
        parser.external = external
        return parser

    def parse(self, raw: RawContent, ocr: OcrStrategy, goes_on: Callable[[], bool] = always) -> Parsed:
        """Return the file as Markdown. Skippable, with the cause and what to do, for a file that cannot be read.

        Interrupted if it still waits for a child once `goes_on` returns False.
        """
        try:
            reply = self._here(raw)
        except OSError as error:
            raise Retryable("The file could not be read from the worker's disk.") from error
        reply = verdicts.judge_reply(reply) if reply else self._in_child(raw, ocr, goes_on)
        reply = self._read_elsewhere(raw, reply)
        return _parsed(verdicts.settle_reply(reply, raw.name, ocr=ocr is OcrStrategy.STANDARD_OCR))

    def _here(self, raw: RawContent) -> Reply | None:
        """The text of a file that needs no library; None for the others."""
        with raw.path.open("rb") as file:
            head = file.read(detect.HEAD)
            if not head:
                raise Skippable("The file is empty: it has 0 bytes. Upload a file with text in it.")
            if raw.page is not None:
                return None
            kind = detect.kind_of(head, raw.name, raw.media_type)
            if kind in (detect.PLAIN, detect.MARKDOWN):
                data = head + file.read(_HERE_BYTES + 1)
                if len(data) <= _HERE_BYTES:
                    return texts.read_verbatim(data, kind, raw.media_type)
        return None

    def warm(self, files: Iterable[tuple[str, str]]) -> None:
        """Start a child ahead of files, by name and media type, unless all of them promise to be plain text."""
        if any(detect.kind_by_name(*file) not in (detect.PLAIN, detect.MARKDOWN) for file in files):
            self.pool.warm()

    def close(self) -> None:
        """End the children that read no file."""
        self.pool.close()
        if self._recognition is not None:
            self._recognition.pool.close()

    def _in_child(self, raw: RawContent, ocr: OcrStrategy, goes_on: Callable[[], bool]) -> Reply:
        page = None if raw.page is None else Page(raw.name, raw.page.include, raw.page.exclude)
        task = Task(
            path=str(raw.path.resolve()),
            name=raw.name,
            media_type=raw.media_type,
            ocr=self._recognition is not None and (ocr is OcrStrategy.STANDARD_OCR or self.external is not None),
            cpu_seconds=self._seconds,
            expanded_bytes=self._expanded_bytes,
            page=page,
            unpack=self._unpack(raw),
            password=raw.password,
        )
        reply = messages.read_following(self._answered(task, goes_on), task, self._answered, beside=self.pool.size)
        if self.external is not None and ocr is OcrStrategy.BASIC_PARSER and reply.pdf:
            unread = tuple(quality.page for quality in reply.qualities if quality.unread and quality.page)
            reply = msgspec.structs.replace(reply, pictured=unread)
        if task.ocr and reply.pictured and self._recognition is not None:
            reply = self._recognition.completed(task, reply, self.external)
        return reply

    def _read_elsewhere(self, raw: RawContent, reply: Reply) -> Reply:
        """The reply, or what the external parser reads of a file without pages that cannot be read here."""
        if self.external is None or not any(q.unread and q.page is None for q in reply.qualities):
            return reply
        text = self.external.read(raw.path.read_bytes(), raw.name, raw.media_type)
        return verdicts.judge_reply(msgspec.structs.replace(reply, text=text, pages=(), qualities=()))

    def _unpack(self, raw: RawContent) -> Unpack | None:
        """Files that are packed into this one go beside it, into a folder that the caller removes."""
        if raw.page is not None or self._packed is None:
            return None
        folder = raw.path.parent / f"{raw.path.name}-members"
        folder.mkdir(exist_ok=True)
        return msgspec.structs.replace(self._packed, folder=str(folder.resolve()))

    def _answered(self, task: Task, goes_on: Callable[[], bool] = always) -> Reply:
        reply = self.pool.run(task, goes_on)
        if reply.again:
            raise Retryable(reply.again)
        if reply.refusal:
            log.info("file.refused", reason=reply.refusal, detail=reply.detail)
            raise Skippable(reply.refusal)
        return reply


def _parsed(reply: Reply) -> Parsed:
    members = tuple(
        Member(packed.path, Path(packed.place), packed.media_type, packed.size, packed.reason)
        for packed in reply.members
    )
    return Parsed(reply.text, reply.title, reply.pages, reply.properties, members, reply.listing, reply.qualities)


@lru_cache(maxsize=1)
def document_parser() -> DocumentParser:
    """The parser of this process, within the limits of the settings; one child at most for each core."""
    chosen = settings.load_settings()
    cores = os.cpu_count() or 1
    pool = Pool(
        cores,
        Limits(chosen.parse_seconds, chosen.parse_memory_bytes, file_bytes=chosen.max_file_bytes + _HERE_BYTES),
        quick_seconds=_QUICK_SECONDS,
    )
    recognition = _recognition(chosen, cores)
    packed = Unpack("", chosen.archive_members, chosen.archive_bytes, chosen.max_file_bytes)
    parser = DocumentParser(pool, chosen.parse_memory_bytes, chosen.parse_seconds, recognition, packed)
    atexit.register(parser.close)
    os.register_at_fork(after_in_child=lambda: _after_fork(pool, recognition.pool))
    return parser


def close_parser() -> None:
    """End the children of this process's parser, if it has one: a forked process runs no `atexit` handlers."""
    if document_parser.cache_info().currsize:
        document_parser().close()


def _recognition(chosen: settings.Settings, cores: int) -> Recognition:
    """Children of their own for recognition: it takes more memory, and may start tesseract where that is installed."""
    program = shutil.which("tesseract") or ""
    allowed = Limits(chosen.ocr_page_seconds, chosen.ocr_memory_bytes, program)
    recognition = Recognition(
        Pool(cores, allowed), program, tuple(chosen.ocr_languages), chosen.ocr_page_seconds, chosen.ocr_pages
    )
    if unread := recognition.unread():
        log.warning("ocr.languages_not_read", languages=unread, why="without tesseract only Latin, Chinese, Japanese")
    return recognition


def _after_fork(*pools: Pool) -> None:
    """The children belong to the process that started them; the forked one starts its own."""
    for pool in pools:
        pool.forget()
    document_parser.cache_clear()
