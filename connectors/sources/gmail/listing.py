"""Listing of a mailbox: all threads, or those with changes.

all threads ──▶ changes since a record ──▶ changes since a record ──▶ …
    ▲                   │
    └───────────────────┘   expired record, deleted label, unexplained missing thread, or a week
"""

# developers.google.com/workspace/gmail/api/guides/sync: the record is read before the threads, and 404 for a record
# calls for all threads again. A renamed label is in no record: its threads are read.

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connectors.google.transport import NotFound, iterate_pages
from connectors.sources.gmail import content
from connectors.sources.gmail.client import GMAIL_API, Gmail, HistoryExpired
from connectors.sources.gmail.labels import LEFT_OUT, Labels
from connectors.sources.gmail.threads import Thread, read_label_ids
from retrieval.errors import Fatal, Skippable
from retrieval.ports import Page, SourceItem

FULL_LISTING_SECONDS: Final = 7 * 24 * 3600
THREADS_PER_PAGE: Final = 100
RETIRED_MESSAGE: Final = (
    "Gmail no longer answers for items of the account: it does not find its mailbox, or the threads that it lists."
    " Nothing was removed or hidden. Update the retrieval service, or check that the account still has a mailbox."
)


@dataclass(slots=True)
class MailCursor:
    """Stored position. `last_id`: thread, for an unfinished listing; `until`: next `since`, for that of changes."""

    # Names of fields are keys of stored cursors. `begun` is a time in seconds; `is_first`: no thread was known before.
    begun: int
    since: str
    marks: dict[str, int] = field(default_factory=dict)
    chosen: str = ""
    last_id: str = ""
    until: str = ""
    is_first: bool = False

    @classmethod
    def parse(cls, cursor: str | None, chosen: str) -> MailCursor | None:
        """Parse a cursor; None if missing, invalid or of another selection."""
        with suppress(ValueError, TypeError):
            position = cls(**json.loads(cursor or "null"))
            return position if position.chosen == chosen else None
        return None

    def __str__(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @property
    def is_old(self) -> bool:
        return time.time() - self.begun > FULL_LISTING_SECONDS


class Unlistable(Exception):
    """The changes cannot be told apart: everything is to be listed."""


@dataclass(frozen=True, slots=True)
class MailListing:
    """One listing of a mailbox."""

    gmail: Gmail
    labels: Labels
    chosen: str
    max_bytes: int

    def pages(self, position: MailCursor | None) -> Iterator[Page[SourceItem]]:
        """Implement `Connector.iter_changes`."""
        if position is not None and position.last_id and not position.until:
            yield from self._list_all(position)
            return
        if position is not None and (position.until or not position.is_old):
            with suppress(Unlistable):
                yield from self._list_changes(position)
                return
        since = self._read_record()
        marks = self.labels.marks
        yield from self._list_all(MailCursor(int(time.time()), since, marks, self.chosen, is_first=position is None))

    def _read_record(self) -> str:
        """Return the current record of the mailbox."""
        try:
            record = self.gmail.read_profile().get("historyId")
        except NotFound:
            raise Fatal(RETIRED_MESSAGE) from None
        if not isinstance(record, str):
            raise GMAIL_API.senseless_answer()
        return record

    def _list_all(self, position: MailCursor) -> Iterator[Page[SourceItem]]:
        """List all threads by id, from the one behind `last_id`."""
        ids = {name for label in self.labels.listed_ids for name in self._list_ids(label)}
        # Texts come with the first listing, and are requested for changed threads only later.
        with_text = position.is_first and not self.labels.choice
        end = replace(position, last_id="", is_first=False)
        for part, is_last in _split(sorted(name for name in ids if name > position.last_id)):
            with tempfile.TemporaryDirectory(prefix="listed-") as folder:
                items = [item for item in self._read_items(part, folder, with_text=with_text).values() if item]
                if part and not items:
                    raise Fatal(RETIRED_MESSAGE)
                present = [item for item in items if not item.deleted]
                cursor = end if is_last else replace(position, last_id=part[-1])
                yield Page(present, str(cursor), done=is_last, whole=is_last)

    def _list_changes(self, position: MailCursor) -> Iterator[Page[SourceItem]]:
        """List the threads with changes. Unlistable if not all can be named."""
        marks = self.labels.marks
        if not position.marks.keys() <= marks.keys():
            raise Unlistable
        changed, erased, last_record = self._read_history(position.since)
        for name, mark in position.marks.items():
            if marks[name] != mark:
                changed.update(self._list_ids(name))
        # Changes after the first page's record are listed again by the next run.
        until = position.until or last_record
        end = replace(position, since=until, marks=marks, last_id="", until="")
        for part, is_last in _split(sorted(name for name in changed if name > position.last_id)):
            with tempfile.TemporaryDirectory(prefix="listed-") as folder:
                items = self._read_items(part, folder, with_text=not self.labels.choice)
                if any(item is None and name not in erased for name, item in items.items()):
                    raise Unlistable
                changes = [item or SourceItem(name, "", deleted=True) for name, item in items.items()]
                cursor = end if is_last else replace(position, last_id=part[-1], until=until)
                yield Page(changes, str(cursor), done=is_last)

    def _read_items(self, thread_ids: Sequence[str], folder: str, *, with_text: bool) -> dict[str, SourceItem | None]:
        """Read threads by id, with their texts if these need no further request; None for a missing one."""
        items = dict[str, SourceItem | None]()
        for name, answer in self.gmail.read_threads(thread_ids, with_text=with_text).items():
            thread = Thread.read(name, answer) if answer is not None else None
            items[name] = thread.make_item(self.labels) if thread else None
            if with_text and thread and thread.messages and not content.has_files(thread):
                with suppress(Skippable):  # too large, as the run will find out
                    raw = content.write_content(self.gmail, self.labels, thread, Path(folder) / name, self.max_bytes)
                    items[name] = replace(thread.make_item(self.labels), content=raw)
        return items

    def _list_ids(self, label: str) -> Iterator[str]:
        """Yield the ids of a label's threads, or for "" of all."""
        for answer in iterate_pages(GMAIL_API.title, lambda page: self.gmail.list_threads(label, page)):
            for entry in answer["threads"]:
                if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
                    raise GMAIL_API.senseless_answer()
                yield entry["id"]

    def _read_history(self, since: str) -> tuple[set[str], set[str], str]:
        """Return the threads with changes, those with erased messages, and the last record."""
        changed, erased, last_record = set[str](), set[str](), since
        relevant = LEFT_OUT | self.labels.by_id.keys()
        try:
            for answer in iterate_pages(GMAIL_API.title, lambda page: self.gmail.list_history(since, page)):
                last_record = answer["historyId"]
                for record in answer.get("history", []):
                    for name in ("labelsAdded", "labelsRemoved"):
                        # A mail that was read changes its label UNREAD.
                        changes = [change for change in record.get(name, []) if relevant & set(read_label_ids(change))]
                        changed |= _thread_ids(changes)
                    added = record.get("messagesAdded", [])
                    changed |= _thread_ids(
                        [entry for entry in added if "DRAFT" not in read_label_ids(entry["message"])]
                    )
                    erased |= _thread_ids(record.get("messagesDeleted", []))
        except HistoryExpired:
            raise Unlistable from None
        except (LookupError, TypeError, AttributeError):
            raise GMAIL_API.senseless_answer() from None
        return changed | erased, erased, last_record


def _thread_ids(changes: Sequence[Mapping[str, Any]]) -> set[str]:
    return {str(change["message"]["threadId"]) for change in changes}


def _split(thread_ids: Sequence[str]) -> Iterator[tuple[Sequence[str], bool]]:
    """Yield the ids of each page, and True for the last; at least one page."""
    for start in range(0, max(len(thread_ids), 1), THREADS_PER_PAGE):
        yield thread_ids[start : start + THREADS_PER_PAGE], start + THREADS_PER_PAGE >= len(thread_ids)
