"""The engines that are compared: each makes Markdown of a file. Those whose package is not installed are left out."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

REFUSED = "REFUSED"
"""What stands for the text of a file that the engine refuses."""
SHEETS = "xlsx", "xls", "ods", "csv", "tsv"
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


def kreuzberg(path: Path) -> str:
    library = importlib.import_module("kreuzberg")  # compared by hand: no dependency of the project
    config = library.ExtractionConfig(output_format="markdown", use_cache=False)
    return str(library.extract_file_sync(path, config=config).content)


def xberg(path: Path) -> str:
    import asyncio

    library = importlib.import_module("xberg")  # compared by hand: no dependency of the project
    settings = library.ExtractionConfig(output_format="markdown", disable_ocr=True, use_cache=False)
    result = asyncio.run(library.extract(library.ExtractInput(kind="uri", uri=str(path)), settings))
    return "\n\n".join(str(document.content) for document in result.results)


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


OFFICE = ("docx", "pptx", "odt", "odp", "doc", "ppt", "rtf", "epub", "html", *SHEETS)
ENGINES: dict[str, tuple[Engine, str, Sequence[str]]] = {
    "service": (service, "", ("pdf", *OFFICE)),
    "kreuzberg": (kreuzberg, "kreuzberg", ("pdf", *OFFICE)),
    "xberg": (xberg, "xberg", ("pdf", *OFFICE)),
    "liteparse": (liteparse, "liteparse", ("pdf",)),
    "pypdfium2": (pdfium, "pypdfium2", ("pdf",)),
}
"""By name: the engine, its package, and the endings of the files it reads."""


def installed(names: Sequence[str]) -> dict[str, Engine]:
    """The engines of these names that can run here."""
    chosen = {name: ENGINES[name] for name in names}
    return {name: engine for name, (engine, package, _) in chosen.items() if _is_there(package)}


def reads(name: str, path: Path) -> bool:
    return path.suffix.lstrip(".") in ENGINES[name][2]


def _is_there(package: str) -> bool:
    return not package or importlib.util.find_spec(package) is not None
