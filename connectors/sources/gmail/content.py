"""Text and files of a thread.

https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages
"""

# Gmail answers the MIME parts of a message as objects with decoded bodies. The body of a file has an `attachmentId` for
# another request (…/users.messages.attachments).

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

# Files to read of one thread; a notice names further ones.
MAX_FILES: Final = 100
# Nesting of MIME parts to read.
_MAX_DEPTH: Final = 30
_PEOPLE_HEADERS: Final = ("From", "To", "Cc")
_ATTACHED_HEADERS: Final = ("Subject", "From", "To", "Cc", "Date")


def has_files(thread: Thread) -> bool:
    """Check for a file with a body that needs another request."""
    for entry in thread.messages:
        for part in iter_parts(_payload(entry), into_mails=True):
            if _body(part).get("attachmentId"):
                return True
    return False


def write_content(gmail: Gmail, labels: Labels, thread: Thread, to: Path, max_bytes: int) -> RawContent:
    """Write the text and the files of a thread to the file `to`."""
    item = thread.make_item(labels)
    reader = MessageReader(gmail, max_bytes)
    messages = [reader.read_message(entry) for entry in thread.messages]
    subject = thread.subject or mail_threads.NO_SUBJECT
    size = mail_threads.write_thread(subject, messages, reader.files, reader.notices, to, max_bytes)
    properties = {**item.properties, "title": subject, "owner": messages[0].sender}
    filled = {name: value for name, value in properties.items() if value}
    return RawContent(to, item.name, item.media_type, size, version=item.version, properties=filled)


class MessageReader:
    """Reader of messages and their files, up to `max_bytes` of files; `notices` has a sentence per unread file."""

    def __init__(self, gmail: Gmail, max_bytes: int) -> None:
        self.files: list[ThreadFile] = []
        self.notices: list[str] = []
        self._gmail = gmail
        self._bytes_left = max_bytes

    def read_message(self, entry: Entry) -> ThreadMessage:
        """Read a message, with its people and files."""
        payload, message_id = _payload(entry), entry["id"]
        people = [
            mail_threads.name_person(name, address)
            for name, address in email.utils.getaddresses([read_header(entry, header) for header in _PEOPLE_HEADERS])
        ]
        senders = email.utils.getaddresses([read_header(entry, "From")])
        sender_name, sender_address = senders[0] if senders else ("", "")
        for part in iter_parts(payload):
            if is_file(part):
                self._add_file(part, message_id)
        text = self._read_text(payload, message_id)
        return ThreadMessage(sender_name or sender_address, people, read_moment(entry), text)

    def _read_text(self, payload: Entry, message_id: str) -> str:
        """Return the plain text of a message, else the text of its HTML."""
        text_parts = [part for part in iter_parts(payload) if not is_file(part)]
        plain_parts = [part for part in text_parts if _media_type(part) == "text/plain"]
        html_parts = [part for part in text_parts if _media_type(part) == "text/html"]
        plain_texts = [decoding.decode_text(self._read_body(part, message_id), _charset(part)) for part in plain_parts]
        plain = "\n\n".join(text.strip() for text in plain_texts)
        if plain.strip() or not html_parts:
            return plain
        return "\n\n".join(
            html.read_text(self._read_body(part, message_id), part_header(part, "Content-Type")) for part in html_parts
        )

    def _add_file(self, part: Entry, message_id: str) -> None:
        """Add a file to `files`, or the reason for its omission to `notices`."""
        media_type = _media_type(part)
        if media_type.startswith("image/") and _is_inline(part):
            return
        name = " ".join(str(part.get("filename") or "").replace("/", "-").split())[:200] or "attachment"
        try:
            data = self._read_file(part, message_id)
        except Skippable as error:
            self.notices.append(f"Attachment {name} was not read: {error}")
        else:
            self.files.append(ThreadFile(name, media_type, data))
            self._bytes_left -= len(data)

    def _read_file(self, part: Entry, message_id: str) -> bytes:
        if len(self.files) == MAX_FILES:
            raise Skippable(f"More than {MAX_FILES} files are attached.")
        size = _body(part).get("size")
        if isinstance(size, int) and size > self._bytes_left:
            raise Skippable("With it the thread is too large.")
        # Gmail answers an attached mail as parts, without its bytes.
        is_mail_in_parts = _media_type(part) == mail_threads.THREAD_TYPE and not _body(part)
        data = self._rebuild_mail(part, message_id) if is_mail_in_parts else self._read_body(part, message_id)
        if len(data) > self._bytes_left:
            raise Skippable("With it the thread is too large.")
        return data

    def _rebuild_mail(self, part: Entry, message_id: str) -> bytes:
        """Return an attached mail as bytes, with main headers and text."""
        children = [child for child in _children(part) if isinstance(child, dict)]
        message = children[0] if children else {}
        mail = EmailMessage()
        for name in _ATTACHED_HEADERS:
            if value := part_header(message, name):
                mail[name] = value
        mail.set_content(self._read_text(message, message_id))
        return bytes(mail)

    def _read_body(self, part: Entry, message_id: str) -> bytes:
        body = _body(part)
        if isinstance(body.get("attachmentId"), str):
            return self._gmail.read_attachment(message_id, body["attachmentId"])
        return decode_data(str(body.get("data") or ""))


def iter_parts(payload: Entry, depth: int = 0, *, into_mails: bool = False) -> Iterator[Entry]:
    """Yield a part and all inner parts; parts of attached mails only with `into_mails`."""
    yield payload
    if depth < _MAX_DEPTH and (into_mails or _media_type(payload) != mail_threads.THREAD_TYPE):
        for part in _children(payload):
            if isinstance(part, dict):
                yield from iter_parts(part, depth + 1, into_mails=into_mails)


def is_file(part: Entry) -> bool:
    """Check for an attachment, in contrast to a text or a container."""
    media_type = _media_type(part)
    if media_type.startswith("multipart/"):
        return False
    if part.get("filename") or media_type == mail_threads.THREAD_TYPE:
        return True
    is_attached = part_header(part, "Content-Disposition").lower().startswith("attachment")
    return media_type not in {"text/plain", "text/html"} or is_attached


def _is_inline(part: Entry) -> bool:
    disposition = part_header(part, "Content-Disposition").lower()
    is_referenced = bool(part_header(part, "Content-ID"))
    return disposition.startswith("inline") or (is_referenced and "attach" not in disposition)


def _payload(entry: Entry) -> Entry:
    payload = entry.get("payload")
    return payload if isinstance(payload, dict) else {}


def _children(part: Entry) -> list[Any]:
    parts = part.get("parts")
    return parts if isinstance(parts, list) else []


def _body(part: Entry) -> Mapping[str, Any]:
    """Return a body with content or an attachment id, else {}."""
    body = part.get("body")
    return body if isinstance(body, dict) and (body.get("data") or body.get("attachmentId")) else {}


def _media_type(part: Entry) -> str:
    return str(part.get("mimeType") or "").partition(";")[0].strip().lower()


def _charset(part: Entry) -> str:
    return decoding.read_charset(part_header(part, "Content-Type"))
