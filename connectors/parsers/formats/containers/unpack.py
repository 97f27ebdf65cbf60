"""The parts of any container, in one account; separate from the reading of its text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from connectors.parsers.detect import file_types
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.formats.containers import cms, mail, office, older_office, outlook, pdf_files, zips
from connectors.parsers.formats.containers.ledger import Ledger, Part
from connectors.parsers.messages import Unpack


def account(kind: Kind, path: Path, name: str, bounds: Unpack) -> Ledger:
    """Every part of the file, written to the folder that `bounds` names, reported or noted.

    `name`: of the file. Skippable if it unfolds to too much, or is a container without text that cannot be opened.
    """
    parts = Ledger(bounds)
    if kind is file_types.ZIP:
        zips.unpack(path, parts)
    else:
        parts.take(_parts(kind, path, name))
    return parts


def _parts(kind: Kind, path: Path, name: str) -> Iterator[Part]:
    if kind is file_types.EML:
        yield from mail.parts(mail.opened(path.read_bytes()))
    elif kind is file_types.MSG:
        yield from outlook.parts(path)
    elif kind is file_types.PDF:
        yield from pdf_files.parts(path)
    elif kind is file_types.SIGNED:
        content = cms.content(path.read_bytes())
        called = name[: -len(".p7m")] if name.lower().endswith(".p7m") else name
        is_message = mail.is_message(content)
        yield Part(f"{called}.eml" if is_message else called, content=lambda: [content])
    elif kind in (*office.OOXML, *office.OPEN_DOCUMENT, file_types.EPUB):
        yield from office.parts(kind, path)
    elif kind in older_office.KINDS:
        yield from older_office.parts(kind, path)
