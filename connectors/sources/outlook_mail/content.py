"""Text and files of a thread."""

# learn.microsoft.com/graph/api/message-list-attachments, learn.microsoft.com/graph/api/attachment-get: `$value` is the
# content of a file, and the MIME of an attached mail; a reference is only a link.

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from connectors import mail_threads
from connectors.http import responses
from connectors.mail_threads import ThreadFile, ThreadMessage
from connectors.microsoft_graph.client import FILE_MISSING_MESSAGE, Graph, refusal
from connectors.sources.outlook_mail.folders import Folders, read_entries
from connectors.sources.outlook_mail.threads import LISTED_FIELDS, Entry, Thread, read_properties, text_of
from retrieval.errors import Skippable
from retrieval.ports import RawContent, TokenSource

READ_FIELDS: Final = f"{LISTED_FIELDS},from,toRecipients,ccRecipients,hasAttachments,body"
# Attachments of a thread that are read.
MAX_FILES: Final = 100
_KIND: Final = "@odata.type"
_REFERENCE: Final = "#microsoft.graph.referenceAttachment"
_MAIL: Final = "#microsoft.graph.itemAttachment"


def write_content(
    graph: Graph, tokens: TokenSource, folders: Folders, thread: Thread, to: Path, max_bytes: int
) -> RawContent:
    """Write the text and the files of a thread with READ_FIELDS."""
    messages = thread.read_messages(folders)
    item = thread.make_item(folders)
    reader = AttachmentReader(graph, tokens, max_bytes)
    for entry in messages:
        if entry.get("hasAttachments"):
            reader.read_message(entry)
    subject = text_of(messages[0], "subject").strip() or mail_threads.NO_SUBJECT
    texts = map(read_message, messages)
    size = mail_threads.write_thread(subject, texts, reader.files, reader.notices, to, max_bytes)
    properties = {
        **read_properties(messages, str(item.properties["path"])),
        "title": subject,
        "owner": read_message(messages[0]).sender,
    }
    filled_properties = {name: value for name, value in properties.items() if value}
    return RawContent(to, item.name, item.media_type, size, version=item.version, properties=filled_properties)


def read_message(entry: Entry) -> ThreadMessage:
    """Read a message, with its people."""
    sender = _address(entry.get("from"))
    receivers = [entry.get("toRecipients"), entry.get("ccRecipients")]
    people = [sender, *(_address(person) for group in receivers if isinstance(group, list) for person in group)]
    body = entry.get("body")
    text = text_of(body, "content") if isinstance(body, Mapping) else ""
    try:
        moment = datetime.fromisoformat(text_of(entry, "receivedDateTime"))
    except ValueError:
        moment = datetime.fromtimestamp(0, UTC)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    names = [mail_threads.name_person(name, address) for name, address in people]
    return ThreadMessage(sender[0] or sender[1], names, moment, text)


def _address(person: Any) -> tuple[str, str]:
    """Return name and address of a recipient."""
    address = person.get("emailAddress") if isinstance(person, Mapping) else None
    return (text_of(address, "name"), text_of(address, "address")) if isinstance(address, Mapping) else ("", "")


class AttachmentReader:
    """Reads the files of messages, up to `max_bytes`; `notices` name unreadable files."""

    def __init__(self, graph: Graph, tokens: TokenSource, max_bytes: int) -> None:
        self.files: list[ThreadFile] = []
        self.notices: list[str] = []
        self._graph, self._tokens = graph, tokens
        self._bytes_left = max_bytes

    def read_message(self, message: Entry) -> None:
        """Read the files of a message. Skippable for a message deleted since the listing."""
        message_path = f"/me/messages/{quote(message['id'], safe='')}/attachments"
        path = f"{message_path}?$select=id,name,contentType,size,isInline"
        cursors = responses.Cursors(f"{self._graph.title}'s list of attachments")
        while path:
            answer = self._graph.get(self._tokens, path)
            if answer.status != 200:
                raise refusal(answer.status, FILE_MISSING_MESSAGE)
            entries = read_entries(self._graph.title, answer)
            for entry in entries:
                self._add(entry, message_path)
            link = answer.body.get("@odata.nextLink")
            path = self._graph.path(link) if link else ""
            if path:
                cursors.follow(path, brought=bool(entries))

    def _add(self, entry: Entry, message_path: str) -> None:
        name = " ".join(text_of(entry, "name").replace("/", "-").split())[:200] or "attachment"
        kind = text_of(entry, "contentType").partition(";")[0].strip().lower()
        if entry.get("isInline") is True and kind.startswith("image/"):
            return
        if entry.get(_KIND) == _REFERENCE:
            self.notices.append(f"Attachment {name} was not read: It is a link to a file of a drive.")
            return
        try:
            data = self._download(entry, message_path)
        except Skippable as error:
            self.notices.append(f"Attachment {name} was not read: {error}")
        else:
            kind = mail_threads.THREAD_TYPE if entry.get(_KIND) == _MAIL else kind
            self.files.append(ThreadFile(name, kind, data))
            self._bytes_left -= len(data)

    def _download(self, entry: Entry, message_path: str) -> bytes:
        if len(self.files) == MAX_FILES:
            raise Skippable(f"More than {MAX_FILES} files are attached.")
        size = entry.get("size")
        if isinstance(size, int) and size > self._bytes_left:
            raise Skippable("With it the thread is too large.")
        path = f"{message_path}/{quote(entry['id'], safe='')}/$value"
        with tempfile.TemporaryDirectory(prefix="mail-") as folder:
            target = Path(folder) / "file"
            # Sizes of attachments include their headers.
            self._graph.call(self._tokens, lambda session: session.download(path, target, size=None))
            if target.stat().st_size > self._bytes_left:
                raise Skippable("With it the thread is too large.")
            return target.read_bytes()
