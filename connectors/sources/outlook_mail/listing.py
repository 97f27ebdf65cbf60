"""Listing of a mailbox: all threads, or those with changed messages.

all threads ──▶ changes of each folder ──▶ changes of each folder ──▶ …
    ▲                   │
    └───────────────────┘   expired position, erased mail, moved folder, many changes, or a week
"""

# A page of changes names messages of one folder, and a removed message by its id only
# (learn.microsoft.com/graph/api/message-delta). Ids stay when a mail moves
# (learn.microsoft.com/graph/outlook-immutable-id): its new folder names it, or its id leads to its thread. Only an
# erased mail leads nowhere, and everything is listed again.

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Final
from urllib.parse import quote

from connectors.http.responses import Cursors
from connectors.microsoft_graph.client import Graph
from connectors.sources.outlook_mail import threads
from connectors.sources.outlook_mail.folders import Folder, Folders, closed_mailbox, read_entries
from connectors.sources.outlook_mail.threads import Entry
from retrieval.errors import ItemMissing
from retrieval.ports import Page, SourceItem, TokenSource

FULL_LISTING_SECONDS: Final = 7 * 24 * 3600
THREADS_PER_PAGE: Final = 500
# With more changed threads, a listing of everything takes fewer requests.
MAX_CHANGED_THREADS: Final = 200
_EXPIRED_STATUSES: Final = frozenset({400, 404, 410})


@dataclass(slots=True)
class MailCursor:
    """Stored position: paths of the next changes and marks by folder; `last_id`: thread, for an unfinished listing."""

    # Names of fields are keys of stored cursors. `begun` is a time in seconds.
    begun: int
    places: dict[str, str] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    chosen: str = ""
    last_id: str = ""

    @classmethod
    def parse(cls, cursor: str | None, chosen: str) -> MailCursor | None:
        """Parse a cursor; None if missing, invalid, old or of another selection."""
        with suppress(ValueError, TypeError):
            position = cls(**json.loads(cursor or "null"))
            is_old = not position.last_id and time.time() - position.begun > FULL_LISTING_SECONDS
            return None if is_old or position.chosen != chosen else position
        return None

    def __str__(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


class Unlistable(Exception):
    """The changes cannot be told apart: everything is to be listed."""


@dataclass(frozen=True, slots=True)
class MailListing:
    """One listing of a mailbox."""

    graph: Graph
    tokens: TokenSource
    folders: Folders
    chosen: str

    def pages(self, position: MailCursor | None) -> Iterator[Page[SourceItem]]:
        """Implement `Connector.iter_changes`."""
        if position is not None and not position.last_id:
            with suppress(Unlistable):
                yield self._read_changes(position)
                return
            position = None
        yield from self._list_all(
            position.last_id if position else "", position.begun if position else int(time.time())
        )

    def _list_all(self, last_id: str, begun: int) -> Iterator[Page[SourceItem]]:
        """List all threads by id, from the one behind `last_id`."""
        places, entries = dict[str, str](), list[Entry]()
        for folder in self._listed_folders():
            for entry in self._iter_messages(folder, _start(folder), places):
                entries.append(entry)
        by_id = threads.group_threads(entries, self.folders)
        ids = sorted(thread_id for thread_id in by_id if thread_id > last_id)
        for start in range(0, len(ids), THREADS_PER_PAGE):
            part = ids[start : start + THREADS_PER_PAGE]
            items = [by_id[thread_id].make_item(self.folders) for thread_id in part]
            if done := start + len(part) == len(ids):
                yield Page(items, str(self._cursor(begun, places)), done, whole=True)
            else:
                yield Page(items, str(self._cursor(begun, {}, last_id=part[-1])), done)
        if not ids:
            yield Page([], str(self._cursor(begun, places)), done=True, whole=True)

    def _read_changes(self, position: MailCursor) -> Page[SourceItem]:
        """Return the threads with changes. Unlistable if not all can be named."""
        folders = {folder.id: folder for folder in self._listed_folders(position)}
        marks = {folder_id: folder.mark for folder_id, folder in self.folders.by_id.items()}
        if any(marks.get(folder_id) != mark for folder_id, mark in position.marks.items()):
            raise Unlistable
        places, changed_ids, message_ids = dict[str, str](), set[str](), set[str]()
        for folder in folders.values():
            start_path = position.places.get(folder.id) or _start(folder)
            for entry in self._iter_messages(folder, start_path, places):
                thread_id = threads.text_of(entry, "conversationId")
                (changed_ids.add(thread_id) if thread_id else message_ids.add(entry["id"]))
                if len(changed_ids) + len(message_ids) > MAX_CHANGED_THREADS:
                    raise Unlistable
        for message_id in message_ids:
            thread_id = threads.find_thread_id(self.graph, self.tokens, message_id)
            if not thread_id:
                raise Unlistable
            changed_ids.add(thread_id)
        try:
            changed = [threads.read_thread(self.graph, self.tokens, self.folders, name) for name in sorted(changed_ids)]
        except ItemMissing:  # Microsoft answers for a thread without messages, too
            raise Unlistable from None
        items = [thread.make_item(self.folders) for thread in changed]
        return Page(items, str(self._cursor(position.begun, places)), done=True)

    def _listed_folders(self, position: MailCursor | None = None) -> list[Folder]:
        """Return the folders to list; an empty one without a position has nothing to list."""
        known_ids = position.places if position else {}
        listed_folders = [self.folders.by_id[folder_id] for folder_id in sorted(self.folders.listed_ids)]
        return [folder for folder in listed_folders if folder.mails or folder.id in known_ids]

    def _iter_messages(self, folder: Folder, path: str, places: dict[str, str]) -> Iterator[Entry]:
        """Yield messages of a folder's pages from `path`, and record the next place. Unlistable for an expired one."""
        cursors = Cursors(f"{self.graph.title}'s listing")
        while True:
            answer = self.graph.get(self.tokens, path)
            if answer.status in _EXPIRED_STATUSES and path != _start(folder):
                raise Unlistable
            if answer.status in {404, 410}:  # deleted since the folders were listed
                return
            if answer.status != 200:
                raise closed_mailbox(self.graph.title, answer.status)
            entries = read_entries(self.graph.title, answer)
            yield from entries
            if not (link := answer.body.get("@odata.nextLink")):
                places[folder.id] = self.graph.path(answer.body.get("@odata.deltaLink"))
                return
            path = self.graph.path(link)
            cursors.follow(path, brought=bool(entries))

    def _cursor(self, begun: int, places: dict[str, str], last_id: str = "") -> MailCursor:
        marks = {folder_id: self.folders.by_id[folder_id].mark for folder_id in places}
        return MailCursor(begun, places, marks, list(self.folders.left_out), self.chosen, last_id)


def _start(folder: Folder) -> str:
    return f"/me/mailFolders/{quote(folder.id, safe='')}/messages/delta?$select={threads.LISTED_FIELDS}"
