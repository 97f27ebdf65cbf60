"""A file that is converted to Markdown, and what it becomes."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from api.wire.common import Answer
from api.wire.ingest import OcrConfig
from retrieval.ingestion.convert import Converted


class ConvertForm(Struct, rename="camel", kw_only=True):
    """The fields of the form beside the file; `ocrConfig` is JSON as text."""

    ocr_config: OcrConfig | None = None


class ConvertedDocument(Struct, omit_defaults=True):
    """The file, or one that was packed into it; `error` says why that one could not be read."""

    filename: str
    markdown: str
    error: str | UnsetType = UNSET

    @classmethod
    def of(cls, one: Converted) -> ConvertedDocument:
        return cls(one.filename, one.markdown, UNSET if one.error is None else one.error)


class ConvertData(Struct):
    """The file, then the files within it."""

    documents: list[ConvertedDocument]


class ConvertAnswer(Answer, kw_only=True):
    """The file as Markdown, with the files that were packed into it."""

    data: ConvertData
