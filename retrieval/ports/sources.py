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
    """Whom a service shows an item, by e-mail addresses or ids of its own. `unknown`: why that cannot be told, for the
    user: then it is nobody's."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    public: bool = False
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a folder as browsing shows it. `size`: bytes, None where the service says none; `modified_at`: as it
    says it, ISO 8601; `has_children`: whether anything may lie in it; `path`, `above`: as a `SourceItem` has them."""

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
    """A page of what lies in one folder. `cursor`: where the next one begins, None on the last."""

    entries: Sequence[Entry]
    cursor: str | None = None


class TokenSource(Protocol):
    """Gives a connection's access token; who asks never stores one."""

    connection_id: str

    def token(self) -> str: ...

    def renewed(self, refused: str) -> str:
        """Another token after the service refused this one. Fatal if the authorization has ended."""
        ...

    def ended(self, reason: str, refused: str) -> StepError:
        """What to raise where a renewed token is refused too: the connection is FAILED with the reason from now on.

        Retryable, and no failure, if it got other tokens than the refused one meanwhile.
        """
        ...


class Authorizer(Protocol):
    """The OAuth2 code flow of one app at one content service. Fatal: the service refused, in our words."""

    @property
    def pkce(self) -> bool: ...

    def authorize_url(self, *, redirect_uri: str, state: str, challenge: str | None) -> str:
        """Where a person allows the access. `challenge`: PKCE, S256; None where `pkce` is False."""
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
        """What is new, changed or deleted since `cursor`, page by page; everything there is for None.

        Each page's cursor goes on behind that page, also in another process; the cursor of the last page, which is
        `done`, is where the next listing begins. A cursor that the service has forgotten starts a listing of
        everything, whose last page is `whole`. Files only: no folders, nothing trashed, shortcuts once.
        """
        ...

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        """The item's content, in the file `to`; None if it is still what `item.version` says.

        Skippable if this item alone cannot be had, such as one that vanished after it was listed.
        """
        ...

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        """Whether the item is deleted, trashed or out of reach: asked of what a whole listing did not name."""
        ...


@runtime_checkable
class Choosing(Protocol):
    """A connector that has to know what is chosen of an account: who runs it judges each item that it lists."""

    def choosing(self, choice: Choice) -> Connector:
        """The same connector, whose items say where they lie: `path` among their properties, and `above` where the
        choice names ids.

        A folder that is moved or renamed changes what is chosen: its files are listed then, or everything is. What it
        does not look into because nothing there is chosen counts as gone.
        """
        ...


@runtime_checkable
class Browsing(Protocol):
    """A connector that shows what there is, one folder at a time, for people who choose."""

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> Level:
        """A page of what lies in a folder by its id, or at the top for None; nothing is noted or fetched.

        `cursor`: that of the page before. Skippable if there is no such folder, or it may not be read.
        """
        ...


@runtime_checkable
class Sharing(Protocol):
    """A connector that says whom the service shows an item."""

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        """With what it inherits from the folders above. Skippable, with the reason, where it cannot be told."""
        ...

    def version(self, tokens: TokenSource, external_id: str) -> str:
        """The version that a listing would name now; another, or "", where that cannot be told."""
        ...
