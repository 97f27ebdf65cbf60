"""Reduce a web page to what a browser shows or opens by a click, and name the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Without these, nothing of a page is hidden.
HIDING_MARKS = re.compile(
    r"hidden|style|popover|role|iframe|<(?:template|dialog|noscript|datalist|noframes)", re.IGNORECASE
)
# Marks the parts that a click opens.
OPENED_ATTRIBUTE = "data-opened"
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\b", re.IGNORECASE)
_SHOWN_STYLE = re.compile(r"(?:display\s*:\s*(?!none)|visibility\s*:\s*visible)", re.IGNORECASE)
_HIDDEN_SELECTOR = (
    "[hidden], [style*=display i], [style*=visibility i], dialog:not([open]), [popover], noscript, datalist, noframes"
)
_CONTROL_SELECTOR = "[aria-controls], [data-target], [data-bs-target], a[role=tab][href], a[data-toggle][href]"
_PANEL_CLASSES = re.compile(
    r"(?:^|[\s_-])(?:tab-?(?:pane|panel|content)|tabs?(?:__|--?)(?:pane|panel|content|body)|accordion|collapse"
    r"|collapsible|faq)(?![a-z])",
    re.IGNORECASE,
)
# Parts that a click opens over the page: menus and dialogs are no text of the page.
_OVERLAY = re.compile(
    r"\b(?:modal|dialog|menu|menubar|listbox|tooltip|dropdown|navbar|offcanvas|popover|toast)", re.IGNORECASE
)
_CLOSED_TAGS = frozenset(("dialog", "nav", "noscript", "datalist", "noframes"))
_CONSENT = re.compile(r"cookie|consent|gdpr", re.IGNORECASE)
_CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CSS_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_CSS_AT_BLOCK = re.compile(r"@[^{};]*(?:;|\{(?:[^{}]|\{[^{}]*\})*\})")
# Classes and pseudo-classes that an element gains by a click.
_STATE = re.compile(
    r":(?:checked|target|hover|focus|focus-within|focus-visible|active)(?![\w-])"
    r"|\.(?:(?:is|has)-[\w-]+|active|open|opened|show|shown|visible|selected|current|expanded|in)(?![\w-])"
)
# A page with more rules spends too long on selectors.
_MAX_RULES = 300
_MAX_FRAME_DEPTH = 3
_TEMPLATE_TAGS = re.compile(r"^<template(?:\"[^\"]*\"|[^>\"])*>|</template>$", re.IGNORECASE)
_SCRIPT_NOTE = re.compile(r"java-?script", re.IGNORECASE)
_LINK_SHARE = 0.6
# Pages that hide most of their text show it by scripts.
_MIN_VISIBLE_SHARE = 0.2
_MAX_NAMED_FRAMES = 3


def keep_shown(parsed: LexborHTMLParser) -> list[str]:
    """Drop the elements that a browser does not show; return a notice of their words. Parts of tabs and accordions,
    shadow roots and `srcdoc` frames stay.
    """
    _open_frames(parsed)
    rules = _read_rules(parsed)
    panels = _controlled_ids(parsed) if parsed.css_first(_CONTROL_SELECTOR) is not None else frozenset()
    openable = {node.mem_id for selector, shows in rules if shows for node in _find(parsed, _STATE.sub("", selector))}
    hidden: list[LexborNode] = []
    waiting = _hidden_elements(parsed, rules)
    by_scripts = _is_shown_by_scripts(parsed, waiting)
    for node in waiting:
        if node.tag not in _CLOSED_TAGS and (
            by_scripts or (not _is_overlay(node) and (node.mem_id in openable or _is_panel(node, panels)))
        ):
            _show(node)
        else:
            hidden.append(node)
    hidden = _outermost(hidden)
    _name_panels(parsed)
    counts, words = Counter[str](), Counter[str]()
    for node in hidden:
        label, size = _label(node), _count_words(node)
        if size and not _is_noise(node):
            counts[label] += 1
            words[label] += size
    parts = [f"{counts[label]} {label}{'s' * (counts[label] > 1)} ({size:,} words)" for label, size in words.items()]
    for node in hidden:
        node.decompose()
    parts += _embedded_pages(parsed)
    return [f"Left out, as a browser does not show it in the page: {', '.join(parts)}."] if parts else []


def _find(parsed: LexborHTMLParser, selector: str) -> Sequence[LexborNode]:
    from selectolax.lexbor import SelectolaxError

    try:
        return parsed.css(selector) if selector.strip() else []
    except SelectolaxError:
        return []


def _open_frames(parsed: LexborHTMLParser) -> None:
    """Put shadow roots and `srcdoc` frames in place as elements."""
    for _ in range(_MAX_FRAME_DEPTH):
        nodes = parsed.css("template[shadowrootmode], template[shadowroot], iframe[srcdoc]")
        if not nodes:
            break
        for node in nodes:
            inner = node.attributes.get("srcdoc") or ""
            if node.tag == "template":
                inner = _TEMPLATE_TAGS.sub("", node.html or "")
            if "hidden" in node.attributes or _HIDDEN_STYLE.search(node.attributes.get("style") or ""):
                inner = f"<div hidden>{inner}</div>"
            node.replace_with(_make_block(inner))
    for node in parsed.css("dialog[open]"):
        node.replace_with(_make_block(node.inner_html or ""))


def _make_block(inner: str) -> LexborNode:
    from selectolax.lexbor import LexborHTMLParser

    block = LexborHTMLParser("<div></div>").css_first("div")
    body = LexborHTMLParser(inner).body
    assert block is not None  # noqa: S101 - parsed above
    if body is not None:
        block.insert_child(body)
    return block


def _read_rules(parsed: LexborHTMLParser) -> list[tuple[str, bool]]:
    """Return the selectors of rules that hide or show elements, in order. Rules for some media are left out."""
    css = "\n".join(
        node.text(deep=True) for node in parsed.css("style") if "print" not in (node.attributes.get("media") or "")
    )
    rules: list[tuple[str, bool]] = []
    for match in _CSS_RULE.finditer(_CSS_AT_BLOCK.sub("", _CSS_COMMENT.sub("", css))):
        hides = _HIDDEN_STYLE.search(match[2])
        if hides or _SHOWN_STYLE.search(match[2]):
            rules.append((match[1].strip(), not hides))
    return rules[:_MAX_RULES]


def _hidden_elements(parsed: LexborHTMLParser, rules: Sequence[tuple[str, bool]]) -> list[LexborNode]:
    """Return the hidden elements by attribute or rule."""
    hidden = {node.mem_id: node for node in parsed.css(_HIDDEN_SELECTOR) if _is_hidden(node)}
    if any(not shows for _, shows in rules):
        for selector, shows in rules:
            if "::" in selector or (not shows and _STATE.search(selector)):
                continue
            for node in _find(parsed, selector):
                if shows and "hidden" not in node.attributes:
                    hidden.pop(node.mem_id, None)
                elif not shows and not _SHOWN_STYLE.search(node.attributes.get("style") or ""):
                    hidden[node.mem_id] = node
    return [
        node
        for node in hidden.values()
        if node.tag not in ("html", "body", "head", "script", "style", "link", "meta", "title")
    ]


def _outermost(nodes: Sequence[LexborNode]) -> list[LexborNode]:
    ids = {node.mem_id for node in nodes}
    return [node for node in nodes if not any(parent.mem_id in ids for parent in _ancestors(node))]


def _show(node: LexborNode) -> None:
    """Remove the attributes that hide an element from the extraction of main texts."""
    for name in ("hidden", "style", "aria-hidden"):
        if name in node.attributes:
            del node.attrs[name]
    node.attrs[OPENED_ATTRIBUTE] = ""


def _ancestors(node: LexborNode) -> Iterator[LexborNode]:
    parent = node.parent
    while parent is not None and parent.tag not in ("body", "html"):
        yield parent
        parent = parent.parent


def _is_hidden(node: LexborNode) -> bool:
    attributes = node.attributes
    style = attributes.get("style") or ""
    if "hidden" not in attributes and node.tag not in ("dialog", "noscript", "datalist", "noframes"):
        return "popover" in attributes or bool(_HIDDEN_STYLE.search(style))
    return not ("hidden" in attributes and _SHOWN_STYLE.search(style))


def _controlled_ids(parsed: LexborHTMLParser) -> frozenset[str]:
    """Return the ids of the elements that tabs and buttons open."""
    ids: set[str] = set()
    for node in parsed.css(_CONTROL_SELECTOR):
        attributes = node.attributes
        ids.update((attributes.get("aria-controls") or "").split())
        for name in ("data-target", "data-bs-target", "href"):
            ids.add((attributes.get(name) or "").removeprefix("#"))
    return frozenset(ids - {""})


def _is_panel(node: LexborNode, controlled: frozenset[str]) -> bool:
    """Check for a part opened in place by a click: a tab panel or a part of an accordion."""
    attributes = node.attributes
    return (
        attributes.get("hidden") == "until-found"
        or attributes.get("role") == "tabpanel"
        or (attributes.get("id") or "") in controlled
        or bool(_PANEL_CLASSES.search(attributes.get("class") or ""))
    )


def _is_overlay(node: LexborNode) -> bool:
    attributes = node.attributes
    names = " ".join(attributes.get(name) or "" for name in ("class", "role"))
    is_closed = node.tag in _CLOSED_TAGS or "popover" in attributes
    return is_closed or "aria-modal" in attributes or bool(_OVERLAY.search(names))


def _name_panels(parsed: LexborHTMLParser) -> None:
    """Put the name of each tab into its panel, in place of the list of tabs."""
    tabs = {node.attributes.get("id") or "": node for node in parsed.css("[role=tab]")}
    tabs_by_panel = {node.attributes.get("aria-controls") or "": node for node in tabs.values()}
    for panel in parsed.css("[role=tabpanel]"):
        attributes = panel.attributes
        tab = tabs.get(attributes.get("aria-labelledby") or "-") or tabs_by_panel.get(attributes.get("id") or "-")
        name = "" if tab is None else " ".join(tab.text().split())
        if tab is None or not name or panel.text().strip().startswith(name):
            continue
        label = _make_block("<p></p>")
        line = label.css_first("p")
        if line is not None:
            line.insert_child(name)
            first = panel.child
            panel.insert_child(label) if first is None else first.insert_before(label)
            tab.decompose()


def _is_shown_by_scripts(parsed: LexborHTMLParser, hidden: Sequence[LexborNode]) -> bool:
    if parsed.body is None or parsed.css_first("script") is None:
        return False
    words = sum(_count_words(node) for node in _outermost(hidden) if not _is_overlay(node))
    return words > 0 and _count_words(parsed.body) - words < _MIN_VISIBLE_SHARE * words


def _label(node: LexborNode) -> str:
    if node.tag == "noscript":
        return "noscript element"
    return "closed dialog" if node.tag == "dialog" or "popover" in node.attributes else "hidden element"


def _is_noise(node: LexborNode) -> bool:
    """Check for consent texts, menus, and requests to run scripts."""
    names = " ".join(node.attributes.get(name) or "" for name in ("id", "class"))
    text = node.text()
    if node.tag == "datalist" or _CONSENT.search(names) or (node.tag == "noscript" and _SCRIPT_NOTE.search(text)):
        return True
    linked = sum(len(link.text()) for link in node.css("a"))
    return linked >= _LINK_SHARE * len(text)


def _count_words(node: LexborNode) -> int:
    silent = sum(len(inner.text().split()) for inner in node.css("script, style"))
    return len(node.text(separator=" ").split()) - silent


def _embedded_pages(parsed: LexborHTMLParser) -> list[str]:
    addresses = [
        address
        for node in parsed.css("iframe[src]")
        if (address := (node.attributes.get("src") or "").strip())
        and not address.startswith(("about:", "javascript:", "data:"))
        and not {node.attributes.get("width"), node.attributes.get("height")} & {"0", "1", "0px", "1px"}
    ]
    if not addresses:
        return []
    named = ", ".join(address[:200] for address in addresses[:_MAX_NAMED_FRAMES])
    count = f"{len(addresses)} embedded page{'s' if len(addresses) > 1 else ''}"
    return [f"{count} ({named}{' …' if len(addresses) > _MAX_NAMED_FRAMES else ''})"]
