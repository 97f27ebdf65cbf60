"""Protocols of content services: authorization, listing, fetching and access lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from retrieval.errors import StepError
    from retrieval.ports.values import Page, RawContent, SourceItem
    from retrieval.sync_filter import SyncFilter


@dataclass(frozen=True, slots=True)
class Tokens:
    """OAuth2 tokens; `account` is the owner, if known."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None
    account: str | None = None
    # A person authorizes the address in the access token; before that the token is unusable.
    by_person: bool = False

    @property
    def is_config(self) -> bool:
        """Check for the `config` of a connection, as JSON, in place of an access token."""
        return self.access_token.startswith("{")


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """Access list of an item: e-mail addresses, or ids of the service."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    public: bool = False
    # Reason for users of an unreadable list; then nobody has access.
    unknown: str = ""
    # The service has no such item.
    missing: bool = False


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """File or folder. `size` is in bytes, `modified_at` in ISO 8601."""

    id: str
    name: str
    is_folder: bool
    path: str
    media_type: str = ""
    size: int | None = None
    modified_at: str | None = None
    has_children: bool = False
    above: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FolderPage:
    """Page of a folder's entries, with the cursor of the next page."""

    entries: Sequence[FolderEntry]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """Subscription to hints of a service. `state`: the service's ids, to renew and end it."""

    state: str
    expires_at: datetime


class TokenSource(Protocol):
    """Access token of a connection, never to be stored by callers."""

    connection_id: str

    def token(self) -> str: ...

    def renew(self, refused: str) -> str:
        """Return another token after a refusal. Raises Fatal for an ended authorization."""
        ...

    def end_authorization(self, reason: str, refused: str) -> StepError:
        """Mark the connection FAILED after a second refusal and return the error."""
        # Retryable without a failure if another process renewed the tokens.
        ...


class Authorizer(Protocol):
    """OAuth2 code flow of an app at a service. Raises Fatal after a refusal."""

    @property
    def pkce(self) -> bool: ...

    def authorize_url(self, *, redirect_uri: str, state: str, challenge: str | None) -> str:
        """Return the consent URL. `challenge` is PKCE S256, None without PKCE."""
        ...

    def exchange_code(self, code: str, *, redirect_uri: str, verifier: str | None) -> Tokens: ...

    def refresh(self, tokens: Tokens) -> Tokens:
        """Return new tokens, with the old refresh token unless rotated."""
        ...

    def revoke(self, tokens: Tokens) -> None:
        """End the authorization, if the service can."""
        ...


class Connector(Protocol):
    """Thread-safe content service, created per step of a run."""

    @property
    def authorizer(self) -> Authorizer: ...

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List files new, changed or deleted since `cursor`, by page; None lists all."""
        # A page's cursor resumes after the page in any process; the last page is `done`. An expired cursor starts a
        # full listing with a `whole` last page. Folders and trash are omitted.
        ...

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        """Fetch content into a file; None if unchanged. Raises Skippable, or ItemMissing for a deleted item."""
        ...

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        """Return True for an item deleted, trashed or out of reach."""
        ...


@runtime_checkable
class SelectiveConnector(Protocol):
    """Connector with a selection of folders and files."""

    def with_choice(self, choice: SyncFilter) -> Connector:
        """Return a connector with `path` in properties, and `above` for filters by id."""
        # A moved folder changes the selection, so its files are listed again. Folders without selected files count as
        # deleted.
        ...


@runtime_checkable
class BrowsableConnector(Protocol):
    """Connector with folders to browse."""

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        """List a page of a folder; None is the top level. Raises Skippable for an unreadable folder."""
        ...


@runtime_checkable
class PermissionConnector(Protocol):
    """Connector with access lists."""

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        """Return the access list, folders included. Raises Skippable, or ItemMissing for a deleted item."""
        ...

    def version(self, tokens: TokenSource, external_id: str) -> str:
        """Return the current version of an item, "" if unreadable."""
        ...


@runtime_checkable
class SharedWorkspaceConnector(PermissionConnector, Protocol):
    """Connector with a single access list for all documents: permissions need no full listing."""

    has_one_access_list: Literal[True]


@runtime_checkable
class SubscribingConnector(Protocol):
    """Connector of a service that sends hints to an address for a limited time."""

    def subscribe(self, tokens: TokenSource, address: str, secret: str, state: str | None) -> Subscription:
        """Create a subscription, or renew the one of `state`. Raises Skippable with advice for a refusal."""
        # The service repeats the secret in each hint.
        ...

    def unsubscribe(self, tokens: TokenSource, state: str) -> None:
        """End a subscription, if the service still has it."""
        ...
