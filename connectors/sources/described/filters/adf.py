"""Atlassian Document Format as HTML, and values of fields as words.

https://developer.atlassian.com/cloud/jira/platform/apis/document/structure
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

MAX_DEPTH: Final = 50
"""Levels of nodes within nodes that are read."""
_BLOCKS: Final = {
    "paragraph": "p",
    "bulletList": "ul",
    "orderedList": "ol",
    "listItem": "li",
    "blockquote": "blockquote",
    "table": "table",
    "tableRow": "tr",
    "tableHeader": "th",
    "tableCell": "td",
    "decisionList": "ul",
    "taskList": "ul",
    "mediaGroup": "div",
    "mediaSingle": "div",
    "caption": "p",
}
_MARKS: Final = {"strong": "strong", "em": "em", "strike": "s", "code": "code"}
_WORDS: Final = ("displayName", "name", "value", "title", "summary", "key", "emailAddress", "id")


def read_document(document: Any) -> str:
    """Return a document as HTML, text without a format as a paragraph; "" for none."""
    if isinstance(document, Mapping):
        return _read(document, 0)
    return "".join(f"<p>{escape(line)}</p>" for line in str(document or "").splitlines() if line.strip())


def read_words(value: Any, depth: int = 0) -> str:
    """Return the value of a field as words: names of objects, lists with commas, texts of documents."""
    if depth > MAX_DEPTH:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(filter(None, (read_words(entry, depth + 1) for entry in value[:1000])))
    if not isinstance(value, Mapping):
        return "" if value is None else str(value)
    if value.get("type") == "doc":
        return read_text(value)
    name = next((str(value[field]) for field in _WORDS if isinstance(value.get(field), str | int)), "")
    child = read_words(value["child"], depth + 1) if isinstance(value.get("child"), Mapping) else ""
    return " / ".join(filter(None, (name, child)))


def read_text(node: Any, depth: int = 0) -> str:
    """Return the plain text of a node."""
    if not isinstance(node, Mapping) or depth > MAX_DEPTH:
        return ""
    if reader := _INLINE.get(str(node.get("type"))):
        return reader(_attributes(node), node)
    parts = [read_text(child, depth + 1) for child in _children(node)]
    is_inline = node.get("type") in {"paragraph", "heading", "codeBlock"}
    return ("" if is_inline else " ").join(filter(None, parts))


def _read(node: Any, depth: int) -> str:
    if not isinstance(node, Mapping) or depth > MAX_DEPTH:
        return ""
    kind, attributes = str(node.get("type")), _attributes(node)
    if reader := _INLINE.get(kind):
        return _mark(escape(reader(attributes, node)), node)
    inner = "".join(_read(child, depth + 1) for child in _children(node))
    if tag := _BLOCKS.get(kind):
        return f"<{tag}>{inner}</{tag}>"
    wrap = _WRAPPED.get(kind)
    return wrap(attributes, inner) if wrap else inner


def _wrap_heading(attributes: Mapping[str, Any], inner: str) -> str:
    level = attributes.get("level")
    level = min(max(level, 1), 6) if isinstance(level, int) else 2
    return f"<h{level}>{inner}</h{level}>"


def _wrap_panel(attributes: Mapping[str, Any], inner: str) -> str:
    kind = escape(str(attributes.get("panelType") or "note").capitalize())
    return f"<blockquote><p><strong>{kind}</strong></p>{inner}</blockquote>"


def _wrap_task(attributes: Mapping[str, Any], inner: str) -> str:
    return f"<li>[{'x' if attributes.get('state') == 'DONE' else ' '}] {inner}</li>"


def _wrap_expand(attributes: Mapping[str, Any], inner: str) -> str:
    return f"<p><strong>{escape(str(attributes.get('title') or ''))}</strong></p>{inner}"


_WRAPPED: Final[Mapping[str, Callable[[Mapping[str, Any], str], str]]] = {
    "heading": _wrap_heading,
    "codeBlock": lambda _attributes, inner: f"<pre><code>{inner}</code></pre>",
    "taskItem": _wrap_task,
    "blockTaskItem": _wrap_task,
    "decisionItem": lambda _attributes, inner: f"<li>Decision: {inner}</li>",
    "expand": _wrap_expand,
    "nestedExpand": _wrap_expand,
    "panel": _wrap_panel,
    "rule": lambda _attributes, _inner: "<hr>",
}


def _mark(text: str, node: Mapping[str, Any]) -> str:
    if node.get("type") == "hardBreak":
        return "<br>"
    marks = node.get("marks")
    for mark in marks if isinstance(marks, list) else ():
        kind = mark.get("type") if isinstance(mark, Mapping) else ""
        if tag := _MARKS.get(str(kind)):
            text = f"<{tag}>{text}</{tag}>"
        elif kind == "link":
            text = f'<a href="{escape(str(_attributes(mark).get("href") or ""))}">{text}</a>'
    return text


def _read_date(attributes: Mapping[str, Any], _node: Mapping[str, Any]) -> str:
    try:
        return datetime.fromtimestamp(int(attributes.get("timestamp") or 0) / 1000, UTC).strftime("%-d %B %Y")
    except (ValueError, OverflowError, OSError, TypeError):
        return ""


def _attribute(*names: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], str]:
    def read(attributes: Mapping[str, Any], _node: Mapping[str, Any]) -> str:
        return next((str(attributes[name]) for name in names if attributes.get(name)), "")

    return read


_INLINE: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str]]] = {
    "text": lambda _attributes, node: str(node.get("text") or ""),
    "hardBreak": lambda _attributes, _node: "\n",
    "mention": _attribute("text", "id"),
    "emoji": _attribute("text", "shortName"),
    "date": _read_date,
    "status": _attribute("text"),
    "inlineCard": _attribute("url"),
    "blockCard": _attribute("url"),
    "embedCard": _attribute("url"),
    "media": _attribute("alt"),
    "mediaInline": _attribute("alt"),
    "inlineExtension": _attribute("text"),
    "extension": _attribute("text"),
}


def _attributes(node: Mapping[str, Any]) -> Mapping[str, Any]:
    attributes = node.get("attrs")
    return attributes if isinstance(attributes, Mapping) else {}


def _children(node: Mapping[str, Any]) -> list[Any]:
    content = node.get("content")
    return content if isinstance(content, list) else []
