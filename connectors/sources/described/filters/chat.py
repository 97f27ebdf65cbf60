"""Messages of a chat as Markdown: mrkdwn, blocks and attachments.

https://docs.slack.dev/messaging/formatting-message-text (mentions, links, escapes)
https://docs.slack.dev/reference/block-kit/blocks
https://docs.slack.dev/legacy/legacy-messaging/legacy-secondary-message-attachments
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context

# Returns the name of a "user", "channel" or "usergroup" by its id.
NameLookup = Callable[[str, str], str]
_CODE_PATTERN: Final = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
# Mentions and links in angle brackets, such as `<@U012>` and `<https://example.org|label>`.
_TOKEN_PATTERN: Final = re.compile(r"<([^<>\n]+)>")
_STYLE_PATTERNS: Final = (
    (re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])"), r"**\1**"),
    (re.compile(r"(?<![\w~])~(?=\S)([^~\n]+?)(?<=\S)~(?![\w~])"), r"~~\1~~"),
)
_STYLE_MARKS: Final = {"bold": "**", "italic": "_", "strike": "~~", "code": "`"}
_MENTION_SIGNS: Final = {"user": "@", "channel": "#", "usergroup": "@"}
MAX_JOINED_BLOCKS: Final = 10_000
MAX_DEPTH: Final = 8
"""Nesting of blocks and lists to read; deeper ones are left out."""


@pass_context
def read_markup(context: Context, text: Any) -> str:
    """Return mrkdwn as Markdown, with the names of people and channels."""
    return convert_markup(str(text or ""), _name_lookup(context))


@pass_context
def read_blocks(context: Context, blocks: Any) -> str:
    """Return blocks as Markdown, "" where they hold no text."""
    return _join_blocks(_read_block(block, _name_lookup(context)) for block in _read_objects(blocks))


@pass_context
def read_attachments(context: Context, attachments: Any) -> str:
    """Return attachments as Markdown, "" where they hold no text."""
    return _join_blocks(
        _read_attachment(attachment, _name_lookup(context)) for attachment in _read_objects(attachments)
    )


def convert_markup(text: str, find_name: NameLookup) -> str:
    """Return mrkdwn as Markdown; code keeps its characters."""

    def convert_text(section: str) -> str:
        return _TOKEN_PATTERN.sub(lambda token: _read_token(token[1], find_name), _convert_styles(section))

    def convert_code(section: str) -> str:
        return _TOKEN_PATTERN.sub(lambda token: token[1].rpartition("|")[2], section)

    # Text and code alternate.
    sections = _CODE_PATTERN.split(text)
    return "".join(
        html.unescape(convert_code(section) if number % 2 else convert_text(section))
        for number, section in enumerate(sections)
    )


def _name_lookup(context: Context) -> NameLookup:
    """Return the connection's lookup of names; without one, ids stand for names."""
    find_name: NameLookup | None = context.get("_names")
    return find_name or (lambda _kind, item_id: item_id)


def _convert_styles(text: str) -> str:
    for pattern, replacement in _STYLE_PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _read_token(token: str, find_name: NameLookup) -> str:
    """Convert the content of angle brackets: a mention, a group, a command or a link."""
    target, _, label = token.partition("|")
    if target.startswith(("@", "#")):
        kind = "user" if target[0] == "@" else "channel"
        return f"{target[0]}{label.lstrip('@#') or find_name(kind, target[1:])}"
    if target.startswith("!subteam^"):
        return f"@{label.lstrip('@') or find_name('usergroup', target.partition('^')[2])}"
    if target.startswith("!"):
        return label or f"@{target[1:]}"
    address = target.removeprefix("mailto:").removeprefix("tel:")
    return address if not label or label == address else f"[{label}]({target})"


def _read_block(block: Mapping[str, Any], find_name: NameLookup, depth: int = 0) -> str:
    kind = _read_string(block, "type")
    if depth > MAX_DEPTH:
        return ""
    if kind == "rich_text":
        return _join_blocks(_read_rich_text(element, find_name) for element in _read_objects(block.get("elements")))
    if kind == "header":
        return f"## {_read_text_object(block.get('text'), find_name)}"
    if kind in {"image", "video"}:
        title = _read_text_object(block.get("title"), find_name)
        return " ".join(dict.fromkeys(filter(None, (title, _read_string(block, "alt_text")))))
    if kind == "table":
        return _read_table(block, find_name, depth)
    texts = [_read_text_object(block.get("text"), find_name)]
    fields = [_read_text_object(field, find_name) for field in _read_objects(block.get("fields"))]
    inner = _read_objects(block.get("elements")) if kind in {"context", "actions", "context_actions"} else []
    elements = [
        _read_text_object(element.get("text"), find_name)
        if "text" in element
        else _read_block(element, find_name, depth + 1)
        for element in inner
    ]
    return _join_blocks((*texts, *fields, " ".join(filter(None, elements))))


