"""Box files as source items, their content, and Box Notes as Markdown."""

# Box documents neither form of notes: unknown nodes are read for their text.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from connectors.http import responses
from connectors.sources.box.answers import BoxItem
from connectors.sources.box.client import BoxSession, Download, Forbidden, NotFound
from retrieval.errors import ItemMissing, Retryable, Skippable
from retrieval.ports import RawContent, SourceItem, TokenSource

_LIST_TYPES = frozenset({"bullet_list", "ordered_list", "check_list"})
_MARK_SIGNS = {"strong": "**", "em": "*", "strikethrough": "~~", "code": "`"}
_UNREADABLE_NOTE = (
    "This Box Note cannot be read: open it in Box and save it as a Word document or a PDF in the same folder."
)

Node = Mapping[str, Any]


def render_note(data: bytes) -> str:
    """Convert a note to Markdown. Skippable for other content."""
    try:
        note = msgspec.json.decode(data) if data.strip() else {"doc": {}}
        if isinstance(note.get("doc"), dict):
            return _format_blocks(note["doc"])
        return _convert_old_note(note["atext"]["text"])
    except (msgspec.DecodeError, ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise Skippable(_UNREADABLE_NOTE) from error


def _convert_old_note(text: str) -> str:
    """Convert an old note to Markdown."""
    # A star at the start of a line marks its kind, mostly a list item.
    lines = ("- " + line[1:].strip() if line.startswith("*") else line for line in text.splitlines())
    return "\n".join(lines).strip() + "\n"


def _children(node: Node) -> Sequence[Node]:
    return node.get("content") or ()


def _format_blocks(node: Node) -> str:
    """Join blocks by an empty line."""
    return "\n\n".join(text for child in _children(node) if (text := _format_block(child).strip("\n")))


def _format_block(node: Node) -> str:
    return _NODE_FORMATS.get(node["type"], _format_unknown)(node)


def _format_unknown(node: Node) -> str:
    return _format_blocks(node) if _holds_blocks(node) else _format_inline(node)


def _format_heading(node: Node) -> str:
    level = int((node.get("attrs") or {}).get("level") or 1)
    return "#" * min(max(level, 1), 6) + " " + _format_inline(node)


def _format_quote(node: Node) -> str:
    return "\n".join(f"> {line}".rstrip() for line in _format_blocks(node).splitlines())


def _holds_blocks(node: Node) -> bool:
    return any("content" in child for child in _children(node))


def _format_list(node: Node, indent: str = "") -> str:
    """Format a list."""
    # A nested list is a sibling of the items, one level deeper.
    lines, number = [], int((node.get("attrs") or {}).get("order") or 1)
    for child in _children(node):
        if child["type"] in _LIST_TYPES:
            lines.append(_format_list(child, indent + "    "))
            continue
        sign = f"{number}. " if node["type"] == "ordered_list" else "- "
        if child["type"] == "check_list_item":
            sign += "[x] " if (child.get("attrs") or {}).get("checked") else "[ ] "
        number += 1
        lines.append(indent + sign + _format_blocks(child).replace("\n", "\n" + indent + "    "))
    return "\n".join(lines)


def _format_table(node: Node) -> str:
    rows = [[_format_cell(cell) for cell in _children(row)] for row in _children(node)]
    width = max((len(row) for row in rows), default=0)
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]]) if lines else ""


def _format_cell(cell: Node) -> str:
    return _format_blocks(cell).replace("\n\n", "<br>").replace("\n", " ").replace("|", "\\|")


def _format_inline(node: Node) -> str:
    return "".join(_format_text(child) for child in _children(node))


def _format_text(node: Node) -> str:
    if node["type"] == "hard_break":
        return "\n"
    if node["type"] != "text":
        return _format_inline(node)
    text = str(node["text"])
    for mark in node.get("marks") or ():
        sign = _MARK_SIGNS.get(mark["type"], "")
        text = f"{sign}{text}{sign}"
        if mark["type"] == "link" and (address := (mark.get("attrs") or {}).get("href")):
            text = f"[{text}]({address})" if address != text else text
    return text


