"""Threads of mails as documents: messages in time order without repeated quotes, and their files.

Ada Berg, 14 May 2026 10:32: The text of a message.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Final

from connectors.http import responses

THREAD_TYPE: Final = "message/rfc822"
NO_SUBJECT: Final = "No subject"
MAX_SUBJECT_LETTERS: Final = 300
# Lines above a quote that programs write: "-----Original Message-----", "________".
_SEPARATOR: Final = re.compile(r"\s*(?:-{3,}[^-]{0,60}-{3,}|_{8,})\s*")
_FIELD: Final = re.compile(r"\s*\*?[^\W\d_][\w .-]{0,20}\*?:\*?\s?.*")
# Fields of a quoted message's head, such as "From:", "Sent:" and "To:".
_MIN_FIELDS: Final = 3
# Shorter lines of a quote may be answers within it.
_MIN_QUOTED_WORDS: Final = 4
# Words of the last line of a wrapped "On …, Ada Berg <ada@example.com> wrote:".
_MAX_WRAPPED_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """Message of a thread. `people`: sender and receivers as "Ada Berg <ada@example.com>"."""

    sender: str
    people: Sequence[str]
    moment: datetime
    text: str


@dataclass(frozen=True, slots=True)
class ThreadFile:
    """File attached to a message of a thread."""

    name: str
    media_type: str
    data: bytes


def name_person(name: str, address: str) -> str:
    """Return "Ada Berg <ada@example.com>", or the part that is known."""
    name = " ".join(name.split())
    return f"{name} <{address}>" if name and address and name != address else name or address


def clean_subject(subject: str) -> str:
    """Return a subject as one line without slashes, for names and paths."""
    return " ".join(subject.replace("/", "-").split())[:MAX_SUBJECT_LETTERS] or NO_SUBJECT


def thread_version(subject: str, message_ids: Iterable[str]) -> str:
    """Return the version of a thread."""
    # Sent messages keep their text: a thread changes with its messages and its subject only.
    text = "\n".join([subject, *sorted(message_ids)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def write_thread(
    subject: str,
    messages: Iterable[ThreadMessage],
    files: Sequence[ThreadFile],
    notices: Sequence[str],
    to: Path,
    max_bytes: int,
) -> int:
    """Write a thread with its files as a mail; return the size in bytes. Skippable beyond `max_bytes`."""
    text = render_thread(subject, messages, notices)
    mail = EmailMessage()
    mail.set_content(text.encode("utf-8", "replace").decode(), charset="utf-8", cte="8bit")
    for file in files:
        main, _, sub = file.media_type.partition("/")
        if file.media_type != THREAD_TYPE and (not sub or main in {"multipart", "message"}):
            main, sub = "application", "octet-stream"
        if file.media_type == THREAD_TYPE:
            ending = "" if file.name.lower().endswith(".eml") else ".eml"
            main, sub = "application", "octet-stream"
        else:
            ending = "" if mimetypes.guess_type(file.name)[0] else mimetypes.guess_extension(file.media_type) or ""
        mail.add_attachment(file.data, main, sub, filename=file.name + ending)
    data = bytes(mail)
    if len(data) > max_bytes:
        raise responses.too_large(max_bytes, "The thread with its attachments")
    to.write_bytes(data)
    return len(data)


def render_thread(subject: str, messages: Iterable[ThreadMessage], notices: Sequence[str] = ()) -> str:
    """Return a thread as text: subject, people, messages from the oldest, and notices."""
    ordered = sorted(messages, key=lambda message: message.moment)
    people = list(dict.fromkeys(person for message in ordered for person in message.people if person))
    parts, earlier = [subject, *([f"People: {', '.join(people)}"] if people else [])], ""
    parts += notices
    for message in ordered:
        text = message.text.replace("\r\n", "\n").replace("\r", "\n")
        moment = message.moment.astimezone(UTC)
        head = f"{message.sender or 'Somebody'}, {moment.day} {moment:%B %Y %H:%M}:"
        parts.append(f"{head} {drop_quotes(text, earlier) if earlier else text.strip()}".rstrip())
        earlier += f" {_words(text)}"
    return "\n\n".join(parts) + "\n"


def drop_quotes(text: str, earlier: str) -> str:
    """Return a message without quotes from `earlier`, the words of earlier messages."""
    # What no earlier message holds stays: answers within a quote, and forwarded mails.
    lines, stream = text.split("\n"), f" {earlier.strip()} "
    start = _find_quoted_tail(lines)
    kept_lines = [*_drop_marked(lines[:start], stream), *_drop_tail(lines[start:], stream)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept_lines)).strip()


def _words(text: str) -> str:
    """Return the words of a text, without the marks of quotes."""
    plain = re.sub(r"^[>\s]+", "", text, flags=re.MULTILINE)
    return " ".join(plain.casefold().split())


def _is_repeated(line: str, stream: str) -> bool:
    words = _words(line)
    return not words or f" {words} " in stream


def _drop_marked(lines: Sequence[str], stream: str) -> list[str]:
    """Drop repeated lines with a leading `>`, and the attribution line above."""
    kept_lines: list[str] = []
    is_dropped = False
    for line in lines:
        if line.startswith(">") and _is_repeated(line, stream):
            if not is_dropped:
                _drop_attribution(kept_lines)
            is_dropped = True
            continue
        is_dropped = is_dropped and not line.strip()
        kept_lines.append(line)
    return kept_lines


def _drop_attribution(kept_lines: list[str]) -> None:
    """Drop a last line such as "On 14 May 2026 Ada Berg wrote:", which a program may have wrapped."""
    last = len(kept_lines)
    while last and not kept_lines[last - 1].strip():
        last -= 1
    if not last or not kept_lines[last - 1].rstrip().endswith(":"):
        return
    first = last - 1
    if len(kept_lines[first].split()) <= _MAX_WRAPPED_WORDS and first and kept_lines[first - 1].strip():
        first -= 1
    # People write lines that end with a colon, too: a program's has a date or an address.
    if re.search(r"\d|@", " ".join(kept_lines[first:last])):
        del kept_lines[first:]


def _find_quoted_tail(lines: Sequence[str]) -> int:
    """Return the index of the first line of a message quoted without marks, else the number of lines."""
    for index, line in enumerate(lines):
        head_start = index + 1 if _SEPARATOR.fullmatch(line) else index
        fields = 0
        while head_start + fields < len(lines) and _FIELD.fullmatch(lines[head_start + fields]):
            fields += 1
        if fields >= _MIN_FIELDS and any(
            "@" in field or "<" in field for field in lines[head_start : head_start + fields]
        ):
            return index
        if head_start > index and re.search(r"[^\W_]", line):
            return index
    return len(lines)


def _drop_tail(lines: Sequence[str], stream: str) -> list[str]:
    """Drop a quoted message if all its lines are repeated, else only the repeated lines."""
    head = 1 if lines and _SEPARATOR.fullmatch(lines[0]) else 0
    while head < len(lines) and _FIELD.fullmatch(lines[head]):
        head += 1
    if all(_is_repeated(line, stream) for line in lines[head:]):
        return []
    kept_lines = [
        line for line in lines[head:] if len(line.split()) < _MIN_QUOTED_WORDS or not _is_repeated(line, stream)
    ]
    return [*lines[:head], *kept_lines]
