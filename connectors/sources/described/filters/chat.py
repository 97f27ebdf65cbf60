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

Names = Callable[[str, str], str]
_CODE: Final = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_TOKEN_PATTERN: Final = re.compile(r"<([^<>\n]+)>")
_STYLES: Final = (
    (re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])"), r"**\1**"),
    (re.compile(r"(?<![\w~])~(?=\S)([^~\n]+?)(?<=\S)~(?![\w~])"), r"~~\1~~"),
)
_SIGNS: Final = {"bold": "**", "italic": "_", "strike": "~~", "code": "`"}
_MENTIONS: Final = {"user": "@", "channel": "#", "usergroup": "@"}
MAX_DEPTH: Final = 8
"""Levels of blocks within blocks that are read."""


@pass_context
def read_markup(context: Context, text: Any) -> str:
    """Return mrkdwn as Markdown, with the names of people and channels."""
    return convert_markup(str(text or ""), _find_names(context))


@pass_context
def read_blocks(context: Context, blocks: Any) -> str:
    """Return blocks as Markdown, "" where they hold no text."""
    return _join(_read_block(block, _find_names(context)) for block in _list(blocks))


@pass_context
def read_attachments(context: Context, attachments: Any) -> str:
    """Return attachments as Markdown, "" where they hold no text."""
    return _join(_read_attachment(attachment, _find_names(context)) for attachment in _list(attachments))


def convert_markup(text: str, names: Names) -> str:
    """Return mrkdwn as Markdown; code keeps its characters."""
    parts = _CODE.split(text)
    return "".join(
        html.unescape(_TOKEN_PATTERN.sub(lambda token: token[1].rpartition("|")[2], part))
        if number % 2
        else html.unescape(_TOKEN_PATTERN.sub(lambda token: _read_token(token[1], names), _style(part)))
        for number, part in enumerate(parts)
    )


def _find_names(context: Context) -> Names:
    names: Names | None = context.get("_names")
    return names or (lambda _kind, key: key)


def _style(text: str) -> str:
    for pattern, replacement in _STYLES:
        text = pattern.sub(replacement, text)
    return text


def _read_token(token: str, names: Names) -> str:
    target, _, label = token.partition("|")
    if target.startswith(("@", "#")):
        kind = "user" if target[0] == "@" else "channel"
        return f"{target[0]}{label.lstrip('@#') or names(kind, target[1:])}"
    if target.startswith("!subteam^"):
        return f"@{label.lstrip('@') or names('usergroup', target.partition('^')[2])}"
    if target.startswith("!"):
        return label or f"@{target[1:]}"
    address = target.removeprefix("mailto:").removeprefix("tel:")
    return address if not label or label == address else f"[{label}]({target})"


def _read_block(block: Mapping[str, Any], names: Names, depth: int = 0) -> str:
    kind = _field(block, "type")
    if depth > MAX_DEPTH:
        return ""
    if kind == "rich_text":
        return _join(_read_rich(element, names) for element in _list(block.get("elements")))
    if kind == "header":
        return f"## {_text(block.get('text'), names)}"
    if kind in {"image", "video"}:
        title = _text(block.get("title"), names)
        return " ".join(dict.fromkeys(filter(None, (title, _field(block, "alt_text")))))
    if kind == "table":
        return _read_table(block, names, depth)
    texts = [_text(block.get("text"), names)]
    fields = [_text(field, names) for field in _list(block.get("fields"))]
    inner = _list(block.get("elements")) if kind in {"context", "actions", "context_actions"} else []
    elements = [
        _text(element.get("text"), names) if "text" in element else _read_block(element, names, depth + 1)
        for element in inner
    ]
    return _join((*texts, *fields, " ".join(filter(None, elements))))


def _read_table(block: Mapping[str, Any], names: Names, depth: int) -> str:
    rows = [
        [_text(cell, names) or _read_block(cell, names, depth + 1) for cell in row if isinstance(cell, Mapping)]
        for row in block.get("rows") or ()
        if isinstance(row, list)
    ]
    rows = [row for row in rows if row]
    lines = [f"| {' | '.join(cell.replace(chr(10), ' ') for cell in row)} |" for row in rows]
    return "\n".join([*lines[:1], f"|{' --- |' * len(rows[0])}", *lines[1:]]) if rows else ""


def _read_rich(element: Mapping[str, Any], names: Names, level: int = 0) -> str:
    if level > MAX_DEPTH:
        return ""
    kind, inner = _field(element, "type"), _list(element.get("elements"))
    if kind == "rich_text_list":
        ordered = element.get("style") == "ordered"
        depth = element.get("indent")
        indent = "    " * min(depth, MAX_DEPTH) if isinstance(depth, int) else ""
        return "\n".join(
            f"{indent}{f'{number}.' if ordered else '-'} {_read_rich(item, names, level + 1)}"
            for number, item in enumerate(inner, 1)
        )
    text = "".join(_read_inline(item, names) for item in inner)
    if kind == "rich_text_preformatted":
        return f"```\n{text}\n```"
    if kind == "rich_text_quote":
        return "\n".join(f"> {line}" for line in text.split("\n"))
    return text


def _read_inline(item: Mapping[str, Any], names: Names) -> str:
    kind = _field(item, "type")
    if kind in _MENTIONS:
        return f"{_MENTIONS[kind]}{names(kind, _field(item, f'{kind}_id'))}"
    if kind == "broadcast":
        return f"@{_field(item, 'range')}"
    if kind == "emoji":
        return f":{_field(item, 'name')}:"
    if kind == "link":
        url, label = _field(item, "url"), _field(item, "text")
        return url if not label or label == url else f"[{label}]({url})"
    text = _field(item, "text") or _field(item, "fallback") or _field(item, "value")
    style = item.get("style")
    signs = [sign for name, sign in _SIGNS.items() if isinstance(style, Mapping) and style.get(name)]
    inner = text.strip()
    if not signs or not inner:
        return text
    start, end = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{start}{''.join(signs)}{inner}{''.join(reversed(signs))}{end}"


def _read_attachment(attachment: Mapping[str, Any], names: Names) -> str:
    title, address = _field(attachment, "title"), _field(attachment, "title_link")
    heading = f"[{title}]({address})" if title and address else title
    fields = [
        f"{_field(field, 'title')}: {convert_markup(_field(field, 'value'), names)}"
        for field in _list(attachment.get("fields"))
    ]
    blocks = _join(_read_block(block, names) for block in _list(attachment.get("blocks")))
    blocks = blocks or _join(
        _read_block(block, names)
        for part in _list(attachment.get("message_blocks"))
        for block in _list(_object(part.get("message")).get("blocks"))
    )
    text = _join(
        (
            convert_markup(_field(attachment, "pretext"), names),
            _field(attachment, "author_name"),
            heading,
            convert_markup(_field(attachment, "text"), names) or blocks,
            "\n".join(fields),
        )
    )
    return text or convert_markup(_field(attachment, "fallback"), names)


def _text(value: Any, names: Names) -> str:
    """Return a text object, of mrkdwn or plain text."""
    if not isinstance(value, Mapping) or not isinstance(value.get("text"), str):
        return value if isinstance(value, str) else ""
    return convert_markup(value["text"], names) if value.get("type") == "mrkdwn" else value["text"]


def _field(item: Any, name: str) -> str:
    value = item.get(name) if isinstance(item, Mapping) else None
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _join(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in islice(parts, 10_000) if part)