def _read_table(block: Mapping[str, Any], find_name: NameLookup, depth: int) -> str:
    rows = [
        [
            _read_text_object(cell, find_name) or _read_block(cell, find_name, depth + 1)
            for cell in row
            if isinstance(cell, Mapping)
        ]
        for row in block.get("rows") or ()
        if isinstance(row, list)
    ]
    rows = [row for row in rows if row]
    if not rows:
        return ""
    header, *body = [f"| {' | '.join(cell.replace(chr(10), ' ') for cell in row)} |" for row in rows]
    separator = f"|{' --- |' * len(rows[0])}"
    return "\n".join([header, separator, *body])


def _read_rich_text(element: Mapping[str, Any], find_name: NameLookup, level: int = 0) -> str:
    if level > MAX_DEPTH:
        return ""
    kind, inner = _read_string(element, "type"), _read_objects(element.get("elements"))
    if kind == "rich_text_list":
        ordered = element.get("style") == "ordered"
        list_level = element.get("indent")
        indent = "    " * min(list_level, MAX_DEPTH) if isinstance(list_level, int) else ""
        return "\n".join(
            f"{indent}{f'{number}.' if ordered else '-'} {_read_rich_text(item, find_name, level + 1)}"
            for number, item in enumerate(inner, 1)
        )
    text = "".join(_read_inline(item, find_name) for item in inner)
    if kind == "rich_text_preformatted":
        return f"```\n{text}\n```"
    if kind == "rich_text_quote":
        return "\n".join(f"> {line}" for line in text.split("\n"))
    return text


def _read_inline(item: Mapping[str, Any], find_name: NameLookup) -> str:
    kind = _read_string(item, "type")
    if kind in _MENTION_SIGNS:
        return f"{_MENTION_SIGNS[kind]}{find_name(kind, _read_string(item, f'{kind}_id'))}"
    if kind == "broadcast":
        return f"@{_read_string(item, 'range')}"
    if kind == "emoji":
        return f":{_read_string(item, 'name')}:"
    if kind == "link":
        url, label = _read_string(item, "url"), _read_string(item, "text")
        return url if not label or label == url else f"[{label}]({url})"
    text = _read_string(item, "text") or _read_string(item, "fallback") or _read_string(item, "value")
    style = item.get("style")
    marks = [mark for name, mark in _STYLE_MARKS.items() if isinstance(style, Mapping) and style.get(name)]
    stripped = text.strip()
    if not marks or not stripped:
        return text
    # Markdown allows no space next to the marks within them.
    leading_space = text[: len(text) - len(text.lstrip())]
    trailing_space = text[len(text.rstrip()) :]
    return f"{leading_space}{''.join(marks)}{stripped}{''.join(reversed(marks))}{trailing_space}"


def _read_attachment(attachment: Mapping[str, Any], find_name: NameLookup) -> str:
    title, address = _read_string(attachment, "title"), _read_string(attachment, "title_link")
    heading = f"[{title}]({address})" if title and address else title
    fields = [
        f"{_read_string(field, 'title')}: {convert_markup(_read_string(field, 'value'), find_name)}"
        for field in _read_objects(attachment.get("fields"))
    ]
    block_objects = _read_objects(attachment.get("blocks"))
    # Blocks of a shared message.
    shared_objects = [
        block
        for shared in _read_objects(attachment.get("message_blocks"))
        for block in _read_objects(_read_object(shared.get("message")).get("blocks"))
    ]
    blocks = _join_blocks(_read_block(block, find_name) for block in block_objects)
    blocks = blocks or _join_blocks(_read_block(block, find_name) for block in shared_objects)
    text = _join_blocks(
        (
            convert_markup(_read_string(attachment, "pretext"), find_name),
            _read_string(attachment, "author_name"),
            heading,
            convert_markup(_read_string(attachment, "text"), find_name) or blocks,
            "\n".join(fields),
        )
    )
    return text or convert_markup(_read_string(attachment, "fallback"), find_name)


def _read_text_object(value: Any, find_name: NameLookup) -> str:
    """Return a text object as Markdown; "" for another value."""
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        return value if isinstance(value, str) else ""
    return convert_markup(value["text"], find_name) if value.get("type") == "mrkdwn" else value["text"]


def _read_string(item: Any, name: str) -> str:
    """Return a field with text; "" for a missing field or another type."""
    value = item.get(name) if isinstance(item, Mapping) else None
    return value if isinstance(value, str) else ""


def _read_objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _read_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _join_blocks(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in islice(texts, MAX_JOINED_BLOCKS) if text)
