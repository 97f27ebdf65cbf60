"""Connections over a whole organization: drives of people and teams, each with a listing of its own.

external id = <key of the part>/<id within the part>
"""

# Each part keeps its own cursor, so a run without changes costs a request or two per part. A part that cannot be
# opened is counted and keeps its documents; one that is gone, with its member, is listed as empty.

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self, cast

from connectors.http.no_authorizer import MissingApp
from retrieval.errors import Fatal, ItemMissing, Skippable, StepError
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, SourceAccess, SourceItem, Tokens, TokenSource
from retrieval.ports.sources import SelectiveConnector, SharedWorkspaceConnector
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter

if TYPE_CHECKING:
    from pathlib import Path

    from retrieval.ports import Authorizer, Connector
    from retrieval.ports.sources import BrowsableConnector, PermissionConnector, SubscribingConnector, Subscription

# Each part's cursor is saved with every page.
MAX_PARTS: Final = 5000
PARTS_PER_FOLDER_PAGE: Final = 200
# Access tokens are renewed this early.
RENEWAL_MARGIN: Final = timedelta(seconds=120)
# Parts that were not read are named in the results of a run, further ones are counted.
MAX_NAMED_PARTS: Final = 20
SKIPPED_PART: Final = "a drive that cannot be opened, such as of a suspended person"
CLOSED_REASON: Final = "the service refuses to open it"
SKIPPED_EXCESS_PART: Final = f"a drive beyond the first {MAX_PARTS}"
PART_MISSING_MESSAGE: Final = "The drive of this file no longer belongs to the organization."
PART_CLOSED_MESSAGE: Final = "The drive of this file cannot be opened now, for example since its owner is suspended."
NO_PUSH_MESSAGE: Final = (
    "A connection over a whole organization has no push: use syncIntervalMinutes, and turn push off."
)
NO_PARENT_MESSAGE: Final = "There is no such folder in the organization."


class PartUnavailable(Skippable):
    """The part exists, but cannot be opened now; the reason completes a sentence."""

    def __init__(self, reason: str = CLOSED_REASON) -> None:
        super().__init__(PART_CLOSED_MESSAGE)
        self.reason = reason


class CredentialsEnded(Exception):
    """The service no longer knows the credentials; the message advises."""


@dataclass(frozen=True, slots=True)
class Part:
    """Drive of a person or team. Paths get the prefix `name`, unless already prefixed (`is_named`)."""

    key: str
    name: str
    is_named: bool = False


class Organization(Protocol):
    """Parts of an organization, opened by its credentials."""

    def list_parts(self) -> Iterator[Part]: ...

    def find_part(self, key: str) -> Part | None:
        """Return a part; None for a deleted part."""
        ...

    def open_part(self, part: Part) -> tuple[Connector, TokenSource]:
        """Return the connector of a part and its tokens. Raises PartUnavailable."""
        ...


class MemberTokens:
    """`TokenSource` of an account accessed by the organization's credentials; access tokens stay in memory."""

    def __init__(self, connection: TokenSource, request_tokens: Callable[[], Tokens]) -> None:
        self.connection_id = connection.connection_id
        self._connection = connection
        self._request = request_tokens
        self._tokens: Tokens | None = None
        self._lock = Lock()

    def token(self) -> str:
        return self._current(lambda tokens: _ends_soon(tokens.expires_at))

    def renew(self, refused: str) -> str:
        return self._current(lambda tokens: tokens.access_token == refused)

    def end_authorization(self, reason: str, refused: str) -> StepError:  # noqa: ARG002
        return self._connection.end_authorization(
            f"{reason.partition(',')[0]} by the organization's credentials: send the connection's config again, with"
            " credentials that the service accepts.",
            self._connection.token(),
        )

    def _current(self, is_old: Callable[[Tokens], bool]) -> str:
        with self._lock:
            if self._tokens is None or is_old(self._tokens):
                try:
                    self._tokens = self._request()
                except CredentialsEnded as error:
                    raise self._connection.end_authorization(str(error), self._connection.token()) from error
            return self._tokens.access_token


def _ends_soon(expires_at: datetime | None) -> bool:
    return expires_at is not None and expires_at < datetime.now(UTC) + RENEWAL_MARGIN


@dataclass(slots=True)
class OrganizationCursor:
    """Position of a listing, stored as JSON.

    `parts`: cursor of each listed part. `pending`: remaining parts; the first continues at `page`. `whole`: parts
    listed in full, or gone. `unlisted`: parts without a complete listing. `is_full`: no part had a cursor.
    """

    parts: dict[str, str] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    page: str | None = None
    whole: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    is_full: bool = True

    @classmethod
    def parse(cls, cursor: str | None) -> OrganizationCursor:
        """Parse a cursor; an invalid one starts a full listing."""
        try:
            return cls(**json.loads(cursor or "{}"))
        except (ValueError, TypeError):
            return cls()

    def __str__(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def whole_pattern(self) -> str:
        """Return the pattern of external ids in parts listed in full; "" for none, or for all in a full listing."""
        if self.is_full:
            return f"(?!{_any_of(self.unlisted)}/).*" if self.unlisted else ""
        return f"{_any_of(self.whole)}/.*" if self.whole else ""


def _any_of(keys: list[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, keys))})"


