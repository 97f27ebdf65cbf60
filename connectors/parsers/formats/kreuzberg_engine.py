"""Reading with kreuzberg: documents and presentations of older formats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kreuzberg

from connectors.parsers.detect import file_types
from connectors.parsers.detect.file_types import Kind
from connectors.parsers.document import Document
from connectors.parsers.messages import Task
from connectors.parsers.text import properties
from connectors.parsers.text.cleanup import tidied, without_prompts
from retrieval.errors import Skippable


def read(kind: Kind, path: Path, _task: Task) -> Document:
    """The file's text and properties. Skippable for a file that cannot be read."""
    result = _extracted(kind, path)
    text = tidied(result.content)
    if kind is file_types.PPT:
        text = without_prompts(text)
    return _document(result, text, page_count=0 if kind is file_types.PPT else _page_count(result))


def _document(result: kreuzberg.ExtractionResult, text: str, page_count: int) -> Document:
    metadata: Mapping[str, Any] = result.metadata
    authors = ", ".join(map(str, metadata.get("authors") or []))
    return Document(
        text,
        title=str(metadata.get("title") or metadata.get("subject") or ""),
        author=authors or str(metadata.get("from_email") or ""),
        created_at=str(metadata.get("created_at") or ""),
        modified_at=str(metadata.get("modified_at") or ""),
        language=str(metadata.get("language") or ""),
        page_count=page_count,
    )


def _page_count(result: kreuzberg.ExtractionResult) -> int:
    metadata: Mapping[str, Any] = result.metadata
    structure = metadata.get("pages") or {}
    count = structure.get("total_count") if structure.get("unit_type") in ("page", "slide") else None
    count = count or metadata.get("page_count") or 0
    return count if isinstance(count, int) else 0


def _config() -> kreuzberg.ExtractionConfig:
    return kreuzberg.ExtractionConfig(  # type: ignore[call-arg]  # its stub lacks disable_ocr
        output_format="markdown",
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        content_filter=kreuzberg.ContentFilterConfig(include_headers=True, include_footers=True),
        concurrency=kreuzberg.ConcurrencyConfig(max_threads=1),
    )


def _extracted(kind: Kind, path: Path) -> kreuzberg.ExtractionResult:
    try:
        return kreuzberg.extract_file_sync(path, kind.media_type, config=_config())
    except (kreuzberg.KreuzbergError, ValueError, RuntimeError, OSError) as error:
        raise _refusal(kind, str(error)) from error


def _refusal(kind: Kind, error: str) -> Skippable:
    if "password" in error.lower() or "encrypted" in error.lower():
        return Skippable(f"The {kind.label} is protected by a password. Remove the password and upload it again.")
    if "recursion" in error.lower():
        return Skippable(
            f"The {kind.label} is nested too deeply to be read. Save it with fewer levels and upload that."
        )
    if "limit exceeded" in error.lower():
        return Skippable(f"The {kind.label} unfolds to more than is read. {properties.SPLIT}")
    return properties.damaged(kind)
