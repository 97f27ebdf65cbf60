"""Pages as pictures, of bounded size: rendered from a PDF, with passages marked, or decoded from an image file."""

from __future__ import annotations

import io
import os
import re
import struct
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from connectors.parsers.messages import Draw, Reply
from retrieval.errors import Skippable

if TYPE_CHECKING:
    from PIL.Image import Image


MOST_PIXELS = 100_000_000
"""Of an image as it lies in the file: about A0 at 250 dots an inch."""
_LONGEST_SIDE = 4000
_POINTS = 72
_CONTRAST = 8
"""Of 256 shades."""
_BROKEN = (OSError, SyntaxError, EOFError, struct.error, ArithmeticError, LookupError, TypeError, ValueError)
"""What the library raises for damaged files of one format or another."""


def count_frames(path: Path) -> int:
    """Return the number of pictures in the image file. Skippable if it is damaged or too large to be decoded."""
    with _opened(path) as image:
        try:
            return int(getattr(image, "n_frames", 1))
        except _BROKEN as error:
            raise _damaged() from error


def media_type(path: Path) -> str:
    """The image's MIME type by its content."""
    from PIL import Image

    with _opened(path) as image:
        return Image.MIME.get(image.format or "", "image/*")


def is_blank(image: Image) -> bool:
    """Tell whether the picture has one shade only: there is nothing to recognise."""
    darkest, brightest = cast("tuple[int, int]", image.convert("L").getextrema())
    return bool(brightest - darkest < _CONTRAST)


def read_frame(path: Path, number: int) -> Image:
    """One picture of an image file, `number` counting from 1."""
    from PIL import ImageOps

    with _opened(path) as image:
        try:
            image.seek(number - 1)
            _refuse_huge(image)
            image.draft("RGB", (_LONGEST_SIDE, _LONGEST_SIDE))
            upright = ImageOps.exif_transpose(image)
            return _on_white(upright)
        except _BROKEN as error:
            raise _damaged() from error


def render_page(path: Path, number: int, dots: int) -> Image:
    """A page of a PDF at `dots` an inch, fewer if it is a large one."""
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(path) as document:
            page = document[number - 1]
            scale = min(dots / _POINTS, _LONGEST_SIDE / max(*page.get_size(), 1))
            image: Image = page.render(scale=scale).to_pil().convert("RGB")
            return image
    except pypdfium2.PdfiumError as error:
        raise Skippable(f"Page {number} of the PDF is damaged. Save it again from its program.") from error


def _opened(path: Path) -> Image:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(path, formats=("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF", "MPO"))
    except Image.DecompressionBombError as error:
        raise _huge() from error
    except _BROKEN as error:
        raise _damaged() from error
    _refuse_huge(image)
    return image


def _refuse_huge(image: Image) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise _huge()


def _on_white(image: Image) -> Image:
    """Without transparency, which a decoder would show black, and at most so large as recognition can use."""
    import PIL.Image

    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = PIL.Image.alpha_composite(PIL.Image.new("RGBA", image.size, "white"), image)
    if image.mode.startswith(("I", "F")):
        image = image.point(lambda value: value / 256) if image.mode.startswith("I;16") else image
    image = image.convert("RGB")
    image.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    return image


def _huge() -> Skippable:
    return Skippable(
        f"The image has more than {MOST_PIXELS // 1_000_000} million pixels. Make it smaller and upload that."
    )


def _damaged() -> Skippable:
    return Skippable("The image is damaged or incomplete and cannot be read. Save it again and upload that.")


SCALE = 1.6
"""Pixels a PDF point, of pages that are not too large for it."""
LONGEST_SIDE = 2000
"""Pixels: no page comes larger, whatever it says of itself."""
_WORD = re.compile(r"\w+")
_MOST_WORDS = 2500
"""Of a page on which a mark is looked for."""
_ROUNDS = 3
_SHADE = (59, 116, 224, 60)

Word = tuple[str, int, int]
"""A word as it is compared, and where it starts and ends."""


def draw_page(path: Path, wanted: Draw) -> Reply:
    """The page as a PNG. Skippable for what has no such page or cannot be drawn."""
    import pypdfium2

    os.setpriority(os.PRIO_PROCESS, 0, 10)  # nobody's ingestion or search waits for a drawing
    try:
        with pypdfium2.PdfDocument(path) as document:
            if not 1 <= wanted.page <= len(document):
                raise Skippable("The PDF has no such page.")
            return Reply(picture=_drawn(document[wanted.page - 1], wanted))
    except (pypdfium2.PdfiumError, ValueError) as error:
        raise Skippable("The page cannot be drawn: the PDF is damaged, or protected by a password.") from error


def _drawn(sheet: Any, wanted: Draw) -> bytes:
    from PIL import ImageDraw

    scale = min(SCALE, LONGEST_SIDE / max(*sheet.get_size(), 1))
    bitmap = sheet.render(scale=scale)
    places = bitmap.get_posconv(sheet)
    picture = bitmap.to_pil().convert("RGB")
    pen = ImageDraw.Draw(picture, "RGBA")
    for left, bottom, right, top in _boxes(sheet, wanted):
        (x, y), (other_x, other_y) = places.to_bitmap(left, top), places.to_bitmap(right, bottom)
        pen.rectangle((min(x, other_x), min(y, other_y), max(x, other_x), max(y, other_y)), fill=_SHADE)
    png = io.BytesIO()
    picture.save(png, "PNG", compress_level=3)
    return png.getvalue()


def _boxes(sheet: Any, wanted: Draw) -> Iterator[tuple[float, float, float, float]]:
    """The rectangles, in points, of the words that are marked."""
    if wanted.start >= wanted.end:
        return
    layer = sheet.get_textpage()
    for start, end in find_ranges(wanted.text, wanted.start, wanted.end, layer.get_text_range()):
        for number in range(layer.count_rects(start, end - start)):
            yield layer.get_rect(number)


def find_ranges(text: str, start: int, end: int, layer: str) -> list[tuple[int, int]]:
    """Return the ranges in the page's layer that hold the words of `text[start:end]`, in order.

    The whole text of the page is aligned with the whole layer, so that repeated words match their own positions. Words
    that the layer has in another order, such as columns, are aligned in further rounds.
    """
    text_words, layer_words = _words(text), _words(layer)
    if max(len(text_words), len(layer_words)) > _MOST_WORDS:
        return []
    positions: dict[int, int] = {}
    open_text, open_layer = list(range(len(text_words))), list(range(len(layer_words)))
    for _ in range(_ROUNDS):
        pairs = list(_aligned([text_words[n][0] for n in open_text], [layer_words[n][0] for n in open_layer]))
        if not pairs:
            break
        positions |= {open_text[a]: open_layer[b] for a, b in pairs}
        used = set(positions.values())
        open_text, open_layer = [n for n in open_text if n not in positions], [n for n in open_layer if n not in used]
    chosen = sorted(
        positions[n] for n, (_, at, to) in enumerate(text_words) if n in positions and at < end and to > start
    )
    return _joined_boxes(chosen, layer_words)


def _aligned(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[int, int]]:
    for block in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        yield from ((block.a + n, block.b + n) for n in range(block.size))


def _joined_boxes(chosen: Sequence[int], words: Sequence[Word]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for index, number in enumerate(chosen):
        _, start, end = words[number]
        if index and chosen[index - 1] == number - 1:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    return ranges


def _words(text: str) -> list[Word]:
    spans = (match.span() for match in _WORD.finditer(text))
    return [(unicodedata.normalize("NFKC", text[start:end]).casefold(), start, end) for start, end in spans]