_NODE_FORMATS: Mapping[str, Callable[[Node], str]] = {
    **dict.fromkeys(_LIST_TYPES, _format_list),
    "heading": _format_heading,
    "horizontal_rule": lambda _node: "---",
    "blockquote": _format_quote,
    "call_out_box": _format_quote,
    "code_block": lambda node: f"```\n{_format_inline(node)}\n```",
    "table": _format_table,
}


MAX_DOWNLOADS = 3
NOTE_SUFFIX: Final = ".boxnote"
_GOOGLE_SUFFIXES = (".gdoc", ".gsheet", ".gslides")
_GONE_MESSAGE = "The file is no longer in Box, or no longer shared with this account."


def as_source_item(entry: BoxItem) -> SourceItem:
    """Convert a listed file to a source item."""
    # The version is the hash of the content: a new name or folder is no new content.
    if is_trashed(entry):
        return SourceItem(entry.id, entry.name or "", deleted=True)
    kind = "text/markdown" if _is_note(entry) else ""
    above = tuple(folder.id for folder in entry.path_collection.entries) if entry.path_collection else ()
    return SourceItem(
        entry.id, entry.name or entry.id, kind, content_version(entry), properties=read_properties(entry), above=above
    )


def is_trashed(entry: BoxItem) -> bool:
    return entry.item_status not in (None, "active")


def is_owned(entry: BoxItem, owner_id: str | None) -> bool:
    """Return True for an item of this owner; None stands for any."""
    return owner_id is None or (entry.owned_by is not None and entry.owned_by.id == owner_id)


def read_properties(entry: BoxItem) -> dict[str, str | int]:
    """Return metadata of a file in the contract's names, with times of the content if Box has them."""
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
    """Download a file, check Box's hash, and convert Box Notes to Markdown."""
    try:
        entry, download = _download_consistent(client, tokens, file_id, to)
    except NotFound as error:
        raise ItemMissing(_GONE_MESSAGE) from error
    except Forbidden as error:
        raise Skippable(
            "Box does not let this account download the file: ask its owner for more than a preview."
        ) from error
    raw = RawContent(
        to,
        entry.name or entry.id,
        download.media_type,
        download.size,
        content_version(entry),
        properties=read_properties(entry),
    )
    return _as_markdown(raw) if _is_note(entry) else raw


def _download_consistent(client: BoxSession, tokens: TokenSource, file_id: str, to: Path) -> tuple[BoxItem, Download]:
    """Download a file; repeat after a change during the download."""
    for _ in range(MAX_DOWNLOADS):
        entry = client.read_file(tokens, file_id)
        if is_trashed(entry):
            raise Skippable(_GONE_MESSAGE)
        if (entry.size or 0) > client.max_file_bytes:
            raise responses.too_large(client.max_file_bytes)
        download = client.download(tokens, file_id, to)
        if download.sha1 == entry.sha1 or _is_converted(entry):
            return entry, download
    raise Retryable("The file's content does not match its checksum at Box; it is probably being changed.")


def _is_converted(entry: BoxItem) -> bool:
    """Return True if Box sends other bytes than it stores: watermarked files, and Google's documents as Office
    files."""
    is_marked = entry.watermark_info is not None and entry.watermark_info.is_watermarked
    return bool(is_marked) or (entry.name or "").lower().endswith(_GOOGLE_SUFFIXES) or entry.sha1 is None


def _as_markdown(raw: RawContent) -> RawContent:
    raw.path.write_text(render_note(raw.path.read_bytes()), encoding="utf-8")
    return replace(raw, media_type="text/markdown", size=raw.path.stat().st_size)


def _is_note(entry: BoxItem) -> bool:
    return (entry.name or "").lower().endswith(NOTE_SUFFIX)


def content_version(entry: BoxItem) -> str:
    return entry.sha1 or entry.etag or ""
