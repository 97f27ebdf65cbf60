"""The port of content services: how a connection is authorized, and what is listed and fetched in its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from retrieval.errors import StepError
    from retrieval.ports.values import Page, RawContent, SourceItem
    from retrieval.sync_filter import Choice


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of an authorization. `expires_at` is None if the service does not say; `account`: whose they are, if
    known."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None
    account: str | None = None


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """Access list of an item at its service, by e-mail addresses or ids of its own. `unknown`: the reason, for the
    user, why it cannot be read; then no user has access. `missing`: it is unknown since the service answers that there
    is no such item."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    public: bool = False
    unknown: str = ""
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """File or folder as browsing shows it. `size`: bytes, None if unknown; `modified_at`: ISO 8601; `has_children`:
    whether anything may be in it; `path`, `above`: as in `SourceItem`."""

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
class Level:
    """Page of a folder's entries. `cursor`: start of the next page, None on the last."""

    entries: Sequence[Entry]
    cursor: str | None = None


class TokenSource(Protocol):
    """Source of a connection's access token; callers never store one."""

    connection_id: str

    def token(self) -> str: ...

    def renewed(self, refused: str) -> str:
        """Another token after the service refused this one. Fatal if the authorization has ended."""
        ...

    def ended(self, reason: str, refused: str) -> StepError:
        """Error to raise if a renewed token is refused too; the connection is FAILED with the reason from then on.

        Retryable, and no failure, if it got other tokens than the refused one meanwhile.
        """
        ...


class Authorizer(Protocol):
    """The OAuth2 code flow of one app at one content service. Fatal: the service refused, in our words."""

    @property
    def pkce(self) -> bool: ...

    def authorize_url(self, *, redirect_uri: str, state: str, challenge: str | None) -> str:
        """URL at which a person allows the access. `challenge`: PKCE, S256; None where `pkce` is False."""
        ...

    def exchange_code(self, code: str, *, redirect_uri: str, verifier: str | None) -> Tokens: ...

    def refresh(self, tokens: Tokens) -> Tokens:
        """New tokens; a refresh token that does not rotate is carried over."""
        ...

    def revoke(self, tokens: Tokens) -> None:
        """End the authorization at the service, where it can be; otherwise do nothing."""
        ...


class Connector(Protocol):
    """A content service. One is made for each step of a run and used by several threads at once."""

    @property
    def authorizer(self) -> Authorizer: ...

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List items that are new, changed or deleted since `cursor`, page by page; all items for None.

        Each page's cursor continues after that page, also in another process; the cursor of the last page, which is
        `done`, is the start of the next listing. An expired cursor starts a full listing, whose last page is `whole`.
        Files only: no folders, nothing trashed, shortcuts once.
        """
        ...

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        """Fetch the item's content into the file `to`; None if it is unchanged since `item.version`.

        Skippable if this item alone cannot be had; ItemMissing, a Skippable, if the service answers that there is none.
        """
        ...

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        """Tell whether an item that a full listing did not name is deleted, trashed or out of reach."""
        ...


@runtime_checkable
class Choosing(Protocol):
    """A connector that has to know what is chosen of an account: who runs it judges each item that it lists."""

    def choosing(self, choice: Choice) -> Connector:
        """Connector whose items have their location: `path` among their properties, and `above` if the filter names
        ids.

        Moving or renaming a folder changes the selection: its files, or all, are listed then. Folders that are skipped
        because nothing in them is selected count as removed.
        """
        ...


@runtime_checkable
class Browsing(Protocol):
    """A connector that shows what there is, one folder at a time, for people who choose."""

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> Level:
        """List a page of a folder by its id, or of the top level for None; nothing is stored or fetched.

        `cursor`: that of the page before. Skippable if there is no such folder, or it may not be read.
        """
        ...


@runtime_checkable
class Sharing(Protocol):
    """Connector that reads access lists of items."""

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        """Access list, folders above included. Skippable, with the reason, where it cannot be read; ItemMissing, a
        Skippable, if the service answers that there is no such item."""
        ...

    def version(self, tokens: TokenSource, external_id: str) -> str:
        """Version that a listing would name now; another, or "", where it cannot be read."""
        ...
