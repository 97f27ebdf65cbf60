"""A page from a scraping service as content of a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from connectors.web.scraping_api import too_large
from retrieval.errors import Skippable
from retrieval.ports import RawContent, ScrapeOptions

_LENGTHS = {"title": 300, "description": 300, "language": 35, "canonicalUrl": 2048}


def file(data: bytes, name: str, to: Path, most: int, media_type: str, url: str) -> RawContent:
    """Anything. `most`: bytes that are taken; `url`: where it came from in the end, or ""."""
    if not data:
        raise Skippable("The site gave no page.")
    if len(data) > most:
        raise too_large(most)
    to.write_bytes(data)
    return RawContent(to, name, media_type, len(data), url=url)


def html(made: RawContent, options: ScrapeOptions) -> RawContent:
    """The same as a page: it is read as one that this service fetched itself."""
    return replace(made, page=ScrapeOptions(options.include, options.exclude))


def markdown(text: str, name: str, to: Path, most: int, url: str, said: Mapping[str, Any]) -> RawContent:
    """Markdown that the service made of the page. `said`: of the page, by the contract's names."""
    if not text.strip():
        raise Skippable("The page holds no text, or no element that includeSelectors name.")
    made = file(text.encode("utf-8", "replace"), name, to, most, "text/markdown", url)
    lines = {key: _line(said.get(key))[:length] for key, length in _LENGTHS.items()}
    return replace(made, properties={key: line for key, line in lines.items() if line})


def _line(said: object) -> str:
    """Without what a database refuses."""
    text = said if isinstance(said, str) else ""
    return " ".join(text.replace("\0", "").encode("utf-8", "replace").decode().split())
