"""Options of all methods of `ingest`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from retrieval_client.models import JobRunData

Progress = Callable[[JobRunData], None]
"""Called with the job run each time that it is read while it is waited for."""


class Options(TypedDict, total=False):
    """For every source.

    metadata: attached to the documents. chunk_config: {"chunkSize", "chunkOverlap"} in tokens. access: who may see the
    documents, {"users", "groups", "denied", "public"}. config: further fields of the API, named as on the wire.
    dry_run: only report the effects of the ingestion. idempotency_key: generated if absent.
    timeout: seconds to wait at most; without it as long as it takes. progress: called while it is waited for.
    """

    metadata: Mapping[str, Any] | None
    chunk_config: Mapping[str, int] | None
    access: Mapping[str, Any] | None
    config: Mapping[str, Any] | None
    dry_run: bool | None
    idempotency_key: str | None
    timeout: float | None
    progress: Progress | None


class TextOptions(Options, total=False):
    """For a text. Its identity is external_id, else name, else the text itself: the same again replaces it."""

    name: str | None
    external_id: str | None
    modified_at: str | datetime | None


class FileOptions(Options, total=False):
    """For a file. name and media_type: instead of the file's. ocr_strategy: BASIC_PARSER or STANDARD_OCR."""

    name: str | None
    media_type: str | None
    external_id: str | None
    modified_at: str | datetime | None
    ocr_strategy: str | None


class FilesOptions(Options, total=False):
    """For several files. name: of the job run. ocr_strategy: BASIC_PARSER or STANDARD_OCR."""

    name: str | None
    ocr_strategy: str | None


class WebOptions(Options, total=False):
    """For web pages. scrape_options: {"includeSelectors", "excludeSelectors"}."""

    scrape_options: Mapping[str, Any] | None


class SiteOptions(WebOptions, total=False):
    """For a sitemap or a website. Paths are tested as parts of the URL; max_depth and use_sitemap are of websites."""

    max_links: int | None
    max_depth: int | None
    use_sitemap: bool | None
    include_paths: Sequence[str] | None
    exclude_paths: Sequence[str] | None
