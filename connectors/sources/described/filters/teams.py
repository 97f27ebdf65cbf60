"""Messages of Microsoft Teams as HTML: mentions, emoji, attached files, quoted messages and cards become text.

https://learn.microsoft.com/en-us/graph/api/resources/chatmessage
https://learn.microsoft.com/en-us/graph/api/resources/chatmessageattachment
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_DEPTH: Final = 50
"""Levels of a card that are read."""
_TAG: Final = re.compile(r"<[^<>]*>")
_AT: Final = re.compile(r"<at\b[^>]*>(.*?)</at>", re.DOTALL)
_EMOJI: Final = re.compile(r"<emoji\b[^>]*?\balt=\"([^\"]*)\"[^>]*>(?:</emoji>)?")
_ATTACHMENT: Final = re.compile(r"<attachment\b[^>]*>(?:</attachment>)?")


def read_body(body: Any, attachments: Any = None) -> str:
    """Return a message as HTML: the body, followed by quoted messages, files and cards."""
    about = body if isinstance(body, Mapping) else {}
    text = str(about.get("content") or "")
    if about.get("contentType") != "html":
        text = f"<p>{html.escape(text)}</p>" if text else ""
    else:
        text = _AT.sub(r"@\1", _EMOJI.sub(r"\1", _ATTACHMENT.sub("", text)))
    files = attachments if isinstance(attachments, list) else []
    return "\n".join(filter(None, (text, *(_read_file(file) for file in files if isinstance(file, Mapping)))))


def read_text(body: Any) -> str:
    """Return the body of a message as plain text on one line."""
    return strip_tags(read_body(body))


def strip_tags(text: str) -> str:
    """Return the text of HTML on one line."""
    return " ".join(html.unescape(_TAG.sub(" ", text)).split())


def _read_file(file: Mapping[str, Any]) -> str:
    kind, url, name = (str(file.get(field) or "") for field in ("contentType", "contentUrl", "name"))
    if url.startswith("https://"):
        return f'<p>File: <a href="{html.escape(url)}">{html.escape(name or url)}</a></p>'
    try:
        content = json.loads(str(file.get("content") or "null"))
    except (ValueError, RecursionError):
        return ""
    if kind == "messageReference" and isinstance(content, Mapping):
        return f"<blockquote>{html.escape(str(content.get('messagePreview') or ''))}</blockquote>"
    return "".join(f"<p>{html.escape(text)}</p>" for text in _find_texts(content, 0))


def _find_texts(part: Any, depth: int) -> Iterator[str]:
    """Yield titles and texts of a card, in its order."""
    if depth == MAX_DEPTH:
        return
    if isinstance(part, Mapping):
        for name, value in part.items():
            if isinstance(value, str) and name in {"title", "subtitle", "text", "value"} and value:
                yield strip_tags(value)
            elif isinstance(value, Mapping | list):
                yield from _find_texts(value, depth + 1)
    elif isinstance(part, list):
        for entry in part:
            yield from _find_texts(entry, depth + 1)
