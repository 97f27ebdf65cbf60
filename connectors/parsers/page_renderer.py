"""Page renderer of this process: pages of PDF files are drawn in limited child processes."""

from __future__ import annotations

import atexit
import os
import struct
from functools import lru_cache
from pathlib import Path

from connectors.parsers.messages import Draw, Task
from connectors.parsers.pdf import images
from connectors.parsers.pool import ChildPool, Limits
from retrieval import settings
from retrieval.errors import Retryable, Skippable
from retrieval.ports import PageMark

_PNG_HEADER = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
# Pages drawn by one process at once.
MAX_CONCURRENT_DRAWINGS = 2


class PdfRenderer:
    """`PageRenderer` that draws in limited child processes; `seconds`: processor time of a page."""

    def __init__(self, pool: ChildPool, seconds: float) -> None:
        self.pool = pool
        self._seconds = seconds

    def draw(self, file: Path, page: int, mark: PageMark) -> bytes:
        """Return the page as a PNG of at most 2000 pixels a side. Skippable, with the cause, on failure."""
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
        return _check_picture(reply.picture)


def _check_picture(picture: bytes) -> bytes:
    """Return the picture; Skippable for other data or a larger picture."""
    # The file may have taken over the child.
    if picture[:16] != _PNG_HEADER or max(struct.unpack_from(">II", picture, 16)) > images.MAX_PAGE_SIDE + 1:
        raise Skippable("The page cannot be drawn.")
    return picture


@lru_cache(maxsize=1)
def page_renderer() -> PdfRenderer:
    """Return the renderer of this process, within the limits of the settings."""
    config = settings.load_settings()
    # A person waits for the picture.
    limits = Limits(config.page_seconds, config.parse_memory_bytes, clock_factor=1)
    pool = ChildPool(MAX_CONCURRENT_DRAWINGS, limits)
    atexit.register(pool.close)
    os.register_at_fork(after_in_child=lambda: _forget_renderer(pool))
    return PdfRenderer(pool, config.page_seconds)


def _forget_renderer(pool: ChildPool) -> None:
    """Leave the children to the parent process, after a fork."""
    pool.forget()
    page_renderer.cache_clear()
