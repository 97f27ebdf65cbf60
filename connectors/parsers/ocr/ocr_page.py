"""Recognising one page of a file, inside of a parser child that may take more memory than others."""

from __future__ import annotations

from pathlib import Path

from connectors.parsers.detect import plain
from connectors.parsers.messages import Recognise, Reply, Task
from connectors.parsers.ocr import engines
from connectors.parsers.pdf import images

SURE = 0.6
"""Below this tesseract does not know the script, or the picture is hard: then the packaged engine reads it."""


def read(task: Task, wanted: Recognise) -> Reply:
    """The text of the page or picture, "" if there is none."""
    dots = engines.TESSERACT_DOTS if wanted.program else engines.PACKAGED_DOTS
    path = Path(task.path)
    image = images.rendered(path, wanted.page, dots) if wanted.pdf else images.frame(path, wanted.page)
    if images.is_blank(image):
        return Reply()
    if wanted.program:
        text, sure = engines.with_tesseract(image, wanted.program, wanted.languages)
        if sure >= SURE or not engines.PACKAGED_READS.intersection(wanted.languages):
            return Reply(text=plain.storable(text))
    return Reply(text=plain.storable(engines.packaged(image)))
