"""Outlook mail connector: threads of the mailbox of the person who signs in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal
from urllib.parse import quote

from connectors.http.oauth import OAuth
from connectors.microsoft_graph import auth, subscriptions
from connectors.microsoft_graph.client import FILE_MISSING_MESSAGE, Graph, refusal
from connectors.microsoft_graph.items import FOLDER_MISSING_MESSAGE
from connectors.sources.outlook_mail import INFO, content, threads
from connectors.sources.outlook_mail.folders import Folder, Folders, read_entries, read_folders
from connectors.sources.outlook_mail.listing import MailCursor, MailListing
from retrieval.errors import ItemMissing, Skippable
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.ports.sources import Subscription
from retrieval.settings import Settings
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter

CONNECTOR_NAME: Final = "OUTLOOK_MAIL"
CONNECTOR_TITLE: Final = INFO.title
# Mails as text, ids that stay when a mail moves, and large pages of changes.
PREFERENCES: Final = 'IdType="ImmutableId", outlook.body-content-type="text", odata.maxpagesize=500'
OWNER_PATH: Final = "/me?$select=mail,userPrincipalName"
BROWSED_MAILS: Final = 100
OWNER_UNKNOWN_MESSAGE: Final = (
    f"{CONNECTOR_TITLE} does not name the owner of the mailbox: allow the app User.Read, and authorize the connection"
    " again."
)


def make(app: Mapping[str, Any], settings: Settings) -> OutlookMail:
    """Return the connector of a namespace's app."""
    flow = auth.make_oauth(
        CONNECTOR_NAME,
        CONNECTOR_TITLE,
        app,
        settings,
        scope="Mail.Read User.Read",
        more="Mail.ReadWrite",
        tenant="common",
    )
    graph = Graph(CONNECTOR_NAME, CONNECTOR_TITLE, settings, prefer=PREFERENCES)
    return OutlookMail(flow, graph, settings.max_file_bytes)


@dataclass(frozen=True, slots=True)
class OutlookMail:
    """`Connector` of Outlook mail. External ids are those of conversations."""

    has_one_access_list: ClassVar[Literal[True]] = True
    authorizer: OAuth
    graph: Graph
    max_file_bytes: int
    choice: SyncFilter = SYNC_EVERYTHING
    # Read once in a step of a run, by connection.
    folders: dict[str, Folders] = field(default_factory=dict)
    owners: dict[str, SourceAccess] = field(default_factory=dict)

    def with_choice(self, choice: SyncFilter) -> OutlookMail:
        return replace(self, choice=choice, folders={})

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        position = MailCursor.parse(cursor, self.choice.mark)
        left_out = tuple(position.left_out) if position else ()
        folders = self.folders[tokens.connection_id] = read_folders(self.graph, tokens, self.choice, left_out)
        return MailListing(self.graph, tokens, folders, self.choice.mark).pages(position)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        folders = self._read_folders(tokens)
        if parent is None:
            return FolderPage([_entry(folder) for folder in folders.by_id.values() if len(folder.above) == 1])
        if parent not in folders.by_id:
            raise Skippable(FOLDER_MISSING_MESSAGE)
        children = [folder for folder in folders.by_id.values() if folder.above[1:2] == (parent,)]
        fields = f"$select={threads.LISTED_FIELDS}&$top={BROWSED_MAILS}"
        answer = self.graph.get(tokens, cursor or f"/me/mailFolders/{quote(parent, safe='')}/messages?{fields}")
        if answer.status != 200:
            raise Skippable(FOLDER_MISSING_MESSAGE)
        mails = threads.group_threads(read_entries(self.graph.title, answer), folders)
        link = answer.body.get("@odata.nextLink")
        entries = [] if cursor else [_entry(folder) for folder in children]
        entries += [_thread_entry(thread.make_item(folders)) for thread in mails.values()]
        return FolderPage(entries, self.graph.path(link) if link else None)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:  # noqa: ARG002 (all of a mailbox alike)
        """Return the access list of the mailbox: its owner."""
        if tokens.connection_id not in self.owners:
            answer = self.graph.get(tokens, OWNER_PATH)
            names = [threads.text_of(answer.body, name) for name in ("mail", "userPrincipalName")]
            addresses = tuple(dict.fromkeys(name for name in names if "@" in name))
            if answer.status != 200 or not addresses:
                raise refusal(answer.status, OWNER_UNKNOWN_MESSAGE)
            self.owners[tokens.connection_id] = SourceAccess(addresses)
        return self.owners[tokens.connection_id]

    def version(self, tokens: TokenSource, external_id: str) -> str:
        folders = self._read_folders(tokens)
        with suppress(ItemMissing):
            return threads.read_thread(self.graph, tokens, folders, external_id).make_item(folders).version
        return ""

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        folders = self._read_folders(tokens)
        thread = threads.read_thread(self.graph, tokens, folders, item.external_id, content.READ_FIELDS)
        if not thread.messages:
            raise ItemMissing(FILE_MISSING_MESSAGE)
        return content.write_content(self.graph, tokens, folders, thread, to, self.max_file_bytes)

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        """Return True for a thread without messages outside of drafts, junk and deleted mails."""
        folders = self._read_folders(tokens)
        with suppress(ItemMissing):
            return not threads.read_thread(self.graph, tokens, folders, external_id).messages
        return True

    def subscribe(self, tokens: TokenSource, address: str, secret: str, state: str | None) -> Subscription:
        return subscriptions.subscribe(self.graph, tokens, subscriptions.MAILBOX, address, secret, state)

    def unsubscribe(self, tokens: TokenSource, state: str) -> None:
        subscriptions.unsubscribe(self.graph, tokens, state)

    def _read_folders(self, tokens: TokenSource) -> Folders:
        if tokens.connection_id not in self.folders:
            self.folders[tokens.connection_id] = read_folders(self.graph, tokens, self.choice)
        return self.folders[tokens.connection_id]


def _entry(folder: Folder) -> FolderEntry:
    return FolderEntry(
        folder.id,
        folder.name,
        is_folder=True,
        path=folder.path,
        has_children=folder.has_children,
        above=folder.above[1:],
    )


def _thread_entry(item: SourceItem) -> FolderEntry:
    properties = item.properties
    return FolderEntry(
        item.external_id,
        item.name,
        is_folder=False,
        path=str(properties["path"]),
        media_type=item.media_type,
        modified_at=str(properties.get("modifiedAt") or "") or None,
        above=item.above,
    )
