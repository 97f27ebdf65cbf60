"""Text and files of a thread."""

# developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages: bodies of parts are decoded, those of
# files come by `attachmentId` (…/users.messages.attachments).

from __future__ import annotations

import email.utils
from collections.abc import Iterator, Mapping
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Final

from connectors import mail_threads
from connectors.charsets import decoding
from connectors.http import html
from connectors.mail_threads import ThreadFile, ThreadMessage
from connectors.sources.gmail.client import Gmail, decode_data
from connectors.sources.gmail.labels import Labels
from connectors.sources.gmail.threads import Entry, Thread, part_header, read_header, read_moment
from retrieval.errors import Skippable
from retrieval.ports import RawContent

# Attachments of a thread that are read.
MAX_FILES: Final = 100
# Parts within parts of a message that are read.
_MAX_DEPTH: Final = 30
_PEOPLE_HEADERS: Final = ("From", "To", "Cc")
_ATTACHED_HEADERS: Final = ("Subject", "From", "To", "Cc", "Date")


def has_files(thread: Thread) -> bool:
    """Check for content that further requests read."""
    parts = [part for entry in thread.messages for part in iter_parts(_payload(entry), into_mails=True)]
    return any(_body(part).get("attachmentId") for part in parts)


def write_content(gmail: Gmail, labels: Labels, thread: Thread, to: Path, max_bytes: int) -> RawContent:
    """Write the text and the files of a thread."""
    item = thread.make_item(labels)
    reader = MessageReader(gmail, max_bytes)
    messages = [reader.read_message(entry) for entry in thread.messages]
    subject = thread.subject or mail_threads.NO_SUBJECT
    size = mail_threads.write_thread(subject, messages, reader.files, reader.notices, to, max_bytes)
    properties = {**item.properties, "title": subject, "owner": messages[0].sender}
    filled = {name: value for name, value in properties.items() if value}
    return RawContent(to, item.name, item.media_type, size, version=item.version, properties=filled)


class MessageReader:
    """Reads messages and their files, up to `max_bytes`; `notices` name files that cannot be read."""

    def __init__(self, gmail: Gmail, max_bytes: int) -> None:
        self.files: list[ThreadFile] = []
        self.notices: list[str] = []
        self._gmail = gmail
        self._bytes_left = max_bytes

    def read_message(self, entry: Entry) -> ThreadMessage:
        """Read a message, with its people and files."""
        payload, message_id = _payload(entry), entry["id"]
        pairs = email.utils.getaddresses([read_header(entry, name) for name in _PEOPLE_HEADERS])
        people = [mail_threads.name_person(name, address) for name, address in pairs]
        (name, address) = next(iter(email.utils.getaddresses([read_header(entry, "From")])), ("", ""))
        for part in iter_parts(payload):
            if is_file(part):
                self._add(part, message_id)
        return ThreadMessage(name or address, people, read_moment(entry), self._read_text(payload, message_id))

    def _read_text(self, payload: Entry, message_id: str) -> str:
        """Return the plain text of a message, or that of its HTML."""
        parts = [part for part in iter_parts(payload) if not is_file(part)]
        texts = {kind: [part for part in parts if _kind(part) == kind] for kind in ("text/plain", "text/html")}
        plain = "\n\n".join(
            decoding.decode_text(self._data(part, message_id), _charset(part)).strip() for part in texts["text/plain"]
        )
        if plain.strip() or not texts["text/html"]:
            return plain
        contents = [(self._data(part, message_id), part_header(part, "Content-Type")) for part in texts["text/html"]]
        return "\n\n".join(html.read_text(data, kind) for data, kind in contents)

    def _add(self, part: Entry, message_id: str) -> None:
        kind = _kind(part)
        if kind.startswith("image/") and _is_inline(part):
            return
        name = " ".join(str(part.get("filename") or "").replace("/", "-").split())[:200] or "attachment"
        try:
            data = self._read_file(part, message_id)
        except Skippable as error:
            self.notices.append(f"Attachment {name} was not read: {error}")
        else:
            self.files.append(ThreadFile(name, kind, data))
            self._bytes_left -= len(data)

    def _read_file(self, part: Entry, message_id: str) -> bytes:
        if len(self.files) == MAX_FILES:
            raise Skippable(f"More than {MAX_FILES} files are attached.")
        size = _body(part).get("size")
        if isinstance(size, int) and size > self._bytes_left:
            raise Skippable("With it the thread is too large.")
        is_mail = _kind(part) == mail_threads.THREAD_TYPE and not _body(part)
        data = self._write_mail(part, message_id) if is_mail else self._data(part, message_id)
        if len(data) > self._bytes_left:
            raise Skippable("With it the thread is too large.")
        return data

    def _write_mail(self, part: Entry, message_id: str) -> bytes:
        """Return an attached mail that Gmail has taken apart."""
        inner = next((inner for inner in _children(part) if isinstance(inner, dict)), {})
        mail = EmailMessage()
        for name in _ATTACHED_HEADERS:
            if value := part_header(inner, name):
                mail[name] = value
        mail.set_content(self._read_text(inner, message_id))
        return bytes(mail)

    def _data(self, part: Entry, message_id: str) -> bytes:
        body = _body(part)
        if isinstance(body.get("attachmentId"), str):
            return self._gmail.read_attachment(message_id, body["attachmentId"])
        return decode_data(str(body.get("data") or ""))


def iter_parts(payload: Entry, depth: int = 0, *, into_mails: bool = False) -> Iterator[Entry]:
    """Yield a part and those within it, without the parts of attached mails."""
    yield payload
    if depth < _MAX_DEPTH and (into_mails or _kind(payload) != mail_threads.THREAD_TYPE):
        for part in _children(payload):
            if isinstance(part, dict):
                yield from iter_parts(part, depth + 1, into_mails=into_mails)


def is_file(part: Entry) -> bool:
    """Check for an attachment, in contrast to a text or a container."""
    kind = _kind(part)
    if kind.startswith("multipart/"):
        return False
    if part.get("filename") or kind == mail_threads.THREAD_TYPE:
        return True
    is_attached = part_header(part, "Content-Disposition").lower().startswith("attachment")
    return kind not in {"text/plain", "text/html"} or is_attached


def _is_inline(part: Entry) -> bool:
    disposition = part_header(part, "Content-Disposition").lower()
    return disposition.startswith("inline") or (bool(part_header(part, "Content-ID")) and "attach" not in disposition)


def _payload(entry: Entry) -> Entry:
    payload = entry.get("payload")
    return payload if isinstance(payload, dict) else {}


def _children(part: Entry) -> list[Any]:
    parts = part.get("parts")
    return parts if isinstance(parts, list) else []


def _body(part: Entry) -> Mapping[str, Any]:
    body = part.get("body")
    return body if isinstance(body, dict) and (body.get("data") or body.get("attachmentId")) else {}


def _kind(part: Entry) -> str:
    return str(part.get("mimeType") or "").partition(";")[0].strip().lower()


def _charset(part: Entry) -> str:
    return decoding.read_charset(part_header(part, "Content-Type"))
