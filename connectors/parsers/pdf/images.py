"""Pages as pictures: rendered from a PDF or decoded from an image file, upright as the file says, of bounded size."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, cast

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


def frames(path: Path) -> int:
    """How many pictures the image file holds. Skippable if it is damaged or too large to be decoded."""
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
    """Whether it shows one shade only: there is nothing to recognise."""
    darkest, brightest = cast("tuple[int, int]", image.convert("L").getextrema())
    return bool(brightest - darkest < _CONTRAST)


def frame(path: Path, number: int) -> Image:
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


def rendered(path: Path, number: int, dots: int) -> Image:
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
