"""Renders PDF pages for the admin app, in limited child processes, a few at once."""

from __future__ import annotations

import atexit
import os
import struct
from functools import lru_cache
from pathlib import Path

from connectors.parsers.messages import Draw, Task
from connectors.parsers.pdf import rendering
from connectors.parsers.process.pool import Limits, Pool
from retrieval import settings
from retrieval.errors import Retryable, Skippable
from retrieval.ports import PageMark

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
        wanted = Draw(page, mark.text, mark.start, mark.end)
        task = Task(
            path=str(file),
            name=file.name,
            media_type="application/pdf",
            ocr=False,
            cpu_seconds=self._seconds,
            expanded_bytes=0,
            draw=wanted,
        )
        reply = self.pool.run(task)
        if reply.again:
            raise Retryable(reply.again)
        if reply.refusal:
            raise Skippable(reply.refusal)
        return _checked(reply.picture)


def _checked(picture: bytes) -> bytes:
    """The child may have been taken over by the file: whoever decodes its picture must not be given a larger one."""
    if picture[:16] != _PNG or max(struct.unpack_from(">II", picture, 16)) > rendering.LONGEST_SIDE + 1:
        raise Skippable("The page cannot be drawn.")
    return picture


@lru_cache(maxsize=1)
def drawer() -> PdfRenderer:
    """The drawer of this process, within the limits of the settings."""
    chosen = settings.load()
    pool = Pool(AT_ONCE, Limits(chosen.page_seconds, chosen.parse_memory_bytes, clock_factor=1))  # somebody waits
    atexit.register(pool.close)
    os.register_at_fork(after_in_child=lambda: _after_fork(pool))
    return PdfRenderer(pool, chosen.page_seconds)


def _after_fork(pool: Pool) -> None:
    """The children belong to the process that started them."""
    pool.forget()
    drawer.cache_clear()
