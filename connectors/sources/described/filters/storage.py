"""Confluence's storage format as HTML: macros, tasks, links and people become text.

https://confluence.atlassian.com/doc/confluence-storage-format-790796544.html
https://confluence.atlassian.com/doc/confluence-storage-format-for-macros-790795889.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context
from lxml import etree

Names = Callable[[str, str], str]
MAX_DEPTH: Final = 200
"""Levels of elements within elements that are read."""
_NAMED: Final = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|&(?!(?:amp|lt|gt|quot|apos);)([A-Za-z][A-Za-z0-9]*);", re.DOTALL
)
_PANELS: Final = {"info": "Info", "note": "Note", "tip": "Tip", "warning": "Warning", "panel": ""}
_CODE: Final = {"code", "noformat"}
_HIDDEN: Final = {"toc", "children", "recently-updated", "pagetree", "anchor", "contributors", "profile", "gallery"}
_ROOT: Final = '<root xmlns:ac="urn:ac" xmlns:ri="urn:ri" xmlns:at="urn:at">'


@pass_context
def read_storage(context: Context, text: Any) -> str:
    """Return a text in storage format as HTML; invalid XML stays unchanged."""
    return convert_storage(str(text or ""), context.get("_names") or (lambda _kind, key: key))


def convert_storage(text: str, names: Names) -> str:
    """Return a text of the storage format as HTML, with the names of people."""
    from html.entities import html5

    # Entities have names of HTML, which XML does not know.
    plain = _NAMED.sub(lambda entity: escape(html5.get(f"{entity[1]};", "")) if entity[1] else entity[0], text)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=False)
    try:
        root = etree.fromstring(f"{_ROOT}{plain}</root>".encode(), parser)
    except etree.XMLSyntaxError:
        return text
    return _read_children(root, names, 0) if root is not None else text


def _read_children(element: Any, names: Names, depth: int) -> str:
    parts = [escape(element.text or "")]
    for child in element:
        if isinstance(child.tag, str) and depth < MAX_DEPTH:
            parts.append(_read(child, names, depth + 1))
        parts.append(escape(child.tail or ""))
    return "".join(parts)


def _read(element: Any, names: Names, depth: int) -> str:
    tag = _local(element)
    if not element.tag.startswith("{"):
        inner = _read_children(element, names, depth)
        attributes = "".join(
            f' {name}="{escape(element.get(name))}"'
            for name in ("href", "colspan", "rowspan", "datetime")
            if element.get(name)
        )
        if tag == "time":
            return inner or escape(element.get("datetime") or "")
        return f"<{tag}{attributes}>{inner}</{tag}>" if tag not in {"br", "hr"} else f"<{tag}>"
    reader = _READERS.get(tag)
    return reader(element, names, depth) if reader else _read_children(element, names, depth)


def _read_task(task: Any, names: Names, depth: int) -> str:
    is_done = (_find_text(task, "task-status") or "").strip() == "complete"
    body = next((_read_children(child, names, depth) for child in task if _local(child) == "task-body"), "")
    return f"<li>[{'x' if is_done else ' '}] {body}</li>"


def _read_image(image: Any, names: Names, depth: int) -> str:
    caption = next((_read_children(child, names, depth) for child in image if _local(child) == "caption"), "")
    return caption or escape(_attribute(image, "alt") or "")


def _read_macro(macro: Any, names: Names, depth: int) -> str:
    name = (_attribute(macro, "name") or "").lower()
    parameters = {
        _attribute(child, "name"): "".join(child.itertext()) for child in macro if _local(child) == "parameter"
    }
    title = escape(parameters.get("title") or "")
    body = "".join(_read_bodies(macro, names, depth))
    if name in _CODE:
        heading = f"<p><strong>{title}</strong></p>" if title else ""
        return f"{heading}<pre><code>{body}</code></pre>"
    if name == "status":
        return title
    if name == "jira":
        return escape(parameters.get("key") or parameters.get("jqlQuery") or "")
    if name in _PANELS or name == "expand":
        heading = title or _PANELS.get(name, "")
        inner = f"<p><strong>{heading}</strong></p>{body}" if heading else body
        return inner if name == "expand" else f"<blockquote>{inner}</blockquote>"
    if name in _HIDDEN:
        return ""
    shown = [user for child in macro.iter("{urn:ri}user") if not body and (user := _find_user(child, names))]
    return body or escape(", ".join(shown))


def _read_bodies(macro: Any, names: Names, depth: int) -> Iterator[str]:
    for child in macro:
        if _local(child) == "plain-text-body":
            yield escape("".join(child.itertext()))
        elif _local(child) == "rich-text-body":
            yield _read_children(child, names, depth)


def _read_link(link: Any, names: Names, depth: int) -> str:
    bodies = ("plain-text-link-body", "link-body")
    label = "".join(_read_children(child, names, depth) for child in link if _local(child) in bodies)
    for child in link:
        if _local(child) == "user":
            return f"@{label or escape(_find_user(child, names))}"
        title = _attribute(child, "content-title") or _attribute(child, "filename") or _attribute(child, "value")
        label = label or escape(title or "")
    return label


_READERS: Final[Mapping[str, Callable[[Any, Names, int], str]]] = {
    "structured-macro": _read_macro,
    "macro": _read_macro,
    "task-list": lambda tasks, names, depth: f"<ul>{_read_children(tasks, names, depth)}</ul>",
    "task": _read_task,
    "link": _read_link,
    "image": _read_image,
    "emoticon": lambda emoticon, _names, _depth: escape(_attribute(emoticon, "emoji-fallback") or ""),
    "user": lambda user, names, _depth: f"@{escape(_find_user(user, names))}",
    **dict.fromkeys(
        ("parameter", "placeholder", "task-id", "task-uuid", "task-status", "adf-attribute", "adf-fallback"),
        lambda _element, _names, _depth: "",
    ),
}


def _find_user(element: Any, names: Names) -> str:
    key = next((value for name in ("account-id", "userkey", "username") if (value := _attribute(element, name))), "")
    return names("user", key) if key else ""


def _attribute(element: Any, name: str) -> str | None:
    value = element.get(f"{{urn:ac}}{name}") or element.get(f"{{urn:ri}}{name}")
    return str(value) if value else None


def _find_text(element: Any, name: str) -> str | None:
    return next((child.text for child in element if _local(child) == name), None)


def _local(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
