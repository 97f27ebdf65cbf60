"""The engines that are compared: each makes Markdown of a PDF, the service of other files as well."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

REFUSED = "REFUSED"
"""What stands for the text of a file that the engine refuses."""
Engine = Callable[[Path], str]


def service(path: Path, *, ocr: bool = False) -> str:
    """The parser of the service, sandboxed child included."""
    from connectors.parsers.parser import document_parser
    from retrieval.errors import Skippable
    from retrieval.ports import OcrStrategy, RawContent

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(path, Path(folder) / "raw"))
        raw = RawContent(path=copy, name=path.name, media_type="", size=copy.stat().st_size)
        try:
            return document_parser().parse(raw, OcrStrategy.STANDARD_OCR if ocr else OcrStrategy.BASIC_PARSER).text
        except Skippable as error:
            return f"{REFUSED} {error}"


def liteparse(path: Path) -> str:
    return "\n\n".join(page.markdown for page in _liteparse().parse(str(path)).pages)


@lru_cache(maxsize=1)
def _liteparse() -> Any:
    from liteparse import LiteParse

    return LiteParse(ocr_enabled=False, output_format="markdown", quiet=True)


def pdfium(path: Path) -> str:
    """The text of PDFium in the order of the file."""
    import pypdfium2

    with pypdfium2.PdfDocument(path) as document:
        texts = [page.get_textpage().get_text_bounded() for page in document]
    return "\n\n".join(re.sub("[\ufffe\x02]\\s*", "", text.replace("\r\n", "\n")) for text in texts)


ENGINES: dict[str, Engine] = {"service": service, "liteparse": liteparse, "pypdfium2": pdfium}
