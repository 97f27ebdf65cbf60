"""Compared engines: each converts PDFs to Markdown, the service other files too."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

# Text of a refused file.
REFUSED_PREFIX = "REFUSED"
Engine = Callable[[Path], str]


def parse_with_service(path: Path, *, ocr: bool = False) -> str:
    """Parse with the service's sandboxed parser."""
    from connectors.parsers.parser import document_parser
    from retrieval.errors import Skippable
    from retrieval.ports import OcrStrategy, RawContent

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(path, Path(folder) / "raw"))
        raw = RawContent(path=copy, name=path.name, media_type="", size=copy.stat().st_size)
        try:
            return document_parser().parse(raw, OcrStrategy.STANDARD_OCR if ocr else OcrStrategy.BASIC_PARSER).text
        except Skippable as error:
            return f"{REFUSED_PREFIX} {error}"


def parse_with_liteparse(path: Path) -> str:
    return "\n\n".join(page.markdown for page in _make_liteparse().parse(str(path)).pages)


@lru_cache(maxsize=1)
def _make_liteparse() -> Any:
    from liteparse import LiteParse

    return LiteParse(ocr_enabled=False, output_format="markdown", quiet=True)


def parse_with_pdfium(path: Path) -> str:
    """Return PDFium's text in file order."""
    import pypdfium2

    with pypdfium2.PdfDocument(path) as document:
        texts = [page.get_textpage().get_text_bounded() for page in document]
    return "\n\n".join(re.sub("[\ufffe\x02]\\s*", "", text.replace("\r\n", "\n")) for text in texts)


ENGINES: dict[str, Engine] = {
    "service": parse_with_service,
    "liteparse": parse_with_liteparse,
    "pypdfium2": parse_with_pdfium,
}
