"""Long PDFs by ranges of pages, each within the limits of one file, joined afterwards."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from connectors.parsers.messages import ONLY_PICTURES, Reply, Task
from connectors.parsers.text import properties
from retrieval.errors import Skippable

_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(Z|[+-]\d\d'?(?:\d\d)?)?")
PAGES = 100
"""Of one window."""
MOST_PAGES = 10_000
MOST_WINDOWS = 15
"""How many times the seconds of one file a long one may take by the clock."""


def cut(path: Path, first: int) -> tuple[Path, Reply]:
    """The page range from `first` (0-based) as a PDF of its own, and the properties of the whole file.

    Short files, and files that cannot be opened here, are returned as they are: the parsing library reports what is
    wrong.
    """
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(path) as whole:
            count = len(whole)
            if not count:
                raise Skippable("The PDF has no pages. Save it again from the program that made it and upload that.")
            if count <= PAGES:
                return path, Reply()
            if count > MOST_PAGES:
                raise Skippable(
                    f"The PDF has {count:,} pages; at most {MOST_PAGES:,} are read. "
                    "Split it into smaller files and upload those."
                )
            place = Path(tempfile.mkdtemp()) / "window"
            last = min(first + PAGES, count)
            with pypdfium2.PdfDocument.new() as window:
                window.import_pages(whole, list(range(first, last)))
                window.save(place)
            named = whole.get_metadata_dict()
    except pypdfium2.PdfiumError:
        return path, Reply()
    known: dict[str, str | int] = {"fileSize": path.stat().st_size, "pageCount": count}
    if author := properties.name(named.get("Author", "")):
        known["author"] = author
    dates = {"createdAt": "CreationDate", "modifiedAt": "ModDate"}
    known.update({name: moment for name, key in dates.items() if (moment := _moment(named.get(key, "")))})
    title = properties.name(named.get("Title", ""))
    return place, Reply(title=title, properties=known, count=count, following=last if last < count else 0)


def _moment(stamp: str) -> str:
    """A date of a PDF, such as D:20240131120000+01'00' (ISO 32000-1, 7.9.4), as ISO 8601 in UTC; "" if it is none."""
    found = _DATE.match(stamp)
    if not found:
        return ""
    year, month, day, hour, minute, second, zone = found.groups()
    offset = "+00:00" if zone in (None, "Z") else f"{zone[:3]}:{zone[4:6] or '00'}"
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}"
    return properties.instant(f"{year}-{month or '01'}-{day or '01'}T{clock}{offset}")


def placed(window: Reply, whole: Reply, first: int) -> Reply:
    """A window's reply with what is known of the whole file; its pictured pages counted in that."""
    return msgspec.structs.replace(
        window,
        title=whole.title or window.title,
        properties={**window.properties, **whole.properties},
        pages=window.pages or (0,) * window.count,
        pictured=tuple(first + page for page in window.pictured),
        count=whole.count,
        following=whole.following,
    )


def joined(reply: Reply, task: Task, read: Callable[[Task], Reply], beside: int = 1) -> Reply:
    """The reply of a long PDF's first window with those that follow, `beside` of them read beside each other.

    Skippable if the file holds no text.
    """
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
        parts = [reply, *pool.map(window, range(reply.following, reply.count, PAGES))]
    finally:
        pool.shutdown(cancel_futures=True)
    return _together(parts)


def _together(parts: Sequence[Reply]) -> Reply:
    texts: list[str] = []
    pages: list[int] = []
    length = 0
    for part in parts:
        pages += [length + start for start in part.pages]
        texts.append(part.text.rstrip() + "\n\n" if part.text.strip() else "")
        length += len(texts[-1])
    text, pictured = "".join(texts), tuple(page for part in parts for page in part.pictured)
    if not text and not pictured:
        raise Skippable(ONLY_PICTURES)
    return msgspec.structs.replace(
        parts[0], text=text, pages=tuple(min(start, length) for start in pages), pictured=pictured
    )
