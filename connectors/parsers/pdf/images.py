"""Pages as bounded pictures: rendered from a PDF with highlighted passages, or decoded from an image file."""

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


# Of a stored image: about A0 at 250 dots per inch.
MAX_IMAGE_PIXELS = 100_000_000
_MAX_DECODED_SIDE = 4000
_POINTS_PER_INCH = 72
# Minimum difference in 256 shades.
_MIN_CONTRAST = 8
# Exceptions of Pillow for damaged files of various formats.
_DECODE_ERRORS = (OSError, SyntaxError, EOFError, struct.error, ArithmeticError, LookupError, TypeError, ValueError)


def count_frames(path: Path) -> int:
    """Return the number of frames in an image file. Skippable if damaged or too large."""
    with _open_image(path) as image:
        try:
            return int(getattr(image, "n_frames", 1))
        except _DECODE_ERRORS as error:
            raise _damaged_image_error() from error


def image_media_type(path: Path) -> str:
    """Return the MIME type of an image by its content."""
    from PIL import Image

    with _open_image(path) as image:
        return Image.MIME.get(image.format or "", "image/*")


def is_blank(image: Image) -> bool:
    """Check for an image of a single shade."""
    darkest, brightest = cast("tuple[int, int]", image.convert("L").getextrema())
    return bool(brightest - darkest < _MIN_CONTRAST)


def read_frame(path: Path, number: int) -> Image:
    """Decode a frame of an image file, counted from 1. Skippable if damaged or too large."""
    from PIL import ImageOps

    with _open_image(path) as image:
        try:
            image.seek(number - 1)
            _refuse_huge(image)
            image.draft("RGB", (_MAX_DECODED_SIDE, _MAX_DECODED_SIDE))
            upright = ImageOps.exif_transpose(image)
            return _flatten_image(upright)
        except _DECODE_ERRORS as error:
            raise _damaged_image_error() from error


def render_page(path: Path, number: int, dots: int) -> Image:
    """Render a page of a PDF, counted from 1, at `dots` per inch, or fewer if large."""
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(path) as document:
            page = document[number - 1]
            scale = min(dots / _POINTS_PER_INCH, _MAX_DECODED_SIDE / max(*page.get_size(), 1))
            image: Image = page.render(scale=scale).to_pil().convert("RGB")
            return image
    except pypdfium2.PdfiumError as error:
        raise Skippable(f"Page {number} of the PDF is damaged. Save it again from its program.") from error


def _open_image(path: Path) -> Image:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(path, formats=("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF", "MPO"))
    except Image.DecompressionBombError as error:
        raise _huge_image_error() from error
    except _DECODE_ERRORS as error:
        raise _damaged_image_error() from error
    _refuse_huge(image)
    return image


def _refuse_huge(image: Image) -> None:
    if image.width * image.height > MAX_IMAGE_PIXELS:
        raise _huge_image_error()


def _flatten_image(image: Image) -> Image:
    """Flatten transparency onto white, and shrink to the limit of recognition."""
    # Decoders show transparent areas black.
    import PIL.Image

    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = PIL.Image.alpha_composite(PIL.Image.new("RGBA", image.size, "white"), image)
    if image.mode.startswith(("I", "F")):
        image = image.point(lambda value: value / 256) if image.mode.startswith("I;16") else image
    image = image.convert("RGB")
    image.thumbnail((_MAX_DECODED_SIDE, _MAX_DECODED_SIDE))
    return image


def _huge_image_error() -> Skippable:
    return Skippable(
        f"The image has more than {MAX_IMAGE_PIXELS // 1_000_000} million pixels. Make it smaller and upload that."
    )


def _damaged_image_error() -> Skippable:
    return Skippable("The image is damaged or incomplete and cannot be read. Save it again and upload that.")


# Pixels per PDF point, unless the page would exceed MAX_PAGE_SIDE.
PIXELS_PER_POINT = 1.6
# Maximum in pixels for any page size.
MAX_PAGE_SIDE = 2000
_WORD_PATTERN = re.compile(r"\w+")
# Pages with more words are not highlighted.
_MAX_ALIGNED_WORDS = 2500
_ALIGNMENT_ROUNDS = 3
_HIGHLIGHT_COLOR = (59, 116, 224, 60)

