"""Messages between the service and parser processes: length-prefixed MessagePack frames."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from retrieval.errors import Skippable
from retrieval.ports import PageQuality

LENGTH = struct.Struct(">I")
# Exit status of a child at its memory limit in Python code.
OUT_OF_MEMORY = 77

CRASHED = (
    "The parser crashed on this file: it is damaged or of an unusual make. "
    "Save it again from the program that made it and upload that."
)

TOO_DEEP = (
    "The parts of the file lie too deep within each other to be read. "
    "Save it in a simpler form, such as PDF or plain text, and upload that."
)

DECLARES_ENTITIES = (
    "The XML of the file declares entities, which may unfold to many times its size, so it is not read. "
    "Open the file in the program that made it, save it again and upload that."
)


class Page(msgspec.Struct, frozen=True):
    """Marks the file as a web page: its address, and CSS selectors to include and exclude."""

    url: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class Recognise(msgspec.Struct, frozen=True):
    """Request the text of a PDF page or of a picture in an image, counted from 1.

    `draws`: return the picture for another engine instead.
    """

    page: int
    pdf: bool
    program: str
    languages: tuple[str, ...]
    draws: bool = False


class Draw(msgspec.Struct, frozen=True):
    """Request a picture of a PDF page, counted from 1. `text`: extracted text of the page; `start`, `end`: range to
    shade.
    """

    page: int
    text: str = ""
    start: int = 0
    end: int = 0


class Unpack(msgspec.Struct, frozen=True):
    """Target folder and limits for the files inside a container."""

    folder: str
    members: int
    bytes: int
    member_bytes: int


class Packed(msgspec.Struct, frozen=True):
    """Member of a container: path inside, and either the path of the written copy or the reason for its omission."""

    path: str
    place: str
    media_type: str
    size: int
    reason: str = ""


class Task(msgspec.Struct, frozen=True):
    """File to read. `cpu_seconds`: limit of processor time. `expanded_bytes`: limit of unpacked size. `ocr`: accept
    images for recognition. `first`: first page, from 0, of the window of a long PDF. `password`: of a protected
    file.
    """

    path: str
    name: str
    media_type: str
    ocr: bool
    cpu_seconds: float
    expanded_bytes: int
    page: Page | None = None
    recognise: Recognise | None = None
    unpack: Unpack | None = None
    first: int = 0
    draw: Draw | None = None
    password: str = ""


class Reply(msgspec.Struct, frozen=True):
    """Result of a task: `refusal` for the user with `detail` for the log, or text and properties. `again`: retry may
    succeed. `spent`: replace the child. `ocr_pages`: numbers of the pages that need OCR, in a `pdf` or image of `count`
    pages. `following`: first page of the next window, or 0. `landlock`: in the first reply, the confining version, or
    0. `picture`: drawn page as PNG, empty if blank. `listing`: the text is only the member list. `qualities`: per page.
    """

    refusal: str = ""
    detail: str = ""
    again: str = ""
    text: str = ""
    title: str = ""
    pages: tuple[int, ...] = ()
    properties: dict[str, str | int] = {}
    spent: bool = False
    ocr_pages: tuple[int, ...] = ()
    count: int = 0
    pdf: bool = False
    members: tuple[Packed, ...] = ()
    following: int = 0
    landlock: int = 0
    picture: bytes = b""
    listing: bool = False
    qualities: tuple[PageQuality, ...] = ()


def frame_message(message: Task | Reply) -> bytes:
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body


# Pages per window of a long PDF.
WINDOW_PAGES = 100
MAX_PAGES = 10_000
# Wall-clock limit of a long file, as a multiple of the limit of one window.
MAX_WINDOWS = 15


def check_page_count(count: int) -> int:
    """Return the page count. Skippable if zero or too high."""
    if not count:
        raise Skippable("The PDF has no pages. Save it again from the program that made it and upload that.")
    if count > MAX_PAGES:
        raise Skippable(
            f"The PDF has {count:,} pages; at most {MAX_PAGES:,} are read. "
            "Split it into smaller files and upload those."
        )
    return count


def read_following(reply: Reply, task: Task, read: Callable[[Task], Reply], parallel: int = 1) -> Reply:
    """Join the reply of the first window of a long PDF with the following windows, `parallel` at a time."""
    if not reply.following:
        return reply
    deadline = time.monotonic() + MAX_WINDOWS * task.cpu_seconds

    def window(first: int) -> Reply:
        if time.monotonic() > deadline:
            raise Skippable(
                f"Reading the file took more than {MAX_WINDOWS * task.cpu_seconds:g} s and was given up. "
                "Split it into smaller files and upload those."
            )
        return read(msgspec.structs.replace(task, first=first, unpack=None))

    pool = ThreadPoolExecutor(parallel, thread_name_prefix="window")
    try:
        parts = [reply, *pool.map(window, range(reply.following, reply.count, WINDOW_PAGES))]
    finally:
        pool.shutdown(cancel_futures=True)
    return _join_replies(parts)


def _join_replies(parts: Sequence[Reply]) -> Reply:
    pages: list[int] = []
    length = 0
    for part in parts:
        pages += [length + start for start in part.pages]
        length += len(part.text)
    return msgspec.structs.replace(
        parts[0],
        text="".join(part.text for part in parts),
        pages=tuple(pages),
        ocr_pages=tuple(page for part in parts for page in part.ocr_pages),
        qualities=tuple(quality for part in parts for quality in part.qualities),
    )
