"""Messages between the service and its parser processes: length-prefixed MessagePack frames."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from retrieval.errors import Skippable
from retrieval.ports import PageQuality

LENGTH = struct.Struct(">I")
OUT_OF_MEMORY = 77
"""Exit status of a child that met its memory limit in Python code."""

CRASHED = (
    "The parser crashed on this file: it is damaged or of an unusual make. "
    "Save it again from the program that made it and upload that."
)

TOO_DEEP = (
    "The parts of the file lie too deep within each other to be read. "
    "Save it in a simpler form, such as PDF or plain text, and upload that."
)


class Page(msgspec.Struct, frozen=True):
    """The file is a web page: where it came from, and the CSS selectors of what to take and to leave."""

    url: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class Recognise(msgspec.Struct, frozen=True):
    """Recognise the text of one page of a PDF, or of one picture of an image file, counted from 1.

    `draws`: its picture is wanted instead, for another engine.
    """

    page: int
    pdf: bool
    program: str
    languages: tuple[str, ...]
    draws: bool = False


class Draw(msgspec.Struct, frozen=True):
    """Draw a page of a PDF, counted from 1. `text`: what was read from it; `start`, `end`: what of that to shade."""

    page: int
    text: str = ""
    start: int = 0
    end: int = 0


class Unpack(msgspec.Struct, frozen=True):
    """Target folder and limits for the files that are packed into this one."""

    folder: str
    members: int
    bytes: int
    member_bytes: int


class Packed(msgspec.Struct, frozen=True):
    """A file within a file: its path there and the place it was written to, or the reason why it was left out."""

    path: str
    place: str
    media_type: str
    size: int
    reason: str = ""


class Task(msgspec.Struct, frozen=True):
    """A file to read. `cpu_seconds`: processor time it may take; `expanded_bytes`: what its parts may unfold to.

    `ocr`: an image is not refused, for its text will be recognised. `first`: the page, counted from 0, at which the
    window of a long PDF begins. `password`: opens the file, if it is protected.
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
    """Result of a task: `refusal` for the user, with `detail` for the log, or the text and its properties.

    `again`: a failure that may not recur. `spent`: the child should not be given another file. `pictured`: pages whose
    text is still to be recognised, in a file of `count` pages that is a `pdf` or an image. `following`: the first page
    of the next window of a long PDF, or 0. `landlock`: in the first reply, the version that confines the child, or 0.
    `picture`: a page that was drawn, as PNG; empty if it is blank. `listing`: the text is no more than the list of the
    members. `qualities`: of each page.
    """

    refusal: str = ""
    detail: str = ""
    again: str = ""
    text: str = ""
    title: str = ""
    pages: tuple[int, ...] = ()
    properties: dict[str, str | int] = {}
    spent: bool = False
    pictured: tuple[int, ...] = ()
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


WINDOW_PAGES = 100
"""Of one window."""
MOST_PAGES = 10_000
MOST_WINDOWS = 15
"""How many times the seconds of one file a long one may take by the clock."""


def check_page_count(count: int) -> int:
    """The number of pages. Skippable if there are none, or too many."""
    if not count:
        raise Skippable("The PDF has no pages. Save it again from the program that made it and upload that.")
    if count > MOST_PAGES:
        raise Skippable(
            f"The PDF has {count:,} pages; at most {MOST_PAGES:,} are read. "
            "Split it into smaller files and upload those."
        )
    return count


def read_following(reply: Reply, task: Task, read: Callable[[Task], Reply], beside: int = 1) -> Reply:
    """The reply of a long PDF's first window with those that follow, `beside` of them read beside each other."""
    if not reply.following:
        return reply
    deadline = time.monotonic() + MOST_WINDOWS * task.cpu_seconds

    def window(first: int) -> Reply:
        if time.monotonic() > deadline:
            raise Skippable(
                f"Reading the file took more than {MOST_WINDOWS * task.cpu_seconds:g} s and was given up. "
                "Split it into smaller files and upload those."
            )
        return read(msgspec.structs.replace(task, first=first, unpack=None))

    pool = ThreadPoolExecutor(beside, thread_name_prefix="window")
    try:
        parts = [reply, *pool.map(window, range(reply.following, reply.count, WINDOW_PAGES))]
    finally:
        pool.shutdown(cancel_futures=True)
    return _together(parts)


def _together(parts: Sequence[Reply]) -> Reply:
    pages: list[int] = []
    length = 0
    for part in parts:
        pages += [length + start for start in part.pages]
        length += len(part.text)
    return msgspec.structs.replace(
        parts[0],
        text="".join(part.text for part in parts),
        pages=tuple(pages),
        pictured=tuple(page for part in parts for page in part.pictured),
        qualities=tuple(quality for part in parts for quality in part.qualities),
    )
