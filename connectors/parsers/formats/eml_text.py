"""The text of an e-mail: its headers and what a reader sees of its body, line by line."""

from __future__ import annotations

import email
import re
from collections.abc import Callable, Iterator
from email.message import Message

from connectors.parsers.formats import eml, eml_repair

_SHOWN = {"subject": "Subject", "from": "From", "to": "To", "cc": "CC", "date": "Date"}
_EXCUSE = 300
"""Letters of a text that may be no more than a word on programs that show no HTML."""
_LONGER = 4


def of(data: bytes, page: Callable[[str], str], *, whole: bool) -> str:
    """As Markdown. `page`: of HTML. `whole`: with the messages that are attached to it."""
    return _message(email.message_from_bytes(data), page, whole=whole, depth=0)


def _message(message: Message, page: Callable[[str], str], *, whole: bool, depth: int) -> str:
    headers = {name.lower(): eml_repair.header(value) for name, value in reversed(list(message.raw_items()))}
    lines = [f"**{label}**: {headers[name]}" for name, label in _SHOWN.items() if headers.get(name)]
    bodies = [part.strip("\n") for part in _bodies(message, page, whole, depth) if part.strip()]
    return "\n\n".join(["\n".join(lines), *bodies]) + "\n"


def _bodies(part: Message, page: Callable[[str], str], whole: bool, depth: int) -> Iterator[str]:  # noqa: FBT001
    kind, payload = part.get_content_type(), part.get_payload()
    if depth > eml.DEEPEST:
        return
    if kind == "message/rfc822" and depth:
        if whole and isinstance(payload, list) and payload and isinstance(payload[0], Message):
            yield _message(payload[0], page, whole=whole, depth=depth + 1)
    elif isinstance(payload, list):
        inner = [one for one in payload if isinstance(one, Message)]
        found = ["\n\n".join(_bodies(one, page, whole, depth + 1)) for one in inner]
        yield from [_chosen(inner, found)] if kind == "multipart/alternative" else found
    elif kind.startswith("text/") and not (depth and eml.attached(part)):
        text = eml_repair.text(part)
        yield from [page(text)] if kind == "text/html" else [text] if kind in ("text/plain", "text/markdown") else []


def _chosen(parts: list[Message], texts: list[str]) -> str:
    """Of versions of one text the plain one, unless it says next to nothing beside the others."""
    plain = next((text for part, text in zip(parts, texts, strict=True) if _is_plain(part) and text.strip()), "")
    longest = max(texts, key=len, default="")
    return longest if not plain or (len(plain) < _EXCUSE and len(longest) > _LONGER * len(plain)) else plain


def _is_plain(part: Message) -> bool:
    return bool(re.fullmatch(r"text/(?:plain|markdown)", part.get_content_type()))
