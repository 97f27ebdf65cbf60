"""Links of Markdown and HTML."""

from __future__ import annotations

import html
import re
from typing import Any, Final

_LINK: Final = re.compile(
    r"""!?\[(?P<text>[^\]\n]*)\]\(\s*<?(?P<target>[^\s<>)]+)"""
    r"""|\b(?:href|src)\s*=\s*["'](?P<attribute>[^"'<>]+)["']"""
    r"""|(?P<bare>https?://[^\s<>"')\]]+)""",
    re.IGNORECASE,
)


def find_links(text: Any) -> list[dict[str, str]]:
    """Return the distinct links of a text, with `url` and `text`; the latter is "" unless in Markdown."""
    links = dict[str, dict[str, str]]()
    for match in _LINK.finditer(text if isinstance(text, str) else ""):
        url = match["target"] or html.unescape(match["attribute"] or "") or match["bare"]
        links.setdefault(url, {"url": url, "text": match["text"] or ""})
    return list(links.values())


def split_ids(text: Any, separator: str) -> list[dict[str, str]]:
    """Return the ids in a text, each as an object with its `id`."""
    parts = text.split(separator) if isinstance(text, str) else ()
    return [{"id": part.strip()} for part in parts if part.strip()]
