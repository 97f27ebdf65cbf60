"""A Box file as a source item, and its content; Box Notes as Markdown.

Neither form is described by Box. What is not known here is read for the text in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from connectors.http import responses
from connectors.sources.box.client import BoxItem, BoxSession, Download, Forbidden, NotFound
from retrieval.errors import ItemMissing, Retryable, Skippable
from retrieval.ports import RawContent, SourceItem, TokenSource

_LISTS = frozenset({"bullet_list", "ordered_list", "check_list"})
_MARKS = {"strong": "**", "em": "*", "strikethrough": "~~", "code": "`"}
_UNREADABLE_NOTE = "This Box Note cannot be read: open it in Box and save it as a Word document or a PDF beside it."

Node = Mapping[str, Any]


def render_note(data: bytes) -> str:
    """The note's text. Skippable if it is no note."""
    try:
        note = msgspec.json.decode(data) if data.strip() else {"doc": {}}
        if isinstance(note.get("doc"), dict):
            return _blocks(note["doc"])
        return _old_note(note["atext"]["text"])
    except (msgspec.DecodeError, ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise Skippable(_UNREADABLE_NOTE) from error


def _old_note(text: str) -> str:
    """Convert a line of an old note. A star at its start is the marker of the line's kind, mostly a list item."""
    lines = ("- " + line[1:].strip() if line.startswith("*") else line for line in text.splitlines())
    return "\n".join(lines).strip() + "\n"


def _children(node: Node) -> Sequence[Node]:
    return node.get("content") or ()


def _blocks(node: Node) -> str:
    """Join the content with an empty line between two blocks."""
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


TRIES = 3
NOTE: Final = ".boxnote"
_GOOGLES = (".gdoc", ".gsheet", ".gslides")
_GONE = "The file is no longer in Box, or no longer shared with this account."


def as_source_item(entry: BoxItem) -> SourceItem:
    """Source item as listed. Its version is the hash of its content: a new name or folder is no new content."""
    if is_gone(entry):
        return SourceItem(entry.id, entry.name or "", deleted=True)
    kind = "text/markdown" if _is_note(entry) else ""
    above = tuple(folder.id for folder in entry.path_collection.entries) if entry.path_collection else ()
    return SourceItem(
        entry.id, entry.name or entry.id, kind, content_version(entry), properties=read_properties(entry), above=above
    )


def is_gone(entry: BoxItem) -> bool:
    return entry.item_status not in (None, "active")


def read_properties(entry: BoxItem) -> dict[str, str | int]:
    """Metadata of a file under our names. The times are the content's, where Box has them."""
    folders = entry.path_collection.entries if entry.path_collection else ()
    names = [folder.name for folder in folders if folder.id != "0" and folder.name]
    owner = entry.owned_by and (entry.owned_by.name or entry.owned_by.login)
    fields = {
        "url": f"https://app.box.com/file/{entry.id}",
        "path": "/".join([*names, entry.name or entry.id]),
        "owner": owner,
        "createdAt": entry.content_created_at or entry.created_at,
        "modifiedAt": entry.content_modified_at or entry.modified_at,
        "title": PurePosixPath(entry.name or "").stem if _is_note(entry) else None,
    }
    return {name: value for name, value in fields.items() if value}


def fetch_file(client: BoxSession, tokens: TokenSource, file_id: str, to: Path) -> RawContent:
    """The content, compared with the hash that Box names; Box Notes as Markdown."""
    try:
        entry, got = _downloaded(client, tokens, file_id, to)
    except NotFound as error:
        raise ItemMissing(_GONE) from error
    except Forbidden as error:
        raise Skippable(
            "Box does not let this account download the file: ask its owner for more than a preview."
        ) from error
    raw = RawContent(
        to, entry.name or entry.id, got.media_type, got.size, content_version(entry), properties=read_properties(entry)
    )
    return _as_markdown(raw) if _is_note(entry) else raw


def _downloaded(client: BoxSession, tokens: TokenSource, file_id: str, to: Path) -> tuple[BoxItem, Download]:
    """Again if it changed meanwhile."""
    for _ in range(TRIES):
        entry = client.file(tokens, file_id)
        if is_gone(entry):
            raise Skippable(_GONE)
        if (entry.size or 0) > client.most:
            raise responses.too_large(client.most)
        got = client.download(tokens, file_id, to)
        if got.sha1 == entry.sha1 or _is_remade(entry):
            return entry, got
    raise Retryable("The file's content does not match its checksum at Box; it is probably being changed.")


def _is_remade(entry: BoxItem) -> bool:
    """Tell whether Box sends other bytes than it stores: with a watermark, or Google's documents as Office files."""
    is_marked = entry.watermark_info is not None and entry.watermark_info.is_watermarked
    return bool(is_marked) or (entry.name or "").lower().endswith(_GOOGLES) or entry.sha1 is None


def _as_markdown(raw: RawContent) -> RawContent:
    raw.path.write_text(render_note(raw.path.read_bytes()), encoding="utf-8")
    return replace(raw, media_type="text/markdown", size=raw.path.stat().st_size)


def _is_note(entry: BoxItem) -> bool:
    return (entry.name or "").lower().endswith(NOTE)


def content_version(entry: BoxItem) -> str:
    return entry.sha1 or entry.etag or ""
