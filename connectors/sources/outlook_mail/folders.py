"""Folders of a mailbox: names, paths, and the folders to read."""

# learn.microsoft.com/graph/api/mailfolder-delta lists folders of all depths at once. Names are in the language of the
# mailbox: learn.microsoft.com/graph/api/resources/mailfolder has names for the folders that are left out.

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from connectors.http.responses import Cursors
from connectors.microsoft_graph.client import MISSING_STATUSES, Graph, GraphResponse
from retrieval.errors import Fatal, Retryable
from retrieval.ports import TokenSource
from retrieval.sync_filter import SyncFilter, SyncItem

FOLDERS_PATH: Final = "/me/mailFolders/delta?$select=id,displayName,parentFolderId,childFolderCount,totalItemCount"
# Folders whose mails are not read, nor those of their folders.
LEFT_OUT: Final = ("drafts", "junkemail", "deleteditems", "outbox", "syncissues")
_MAX_DEPTH: Final = 300


def closed_mailbox(title: str, status: int) -> Fatal:
    """Return the error for a mailbox that cannot be listed."""
    return Fatal(
        f"{title} refuses to list the account's mails (status {status}): the account has no mailbox of Exchange Online"
        " or Outlook.com, or the app lacks the permission Mail.Read."
    )


def read_entries(title: str, answer: GraphResponse) -> list[Mapping[str, Any]]:
    """Return the entries of a page. Retryable for an answer without them."""
    values = answer.body.get("value")
    if not isinstance(values, list):
        raise Retryable(f"{title}'s listing broke off: its answer holds no entries.")
    return [entry for entry in values if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


@dataclass(frozen=True, slots=True)
class Folder:
    """Folder of a mailbox. `path`: names from the top; `above`: ids of its folders, itself first."""

    id: str
    name: str
    path: str
    above: tuple[str, ...]
    mails: int
    has_children: bool

    @property
    def mark(self) -> int:
        """Number that changes with the path."""
        return zlib.crc32(self.path.encode())


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders of a mailbox by id, without left-out folders.

    `listed_ids`: folders with possibly chosen threads; `taken_ids`: chosen folders.
    """

    by_id: Mapping[str, Folder]
    listed_ids: frozenset[str]
    taken_ids: frozenset[str]
    # Ids of LEFT_OUT in this mailbox.
    left_out: tuple[str, ...] = ()


def read_folders(graph: Graph, tokens: TokenSource, choice: SyncFilter, left_out: tuple[str, ...] = ()) -> Folders:
    """Read all folders of the mailbox; `left_out`: ids from an earlier run. Fatal for a closed mailbox."""
    left_out = left_out or _read_left_out(graph, tokens)
    raw = _list_folders(graph, tokens)
    folders = {}
    for folder_id, entry in raw.items():
        chain = _chain(raw, folder_id)
        if not set(left_out).isdisjoint(chain):
            continue
        names = [str(raw[part].get("displayName") or "").replace("/", "-") for part in reversed(chain)]
        mails, children = entry.get("totalItemCount"), entry.get("childFolderCount")
        folders[folder_id] = Folder(
            folder_id,
            names[-1],
            "/".join(names),
            tuple(chain),
            mails if isinstance(mails, int) else 1,
            bool(mails or children),
        )
    taken_ids = {
        folder.id for folder in folders.values() if not choice.has_places or choice.takes_folder(_item(folder))
    }
    # Ids of threads lead to any folder.
    has_threads = any(name not in folders for name in choice.ids)
    may_hold = {folder.id for folder in folders.values() if choice.may_hold(_item(folder), ids=has_threads)}
    return Folders(folders, frozenset(taken_ids | may_hold), frozenset(taken_ids), left_out)


def _item(folder: Folder) -> SyncItem:
    return SyncItem(folder.id, folder.path, above=folder.above)


def _chain(raw: Mapping[str, Mapping[str, Any]], folder_id: str) -> list[str]:
    """Return the ids of a folder and its ancestors, without the mailbox's root."""
    chain = [folder_id]
    while (above := str(raw[chain[-1]].get("parentFolderId") or "")) in raw and above not in chain:
        chain.append(above)
        if len(chain) > _MAX_DEPTH:
            break
    return chain


def _list_folders(graph: Graph, tokens: TokenSource) -> dict[str, Mapping[str, Any]]:
    path, cursors, folders = FOLDERS_PATH, Cursors(f"{graph.title}'s list of folders"), dict[str, Mapping[str, Any]]()
    while True:
        answer = graph.get(tokens, path)
        if answer.status != 200:
            raise closed_mailbox(graph.title, answer.status)
        entries = read_entries(graph.title, answer)
        folders |= {entry["id"]: entry for entry in entries if "@removed" not in entry}
        if not (link := answer.body.get("@odata.nextLink")):
            return folders
        path = graph.path(link)
        cursors.follow(path, brought=bool(entries))


def _read_left_out(graph: Graph, tokens: TokenSource) -> tuple[str, ...]:
    ids = []
    for name in LEFT_OUT:
        answer = graph.get(tokens, f"/me/mailFolders/{quote(name)}?$select=id")
        if answer.status == 200 and isinstance(answer.body.get("id"), str):
            ids.append(answer.body["id"])
        elif answer.status not in MISSING_STATUSES:
            raise closed_mailbox(graph.title, answer.status)
    return tuple(ids)
