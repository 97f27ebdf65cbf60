"""Threads of a mailbox: their messages, version and place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from connectors import mail_threads
from connectors.http.responses import Cursors
from connectors.microsoft_graph.client import FILE_MISSING_MESSAGE, MISSING_STATUSES, Graph
from connectors.sources.outlook_mail.folders import Folders, closed_mailbox, read_entries
from retrieval.errors import ItemMissing, Retryable
from retrieval.ports import SourceItem, TokenSource

LISTED_FIELDS: Final = "id,conversationId,subject,receivedDateTime,isDraft,parentFolderId,webLink"
# Messages of a thread that one request returns.
MESSAGES_PER_PAGE: Final = 50

Entry = Mapping[str, Any]


def text_of(entry: Entry, name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""


@dataclass(slots=True)
class Thread:
    """Messages of a conversation outside of drafts and folders that are left out."""

    id: str
    messages: dict[str, Entry] = field(default_factory=dict)

    def add(self, entry: Entry, folders: Folders) -> None:
        if entry.get("isDraft") is not True and entry.get("parentFolderId") in folders.listed_ids:
            self.messages[entry["id"]] = entry

    def read_messages(self, folders: Folders) -> list[Entry]:
        """Return the messages to read from the oldest: those of chosen folders, or all if the thread itself is."""
        taken_messages = [entry for entry in self.messages.values() if entry["parentFolderId"] in folders.taken_ids]
        return sorted(taken_messages or self.messages.values(), key=lambda entry: text_of(entry, "receivedDateTime"))

    def make_item(self, folders: Folders) -> SourceItem:
        """Return the item of a thread; a deleted one without messages."""
        messages = self.read_messages(folders)
        if not messages:
            return SourceItem(self.id, "", deleted=True)
        subject = text_of(messages[0], "subject")
        name = mail_threads.clean_subject(subject)
        folder = folders.by_id[messages[-1]["parentFolderId"]]
        version = mail_threads.thread_version(subject, (entry["id"] for entry in messages))
        properties = read_properties(messages, f"{folder.path}/{name}")
        return SourceItem(self.id, name, mail_threads.THREAD_TYPE, version, properties=properties, above=folder.above)


def read_properties(messages: Sequence[Entry], path: str) -> dict[str, str | int]:
    """Return the properties of a thread under the contract's names."""
    fields = {
        "url": text_of(messages[-1], "webLink"),
        "path": path,
        "createdAt": text_of(messages[0], "receivedDateTime"),
        "modifiedAt": text_of(messages[-1], "receivedDateTime"),
    }
    return {name: value for name, value in fields.items() if value}


def read_thread(
    graph: Graph, tokens: TokenSource, folders: Folders, thread_id: str, fields: str = LISTED_FIELDS
) -> Thread:
    """Read the messages of a thread. ItemMissing for 404 and 410, Fatal for a closed mailbox."""
    condition = quote(f"conversationId eq '{thread_id.replace(chr(39), chr(39) * 2)}'", safe="")
    path = f"/me/messages?$filter={condition}&$select={fields}&$top={MESSAGES_PER_PAGE}"
    thread, cursors = Thread(thread_id), Cursors(f"{graph.title}'s list of a thread")
    while True:
        answer = graph.get(tokens, path)
        if answer.status in MISSING_STATUSES:
            raise ItemMissing(FILE_MISSING_MESSAGE)
        if answer.status != 200:
            raise closed_mailbox(graph.title, answer.status)
        entries = read_entries(graph.title, answer)
        for entry in entries:
            thread.add(entry, folders)
        if not (link := answer.body.get("@odata.nextLink")):
            return thread
        path = graph.path(link)
        cursors.follow(path, brought=bool(entries))


def find_thread_id(graph: Graph, tokens: TokenSource, message_id: str) -> str:
    """Return the thread of a message in any folder; "" for a message that is no longer there."""
    answer = graph.get(tokens, f"/me/messages/{quote(message_id, safe='')}?$select=id,conversationId")
    if answer.status == 200:
        return text_of(answer.body, "conversationId")
    if answer.status not in MISSING_STATUSES:
        raise Retryable(f"{graph.title} did not report whether a mail exists (status {answer.status}).")
    return ""


def group_threads(entries: Iterable[Entry], folders: Folders) -> dict[str, Thread]:
    """Return threads by id."""
    threads = dict[str, Thread]()
    for entry in entries:
        if thread_id := text_of(entry, "conversationId"):
            threads.setdefault(thread_id, Thread(thread_id)).add(entry, folders)
    return {thread_id: thread for thread_id, thread in threads.items() if thread.messages}
