"""Labels of a mailbox as folders: paths, and the labels to read."""

# developers.google.com/workspace/gmail/api/guides/labels: a slash in a name nests labels, and a thread shows the labels
# of all its messages.

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter, SyncItem

# Messages with one of these are not read.
LEFT_OUT: Final = frozenset({"TRASH", "SPAM", "DRAFT", "CHAT"})
# Labels of Gmail's own that are folders; others, such as UNREAD, are states of a mail.
_SYSTEM_PATHS: Final = {
    "INBOX": "Inbox",
    "SENT": "Sent",
    "STARRED": "Starred",
    "IMPORTANT": "Important",
    "CATEGORY_PERSONAL": "Categories/Primary",
    "CATEGORY_SOCIAL": "Categories/Social",
    "CATEGORY_PROMOTIONS": "Categories/Promotions",
    "CATEGORY_UPDATES": "Categories/Updates",
    "CATEGORY_FORUMS": "Categories/Forums",
}
_RANKED: Final = ("INBOX", "SENT")
# Path of threads without such a label.
ARCHIVE_PATH: Final = "All mail"


@dataclass(frozen=True, slots=True)
class Label:
    """Label of a mailbox. `above`: ids from this label to the outermost."""

    id: str
    path: str
    above: tuple[str, ...]

    @property
    def name(self) -> str:
        """Part of the path below the next label above."""
        return self.path.rpartition("/")[2]

    @property
    def item(self) -> SyncItem:
        return SyncItem(self.id, self.path, above=self.above)


@dataclass(frozen=True)
class Labels:
    """Labels of a mailbox by id, in order of precedence for a thread's path."""

    by_id: Mapping[str, Label]
    choice: SyncFilter = SYNC_EVERYTHING

    @property
    def marks(self) -> dict[str, int]:
        """Checksums of paths by label id."""
        return {label.id: zlib.crc32(label.path.encode("utf-8", "replace")) for label in self.by_id.values()}

    @cached_property
    def excluded_ids(self) -> frozenset[str]:
        """Labels whose threads are left out, whatever other labels they have."""
        excluded = SyncFilter(exclude=self.choice.exclude)
        return frozenset(label.id for label in self.by_id.values() if not excluded.takes_folder(label.item))

    @cached_property
    def taken_ids(self) -> frozenset[str]:
        """Labels that are chosen themselves."""
        return frozenset(label.id for label in self.by_id.values() if self.choice.takes_folder(label.item))

    @cached_property
    def listed_ids(self) -> tuple[str, ...]:
        """Labels to list, "" for the mailbox."""
        has_threads = any(name not in self.by_id for name in self.choice.ids)
        has_types = any("mimeType" in entry for entry in self.choice.include)
        may_be_unlabelled = self.choice.may_hold(SyncItem("", ARCHIVE_PATH), ids=has_threads)
        if not self.choice.include or has_threads or has_types or may_be_unlabelled:
            return ("",)
        may_hold = (label.id for label in self.by_id.values() if self.choice.may_hold(label.item, ids=False))
        return tuple(sorted({*self.taken_ids, *may_hold}))

    def lists(self, label_ids: Iterable[str]) -> bool:
        """Check for a thread that a listing names."""
        return "" in self.listed_ids or not set(self.listed_ids).isdisjoint(label_ids)

    def locate(self, label_ids: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        """Return path and ids of the folders of a thread: of an excluded label, else a chosen one, else the first."""
        ids = set(label_ids)
        labels = [label for label in self.by_id.values() if label.id in ids]
        # Of a thread with several labels the choice sees one path.
        labels.sort(key=lambda label: (label.id not in self.excluded_ids, label.id not in self.taken_ids))
        above = tuple(dict.fromkeys(name for label in labels for name in label.above))
        return (labels[0].path if labels else ARCHIVE_PATH), above


def make_labels(entries: Iterable[Mapping[str, Any]], choice: SyncFilter) -> Labels:
    """Return the labels of an answer."""
    paths = {}
    for entry in entries:
        path = _SYSTEM_PATHS.get(entry["id"]) if entry.get("type") == "system" else str(entry.get("name") or "")
        if path:
            paths[entry["id"]] = path
    ids = {path: label_id for label_id, path in paths.items()}
    labels = [Label(label_id, path, _above(path, ids)) for label_id, path in paths.items()]
    labels.sort(key=_rank)
    return Labels({label.id: label for label in labels}, choice)


def _above(path: str, ids: Mapping[str, str]) -> tuple[str, ...]:
    parts = path.split("/")
    prefixes = ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
    return tuple(ids[prefix] for prefix in prefixes if prefix in ids)


def _rank(label: Label) -> tuple[int, str]:
    """Return the order of labels: own ones, inbox and sent, others of Gmail's."""
    if label.id in _RANKED:
        return 1 + _RANKED.index(label.id), label.path
    return (4 if label.id in _SYSTEM_PATHS else 0), label.path
