"""Links in Markdown that a scraping service returned."""

from __future__ import annotations

import re

from connectors.charsets import decoding
from connectors.http import html
from connectors.web.crawl.page import About, Page

_LINK = re.compile(r"(?<!!)\[[^\]\n]{0,500}\]\(\s*<?([^\s<>()]{1,2048}(?:\([^\s()]*\))?[^\s<>()]*)>?[^)\n]{0,300}\)")


def read(data: bytes, url: str) -> Page:
    """Absolute http(s) links without fragments, each once; such a page says nothing else of itself."""
    text = decoding.decode(data)
    links = {html.link(url, found[1]): None for found in _LINK.finditer(text)}
    links.pop("", None)
    return Page(About("", "", "", "", url), tuple(links))