@dataclass(frozen=True, slots=True)
class OrganizationConnector:
    """Requests to an organization as of one account."""

    organization: Organization
    choice: SyncFilter = SYNC_EVERYTHING

    def iter_changes(self, cursor: str | None) -> Iterator[Page[SourceItem]]:
        state = OrganizationCursor.parse(cursor)
        parts, skipped = self._list_parts()
        if not state.pending:
            unseen = [key for key in state.parts if key not in parts]
            gone_keys = [key for key in unseen if self._is_gone(key)]
            cursors = {key: cursor for key, cursor in state.parts.items() if key not in gone_keys}
            unlisted = [key for key in unseen if key not in gone_keys]
            state = OrganizationCursor(
                cursors, list(parts), whole=gone_keys, unlisted=unlisted, is_full=not state.parts
            )
        state.pending = [key for key in state.pending if key in parts]
        if skipped or not state.pending:
            yield _make_page(state, [], skipped)
        while state.pending:
            yield from self._list_part(state, parts[state.pending[0]])

    def _list_part(self, state: OrganizationCursor, part: Part) -> Iterator[Page[SourceItem]]:
        try:
            connector, tokens = self.organization.open_part(part)
            if self.choice.ids and isinstance(connector, SelectiveConnector):
                connector = connector.with_choice(_choice_in(part, self.choice))
            for page in connector.iter_changes(tokens, state.page or state.parts.get(part.key)):
                state.page = page.cursor
                if page.done:
                    state.parts[part.key], state.page, state.pending = page.cursor, None, state.pending[1:]
                    (state.whole if page.whole else state.unlisted).append(part.key)
                yield _make_page(state, [_add_part(part, item) for item in page.items], page.skipped)
        except PartUnavailable as error:
            state.page, state.pending = None, state.pending[1:]
            state.unlisted.append(part.key)
            is_named = len(state.unlisted) <= MAX_NAMED_PARTS
            yield _make_page(state, [], {f"drive {part.name}: {error.reason}" if is_named else SKIPPED_PART: 1})

    def browse(self, parent: str | None, cursor: str | None) -> FolderPage:
        """List the parts as folders, or a folder of a part."""
        if parent is None:
            parts, start = list(self._list_parts()[0].values()), int(cursor or 0)
            end = start + PARTS_PER_FOLDER_PAGE
            entries = [
                FolderEntry(part.key, part.name, is_folder=True, path=part.name, has_children=True)
                for part in parts[start:end]
            ]
            return FolderPage(entries, str(end) if end < len(parts) else None)
        part, folder_id, connector, tokens = self._open(parent, NO_PARENT_MESSAGE)
        page = cast("BrowsableConnector", connector).browse(tokens, folder_id or None, cursor)
        return FolderPage([_add_part_to_entry(part, entry) for entry in page.entries], page.cursor)

    def fetch(self, item: SourceItem, to: Path) -> RawContent | None:
        part, item_id, connector, tokens = self._open(item.external_id)
        raw = connector.fetch(tokens, replace(item, external_id=item_id), to)
        return raw and replace(raw, properties=_add_part_to_path(part, raw.properties))

    def is_deleted(self, external_id: str) -> bool:
        try:
            _, item_id, connector, tokens = self._open(external_id)
        except ItemMissing:
            return True
        except Skippable:
            return False
        return connector.is_deleted(tokens, item_id)

    def access(self, external_id: str) -> SourceAccess:
        _, item_id, connector, tokens = self._open(external_id)
        return cast("PermissionConnector", connector).access(tokens, item_id)

    def version(self, external_id: str) -> str:
        try:
            _, item_id, connector, tokens = self._open(external_id)
        except Skippable:
            return ""
        return cast("PermissionConnector", connector).version(tokens, item_id)

    def _is_gone(self, key: str) -> bool:
        # A part of a closed site, or beyond the first ones, is not listed either.
        try:
            return self.organization.find_part(key) is None
        except Skippable:
            return False

    def _list_parts(self) -> tuple[dict[str, Part], Counter[str]]:
        parts, skipped = dict[str, Part](), Counter[str]()
        for part in self.organization.list_parts():
            if len(parts) < MAX_PARTS:
                parts[part.key] = part
            else:
                skipped[SKIPPED_EXCESS_PART] += 1
        return parts, skipped

    def _open(self, external_id: str, missing: str = PART_MISSING_MESSAGE) -> tuple[Part, str, Connector, TokenSource]:
        """Open the part of an item. ItemMissing if the part is gone, Skippable if closed."""
        key, _, item_id = external_id.partition("/")
        part = self.organization.find_part(key)
        if part is None:
            raise ItemMissing(missing)
        return part, item_id, *self.organization.open_part(part)


