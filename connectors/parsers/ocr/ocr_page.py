"""Recognising one page of a file, inside of a parser child that may take more memory than others."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.parsers.detect import plain
from connectors.parsers.messages import Recognise, Reply, Task
from connectors.parsers.ocr import engines
from connectors.parsers.ocr.engines import Recognised
from connectors.parsers.pdf import images
from connectors.parsers.text import trust
from retrieval.ports import PageQuality

if TYPE_CHECKING:
    from PIL.Image import Image

SURE = 0.6
"""Below this tesseract does not know the script, or the picture is hard: then the packaged engine reads it."""


def read(task: Task, wanted: Recognise) -> Reply:
    """The text of the page or picture and its verdict; "" if there is none, or none to be trusted."""
    dots = engines.TESSERACT_DOTS if wanted.program else engines.PACKAGED_DOTS
    path = Path(task.path)
    image = images.rendered(path, wanted.page, dots) if wanted.pdf else images.frame(path, wanted.page)
    if images.is_blank(image):
        return Reply(qualities=(PageQuality(wanted.page, 1.0, recognised=True),))
    if wanted.draws:
        png = io.BytesIO()
        image.save(png, "PNG", compress_level=1)
        return Reply(picture=png.getvalue())
    recognised = _recognised(image, wanted)
    text = plain.storable(recognised.text)
    if not text.strip():
        return Reply(qualities=(trust.unreadable(wanted.page, trust.NOTHING_RECOGNISED, recognised=True),))
    quality = trust.judge_recognised(wanted.page, text, recognised.confidence)
    return Reply(text="" if quality.unread else text, qualities=(quality,))


def _recognised(image: Image, wanted: Recognise) -> Recognised:
    if wanted.program:
        recognised = engines.with_tesseract(image, wanted.program, wanted.languages)
        if recognised.confidence >= SURE or recognised.is_final:
            return recognised
    return engines.packaged(image)
