"""Fixtures of the parsers' tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.parsers.parser import document_parser
from retrieval.ports import OcrStrategy, Parsed, RawContent


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str, bytes], Parsed]:
    """Read a file of this name and content without OCR."""

    def read_file(name: str, data: bytes) -> Parsed:
        path = tmp_path / "raw"
        path.write_bytes(data)
        return document_parser().parse(RawContent(path, name, "", len(data)), OcrStrategy.BASIC_PARSER)

    return read_file
