"""The page of a PDF that a chunk lies on, as a picture with the chunk's words boxed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import streamlit as st

from ui import session
from ui.client import Json

if TYPE_CHECKING:
    from PIL.Image import Image

SCALE = 1.6
"""Pixels a PDF point."""
MOST_BYTES = 50 * 1024 * 1024
_WORD = re.compile(r"\w+")


def show(who: session.Person, document: Json, chunk: Json) -> None:
    """The page, for a PDF; for others nothing."""
    if document["documentProperties"]["mimeType"] != "application/pdf":
        return
    content = who.api.file(document.get("rawFileUrl"), most=MOST_BYTES)
    if content is None:
        st.caption("The raw file is not there to show its page.")
        return
    picture = render(content, chunk["page"], chunk["content"])
    if picture is None:
        st.caption("This page cannot be drawn.")
        return
    st.image(picture, caption=f"Page {chunk['page']}", width="stretch")


def render(content: bytes, page: int, text: str) -> Image | None:
    """The page (from 1) with the lines of `text` shaded; None for a file that cannot be drawn."""
    import pypdfium2
    from PIL import ImageDraw

    try:
        with pypdfium2.PdfDocument(content) as pdf:
            if not 1 <= page <= len(pdf):
                return None
            sheet = pdf[page - 1]
            height = sheet.get_height()
            boxes = _boxes(sheet, text)
            picture: Image = sheet.render(scale=SCALE).to_pil().convert("RGB")
    except (pypdfium2.PdfiumError, ValueError):
        return None
    draw = ImageDraw.Draw(picture, "RGBA")
    for left, bottom, right, top in boxes:
        corners = (left * SCALE, (height - top) * SCALE, right * SCALE, (height - bottom) * SCALE)
        draw.rectangle(corners, fill=(59, 116, 224, 60))
    return picture


def _boxes(sheet: Any, text: str) -> list[tuple[float, float, float, float]]:
    """Where the words of `text` stand on the page: found by its first and last words that the page has."""
    layer = sheet.get_textpage()
    content = layer.get_text_range()
    words = _WORD.findall(text)
    start = _position(content, words[:4], last=False)
    end = _position(content, words[-4:], last=True)
    if start is None:
        start = 0
    if end is None or end <= start:
        end = len(content)
    return [layer.get_rect(at) for at in range(layer.count_rects(start, end - start))]


def _position(content: str, words: list[str], *, last: bool) -> int | None:
    """The offset before the first of these words in a row, or after the last of them."""
    if not words:
        return None
    found = list(re.finditer(r"\W+".join(map(re.escape, words)), content))
    if not found:
        return None
    return found[-1].end() if last else found[0].start()
