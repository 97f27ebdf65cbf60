"""Long PDFs by ranges of pages, each within the limits of one file, joined afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from connectors.parsers.messages import ONLY_PICTURES, Reply, Task
from connectors.parsers.text import trust
from retrieval.errors import Skippable

PAGES = 100
"""Of one window."""
MOST_PAGES = 10_000
_NAMED = 10
"""Pages that a notice names; the others are counted."""
MOST_WINDOWS = 15
"""How many times the seconds of one file a long one may take by the clock."""


class NoText(Skippable):
    """The file could be read and holds no text of its own."""


def checked(count: int) -> int:
    """The number of pages. Skippable if there are none, or too many."""
    if not count:
        raise Skippable("The PDF has no pages. Save it again from the program that made it and upload that.")
    if count > MOST_PAGES:
        raise Skippable(
            f"The PDF has {count:,} pages; at most {MOST_PAGES:,} are read. "
            "Split it into smaller files and upload those."
        )
    return count


def refuse_without_text(reply: Reply, *, ocr: bool) -> None:
    """Skippable, with the reason, for a PDF that has no text and no page left to recognise."""
    if any(map(str.isalnum, reply.text)) or reply.pictured:
        return
    if reason := next((q.reasons[0] for q in reply.qualities if q.reasons and q.reasons[0] != trust.PICTURE), ""):
        raise Skippable(
            f"The text of the PDF cannot be read. {reason} Retry it, or ingest it again, with the OCR strategy "
            "STANDARD_OCR (ocrConfig), which reads the pages as people see them."
        )
    if ocr:
        raise NoText(
            "The PDF holds nothing but blank pages: there is no text to recognise. Upload a file with text in it."
        )
    raise NoText(ONLY_PICTURES)


def with_unread_pages(reply: Reply, *, ocr: bool) -> Reply:
    """The reply with a notice of the pages of a PDF that are left out: pictures, or letters that cannot be trusted."""
    if not reply.pages:
        return reply
    ends = [*reply.pages[1:], len(reply.text)]
    texts = [reply.text[start:end] for start, end in zip(reply.pages, ends, strict=True)]
    unread = [
        quality
        for quality in reply.qualities
        if quality.quality < trust.LIMIT and quality.page <= len(texts) and not texts[quality.page - 1].strip()
    ]
    if not unread:
        return reply
    numbers = ", ".join(str(quality.page) for quality in unread[:_NAMED])
    more = f" and {len(unread) - _NAMED:,} more" if len(unread) > _NAMED else ""
    reasons = " ".join(dict.fromkeys(quality.reasons[0] for quality in unread if quality.reasons))
    advice = "" if ocr else " Ingest the file again with the OCR strategy STANDARD_OCR (ocrConfig) to read them."
    notice = f"Not read: pages ({len(unread):,}): {numbers}{more}. {reasons}{advice}"
    former = reply.properties.get("notice")
    return msgspec.structs.replace(
        reply, properties={**reply.properties, "notice": f"{former} {notice}" if former else notice}
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
    whole = _together(parts)
    if not whole.members:
        refuse_without_text(whole, ocr=task.ocr)
    return whole


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
