"""Flattens HTML before the library reads it: it loses what lies beyond some 60 levels, and an open `<p>` is a level."""

from __future__ import annotations

import re

DEEPEST = 45
"""Levels of elements that are left as they are."""
_TAG = re.compile(r"""<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:"[^"]{0,99999}"|'[^']{0,99999}'|[^<>"']++){0,300}+)>""")
_VOID = frozenset(
    (
        "area",
        "base",
        "br",
        "col",
        "embed",
        "frame",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    )
)
_SILENT = "script, style, template"
_KEPT = _VOID | {"html", "head", "title", "body", "h1", "h2", "h3", "h4", "h5", "h6", "p", "pre", "a"}
"""Elements that stay in a page that is too deep even as browsers build it."""
_WITHIN_LINES = frozenset(
    (
        "span",
        "font",
        "b",
        "i",
        "u",
        "s",
        "em",
        "strong",
        "small",
        "big",
        "tt",
        "code",
        "kbd",
        "sub",
        "sup",
        "abbr",
        "cite",
    )
)


def flat(page: str) -> str:
    """The page as it is unless it is too deep; else as browsers build it; else with lines in place of its blocks."""
    if _depth(page) <= DEEPEST:
        return page
    from selectolax.lexbor import LexborHTMLParser

    parsed = LexborHTMLParser(page)
    for node in parsed.css(_SILENT):
        node.decompose()
    built = parsed.html or ""
    return built if _depth(built) <= DEEPEST else _TAG.sub(_line, built)


def _depth(page: str) -> int:
    """At most: elements without an end count as open."""
    depth = most = 0
    for tag in _TAG.finditer(page):
        if tag[2].lower() in _VOID or tag[3].endswith("/"):
            continue
        depth = max(depth - 1, 0) if tag[1] else depth + 1
        most = max(most, depth)
    return most


def _line(tag: re.Match[str]) -> str:
    name = tag[2].lower()
    if name in _KEPT:
        return tag[0]
    return "" if name in _WITHIN_LINES else "<br>"
