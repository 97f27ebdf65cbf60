"""Fixtures of the parsers' tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.parsers.parser import document_parser
from retrieval.ingestion import convert
from retrieval.ingestion.convert import ConversionResult
from retrieval.ports import OcrStrategy, Parsed, RawContent

Read = Callable[[str, bytes], Parsed]
Unpack = Callable[[str, bytes], list[ConversionResult]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read a file of this name and content without OCR."""

    def read_file(name: str, data: bytes) -> Parsed:
        path = tmp_path / "raw"
        path.write_bytes(data)
        return document_parser().parse(RawContent(path, name, "", len(data)), OcrStrategy.BASIC_PARSER)

    return read_file


@pytest.fixture
def unpack(tmp_path: Path) -> Unpack:
    """Read a file and the files within it."""

    def read_files(name: str, data: bytes) -> list[ConversionResult]:
        path = tmp_path / "raw"
        path.write_bytes(data)
        raw = RawContent(path, name, "", len(data))
        parser, basic = document_parser(), OcrStrategy.BASIC_PARSER
        return convert.convert_file(parser, raw, basic, max_characters=10**7, max_files=1000)

    return read_files