def _make_page(state: OrganizationCursor, items: list[SourceItem], skipped: Mapping[str, int]) -> Page[SourceItem]:
    if state.pending:
        return Page(items, str(state), done=False, skipped=skipped)
    whole, pattern = state.is_full and not state.unlisted, state.whole_pattern()
    state.whole, state.unlisted = [], []
    return Page(items, str(state), done=True, skipped=skipped, whole=whole, whole_pattern=pattern)


def _choice_in(part: Part, choice: SyncFilter) -> SyncFilter:
    """Return the ids of a choice within a part."""
    prefix = f"{part.key}/"
    inner_ids = [item_id.removeprefix(prefix) for item_id in choice.ids if item_id.startswith(prefix)]
    return SyncFilter(include=tuple({"id": item_id} for item_id in inner_ids))


def _add_part(part: Part, item: SourceItem) -> SourceItem:
    properties = _add_part_to_path(part, item.properties)
    above = (*(f"{part.key}/{folder}" for folder in item.above), part.key)
    return replace(item, external_id=f"{part.key}/{item.external_id}", properties=properties, above=above)


def _add_part_to_entry(part: Part, entry: FolderEntry) -> FolderEntry:
    above = (*(f"{part.key}/{folder}" for folder in entry.above), part.key)
    return replace(entry, id=f"{part.key}/{entry.id}", path=_path_in(part, entry.path), above=above)


def _add_part_to_path(part: Part, properties: Mapping[str, str | int]) -> Mapping[str, str | int]:
    path = properties.get("path")
    return {**properties, "path": _path_in(part, str(path))} if path else properties


def _path_in(part: Part, path: str) -> str:
    return path if part.is_named else f"{part.name}/{path}"


# Opens the organization of a connection's config, by its credentials.
OpenOrganization = Callable[[Mapping[str, Any], TokenSource], Organization]


class EitherConnector:
    """`Connector` of a service for connections of a person, and of an organization."""

    def __init__(
        self,
        person: Connector,
        open_organization: OpenOrganization,
        authorizer: Authorizer | None = None,
        choice: SyncFilter = SYNC_EVERYTHING,
    ) -> None:
        self.person, self.choice = person, choice
        self.authorizer = authorizer or person.authorizer
        self._open_organization = open_organization
        self._opened: dict[str, tuple[str, OrganizationConnector | None]] = {}
        self._lock = Lock()

    def with_choice(self, choice: SyncFilter) -> Self:
        chosen = self.person.with_choice(choice) if isinstance(self.person, SelectiveConnector) else self.person
        return type(self)(chosen, self._open_organization, self.authorizer, choice)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        if organization := self.organization_of(tokens):
            return organization.iter_changes(cursor)
        return self.person.iter_changes(tokens, cursor)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        if organization := self.organization_of(tokens):
            return organization.browse(parent, cursor)
        return cast("BrowsableConnector", self.person).browse(tokens, parent, cursor)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        if organization := self.organization_of(tokens):
            return organization.fetch(item, to)
        return self.person.fetch(tokens, item, to)

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        if organization := self.organization_of(tokens):
            return organization.is_deleted(external_id)
        return self.person.is_deleted(tokens, external_id)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        if organization := self.organization_of(tokens):
            return organization.access(external_id)
        return cast("PermissionConnector", self.person).access(tokens, external_id)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        if organization := self.organization_of(tokens):
            return organization.version(external_id)
        return cast("PermissionConnector", self.person).version(tokens, external_id)

    def subscribe(self, tokens: TokenSource, address: str, secret: str, state: str | None) -> Subscription:
        if self.organization_of(tokens):
            raise Skippable(NO_PUSH_MESSAGE)
        return cast("SubscribingConnector", self.person).subscribe(tokens, address, secret, state)

    def unsubscribe(self, tokens: TokenSource, state: str) -> None:
        if not self.organization_of(tokens):
            cast("SubscribingConnector", self.person).unsubscribe(tokens, state)

    def organization_of(self, tokens: TokenSource) -> OrganizationConnector | None:
        """Return the organization of a connection, None for a person. Fatal for a person without an app."""
        with self._lock:
            opened = self._opened.get(tokens.connection_id)
            if opened is not None and opened[1] is None:
                return None
            config = tokens.token()
            if opened is not None and opened[0] == config:
                return opened[1]
            organization = None
            if Tokens(config).is_config:
                organization = OrganizationConnector(self._open_organization(json.loads(config), tokens), self.choice)
            elif isinstance(self.authorizer, MissingApp):
                raise Fatal(self.authorizer.message)
            self._opened[tokens.connection_id] = config, organization
            return organization


class EitherMailbox(EitherConnector):
    """`Connector` of mailboxes: all documents have the owner's access list."""

    has_one_access_list: ClassVar[Literal[True]] = True


def make_either(
    person: Connector, open_organization: OpenOrganization, authorizer: Authorizer | None
) -> EitherConnector:
    """Return the connector of a service for connections of a person, and of an organization."""
    kind = EitherMailbox if isinstance(person, SharedWorkspaceConnector) else EitherConnector
    return kind(person, open_organization, authorizer)
