"""Box Notes as Markdown. A note is a JSON file: a tree of ProseMirror's kind, or, before August 2022, text with marks.

Neither form is described by Box. What is not known here is read for the text in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from retrieval.errors import Skippable

_LISTS = frozenset({"bullet_list", "ordered_list", "check_list"})
_MARKS = {"strong": "**", "em": "*", "strikethrough": "~~", "code": "`"}
_UNREADABLE = "This Box Note cannot be read: open it in Box and save it as a Word document or a PDF beside it."

Node = Mapping[str, Any]


def markdown(data: bytes) -> str:
    """The note's text. Skippable if it is no note."""
    try:
        note = msgspec.json.decode(data) if data.strip() else {"doc": {}}
        if isinstance(note.get("doc"), dict):
            return _blocks(note["doc"])
        return _old(note["atext"]["text"])
    except (msgspec.DecodeError, ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise Skippable(_UNREADABLE) from error


def _old(text: str) -> str:
    """A star at the start of a line stands for what the line is: a list's item, mostly."""
    lines = ("- " + line[1:].strip() if line.startswith("*") else line for line in text.splitlines())
    return "\n".join(lines).strip() + "\n"


def _children(node: Node) -> Sequence[Node]:
    return node.get("content") or ()


def _blocks(node: Node) -> str:
    """What lies in it, an empty line between two blocks."""
    return "\n\n".join(text for child in _children(node) if (text := _block(child).strip("\n")))


def _block(node: Node) -> str:
    return _RENDERED.get(node["type"], _plain)(node)


def _plain(node: Node) -> str:
    return _blocks(node) if _holds_blocks(node) else _inline(node)


def _heading(node: Node) -> str:
    level = int((node.get("attrs") or {}).get("level") or 1)
    return "#" * min(max(level, 1), 6) + " " + _inline(node)


def _quote(node: Node) -> str:
    return "\n".join(f"> {line}".rstrip() for line in _blocks(node).splitlines())


def _holds_blocks(node: Node) -> bool:
    return any("content" in child for child in _children(node))


def _list(node: Node, indent: str = "") -> str:
    """A list within a list is a neighbour of the items, one level deeper."""
    lines, number = [], int((node.get("attrs") or {}).get("order") or 1)
    for child in _children(node):
        if child["type"] in _LISTS:
            lines.append(_list(child, indent + "    "))
            continue
        sign = f"{number}. " if node["type"] == "ordered_list" else "- "
        if child["type"] == "check_list_item":
            sign += "[x] " if (child.get("attrs") or {}).get("checked") else "[ ] "
        number += 1
        lines.append(indent + sign + _blocks(child).replace("\n", "\n" + indent + "    "))
    return "\n".join(lines)


def _table(node: Node) -> str:
    rows = [[_cell(cell) for cell in _children(row)] for row in _children(node)]
    width = max((len(row) for row in rows), default=0)
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]]) if lines else ""


def _cell(cell: Node) -> str:
    return _blocks(cell).replace("\n\n", "<br>").replace("\n", " ").replace("|", "\\|")


def _inline(node: Node) -> str:
    return "".join(_text(child) for child in _children(node))


def _text(node: Node) -> str:
    if node["type"] == "hard_break":
        return "\n"
    if node["type"] != "text":
        return _inline(node)
    text = str(node["text"])
    for mark in node.get("marks") or ():
        sign = _MARKS.get(mark["type"], "")
        text = f"{sign}{text}{sign}"
        if mark["type"] == "link" and (address := (mark.get("attrs") or {}).get("href")):
            text = f"[{text}]({address})" if address != text else text
    return text


_RENDERED: Mapping[str, Callable[[Node], str]] = {
    **dict.fromkeys(_LISTS, _list),
    "heading": _heading,
    "horizontal_rule": lambda _node: "---",
    "blockquote": _quote,
    "call_out_box": _quote,
    "code_block": lambda node: f"```\n{_inline(node)}\n```",
    "table": _table,
}
