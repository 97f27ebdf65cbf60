"""Links and metadata of a crawled page."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.http import html
from connectors.http.html import About, is_html

__all__ = ["About", "Page", "is_html", "read"]


@dataclass(frozen=True, slots=True)
class Page:
    """`links`: absolute http(s) URLs without fragments, each once, those marked nofollow left out."""

    about: About
    links: tuple[str, ...]


def read(data: bytes, url: str, media_type: str = "") -> Page:
    """Of an HTML page that came from `url`, redirects followed, with that content type."""
    parsed = html.tree(data, media_type)
    about = html.about(parsed, url)
    return Page(about, tuple(html.links(parsed, about)))
