"""What the retrievers share: a search as they ask for it, and a hit as they show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieval_client.models import SearchResult


def search_options(hybrid: bool | float, top_k: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `client.search`; `options` win."""
    return {"hybrid": hybrid, "top_k": top_k} | dict(options)


def identity(hit: SearchResult) -> str:
    """The same for the same piece of the same document."""
    index = hit.chunk.index if hit.chunk else 0
    return f"{hit.metadata['id']}:{index}"


def content(hit: SearchResult) -> str:
    """The text to read: the surrounding passage where `expand` was asked for, else the piece that was found."""
    context = hit.get("context")
    return str(context["content"]) if context else hit.content


def metadata(hit: SearchResult) -> dict[str, Any]:
    """The document's metadata, with the score, the document's id and name, and the place in it."""
    chunk = dict(hit.chunk.raw) if hit.chunk else {}
    return dict(hit.metadata) | {"score": hit.score, "document_id": hit.metadata["id"], **chunk}
