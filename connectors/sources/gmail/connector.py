"""Gmail connector: threads of the mailbox of the person who signs in, or of a person of an organization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from connectors.google import auth
from connectors.google.transport import HttpPool, NotFound
from connectors.http.oauth import OAuth
from connectors.sources.gmail import INFO, content
from connectors.sources.gmail.client import GMAIL_API, Gmail
from connectors.sources.gmail.labels import Label, Labels, make_labels
from connectors.sources.gmail.listing import MailCursor, MailListing
from connectors.sources.gmail.threads import Thread
from retrieval.errors import ItemMissing, Skippable
from retrieval.ports import Authorizer, FolderEntry, FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter

CONNECTOR_NAME: Final = GMAIL_API.name
READ_SCOPE: Final = "https://www.googleapis.com/auth/gmail.readonly"
BROWSED_THREADS: Final = 100
OWNER_UNKNOWN_MESSAGE: Final = "Gmail does not name the owner of the mailbox."
LABEL_MISSING_MESSAGE: Final = "There is no such label in Gmail."
THREAD_MISSING_MESSAGE: Final = "The thread has no mails any more outside of drafts, spam and trash."


def make(app: Mapping[str, Any], settings: Settings) -> Mailbox:
    """Return the connector of a namespace's app."""
    flow = auth.make_oauth(CONNECTOR_NAME, INFO.title, app, settings, scope=READ_SCOPE, more="https://mail.google.com/")
    return make_mailbox(flow, settings)


def make_mailbox(authorizer: Authorizer | OAuth, settings: Settings) -> Mailbox:
    return Mailbox(authorizer, HttpPool(GMAIL_API, settings.endpoints.get(CONNECTOR_NAME)), settings.max_file_bytes)


@dataclass(frozen=True, slots=True)
class Mailbox:
    """`Connector` of Gmail. External ids are those of threads. `owner`: address of a person of an organization."""

    has_one_access_list: ClassVar[Literal[True]] = True
    authorizer: Authorizer
    pool: HttpPool
    max_file_bytes: int
    choice: SyncFilter = SYNC_EVERYTHING
    owner: str = ""
    # Read once in a step of a run, by connection.
    labels: dict[str, Labels] = field(default_factory=dict)
    owners: dict[str, SourceAccess] = field(default_factory=dict)

    def with_choice(self, choice: SyncFilter) -> Mailbox:
        return replace(self, choice=choice, labels={})

    def with_owner(self, owner: str) -> Mailbox:
        """Return the connector of a person's mailbox."""
        return replace(self, owner=owner, labels={}, owners={})

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        gmail = self._open(tokens)
        labels = self.labels[tokens.connection_id] = make_labels(gmail.list_labels(), self.choice)
        listing = MailListing(gmail, labels, self.choice.mark, self.max_file_bytes)
        yield from listing.pages(MailCursor.parse(cursor, self.choice.mark))

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        gmail, labels = self._open(tokens), self._read_labels(tokens)
        if parent is None:
            return FolderPage([_entry(label, labels) for label in labels.by_id.values() if len(label.above) == 1])
        if parent not in labels.by_id:
            raise Skippable(LABEL_MISSING_MESSAGE)
        answer = gmail.list_threads(parent, cursor, BROWSED_THREADS)
        answers = gmail.read_threads([entry["id"] for entry in answer["threads"]])
        threads = [Thread.read(name, thread) for name, thread in answers.items() if thread is not None]
        children = [label for label in labels.by_id.values() if label.above[1:2] == (parent,)]
        entries = [] if cursor else [_entry(label, labels) for label in children]
        entries += [_thread_entry(thread.make_item(labels)) for thread in threads if thread.messages]
        return FolderPage(entries, answer.get("nextPageToken"))

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:  # noqa: ARG002 (all of a mailbox alike)
        """Return the access list of the mailbox: its owner."""
        if self.owner:
            return SourceAccess((self.owner,))
        if tokens.connection_id not in self.owners:
            address = self._open(tokens).read_profile()["emailAddress"]
            if "@" not in address:
                raise Skippable(OWNER_UNKNOWN_MESSAGE)
            self.owners[tokens.connection_id] = SourceAccess((address,))
        return self.owners[tokens.connection_id]

    def version(self, tokens: TokenSource, external_id: str) -> str:
        try:
            return self._read_thread(tokens, external_id).make_item(self._read_labels(tokens)).version
        except Skippable:
            return ""

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        labels, thread = self._read_labels(tokens), self._read_thread(tokens, item.external_id, with_text=True)
        if not thread.messages:
            raise ItemMissing(THREAD_MISSING_MESSAGE)
        return content.write_content(self._open(tokens), labels, thread, to, self.max_file_bytes)

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        """Return True for a thread without messages outside of drafts, spam and trash, or without a chosen label."""
        try:
            thread = self._read_thread(tokens, external_id)
            return not thread.messages or (bool(self.choice) and not self._read_labels(tokens).lists(thread.label_ids))
        except NotFound:
            return True
        except Skippable:
            return False

    def _open(self, tokens: TokenSource) -> Gmail:
        return Gmail(self.pool, tokens, self.owner)

    def _read_labels(self, tokens: TokenSource) -> Labels:
        if tokens.connection_id not in self.labels:
            self.labels[tokens.connection_id] = make_labels(self._open(tokens).list_labels(), self.choice)
        return self.labels[tokens.connection_id]

    def _read_thread(self, tokens: TokenSource, thread_id: str, *, with_text: bool = False) -> Thread:
        return Thread.read(thread_id, self._open(tokens).read_thread(thread_id, with_text=with_text))


def _entry(label: Label, labels: Labels) -> FolderEntry:
    # Gmail does not report whether a label has threads.
    above = label.above[1:]
    name = label.path.removeprefix(f"{labels.by_id[above[0]].path}/") if above else label.path
    return FolderEntry(label.id, name, is_folder=True, path=label.path, has_children=True, above=above)


def _thread_entry(item: SourceItem) -> FolderEntry:
    return FolderEntry(
        item.external_id,
        item.name,
        is_folder=False,
        path=str(item.properties["path"]),
        media_type=item.media_type,
        modified_at=str(item.properties["modifiedAt"]),
        above=item.above,
    )