# Normalised word with its start and end offsets.
WordSpan = tuple[str, int, int]


def draw_page(path: Path, request: Draw) -> Reply:
    """Draw a page as PNG. Skippable if missing or damaged."""
    import pypdfium2

    os.setpriority(os.PRIO_PROCESS, 0, 10)  # nobody's ingestion or search waits for a drawing
    try:
        with pypdfium2.PdfDocument(path) as document:
            if not 1 <= request.page <= len(document):
                raise Skippable("The PDF has no such page.")
            return Reply(picture=_draw_sheet(document[request.page - 1], request))
    except (pypdfium2.PdfiumError, ValueError) as error:
        raise Skippable("The page cannot be drawn: the PDF is damaged, or protected by a password.") from error


def _draw_sheet(sheet: Any, request: Draw) -> bytes:
    from PIL import ImageDraw

    scale = min(PIXELS_PER_POINT, MAX_PAGE_SIDE / max(*sheet.get_size(), 1))
    bitmap = sheet.render(scale=scale)
    places = bitmap.get_posconv(sheet)
    picture = bitmap.to_pil().convert("RGB")
    pen = ImageDraw.Draw(picture, "RGBA")
    for left, bottom, right, top in _highlight_boxes(sheet, request):
        (x, y), (other_x, other_y) = places.to_bitmap(left, top), places.to_bitmap(right, bottom)
        pen.rectangle((min(x, other_x), min(y, other_y), max(x, other_x), max(y, other_y)), fill=_HIGHLIGHT_COLOR)
    png = io.BytesIO()
    picture.save(png, "PNG", compress_level=3)
    return png.getvalue()


def _highlight_boxes(sheet: Any, request: Draw) -> Iterator[tuple[float, float, float, float]]:
    """Yield the rectangles of the highlighted words, in points."""
    if request.start >= request.end:
        return
    layer = sheet.get_textpage()
    for start, end in find_ranges(request.text, request.start, request.end, layer.get_text_range()):
        for number in range(layer.count_rects(start, end - start)):
            yield layer.get_rect(number)


def find_ranges(text: str, start: int, end: int, layer: str) -> list[tuple[int, int]]:
    """Return the ranges of the layer with the words of `text[start:end]`, in order."""
    # The whole text is aligned, so repeated words match their own positions. Words in another order, such as columns,
    # need further rounds.
    text_words, layer_words = _split_words(text), _split_words(layer)
    if max(len(text_words), len(layer_words)) > _MAX_ALIGNED_WORDS:
        return []
    positions: dict[int, int] = {}
    open_text, open_layer = list(range(len(text_words))), list(range(len(layer_words)))
    for _ in range(_ALIGNMENT_ROUNDS):
        pairs = list(_align_words([text_words[n][0] for n in open_text], [layer_words[n][0] for n in open_layer]))
        if not pairs:
            break
        positions |= {open_text[a]: open_layer[b] for a, b in pairs}
        used = set(positions.values())
        open_text, open_layer = [n for n in open_text if n not in positions], [n for n in open_layer if n not in used]
    chosen = sorted(
        positions[n] for n, (_, at, to) in enumerate(text_words) if n in positions and at < end and to > start
    )
    return _join_ranges(chosen, layer_words)


def _align_words(text_words: Sequence[str], layer_words: Sequence[str]) -> Iterator[tuple[int, int]]:
    for block in SequenceMatcher(None, text_words, layer_words, autojunk=False).get_matching_blocks():
        yield from ((block.a + n, block.b + n) for n in range(block.size))


def _join_ranges(chosen: Sequence[int], words: Sequence[WordSpan]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for index, number in enumerate(chosen):
        _, start, end = words[number]
        if index and chosen[index - 1] == number - 1:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    return ranges


def _split_words(text: str) -> list[WordSpan]:
    spans = (match.span() for match in _WORD_PATTERN.finditer(text))
    return [(unicodedata.normalize("NFKC", text[start:end]).casefold(), start, end) for start, end in spans]
