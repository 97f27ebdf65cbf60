"""A file that is converted to Markdown, and what it becomes."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer
from api.wire.ingest import OcrConfig
from retrieval.ingestion.convert import Converted


class ConvertForm(Struct, rename="camel", kw_only=True):
    """The fields of the form beside the file; `ocrConfig` is JSON as text."""

    ocr_config: Annotated[OcrConfig | None, Meta(description="How to find the text of a file.")] = None


class ConvertedDocument(Struct, omit_defaults=True):
    """The file, or one that was packed into it; `error` says why that one could not be read."""

    filename: Annotated[str, Meta(description="The file's name, and the path of what was packed into it.")]
    markdown: Annotated[str, Meta(description="The text; empty where it could not be read.")]
    error: Annotated[str | UnsetType, Meta(description="Why the member could not be read.")] = UNSET

    @classmethod
    def of(cls, one: Converted) -> ConvertedDocument:
        return cls(one.filename, one.markdown, UNSET if one.error is None else one.error)


class ConvertData(Struct):
    """The file, then the files within it."""

    documents: Annotated[list[ConvertedDocument], Meta(description="The file, then what was packed into it.")]


class ConvertAnswer(DataAnswer[ConvertData]):
    """The file as Markdown, with the files that were packed into it."""
