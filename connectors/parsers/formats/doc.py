"""Word documents of before 2007 (DOC), converted to DOCX and read as that."""

from __future__ import annotations

import tempfile
from pathlib import Path

from connectors.parsers.detect.file_types import Kind
from connectors.parsers.document import Document
from connectors.parsers.formats import docx
from connectors.parsers.messages import Task
from connectors.parsers.text import properties


def read(kind: Kind, path: Path, task: Task) -> Document:
    """The document as Markdown. Skippable if it is damaged, or of a Word of before 1997."""
    import doc2docx
    from doc2docx.errors import Doc2DocxError

    converted = Path(tempfile.mkdtemp()) / "raw.docx"
    try:
        doc2docx.convert(path, converted)
    except (Doc2DocxError, ValueError, ArithmeticError, LookupError, OSError) as error:
        raise properties.damaged(kind) from error
    return docx.read(kind, converted, task)
